"""The transport of examples/own_transport.py, as a user would use it: real processes, since they are the point."""

import multiprocessing
import signal
import sys
from functools import partial
from pathlib import Path

import jobs
import numpy as np
import pytest

import siag
from siag.live.reasons import Failure, WorkerFailure

sys.path.append(str(Path(__file__).parents[2] / "examples"))  # worker processes get the `sys.path` of this one
from own_transport import Pipes

STEP = siag.steps.Constant(0.1)


class Unreadable:
    """A stream that its worker's process cannot make again."""

    def __iter__(self):
        return iter(())

    def __reduce__(self):
        return int, ("no number",)


def train(*streams, gradient=jobs.pull, names=("a", "b"), progress=False, **given):
    streams = [jobs.once(stream) for stream in streams]
    run = siag.train(
        gradient, streams, np.zeros(2), step=STEP, names=names, runtime=Pipes(), progress=progress, **given
    )
    assert multiprocessing.active_children() == []
    return run


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "given",
    [{}, {"server": siag.activity.Tick(0.005)}, {"durable": True}],
    ids=["at once", "by the clock", "durable"],
)
def test_two_streams_count_the_same_however_unequal(tmp_path, given):
    """Constant samples: once both have reported, w tends to their mean, and to nothing else."""
    folder = {"folder": tmp_path / "state"} if "durable" in given else {}
    there = tmp_path / "there"  # a process may take long to start
    notes = jobs.Notes((jobs.reported("b"), jobs.touch(there)))
    fast, slow = partial(jobs.once_there, there, 1.0), siag.streams.Paced([3.0] * 10**6, 0.02)
    run = train(fast, slow, until=siag.Until(reports=400), progress=notes, **given, **folder)
    assert run.w[0] == pytest.approx([2.0, 2.0], abs=1e-3)
    assert run.about["ending"] == "reached"
    if folder:
        assert siag.storage.read_model(tmp_path / "state").w.tolist() == run.w[0].tolist()


@pytest.mark.thorough
def test_a_worker_that_is_killed_does_not_stop_the_others(tmp_path):
    enough = tmp_path / "enough"
    kill, leave = jobs.send("b", signal.SIGKILL), jobs.touch(enough)
    notes = jobs.Notes((jobs.reported(), kill), (jobs.in_state("b", "away"), leave))
    run = train(partial(jobs.until_there, enough, 1.0), partial(jobs.endless, 3.0), progress=notes)
    failure = WorkerFailure(1, "b", Failure.GONE, notes.last("b").reason, notes.last("b").reports)
    assert run.about["failed"] == [failure.text]


@pytest.mark.thorough
def test_streams_end_and_code_fails_one_worker_at_a_time():
    run = train([1.0] * 5, ["1.0", "bad"], gradient=jobs.fragile)
    assert run.samples[0, -1] == 6
    assert len(run.about["failed"]) == 1
    assert "KeyError" in run.about["failed"][0]


def test_a_process_that_ends_before_it_joins_is_a_failure():
    with pytest.raises(siag.SiagError, match="its process ended before it joined"):
        train(Unreadable(), names=("a",))
