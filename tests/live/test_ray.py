"""`siag.train` on a small Ray cluster: the same runs as elsewhere, and one test for each way to fail."""

import os
import signal
import urllib.request
from functools import partial

import clusters
import jobs
import numpy as np
import pytest
from clusters import LIMIT, PATIENCE, STEP, exactly_replayed, train
from jobs import Notes

import siag
from siag.live.monitor.watch import Problems
from siag.runtimes import Metrics, Ray, Several

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # Ray Data's own


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with clusters.small_cluster(4) as cluster:
        yield cluster


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


class Told(Notes, Problems):
    """Notes which of the remarks are problems, too."""

    def __init__(self, *plan):
        super().__init__(*plan)
        self.problems = []

    def problem(self, text):
        self.problems.append(text)
        self.event(text)


def test_a_problem_trains_as_on_one_machine(tmp_path):
    names = []
    notes = Notes((jobs.reported(more_than=10), lambda: names.extend(clusters.actors("siag"))))
    metrics, pages = Metrics(), []

    def read():
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics") as page:
            pages.append(page.read().decode())

    notes.plan.append((jobs.reported(more_than=20), read))
    run = train(300, n=2, trace=tmp_path / "trace.csv", progress=Several([metrics, notes]), names=["a", "b"])
    assert exactly_replayed(run, tmp_path / "trace.csv")
    assert run.t[-1] == 300
    assert run.about["ended"] == "as many iterations or reports as asked"
    assert run.about["activity"] == "live, 2 workers on Ray, 1 node"
    assert {" ".join(name.split()[:3]) for name in names if "worker" in name} == {f"siag worker {x}" for x in "ab"}
    assert sum(name.startswith("siag server ") for name in names) == 1
    assert all(notes.heard(f"worker {name} joined") for name in "ab")
    assert notes.snapshots[-1].version == 300
    assert "siag_report_ages_total" in pages[0]


def test_too_few_resources_say_how_many_fit():
    import ray

    with pytest.raises(
        siag.BadInput, match=r"workers = 3: must be at most 1: so many fit into the cluster \(4 CPU, 1 site in all\)"
    ):
        train(runtime=Ray(resources={"CPU": 2}))
    with pytest.raises(siag.BadInput, match=r"fewest = 3: must be at most 0: .* with 1 unicorn each"):
        train(runtime=Ray(resources={"unicorn": 1}, fewest=3))
    with pytest.raises(siag.BadInput, match=r"server_resources = .*: must be what the nodes have, 2 times"):
        train(runtime=Ray(server_resources={"CPU": 3, "unicorn": 1}, shards=2))
    said = r"workers = 5: must be at most 2: .* \(4 CPU, 1 site in all\), beside a CPU for reading, with a CPU each"
    for streams in (ray.data.range(40), [ray.data.range(8) for _ in range(5)]):
        with pytest.raises(siag.BadInput, match=said):
            siag.train(jobs.pull, streams, np.zeros(1), step=STEP, runtime=Ray(workers=5))
    assert clusters.all_gone()


def test_a_busy_cluster_is_not_waited_for_for_ever():
    import ray
    from ray.util import placement_group, remove_placement_group

    others = placement_group([{"CPU": 4}])
    ray.get(others.ready())
    try:
        with pytest.raises(
            siag.SiagError, match=r"the server could not be placed within 1 seconds: .* \(free: 0 CPU\)"
        ):
            train(runtime=Ray(patience=1))
    finally:
        remove_placement_group(others)


def test_another_cluster_than_the_connected_one_is_refused():
    with pytest.raises(siag.BadInput, match=r"since this process is connected there; call ray.shutdown"):
        train(runtime=Ray(address="127.0.0.1:1"))


def test_a_killed_server_without_a_folder_ends_the_run():
    notes = Notes((jobs.reported(more_than=5), clusters.kill("siag server")))
    with pytest.raises(siag.SiagError, match=r"the server's process is gone: .*; with folder= it would be restarted"):
        train(progress=notes, n=1)
    assert clusters.all_gone()


def test_a_killed_worker_rejoins_and_a_killed_shard_takes_all_back_to_one_save_at_a_url_over_tls(tmp_path):
    plan = [
        (jobs.reported(more_than=20), clusters.kill("siag worker 0")),
        (jobs.in_state("0", "away"), lambda: None),
        (jobs.grown("0", 20), lambda: None),
        (lambda snapshot: snapshot.saved is not None, clusters.kill("siag shard 1")),
        (lambda snapshot: notes.heard("went on from version"), lambda: None),
        (jobs.grown("0", 20), interrupt),
    ]
    notes = Notes(*plan)
    places = {"trace": (tmp_path / "trace.csv").as_uri(), "folder": (tmp_path / "state").as_uri()}
    run = train(n=2, runtime=Ray(shards=2, tls=True, patience=PATIENCE), **places, progress=notes)
    assert not notes.plan
    assert notes.heard("worker 0 is gone", "its row stays")
    assert notes.heard("problem", "shard 1")
    assert exactly_replayed(run, tmp_path / "trace.csv")


def test_a_run_outlives_its_servers_node_in_a_full_cluster_and_late_nodes_get_workers(tmp_path, cluster, monkeypatch):
    """One of two workers fits, on the head; the server's node is lost, and there is no other; then a node comes."""
    import ray
    from ray.util import placement_group, remove_placement_group

    monkeypatch.setattr("siag.live.ray.driver.CROWDED", 1.0)
    head = placement_group([{"site": 1}])  # so that the server is not there
    ray.get(head.ready())
    node = cluster.add_node(num_cpus=0, resources={"site": 1})
    notes = Notes(
        (lambda snapshot: True, lambda: remove_placement_group(head)),
        (lambda snapshot: snapshot.saved is not None and snapshot.reports > 20, lambda: cluster.remove_node(node)),
        (
            lambda snapshot: notes.heard("went on from version"),
            lambda: cluster.add_node(num_cpus=0, resources={"site": 2}),
        ),
        *((jobs.grown(name, 20), lambda: None) for name in "01"),
        (lambda snapshot: True, interrupt),
    )
    site = {"site": 1}
    runtime = Ray(fewest=1, resources=site, server_resources=site, patience=PATIENCE)
    run = train(n=2, trace=tmp_path / "trace.csv", folder=tmp_path / "state", runtime=runtime, progress=notes)
    assert notes.heard("1 of 2 workers are there; the others wait for room")
    assert notes.heard("the server is gone; Ray restarts it")
    assert notes.heard("there is no room for a server; the workers make room")
    assert run.about["activity"] == "live, 2 workers on Ray, 2 nodes"
    assert run.about["ended"] == "interrupted"
    assert not notes.plan
    assert exactly_replayed(run, tmp_path / "trace.csv")


def test_workers_that_fail_are_told_of_once_and_the_others_go_on(tmp_path):
    end = tmp_path / "end"
    streams = [partial(jobs.until_there, end), ["1.0", "bad"], jobs.no_stream]
    notes = Told((lambda snapshot: len(notes.problems) == 2, jobs.touch(end)))
    run = siag.train(jobs.fragile, streams, np.zeros(2), step=STEP, runtime=Ray(), until=LIMIT, progress=notes)
    assert any("no such" in text for text in run.about["failed"])
    assert notes.heard("worker 1 failed: KeyError", "the others go on")
    assert sorted(text[:15] for text in notes.problems) == ["worker 1 failed", "worker 2 failed"]
    assert notes.heard("worker 2 failed: stream = 5: must be something to iterate over")


def test_an_error_of_the_server_is_the_drivers():
    def loss(w):
        raise ZeroDivisionError("no such loss")

    with pytest.raises(ZeroDivisionError, match="no such loss"):
        train(n=1, loss=loss)
    assert clusters.all_gone()


def test_a_dataset_is_split_and_workers_without_room_leave_a_cpu_for_reading_and_have_their_turn():
    import ray

    target, notes = 15.0, Notes()
    dataset = ray.data.range(32).map_batches(lambda batch: batch)
    run = siag.train(
        lambda w, row: w - row["id"],
        dataset,
        np.zeros(1),
        step=siag.steps.Constant(0.2),
        loss=lambda w: float(np.square(w - target).sum()),
        runtime=Ray(workers=3, fewest=2, patience=PATIENCE),
        until=LIMIT,
        progress=notes,
    )
    assert run.about["ended"] == "all workers have left"  # the one that waited took the room of one that had ended
    assert run.samples[0, -1] == 32
    assert run.error[0, 0] == target**2
    assert notes.heard("2 of 3 workers are there; the others wait for room")
    assert clusters.all_gone()
    assert dataset.count() == 32  # it is as it was
