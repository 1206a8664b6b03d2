"""Nodes of a Ray cluster that are lost, and nodes that come later."""

import os
import signal
import threading
from contextlib import contextmanager

import clusters
import jobs
import numpy as np
import pytest
from jobs import Notes

import siag
from siag.live.ray.driver import Driver
from siag.runtimes import Ray

pytestmark = pytest.mark.ray

STEP = siag.steps.Harmonic(5.0, 20)


@pytest.fixture(scope="module")
def cluster():
    with clusters.small_cluster(0, 2, 2, 2) as cluster:
        yield cluster


def node_of(cluster, part):
    """The node an actor is on."""
    place = clusters.only(part)["Address"]["NodeID"]
    return next(node for node in cluster.worker_nodes if node.node_id == place)


def exactly_replayed(run, trace):
    again = siag.replay(trace)
    return np.array_equal(run.w, again.w) and run.error[0, -1] == again.error[0, -1]


def test_a_run_outlives_the_loss_of_a_node_half_way(tmp_path, cluster):
    """Unequal workers on three nodes; the node of the slowest is lost, and the error is the one its replay predicts."""
    problem = siag.problems.LeastSquares.random(n=4, d=5, p=3, noise=0.1)
    half = Notes(
        (lambda snapshot: snapshot.version >= 1500, lambda: cluster.remove_node(node_of(cluster, "siag worker 3")))
    )
    run = siag.train(
        problem=problem,
        step=STEP,
        until=3000,
        pauses=[0.004, 0.006, 0.01, 0.02],
        trace=tmp_path / "trace.csv",
        folder=tmp_path / "state",
        runtime=Ray(),
        progress=half,
    )
    assert clusters.all_gone()
    assert len(cluster.worker_nodes) == 2
    assert half.heard("worker 3 is gone") or half.heard("the server is gone")
    assert run.t[-1] == 3000
    assert run.about["activity"] == "live, 4 workers on Ray, 4 nodes"
    assert exactly_replayed(run, tmp_path / "trace.csv")
    assert run.error[0, -1] < 0.2 * run.error[0, 0]


def test_a_lost_server_gets_room_and_late_nodes_get_workers(tmp_path, cluster, monkeypatch):
    """Three of four workers fit; the server's node is lost, and the other one is full of workers; then a node comes."""
    problem = siag.problems.LeastSquares.random(n=4, d=4, p=2, noise=0.1)
    monkeypatch.setattr("siag.live.ray.driver.CROWDED", 2.0)

    def lose():
        cluster.remove_node(node_of(cluster, "siag server"))

    notes = Notes(
        (lambda snapshot: snapshot.saved is not None and snapshot.reports > 100, lose),
        (lambda snapshot: notes.heard("went on from version"), lambda: cluster.add_node(num_cpus=4)),
        *((jobs.grown(name, 20), lambda: None) for name in "0123"),
        (lambda snapshot: True, lambda: os.kill(os.getpid(), signal.SIGINT)),
    )
    run = siag.train(
        problem=problem,
        step=STEP,
        until=siag.Until(seconds=90),
        pauses=[0.005] * 4,
        trace=tmp_path / "trace.csv",
        folder=tmp_path / "state",
        runtime=Ray(fewest=3),
        progress=notes,
    )
    assert clusters.all_gone()
    assert notes.heard("3 of 4 workers are there; the others wait for room")
    assert notes.heard("makes room for a server that has none")
    assert run.about["ended"] == "interrupted"
    assert not notes.plan
    assert exactly_replayed(run, tmp_path / "trace.csv")


@contextmanager
def second_ctrl_c(seconds):
    """Press it if the first does not suffice."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Impatient(Notes):
    """Presses Ctrl-C when the server is gone."""

    def event(self, text):
        super().event(text)
        if "the server is gone" in text:
            os.kill(os.getpid(), signal.SIGINT)


def test_moved_workers_are_known_and_ctrl_c_does_not_wait_for_a_server_without_a_place(tmp_path, cluster, monkeypatch):
    """The node of the worker is lost, which moves, then the only one where the server can be."""
    drivers, lost = [], []
    home = cluster.add_node(num_cpus=1, resources={"home": 1})

    class Known(Driver):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            drivers.append(self)

    def lose_the_worker():
        lost.append(drivers[0]._nodes[0])
        cluster.remove_node(node_of(cluster, "siag worker 0"))

    def moved(snapshot):
        (known,) = drivers[0]._nodes.values()
        return known != lost[0] and known in (each["Address"]["NodeID"] for each in clusters.actors("siag w").values())

    monkeypatch.setattr("siag.live.ray.driver.Driver", Known)
    monkeypatch.setattr("siag.live.ray.driver.HEARING", 1.0)
    notes = Impatient((jobs.reported(more_than=20), lose_the_worker), (moved, lambda: cluster.remove_node(home)))
    with second_ctrl_c(45), pytest.raises(KeyboardInterrupt):
        siag.train(
            jobs.pull,
            [jobs.endless],
            np.zeros(2),
            step=STEP,
            folder=tmp_path / "state",
            runtime=Ray(server_resources={"CPU": 1, "home": 1}),
            until=siag.Until(seconds=30),
            progress=notes,
        )
    assert notes.heard("interrupted while the server is away", "start it again with the same folder to go on")
    assert clusters.all_gone()
