"""A session without processes: time is what the test says it is."""

import math

import numpy as np
import pytest
from jobs import Notes
from sessions import join, report

import siag
from siag.activity import Tick, Trace
from siag.live.reasons import Ended, Ending, Trouble
from siag.live.session import LOOK, SHOW
from specs import assembly_of


def test_what_is_due_is_done_when_it_is_due_and_not_more_often(assembled):
    session = assembled()
    session.begin(0.0)
    join(session)
    for k in range(1000):
        session.look_after(k / 1000)
    assert len(session.notes.snapshots) == math.floor(0.999 / SHOW)


def test_a_worker_that_leaves_is_noticed_at_the_next_look_however_soon(assembled):
    session = assembled()
    session.begin(0.0)
    join(session)
    session.look_after(1.0)
    session.left(0, 1.0, "its stream ended")
    session.left(1, 1.0, "its stream ended")
    session.look_after(1.0 + LOOK / 10)
    assert session.over
    assert session.ended == Ended(Ending.ALL_LEFT)


def test_the_server_ticks_in_time_whoever_has_arrived(assembled):
    session = assembled(server=Tick(0.1))
    assert session.next_tick == math.inf
    session.begin(0.0)
    assert session.next_tick == pytest.approx(0.1)
    join(session)
    report(session, 0, 0.0)
    for k in range(1, 200):
        session.look_after(k * 0.005)
    assert session.server.version == 9


def test_the_server_does_not_tick_before_the_first_report(assembled):
    session = assembled(server=Tick(0.1))
    session.begin(0.0)
    join(session)
    session.look_after(5.0)
    assert session.server.version == 0
    report(session, 0, 5.0)
    session.look_after(5.05)
    assert session.server.version == 0
    session.look_after(5.35)
    assert session.server.version == 3


def test_ticks_missed_while_the_server_was_stopped_are_left_out(assembled):
    session = assembled(server=Tick(0.1))
    session.begin(0.0)
    join(session)
    report(session, 0, 0.0)
    session.look_after(0.5)
    assert session.server.version == 5
    session.look_after(3600.0)
    assert session.server.version == 6
    session.look_after(3600.2)
    assert session.server.version == 8


def test_a_tick_is_no_later_than_the_end(assembled):
    session = assembled(siag.Until(iterations=3), server=Tick(0.1))
    session.begin(0.0)
    join(session)
    report(session, 0, 0.0)
    session.look_after(0.9)
    assert session.server.version == 3


def test_whoever_watches_an_open_end_sees_a_loss_that_is_a_second_old_at_most(assembled):
    session = assembled(loss=lambda w: float(w[0]))
    session.begin(0.0)
    join(session)
    for k in range(20_000):
        report(session, 0, 0.01 * k, stamp=max(0, k - 1))
        session.look_after(0.01 * k)
        if k % 100 == 50 and k > 100:
            behind = abs(session.curve.latest - session.server.w[0]) / 0.1 * 2  # a report moves w by 0.1/2
            assert behind <= 110
    session.finish(200.0)
    run = session.curve.run(session.server.w, -1, {})
    assert len(run.t) <= 402


def test_a_loss_that_fails_in_the_middle_is_told_once_and_training_goes_on(assembled):
    """What is raised may change from time to time; it is told again when it works, and when it fails anew."""
    fails = []

    def loss(w):
        if fails:
            raise ValueError(f"no loss {fails.pop()}")
        return 1.0

    session = assembled(siag.Until(iterations=12), loss=loss, record=100)
    session.begin(0.0)
    join(session)
    for k in range(12):
        if k in (2, 3, 4, 8):
            fails.append(k)
        report(session, 0, 0.1 * k)
    run = session.curve.run(session.server.w, -1, {})
    assert np.flatnonzero(np.isnan(run.error[0])).tolist() == [3, 4, 5, 9]
    problem = "problem: the loss: ValueError: no loss {} (test_session.py, line {}); training goes on"
    line = loss.__code__.co_firstlineno + 2
    well = "the loss: works again"
    assert session.notes.events == [problem.format(2, line), well, problem.format(8, line), well]
    assert session.ended == Ended(Ending.REACHED)


def test_a_metric_that_fails_in_the_middle_is_told_by_its_name(assembled):
    metrics = {"right": lambda w: 1.0 / (w[0] == 0.0)}
    session = assembled(siag.Until(iterations=2), evaluate=metrics, record=10)
    session.begin(0.0)
    join(session)
    with np.errstate(divide="raise"):
        report(session, 0, 0.1)
    (told,) = session.notes.events
    assert told.startswith("problem: the loss: evaluate['right'] raised FloatingPointError: ")


def test_a_loss_that_fails_when_it_is_refreshed_or_at_the_end_is_a_trouble_too(assembled):
    broken = []

    def loss(w):
        return float(broken[0]) if broken else 1.0

    session = assembled(siag.Until(iterations=1000), loss=loss, record=2)
    session.begin(0.0)
    join(session)
    report(session, 0, 0.1)
    report(session, 0, 0.2)
    broken.append("none")
    session.look_after(5.0)
    (problem,) = session.problems
    assert problem.what is Trouble.LOSS
    assert problem.reason.startswith("ValueError: could not convert string to float: 'none' (test_session.py")
    session.look_after(6.0)
    assert session.notes.snapshots[-1].problems == (problem.text,)
    assert session.notes.snapshots[-1].loss is None
    session.finish(7.0)
    assert len(session.notes.events) == 1


def test_what_was_recorded_before_an_error_is_kept(assembled, tmp_path):
    def carry(session):
        session.begin(0.0)
        join(session)
        report(session, 0, 0.1)
        raise KeyboardInterrupt

    assembly = assembly_of(["a"], trace=tmp_path / "trace.csv", progress=(watcher := Notes()))
    with pytest.raises(KeyboardInterrupt):
        assembly.run(carry)
    assert Trace.read(tmp_path / "trace.csv").length == 1
    assert watcher.closed == 1
