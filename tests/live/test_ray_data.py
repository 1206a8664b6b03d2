"""`siag.train` on Ray Datasets."""

import clusters
import jobs
import numpy as np
import pytest
from clusters import IMPATIENT, STEP
from jobs import Notes

import siag
from siag.runtimes import Ray

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with clusters.small_cluster(6) as cluster:
        yield cluster


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_datasets_that_are_read_meanwhile_have_a_cpu_left():
    import ray

    streams = [ray.data.range(40), ray.data.range(20)]
    run = siag.train(
        lambda w, row: w - row["id"], streams, np.zeros(1), step=siag.steps.Constant(0.01), runtime=Ray(workers=2)
    )
    assert run.reads[0, -1] == 60


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_a_dataset_is_split_among_the_workers():
    import ray

    dataset = ray.data.from_numpy(np.arange(60.0))
    run = siag.train(
        lambda w, row: w - row["data"], dataset, np.zeros(1), step=siag.steps.Constant(0.01), runtime=Ray(workers=2)
    )
    assert run.samples[0, -1] == 60
    assert run.about["ended"] == "all workers have left"
    assert clusters.all_gone()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_workers_that_wait_for_room_leave_a_cpu_for_reading_and_have_their_turn():
    import ray

    notes = Notes((lambda snapshot: True, lambda: groups.extend(clusters.groups("siag reader"))))
    groups = []
    dataset = ray.data.range(4000).map_batches(lambda batch: batch)
    run = siag.train(
        lambda w, row: w - row["id"],
        dataset,
        np.zeros(1),
        step=siag.steps.Constant(0.01),
        runtime=Ray(workers=8, fewest=2, patience=IMPATIENT),
        until=siag.Until(seconds=60),
        progress=notes,
    )
    assert run.about["ended"] == "all workers have left"  # those that waited took the room of those that had ended
    assert run.samples[0, -1] == 4000
    assert notes.heard("of 8 workers are there; the others wait for room")
    assert [group["bundles"] for group in groups] == [{0: {"CPU": 1.0}}]
    assert clusters.all_gone()
    assert dataset.count() == 4000  # it is as it was


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_datasets_that_need_more_than_there_is_are_refused():
    import ray

    dataset = ray.data.range(40).map_batches(lambda batch: batch, num_cpus=7)
    said = r"streams = 'Datasets': must be .* a node can read \(6 CPU in all\), which takes 7 CPU of one; materialize"
    with pytest.raises(siag.BadInput, match=said):
        siag.train(jobs.pull, dataset, np.zeros(1), step=STEP, runtime=Ray(workers=2))
    said = r"workers = 5: must be at most 4: .* \(6 CPU in all\), beside a CPU for reading, with a CPU each"
    with pytest.raises(siag.BadInput, match=said):
        siag.train(jobs.pull, ray.data.range(40), np.zeros(1), step=STEP, runtime=Ray(workers=5))
    assert clusters.all_gone()
