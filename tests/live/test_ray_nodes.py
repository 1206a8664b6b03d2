"""Nodes of a Ray cluster that are lost, and nodes that come later."""

import os
import signal

import clusters
import jobs
import pytest
from clusters import LIMIT, PATIENCE, STEP, exactly_replayed
from jobs import Notes

import siag
from siag.runtimes import Ray

pytestmark = pytest.mark.ray


@pytest.fixture
def cluster():
    with clusters.small_cluster(0, 1, 1) as cluster:
        yield cluster


def node_of(cluster, part):
    """The node an actor is on."""
    place = clusters.only(part)["Address"]["NodeID"]
    return next(node for node in cluster.worker_nodes if node.node_id == place)


def test_a_run_outlives_the_loss_of_a_node_in_a_full_cluster_and_late_nodes_get_workers(tmp_path, cluster, monkeypatch):
    """One of two workers fits; the server's node is lost, and the worker is on the other; then a node comes."""
    monkeypatch.setattr("siag.live.ray.driver.CROWDED", 1.0)
    notes = Notes(
        (
            lambda snapshot: snapshot.saved is not None and snapshot.reports > 20,
            lambda: cluster.remove_node(node_of(cluster, "siag server")),
        ),
        (lambda snapshot: notes.heard("went on from version"), lambda: cluster.add_node(num_cpus=2)),
        *((jobs.grown(name, 20), lambda: None) for name in "01"),
        (lambda snapshot: True, lambda: os.kill(os.getpid(), signal.SIGINT)),
    )
    run = siag.train(
        problem=clusters.problem(2),
        step=STEP,
        until=LIMIT,
        pauses=[0.005] * 2,
        trace=tmp_path / "trace.csv",
        folder=tmp_path / "state",
        runtime=Ray(fewest=1, patience=PATIENCE),
        progress=notes,
    )
    assert clusters.all_gone()
    assert notes.heard("1 of 2 workers are there; the others wait for room")
    assert notes.heard("there is no room for a server; the workers make room")
    assert run.about["activity"] == "live, 2 workers on Ray, 3 nodes"
    assert run.about["ended"] == "interrupted"
    assert not notes.plan
    assert exactly_replayed(run, tmp_path / "trace.csv")
