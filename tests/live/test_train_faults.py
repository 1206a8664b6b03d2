"""What goes wrong during `siag.train`: workers, disks, losses, steps; it is told, and the run is returned."""

import errno
import io
import itertools
import multiprocessing
import signal
from functools import partial

import jobs
import numpy as np
import pytest
from jobs import Notes
from trainings import VIRTUAL, train, virtual

import siag
from disks import SmallDisk, on_disk
from refusals import refused
from siag.activity import Fixed
from siag.live.monitor.watch import Problems, Quiet, Terminal, watcher_of
from siag.live.reasons import Ended, Ending, Failure, Problem, Trouble, WorkerFailure
from siag.server import DROP, Guard


def test_without_a_terminal_problems_are_said_on_standard_error_and_nothing_else_is(capfd):
    streams = [[1.0] * 20, partial(jobs.breaking, 2)]
    train(streams, names=["good", "bad"])
    printed = capfd.readouterr()
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if "worker good left" not in line]  # it may be first to go
    assert len(lines) == 1
    assert lines[0].startswith("siag: worker bad failed: OSError: [Errno 5] the sensor is unplugged (jobs.py, line ")
    train([[1.0] * 20])
    train(streams, progress=False)
    assert capfd.readouterr() == ("", "")


def test_problems_are_said_in_one_line_each_whatever_they_contain(monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    Problems().problem("worker \x1b[2J failed: a\nb")
    assert said.getvalue() == "siag: worker ·[2J failed: a b\n"
    said.close()
    Problems().problem("nobody hears this")
    monkeypatch.setattr("sys.stderr", None)
    Problems().problem("nor this")


def test_by_default_there_is_a_view_on_a_terminal_and_none_where_there_is_no_standard_error(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    for place, wanted in ((Screen(), Terminal), (io.StringIO(), Problems), (None, Quiet)):
        monkeypatch.setattr("sys.stderr", place)
        assert type(watcher_of(None)) is wanted
    assert type(watcher_of(True)) is Terminal
    assert type(watcher_of(False)) is Quiet


def test_a_worker_that_is_gone_can_be_forgotten(tmp_path):
    end = tmp_path / "end"
    watcher = Notes(
        (jobs.reported(), jobs.send("b", signal.SIGKILL)),
        (jobs.in_state("b", "left"), lambda: None),
        (jobs.grown("a", 150), jobs.touch(end)),
    )
    streams = [partial(jobs.until_there, end, 4.0), partial(jobs.until_there, end, -8.0)]
    step = siag.steps.Constant(0.05)  # a step that shrinks would take longer, the later b is gone
    run = train(streams, step=step, names=["a", "b"], forget=0.1, departed=DROP, progress=watcher)
    assert watcher.heard("worker b left after ", ": not heard of for 0.1 seconds; the model goes on to fit the other 1")
    assert run.about["ended"] == Ended(Ending.NOBODY, "1 forgotten, 1 left").text
    assert run.about["failed"] == [WorkerFailure(1, "b", Failure.GONE, jobs.KILLED, 0).text]
    assert (run.w > 1.0).all()  # with its row, w would tend to −2 or less


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "state").write_text("a file")
    with refused("folder"):
        virtual([[1.0]], folder=tmp_path / "state")
    with refused("folder"):
        virtual([[1.0]], folder=tmp_path / "state" / "below")


READ_ONLY = Problem(Trouble.SAVING, "read-only file system")


def test_training_survives_a_folder_that_becomes_read_only_and_saves_once_it_can_again(tmp_path):
    disk, stops = SmallDisk(), []
    watcher = Notes(
        (lambda snapshot: snapshot.saved is not None and snapshot.reports > 0, partial(disk.fill, errno.EROFS)),
        (lambda snapshot: snapshot.problems == (READ_ONLY.text,), lambda: None),
        (jobs.grown("0"), disk.clean),
        (lambda snapshot: not snapshot.problems, partial(stops.append, True)),
    )
    options = {"folder": tmp_path / "state", "runtime": on_disk(siag.Simulated, disk)(times=Fixed(0.01))}
    run = train([itertools.takewhile(lambda _: not stops, itertools.repeat(1.0))], progress=watcher, **options)
    assert not watcher.plan
    assert watcher.events[1:3] == [READ_ONLY.alarm, READ_ONLY.end]
    assert run.about["ending"] == Ending.ALL_LEFT
    again = train([iter([])], **options)
    assert np.array_equal(again.w, run.w)
    assert np.array_equal(again.t, run.t)


def test_if_saving_never_works_the_run_is_returned_with_a_warning(tmp_path):
    disk = SmallDisk()
    watcher = Notes((jobs.reported(), partial(disk.fill, errno.EROFS)))
    runtime = on_disk(siag.Simulated, disk)(times=Fixed(0.01))
    with pytest.warns(RuntimeWarning, match=f"^{READ_ONLY.warning}$"):
        run = train([[1.0] * 50], folder=tmp_path / "state", runtime=runtime, progress=watcher)
    assert run.t[-1] == 50
    assert watcher.heard(READ_ONLY.alarm)


def test_a_run_that_leaves_the_range_of_numbers_ends_with_a_warning_and_keeps_what_it_had():
    with pytest.warns(siag.DivergenceWarning):
        run = virtual(
            [itertools.repeat(1.0)],
            gradient=jobs.outward,
            step=siag.steps.Constant(1.0),
            guard=Guard(jump=None),
            loss=lambda w: float(np.abs(w).max()),
        )
    assert run.diverged[0] == run.t[-1]
    assert np.isnan(run.error[0, -1])
    assert np.isfinite(run.error[0, :-1]).all()


def test_a_loss_that_fails_once_costs_a_point_of_the_curve_and_nothing_else():
    looks = []

    def loss(w):
        looks.append(w)
        return 1.0 / (len(looks) != 4)

    watcher = Notes()
    run = virtual([itertools.repeat(1.0)] * 2, until=50, loss=loss, record=10, progress=watcher)
    assert run.t[-1] == 50
    assert np.flatnonzero(np.isnan(run.error[0])).tolist() == [3]
    told, again = (event for event in watcher.events if "the loss" in event)
    assert "ZeroDivisionError: " in told
    assert again == Problem(Trouble.LOSS, "").end


def test_a_loss_that_fails_at_the_end_is_warned_of_and_the_run_is_returned():
    looks = []

    def loss(w):
        looks.append(w)
        return 1.0 / (len(looks) < 4)

    with pytest.warns(RuntimeWarning, match=r"^the loss: ZeroDivisionError: .*; its points of the curve are NaN$"):
        run = virtual([itertools.repeat(1.0)] * 2, until=50, loss=loss, record=10)
    assert np.isfinite(run.w).all()
    assert np.isnan(run.error[0, 3:]).all()


def test_a_loss_that_fails_from_the_start_ends_the_run_and_the_workers():
    def fail(w):
        raise ArithmeticError("no loss")

    with pytest.raises(ArithmeticError, match="no loss"):
        train([itertools.repeat(1.0)] * 2, loss=fail)
    assert not multiprocessing.active_children()


def test_a_run_that_explodes_without_leaving_the_numbers_is_warned_of():
    problem = siag.problems.LeastSquares.random(n=2, d=3, p=4, noise=0.1)
    with pytest.warns(siag.DivergenceWarning, match=r"from .* to .*;"):
        siag.train(
            problem=problem,
            step=siag.steps.Constant(5.0),
            until=14,
            runtime=VIRTUAL,
            guard=siag.server.Guard(jump=None),
        )
