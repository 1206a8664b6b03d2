"""Workers that fail, are gone, are forgotten and come back, as a session sees them."""

import math

import pytest
from jobs import Notes
from sessions import failures, join, report

from siag.live.reasons import Ended, Ending, Failure
from siag.server import Departed, Guard, Refused
from specs import assembly_of


def test_a_worker_that_is_gone_has_one_line_until_it_reports_again_or_leaves(assembled):
    session = assembled()
    session.begin(0.0)
    for k in range(100):
        join(session, float(k))
        session.died(0, f"loss {k}")
        session.died(1, "killed")
    assert failures(session) == [("a", Failure.GONE, "loss 99"), ("b", Failure.GONE, "killed")]
    join(session, 200.0)
    assert len(session.departures.failures) == 2
    report(session, 0, 200.1)
    assert failures(session) == [("b", Failure.GONE, "killed")]
    session.died(0, "killed too")
    session.left(1, 200.2, "its stream ended")
    assert failures(session) == [("a", Failure.GONE, "killed too")]


def test_what_a_worker_said_of_its_failure_is_clearer_than_that_it_is_gone(assembled):
    session = assembled()
    session.begin(0.0)
    join(session)
    session.failed(0, "ValueError: no")
    session.died(0, "its process ended")
    assert failures(session) == [("a", Failure.OWN_CODE, "ValueError: no")]
    assert session.notes.events[-1] == session.departures.failures[0].alarm
    join(session)
    report(session, 0, 1.0)
    session.died(0, "its process ended")
    assert failures(session) == [("a", Failure.GONE, "its process ended")]


def test_of_very_many_workers_that_are_gone_a_run_names_some():
    def carry(session):
        session.begin(0.0)
        join(session)
        report(session, 0, 0.1)
        for row in range(150):
            session.died(row, "killed")
        session.finish(1.0)

    run = assembly_of(150, progress=Notes()).run(carry)
    assert len(run.about["failed"]) == 101
    assert run.about["failed"][-2:] == ["worker 99 is gone: killed", "and 50 more"]


def test_a_worker_that_is_away_for_too_long_counts_as_having_left(assembled):
    session = assembled(forget=30.0, departed=Departed(half_life=0))
    session.begin(0.0)
    join(session)
    for row in range(2):
        report(session, row, 1.0)
    session.died(0, "its connection was lost")
    session.look_after(2.0)
    session.look_after(31.9)
    assert session.server.members[0].state == "away"
    assert session.server.state.rows[0].any()
    session.look_after(32.1)
    assert session.server.members[0].state == "left"
    assert not session.server.state.rows[0].any()
    assert (
        session.notes.events[-1]
        == "worker a left after 1 sample: not heard of for 30 seconds; the model goes on to fit the other 1"
    )
    assert failures(session) == [("a", Failure.GONE, "its connection was lost")]
    session.server.join(0, 40.0)
    report(session, 0, 40.1)
    assert session.server.state.rows[0].any()
    assert not session.departures.failures
    session.look_after(80.0)
    assert [member.state for member in session.server.members] == ["working", "working"]
    assert not session.over


def test_a_worker_that_came_back_meanwhile_is_waited_for_anew(assembled):
    session = assembled(forget=30.0)
    session.begin(0.0)
    join(session)
    session.died(0, "its connection was lost")
    session.look_after(1.0)
    session.server.join(0, 29.0)
    session.died(0, "its connection was lost")
    session.look_after(58.0)
    assert session.server.members[0].state == "away"
    session.look_after(59.1)
    assert session.server.members[0].state == "left"


def test_whoever_never_came_is_not_forgotten_and_without_a_limit_nobody_is(assembled):
    limited, free = assembled(forget=0.0), assembled()
    for session in (limited, free):
        session.begin(0.0)
        session.server.join(1, 0.0)
        session.look_after(1.0)
    free.died(1, "killed")
    free.look_after(1e6)
    free.look_after(2e6)
    assert [member.state for member in limited.server.members] == ["expected", "working"]
    assert [member.state for member in free.server.members] == ["expected", "away"]


def test_forgotten_workers_are_waited_for_until_all_have_truly_left(assembled):
    session = assembled(forget=10.0, linger=100.0)
    session.begin(0.0)
    join(session)
    report(session, 0, 0.5)
    session.died(0, "its connection was lost")
    session.left(1, 1.0, "its stream ended")
    for now in (1.0, 12.0, 13.0, 50.0):
        session.look_after(now)
    assert [member.state for member in session.server.members] == ["left", "left"]
    assert not session.over
    session.server.join(0, 60.0)
    session.look_after(61.0)
    session.left(0, 62.0, "its stream ended")
    session.look_after(63.0)
    assert session.over
    assert session.ended == Ended(Ending.ALL_LEFT)


def test_a_server_that_lingers_ends_when_all_are_forgotten_for_long_enough(assembled):
    session = assembled(forget=10.0, linger=100.0)
    session.begin(0.0)
    join(session)
    report(session, 0, 0.5)
    for row in range(2):
        session.died(row, "its connection was lost")
    for now in (1.0, 12.0, 100.9):
        session.look_after(now)
        assert not session.over
    session.look_after(101.1)
    assert session.over
    assert session.ended == Ended(Ending.LINGERED, "100")
    assert session.departures.desertion() == Ended(Ending.NOBODY, "2 forgotten")


def test_a_worker_that_was_forgotten_is_so_after_a_crash_too(assembled, tmp_path):
    options = {"folder": tmp_path, "durable": True, "forget": 5.0, "departed": Departed(half_life=0)}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    report(first, 0, 0.5)
    first.died(0, "its connection was lost")
    first.look_after(1.0)
    first.look_after(6.1)
    first.commit()
    first.disk.kill()
    second = assembled(**options)
    assert second.server.members[0].state == "left"
    assert not second.server.state.rows[0].any()
    second.begin(0.0)
    second.look_after(1.0)
    assert not second.over


def test_a_worker_that_was_refused_for_good_may_be_readmitted(assembled):
    session = assembled(guard=Guard(strikes=1))
    session.begin(0.0)
    join(session)
    with pytest.raises(Refused) as refusal:
        report(session, 0, 1.0, math.nan)
    session.refused(0, refusal.value)
    with pytest.raises(Refused):
        session.join(0, 2.0)
    session.soon(session.readmit)  # as a signal handler does
    session.look_after(3.0)
    assert session.notes.events[-1] == "worker a may come again"
    assert not session.departures.failures
    session.join(0, 4.0)
    report(session, 0, 4.1)
    assert session.server.reports == 1
