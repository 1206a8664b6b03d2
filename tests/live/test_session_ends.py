"""When a session is over, and why; time is what the test says it is."""

import math

import pytest
from sessions import failures, join, report

import siag
from siag.live.reasons import Ended, Ending, Failure
from siag.server import Guard, Refused


def test_the_end_comes_with_the_last_iteration_and_with_the_last_report(assembled):
    for until in (siag.Until(iterations=3), siag.Until(reports=3)):
        session = assembled(until)
        session.begin(0.0)
        join(session)
        for k in range(3):
            assert not session.over
            report(session, 0, 0.1 * k)
        assert session.over
        assert session.ended == Ended(Ending.REACHED)


def test_seconds_are_counted_from_the_first_report(assembled):
    session = assembled(siag.Until(seconds=2.0))
    session.begin(100.0)
    join(session, 100.0)
    session.look_after(105.0)
    assert not session.over
    report(session, 0, 106.0)
    session.look_after(107.9)
    assert not session.over
    session.look_after(108.1)
    assert session.over
    assert session.ended == Ended(Ending.TIME, "2")


def test_a_server_that_lingers_waits_a_minute_for_the_first_report_of_a_worker_that_is_there(assembled):
    session = assembled(siag.Until(seconds=2.0), linger=5000.0)
    session.begin(0.0)
    session.look_after(1000.0)
    assert not session.over
    session.join(0, 1000.0)
    session.join(1, 1030.0)
    session.look_after(1061.9)
    assert not session.over
    session.look_after(1062.1)
    assert session.over
    assert session.ended == Ended(Ending.TIME, "2")


def test_seconds_are_counted_from_a_first_report_that_comes_within_a_minute(assembled):
    session = assembled(siag.Until(seconds=20.0), linger=5.0)
    session.begin(0.0)
    session.join(0, 1.0)
    report(session, 0, 60.9)
    session.look_after(80.8)
    assert not session.over
    session.look_after(81.0)
    assert session.over


def test_a_run_whose_workers_never_start_ends_all_the_same(assembled):
    session = assembled(siag.Until(seconds=2.0))
    session.begin(0.0)
    session.look_after(59.0)
    assert not session.over
    session.look_after(63.0)
    assert session.over


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ([], Ended(Ending.NOBODY, "2 working")),
        (["left", "left"], Ended(Ending.ALL_LEFT)),
        (["left", "failed"], Ended(Ending.NOBODY, "1 away, 1 left")),
        (["refused", "died"], Ended(Ending.NOBODY, "1 away, 1 refused")),
    ],
)
def test_a_session_that_is_over_because_nobody_is_there_says_so(assembled, ends, why):
    session = assembled(guard=Guard(strikes=1))
    session.begin(0.0)
    join(session)
    for row, end in enumerate(ends):
        if end == "left":
            session.left(row, 1.0, "its stream ended")
        elif end == "failed":
            session.failed(row, "ValueError: no")
        elif end == "died":
            session.died(row, "killed by SIGKILL")
        else:
            with pytest.raises(Refused) as refusal:
                report(session, row, 1.0, math.nan)
            session.refused(row, refusal.value)
    session.finish(2.0)
    assert session.ended == why


def test_a_session_is_without_progress_if_all_failed_and_nobody_reported(assembled):
    session = assembled()
    session.begin(0.0)
    join(session)
    session.failed(0, "ValueError: no")
    assert not session.no_progress  # the other may still report
    session.left(1, 1.0, "its stream ended")
    assert session.no_progress
    assert failures(session) == [("a", Failure.OWN_CODE, "ValueError: no")]


def test_a_session_with_reports_or_in_which_all_left_in_order_is_not_without_progress(assembled):
    reports, empty = assembled(), assembled()
    for session in (reports, empty):
        session.begin(0.0)
        join(session)
    report(reports, 0, 0.5)
    for row in range(2):
        reports.failed(row, "ValueError: no")
        empty.left(row, 1.0, "its stream ended")
    assert not reports.no_progress
    assert not empty.no_progress


def test_nobody_there_is_waited_for_as_long_as_stated(assembled):
    session = assembled(linger=5.0)
    session.begin(0.0)
    session.look_after(1.0)
    join(session, 3.0)
    session.look_after(7.0)
    session.died(0, "killed")
    session.died(1, "killed")
    session.look_after(8.0)
    session.look_after(12.9)
    assert not session.over
    session.look_after(13.1)
    assert session.over
    assert session.ended == Ended(Ending.LINGERED, "5")


@pytest.mark.parametrize("name", ["linger", "patience", "forget"])
@pytest.mark.parametrize("value", [-1, -0.5, math.nan, "10", True])
def test_times_to_wait_are_finite_and_not_below_zero(assembled, name, value):
    with pytest.raises(siag.BadInput, match=rf"^{name} = .* (at least|above) 0; or leave it out"):
        assembled(**{name: value})


def test_a_server_may_linger_for_ever(assembled):
    session = assembled(linger=math.inf)
    session.begin(0.0)
    session.look_after(1e9)
    session.look_after(2e9)
    assert not session.over
