"""`siag.train` on a small Ray cluster: one test for what only a real one can show; the rest is in `test_ray_driver`."""

import os
import signal

import clusters
import jobs
import numpy as np
import pytest
from clusters import LIMIT, PATIENCE, STEP, exactly_replayed, train
from jobs import Notes

import siag
from siag.live.reasons import Ending, Failure, WorkerFailure
from siag.runtimes import Ray

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # Ray Data's own


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    with clusters.small_cluster(4):
        yield


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_a_run_at_a_url_outlives_a_worker_a_shard_and_the_lead_and_ctrl_c_ends_it_in_order(tmp_path):
    def gone_on(times):
        return lambda snapshot: sum("went on from version" in event for event in notes.events) == times

    plan = [
        (jobs.reported(more_than=20), clusters.kill("siag worker 0")),
        (jobs.in_state("0", "away"), lambda: None),
        (lambda snapshot: snapshot.saved is not None, clusters.kill("siag shard 1")),
        (gone_on(1), lambda: None),
        (jobs.grown("0", 20), clusters.kill("siag server")),
        (gone_on(2), lambda: None),
        (jobs.grown("0", 20), interrupt),
    ]
    notes = Notes(*plan)
    places = {"trace": (tmp_path / "trace.csv").as_uri(), "folder": (tmp_path / "state").as_uri()}
    run = train(n=2, runtime=Ray(shards=2, tls=True, start_timeout=PATIENCE), **places, progress=notes)
    assert not notes.plan
    assert notes.heard(WorkerFailure(0, "0", Failure.GONE, "", 0).text)
    assert notes.heard("problem", "shard 1")
    assert notes.heard("problem", "the server is gone")
    assert run.about["ending"] == Ending.INTERRUPTED
    assert run.about["activity"] == "live, 2 workers on Ray, 1 node"
    assert exactly_replayed(run, tmp_path / "trace.csv")


def test_a_dataset_is_split_among_the_workers_and_read_meanwhile():
    import ray

    target = 15.0
    dataset = ray.data.range(32, override_num_blocks=2)
    run = siag.train(
        lambda w, row: w - row["id"],
        dataset,
        np.zeros(1),
        step=siag.steps.Constant(0.2),
        loss=lambda w: float(np.square(w - target).sum()),
        runtime=Ray(workers=2, start_timeout=PATIENCE),
        until=LIMIT,
    )
    assert run.about["ending"] == Ending.ALL_LEFT
    assert run.samples[0, -1] == 32
    assert run.error[0, 0] == target**2
    assert clusters.all_gone()
    assert dataset.count() == 32  # it is as it was


class Rooted:
    """A stream that can be loaded in no other process."""

    def __init__(self):
        self.process = os.getpid()

    def __iter__(self):
        return iter([1.0])

    def __setstate__(self, state):
        if state["process"] != os.getpid():
            raise OSError(5, "the sensor is\nunplugged")


def test_what_cannot_be_loaded_on_a_node_ends_the_run_before_it_begins():
    said = r"worker 0 could not be started: the stream cannot be loaded on the node at .*: OSError: .*; install"
    with pytest.raises(siag.SiagError, match=said):
        siag.train(jobs.pull, [Rooted()], np.zeros(1), step=STEP, runtime=Ray(start_timeout=PATIENCE))
    assert clusters.all_gone()
