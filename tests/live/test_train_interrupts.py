"""Ctrl-C while `siag.train` is at work."""

import itertools
import multiprocessing
import os
import signal
from functools import partial

import jobs
import numpy as np
import pytest
from jobs import Notes
from trainings import STEP, problem, train, virtual

import siag
from siag.live.reasons import Ending
from siag.live.transports.shared_memory.server import Embedded


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_the_run_in_order_and_returns_it(tmp_path):
    options = {"problem": problem(), "step": STEP, "folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    watcher = Notes((jobs.reported(), interrupt))
    run = siag.train(**options, until=10**9, progress=watcher)
    assert run.about["ending"] == Ending.INTERRUPTED
    assert run.t[-1] > 0
    assert "failed" not in run.about
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not multiprocessing.active_children()
    assert watcher.snapshots[-1].saved == 0.0
    assert watcher.closed == 1
    assert np.array_equal(siag.replay(tmp_path / "trace.csv").w, run.w)
    again = siag.train(**options, until=int(run.t[-1]) + 10)
    k = len(run.t) - 1  # where it ended is a point of this curve, and need not be one of a longer run's
    assert np.array_equal(again.t[:k], run.t[:k])
    assert np.array_equal(again.error[0, :k], run.error[0, :k])


def test_ctrl_c_before_any_worker_has_joined_returns_a_run_of_one_point(monkeypatch):
    real = Embedded._start

    def start(self):
        real(self)
        interrupt()

    monkeypatch.setattr(Embedded, "_start", start)
    run = train([itertools.repeat(1.0)] * 2, until=None, progress=Notes())
    assert (run.t.tolist(), run.about["ending"]) == ([0], Ending.INTERRUPTED)
    assert not multiprocessing.active_children()


def test_a_second_ctrl_c_is_obeyed_at_once():
    watcher = Notes((jobs.reported(), interrupt), (lambda _: True, interrupt))
    with pytest.raises(KeyboardInterrupt):
        train([itertools.repeat(1.0)] * 2, progress=watcher)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not multiprocessing.active_children()


def test_a_program_that_handles_ctrl_c_itself_keeps_its_way(tmp_path):
    heard, end = [], tmp_path / "end"

    def handler(number, frame):
        heard.append(number)
        end.touch()

    signal.signal(signal.SIGINT, handler)
    try:
        run = train([partial(jobs.until_there, end)], progress=Notes((jobs.reported(), interrupt)))
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert heard == [signal.SIGINT]
    assert run.about["ending"] == Ending.ALL_LEFT


def test_after_an_error_ctrl_c_is_what_it_was():
    with pytest.raises(siag.SiagError, match="worker 0"):
        virtual([[1.0]], gradient=jobs.nothing, progress=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
