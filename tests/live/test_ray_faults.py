"""`siag.train` on a Ray cluster: workers and servers that die and come back, or fail."""

import os
import signal
from functools import partial

import clusters
import jobs
import numpy as np
import pytest
from clusters import IMPATIENT, LIMIT, STEP, exactly_replayed, train
from jobs import Notes

import siag
from siag.live.monitor.watch import Problems
from siag.runtimes import Ray

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with clusters.small_cluster(6) as cluster:
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


def test_a_killed_worker_rejoins_and_a_killed_server_goes_on(tmp_path):
    plan = [
        (jobs.reported(more_than=20), clusters.kill("siag worker 1")),
        (jobs.in_state("1", "away"), lambda: None),
        (jobs.grown("1", 20), lambda: None),
        (lambda snapshot: snapshot.saved is not None, clusters.kill("siag server")),
        (lambda snapshot: notes.heard("went on from version"), lambda: None),
        (jobs.grown("1", 20), interrupt),
    ]
    notes = Notes(*plan)
    run = train(n=2, trace=tmp_path / "trace.csv", folder=tmp_path / "state", progress=notes)
    assert not notes.plan
    assert run.about["ended"] == "interrupted"
    assert notes.heard("worker 1 is gone", "its row stays")
    assert notes.heard("the server is gone; Ray starts it again")
    assert exactly_replayed(run, tmp_path / "trace.csv")


def test_a_killed_server_goes_on_from_a_url(tmp_path):
    url, saved = f"file://{tmp_path}/state", tmp_path / "state"
    plan = [
        (lambda snapshot: any(path.stat().st_size for path in saved.glob("*")), lambda: None),
        (jobs.grown("0", 50), clusters.kill("siag server")),
        (lambda snapshot: notes.heard("the server is gone; Ray starts it again"), lambda: None),
        (jobs.grown("0", 50), interrupt),
    ]
    notes = Notes(*plan)
    run = train(n=1, trace=f"file://{tmp_path}/trace.csv", folder=url, progress=notes)
    assert not notes.plan
    assert exactly_replayed(run, tmp_path / "trace.csv")


def test_a_killed_server_without_a_folder_ends_the_run():
    notes = Notes((jobs.reported(more_than=5), clusters.kill("siag server")))
    with pytest.raises(
        siag.SiagError, match=r"the server's process is gone: .*; with folder= it would be started again"
    ):
        train(progress=notes, n=1)
    assert clusters.all_gone()


def test_a_killed_shard_takes_all_back_to_one_save(tmp_path):
    plan = [
        (lambda snapshot: snapshot.saved is not None and snapshot.version > 300, clusters.kill("siag shard 1")),
        (lambda snapshot: notes.heard("went on from version"), lambda: None),
        (jobs.grown("0", 50), interrupt),
    ]
    notes = Notes(*plan)
    runtime = Ray(shards=2, patience=IMPATIENT)
    places = {"trace": tmp_path / "trace.csv", "folder": (tmp_path / "state").as_uri()}
    run = train(n=2, runtime=runtime, **places, progress=notes)
    assert not notes.plan
    assert notes.heard("problem", "shard 1")
    assert exactly_replayed(run, tmp_path / "trace.csv")


def test_shards_talk_over_tls(tmp_path):
    run = train(300, n=1, runtime=Ray(shards=2, tls=True, patience=IMPATIENT), trace=tmp_path / "trace.csv")
    assert run.t[-1] == 300
    assert exactly_replayed(run, tmp_path / "trace.csv")


def test_workers_that_fail_are_told_of_and_left_alone(tmp_path):
    end = tmp_path / "end"
    streams = [partial(jobs.until_there, end), ["1.0", "bad"], jobs.no_stream]
    notes = Told((lambda snapshot: notes.heard("worker 2 failed"), jobs.touch(end)))
    run = siag.train(jobs.fragile, streams, np.zeros(2), step=STEP, runtime=Ray(), until=LIMIT, progress=notes)
    assert any("no such" in text for text in run.about["failed"])
    assert notes.heard("worker 1 failed: KeyError", "the others go on")
    assert sorted(text[:15] for text in notes.problems) == ["worker 1 failed", "worker 2 failed"]
    assert sum("worker 1 failed" in event for event in notes.events) == 1
    assert notes.heard("worker 2 failed: stream = 5: must be something to iterate over")


def test_a_worker_whose_process_always_dies_is_given_up():
    with pytest.raises(
        siag.SiagError, match=r"no worker has reported anything; worker 0 failed: its process has died 3"
    ):
        siag.train(jobs.leaving, [[1.0] * 9], np.zeros(2), step=STEP, runtime=Ray(), until=LIMIT, progress=False)


def test_errors_of_the_servers_are_the_drivers(tmp_path):
    def loss(w):
        raise ZeroDivisionError("no such loss")

    with pytest.raises(ZeroDivisionError, match="no such loss"):
        train(n=2, loss=loss)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(siag.SiagError, match="file"):
        train(n=2, folder=tmp_path / "file")


def test_a_watcher_that_raises_leaves_no_actors():
    def trip():
        raise RuntimeError("the watcher fell over")

    with pytest.raises(RuntimeError, match="the watcher fell over"):
        train(n=2, progress=Notes((jobs.reported(more_than=5), trip)))
    assert clusters.all_gone()
