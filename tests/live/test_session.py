"""A session without processes: time is what the test says it is."""

import errno
import math
import os
import time

import numpy as np
import pytest
from jobs import Notes
from tests.torture.disk import Deferred

import siag
from disks import SmallDisk
from refusals import failing
from siag.activity import EveryArrivals, Tick, Trace
from siag.live.checkpoints import SAVE
from siag.live.durable_log import LAYOUT, REPORTED
from siag.live.reasons import Ended, Ending, Failure, Problem, Trouble
from siag.live.session import LOOK, SHOW
from siag.server import Departed, Guard, Refused
from siag.server.ledger import LARGEST
from siag.storage import Store
from specs import assembly_of

STEP, D = siag.steps.Constant(0.1), 3
POSED = siag.problems.LeastSquares.random(n=2, d=D, p=2, noise=0.1)


@pytest.fixture
def assembled():
    """Assembles sessions, and takes them apart at the end."""
    made = []

    def assemble(until=None, workers=("a", "b"), step=STEP, **options):
        watcher = Notes()
        options = {"progress": watcher, "step": step, "until": until, "disk": SmallDisk()} | options
        assembly = assembly_of(workers, **options)
        made.append(assembly)
        assembly.session.notes, assembly.session.disk = watcher, options["disk"]
        return assembly.session

    yield assemble
    for assembly in made:
        assembly.close()


def report(session, row, now, value=1.0, stamp=None, sample=None):
    member = session.server.members[row]
    number = member.samples if sample is None else sample
    at = session.server.version if stamp is None else stamp
    session.push(row, at, np.full(D, value), number, now)


def join(session, now=0.0):
    for row in range(session.server.n):
        session.server.join(row, now)


def failures(session):
    return [(failure.name, failure.kind, failure.reason) for failure in session.departures.failures]


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
    assert session.notes.events[-1] == "worker a left: not heard of for 30 seconds"
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


def test_after_a_divergence_the_error_is_not_a_number_and_the_session_is_over(assembled):
    session = assembled(loss=lambda w: float(w @ w), step=siag.steps.Constant(1e20), guard=Guard(jump=None))
    session.begin(0.0)
    join(session)
    for _ in range(100):
        if not session.over:
            report(session, 0, 1.0, 1e3)
    session.finish(2.0)
    assert session.over
    run = session.curve.run(session.server.w, session.diverged_at, {})
    assert run.diverged[0] == run.t[-1]
    assert np.isnan(run.error[0, -1])
    assert np.isfinite(run.error[0, 0])
    assert session.notes.heard("diverged", "smaller step")


def test_a_w_beyond_all_numbers_is_not_saved_over_a_good_one(assembled, tmp_path):
    first = assembled(folder=tmp_path, guard=Guard(jump=None))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1, 2.0)
    first.save(0.2, wait=True)
    good = first.server.w.copy()
    report(first, 1, 0.3, 1e150)
    first.look_after(0.3 + 2 * SAVE)
    assert first.over
    assert first.notes.heard("diverged", "smaller step")
    first.finish(2.0)
    first.disk.kill()
    second = assembled(folder=tmp_path, guard=Guard(jump=None))
    assert np.array_equal(second.server.w, good)


def diverged(session, good=5):
    """Let a durable session have some good reports, then others until it diverges; the good w."""
    session.begin(0.0)
    join(session)
    for k in range(200):
        if k == good:
            w = session.server.w.copy()
        if not session.over:
            report(session, k % 2, 0.01 * k, 1.0 if k < good else 1e18)
            session.commit()
    assert session.diverged_at > good + 1
    return w


def test_a_durable_run_that_diverged_goes_on_from_its_last_good_state(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "durable": True, "trace": tmp_path / "t", "guard": Guard(jump=None)}
    first = assembled(**options)
    good = diverged(first)
    dropped = first.server.version - 5
    first.finish(3.0)
    first.disk.kill()
    for reports in (5, 8):
        second = assembled(**options)
        assert (second.server.version, second.server.reports) == (reports, reports)
        assert second.server.members[0].samples == -(-reports // 2)
        assert second.server.ledger[:, LARGEST].max() < 10.0
        if reports == 5:
            assert np.array_equal(second.server.w, good)
        assert len(Trace.read(tmp_path / "t").version) == reports
        now = time.monotonic()
        second.begin(now)
        assert not second.over
        words = f"the last {dropped} logged entries were not used: with them w leaves the range of numbers"
        assert second.notes.heard(words) == (reports == 5)
        assert second.notes.heard(f"went on from version {reports}, {reports} reports")
        join(second, now)
        for k in range(3):
            report(second, (reports + k) % 2, now)
            second.commit()
        second.disk.kill()


def test_a_log_that_ends_with_a_report_which_was_never_accepted_is_gone_on_with(assembled, tmp_path):
    """As it was written before such reports were kept out of it."""
    options = {"folder": tmp_path, "durable": True, "guard": Guard(jump=None)}
    first = assembled(**options)
    diverged(first)
    first.store.log(LAYOUT.pack(REPORTED, 0, 0, 0, 1.0), np.full(D, math.nan).data.cast("B"))
    first.store.sync()
    first.disk.kill()
    assert assembled(**options).server.version == 5


UNACCEPTABLE = {
    "push": lambda session: report(session, 0, 0.3, math.inf),
    "skip": lambda session: session.push(0, 2, None, 0, 0.3),  # a sample it has reported before
}


@pytest.mark.parametrize("act", UNACCEPTABLE.values(), ids=UNACCEPTABLE)
def test_a_report_at_which_a_divergence_is_seen_is_neither_logged_nor_acknowledged(assembled, tmp_path, act):
    session = assembled(folder=tmp_path, durable=True, guard=Guard(jump=None))
    session.begin(0.0)
    join(session)
    report(session, 0, 0.1)
    report(session, 0, 0.2, 1e18)
    before = session.store.logged
    with pytest.raises(Refused, match="at version 2;") as caught:
        act(session)
    assert not caught.value.final
    assert (session.over, session.diverged_at) == (True, 2)
    assert session.store.logged == before
    assert (session.server.reports, session.server.members[0].refused) == (2, 0)
    session.commit()
    session.disk.kill()
    assert assembled(folder=tmp_path, durable=True).server.version == 1


def test_what_was_done_again_does_not_count_for_the_rate_that_is_shown(assembled, tmp_path):
    first = assembled(folder=tmp_path, durable=True)
    first.begin(0.0)
    join(first)
    for k in range(40):
        report(first, k % 2, 0.1 * k)
    first.commit()
    first.disk.kill()
    second = assembled(folder=tmp_path, durable=True)
    now = time.monotonic() + 1.0
    second.begin(now)
    assert (second.server.version, second.snapshot(now).rate) == (40, 0.0)


def test_what_was_saved_is_found_again(assembled, tmp_path):
    first = assembled(folder=tmp_path)
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1, 2.0)
    report(first, 1, 0.2, 3.0)
    first.finish(0.3)
    first.store.close()
    second = assembled(folder=tmp_path)
    assert np.array_equal(second.server.w, first.server.w)
    assert (second.server.version, second.server.reports) == (2, 2)
    assert [member.state for member in second.server.members] == ["away", "away"]
    now = time.monotonic()
    second.begin(now)
    assert second.notes.heard(" version 2, 2 reports")
    assert second.server.seconds(now) >= 0.2


def test_an_end_that_was_reached_before_is_reached_at_once(assembled, tmp_path):
    until = siag.Until(reports=1)
    for session in (assembled(until, folder=tmp_path),):
        session.begin(0.0)
        join(session)
        report(session, 0, 0.1)
        session.finish(0.2)
        session.store.close()
    again = assembled(until, folder=tmp_path)
    again.begin(0.0)
    assert again.over
    assert again.ended == Ended(Ending.REACHED_BEFORE)
    again.finish(0.1)
    assert again.curve.run(again.server.w, -1, {}).t.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"step": siag.steps.Constant(0.2)}, "step"),
        ({"workers": ("a", "b", "c")}, "n"),
        ({"problem": POSED}, "problem"),
        ({"problem": POSED, "seed": 1}, "seed"),
    ],
)
def test_a_folder_of_another_run_is_refused_with_what_differs(assembled, tmp_path, change, what):
    first = assembled(folder=tmp_path, **{"problem": POSED} if what == "seed" else {})
    first.begin(0.0)
    first.finish(1.0)
    first.store.close()
    with pytest.raises(siag.BadFile, match=f": {what} is .* there and .* here"):
        assembled(folder=tmp_path, **change)


@pytest.mark.parametrize("server", [EveryArrivals(1), EveryArrivals(3), Tick(0.1)])
@pytest.mark.parametrize("departed", [Departed(), Departed(half_life=0), Departed(half_life=4)])
def test_a_durable_session_is_found_as_it_was_whenever_it_is_killed(assembled, tmp_path, server, departed):
    options = {"folder": tmp_path, "durable": True, "server": server, "departed": departed}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    rng = np.random.default_rng(3)
    for k in range(40):
        report(first, k % 2, 0.01 * k, rng.normal())
        if k == 20:
            first.save(0.21, wait=True)  # the log goes on after a save
        if k == 30:
            first.left(1, 0.31, "its stream ended")
        first.look_after(0.01 * k)
        first.commit()
    first.disk.kill()
    second = assembled(**options)
    for name, array in first.server.arrays().items():
        assert np.array_equal(array, second.server.arrays()[name]), name
    assert (second.server.version, second.server.reports) == (first.server.version, first.server.reports)
    assert [member.samples for member in second.server.members] == [member.samples for member in first.server.members]
    total = second.server.state.rows.sum(axis=0)
    assert np.allclose(second.server.state.total, total, rtol=0, atol=1e-12)


def test_a_durable_session_can_log_from_the_very_first_report(assembled, tmp_path):
    session = assembled(folder=tmp_path, durable=True)
    session.begin(0.0)
    join(session)
    report(session, 0, 0.0)
    session.commit()
    session.disk.kill()
    assert assembled(folder=tmp_path, durable=True).server.reports == 1


def test_in_durable_mode_nothing_is_committed_while_the_disk_is_full_and_all_once_it_is_not(assembled, tmp_path):
    session = assembled(folder=tmp_path, durable=True)
    session.begin(0.0)
    join(session)
    session.disk.fill()
    report(session, 0, 0.1)
    with failing(errno.ENOSPC):
        session.commit()
    session.look_after(SAVE + 0.1)
    with failing(errno.ENOSPC):
        session.commit()
    session.disk.clean()
    session.save(1.0, wait=True)
    session.commit()
    session.disk.kill()
    assert assembled(folder=tmp_path, durable=True).server.reports == 1


def test_a_full_disk_is_reported_once_shown_and_its_end_is_reported(assembled, tmp_path):
    session = assembled(folder=tmp_path)
    session.disk.fill()
    session.begin(0.0)
    join(session)
    for k in range(1, 5):
        report(session, 0, float(k))
        session.save(float(k), wait=True)
    session.look_after(4.1)
    problem = Problem(Trouble.SAVING, "no space left on device")
    assert session.notes.events == [problem.alarm]
    assert session.notes.snapshots[-1].problems == (problem.text,)
    assert session.notes.snapshots[-1].saved is None
    session.disk.clean()
    session.finish(5.0)
    assert session.notes.events[-1] == problem.end
    assert session.notes.snapshots[-1].problems == ()
    session.store.close()
    assert assembled(folder=tmp_path).server.reports == 4


FULL_TRACE = Problem(Trouble.TRACE, "no space left on device")


def test_a_trace_that_cannot_be_written_does_not_hide_that_saving_works_nor_end_the_run(assembled, tmp_path):
    disk = SmallDisk(only="trace.csv")
    session = assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv", disk=disk)
    session.begin(0.0)
    join(session)
    disk.fill()
    for k in range(4):
        report(session, 0, float(k))
        session.save(float(k), wait=True)
    assert session.problems == (FULL_TRACE,)
    assert session.notes.events == [FULL_TRACE.alarm]
    disk.clean()
    session.finish(5.0)
    assert session.notes.events[1:] == ["the trace: works again"]
    assert session.problems == ()
    assert Trace.read(tmp_path / "trace.csv").length == 4


def test_a_trace_that_is_whole_at_the_end_is_no_trouble_whatever_was_before(assembled, tmp_path):
    session = assembled(trace=tmp_path / "trace.csv")
    session.begin(0.0)
    join(session)
    session.disk.fill()
    report(session, 0, 0.1)
    session.look_after(SAVE)
    assert session.problems == (FULL_TRACE,)
    session.disk.clean()
    session.finish(SAVE + LOOK)
    assert session.problems == ()
    assert Trace.read(tmp_path / "trace.csv").length == 1


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_a_run_killed_while_the_disk_of_its_trace_is_full_goes_on_with_the_trace(assembled, tmp_path, name):
    options = {"folder": tmp_path / "state", "trace": tmp_path / name, "departed": Departed(half_life=0)}
    first = assembled(**options, disk=SmallDisk(only="trace.csv"))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    first.disk.fill()
    report(first, 1, 0.3)
    first.left(1, 0.4, "its stream ended")
    first.save(0.5, wait=True)
    report(first, 0, 0.6)  # not saved
    first.disk.kill()
    assert Trace.read(tmp_path / name).length == 1
    second = assembled(**options)
    assert second.server.reports == 2
    now = time.monotonic()
    second.begin(now)
    join(second, now)
    report(second, 0, now)
    second.finish(now)
    trace = Trace.read(tmp_path / name)
    assert trace.worker.tolist() == [0, 1, 1, 0]
    assert trace.length == 3


def test_a_durable_run_whose_trace_was_lost_with_the_power_finds_it_in_its_log(assembled, tmp_path):
    path = tmp_path / "trace.csv"
    options = {"folder": tmp_path / "state", "durable": True, "trace": path, "departed": Departed(half_life=1)}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    on_disk = path.stat().st_size
    for k in range(20):
        report(first, 0, 0.1 * k, stamp=0 if k == 0 else None)
        if k == 5:
            first.left(1, 0.55, "its stream ended")
        first.commit()
    whole = path.read_text()
    first.disk.kill()
    os.truncate(path, on_disk)
    second = assembled(**options)
    assert path.read_text().splitlines()[1:] == whole.splitlines()[1:]
    assert second.server.reports == 20


class Later:
    """Threads of a session that work when the test says so; what was saved of the trace."""

    def __init__(self):
        self.of = {}

    def __call__(self, name):
        self.of[name] = Deferred()
        return self.of[name]


def saved_tails(session, monkeypatch):
    """What saves of the state carry of the trace."""
    saved, real = [], session.store.save
    note = lambda *given, **how: saved.append(given[2]["trace"]) or real(*given, **how)  # noqa: E731
    monkeypatch.setattr(session.store, "save", note)
    return saved


def test_the_trace_is_on_disk_before_the_state_and_nobody_waits_for_it(assembled, tmp_path, monkeypatch):
    later = Later()
    session = assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv", background=later)
    session.begin(0.0)
    join(session)
    saved = saved_tails(session, monkeypatch)
    report(session, 0, 0.1)
    session.look_after(SAVE)
    assert not saved
    later.of["siag-trace"].shutdown()
    report(session, 0, SAVE + 0.01)
    session.look_after(SAVE + LOOK)
    assert saved == ["1,0,1,1,0.410000,\n"]  # only what came meanwhile


def test_a_state_does_not_wait_for_ever_for_the_disk_of_the_trace(assembled, tmp_path, monkeypatch):
    session = assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv", background=Later())
    session.begin(0.0)
    join(session)
    report(session, 0, 0.1)
    saved = saved_tails(session, monkeypatch)
    session.look_after(SAVE)
    session.look_after(1.9 * SAVE)
    assert not saved
    session.look_after(2.1 * SAVE)
    assert saved == ["0,0,0,0,0.000000,\n"]


def test_a_run_that_fails_before_its_first_save_can_be_started_again_with_its_trace(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = assembled(**options, disk=SmallDisk(errno.ENOSPC, only="state-"))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    assert [problem.what for problem in first.problems] == [Trouble.SAVING]
    first.give_up()
    first.disk.kill()
    assert assembled(**options).server.reports == 0


def test_after_a_trace_was_given_up_the_run_goes_on_without_one_as_the_message_says(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = assembled(**options, disk=SmallDisk(only="trace.csv"))
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    first.trace.room = 0
    first.disk.fill()
    for k in range(3):
        report(first, 0, 0.3)
        first.save(0.4 + k, wait=True)
    first.finish(5.0)
    given_up = "given up, with 0 MB waiting for the disk"
    assert first.problems == (problem := Problem(Trouble.TRACE, given_up),)
    assert first.notes.events == [problem.alarm]
    first.store.close()
    words = "has gone on without a trace, or had to give it up; go on without one, or start anew with another folder"
    with pytest.raises(siag.BadInput, match=words):
        assembled(**options)
    second = assembled(folder=tmp_path / "state")
    assert second.server.reports == 4
    second.begin(0.0)
    second.finish(0.1)
    second.store.close()
    with pytest.raises(siag.BadInput, match=words):
        assembled(**options)
    assembled(folder=tmp_path / "another", trace=tmp_path / "another.csv")


def test_a_trace_that_a_run_went_on_without_is_not_gone_on_with(assembled, tmp_path):
    """It may have lines that were lost, and as many as the run has reports."""
    options = {"folder": tmp_path / "state", "trace": tmp_path / "trace.csv"}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.save(0.2, wait=True)
    report(first, 0, 0.3)
    first.server.trace.flush()
    first.disk.kill()
    second = assembled(folder=tmp_path / "state")
    second.begin(0.0)
    join(second)
    report(second, 1, 0.3)
    second.finish(0.4)
    second.store.close()
    with pytest.raises(siag.BadInput, match="go on without one"):
        assembled(**options)


def test_the_trace_of_a_killed_durable_session_goes_on_with_it(assembled, tmp_path):
    options = {"folder": tmp_path / "state", "durable": True, "trace": tmp_path / "trace.csv"}
    first = assembled(**options)
    first.begin(0.0)
    join(first)
    for k in range(5):
        report(first, 0, 0.1 * k)
        first.commit()
    first.disk.kill()
    second = assembled(**options)
    now = time.monotonic()
    second.begin(now)
    join(second, now)
    report(second, 1, now)
    second.finish(now)
    trace = Trace.read(tmp_path / "trace.csv")
    assert trace.worker.tolist() == [0, 0, 0, 0, 0, 1]
    assert trace.length == 6


def test_a_run_that_goes_on_without_the_trace_it_began_with_says_what_is_missing(assembled, tmp_path):
    first = assembled(folder=tmp_path / "state", trace=tmp_path / "moved.csv")
    first.begin(0.0)
    join(first)
    report(first, 0, 0.1)
    first.finish(0.2)
    first.store.close()
    with pytest.raises(siag.BadInput, match="with its 1 reports; record from the start, or not at all"):
        assembled(folder=tmp_path / "state", trace=tmp_path / "trace.csv")


def stopped(session, reports=0):
    """Let a session have so many reports, and end in order."""
    now = time.monotonic()
    session.begin(now)
    join(session, now)
    for _ in range(reports):
        report(session, 0, now)
    session.finish(now)
    session.store.close()


def test_a_run_that_goes_on_leaves_a_file_alone_that_is_no_trace(assembled, tmp_path):
    stopped(assembled(folder=tmp_path / "state"))
    precious = tmp_path / "precious.csv"
    precious.write_text("important results\n")
    with pytest.raises(siag.BadInput, match="and this file is no trace; give the path of a new file"):
        assembled(folder=tmp_path / "state", trace=precious)
    assert precious.read_text() == "important results\n"
    assembled(folder=tmp_path / "state", trace=tmp_path / "new.csv")


@pytest.mark.parametrize("reports", [0, 20])
def test_a_run_that_goes_on_leaves_the_trace_of_another_alone(assembled, tmp_path, reports):
    one = {"folder": tmp_path / "one", "trace": tmp_path / "one.csv"}
    two = {"folder": tmp_path / "two", "trace": tmp_path / "two.csv"}
    stopped(assembled(**one), 100)
    stopped(assembled(**two), reports)
    before = one["trace"].read_bytes()
    with pytest.raises(siag.BadInput, match="and this file is another run's; give the"):
        assembled(**two | {"trace": one["trace"]})
    assert one["trace"].read_bytes() == before
    for options, count in ((one, 100), (two, reports)):
        assert assembled(**options).server.reports == count
        assert len(Trace.read(options["trace"]).version) == count


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


def test_a_folder_in_use_is_refused(assembled, tmp_path):
    assembled(folder=tmp_path)
    with pytest.raises(siag.BadFile, match=str(tmp_path)):
        assembled(folder=tmp_path)


def test_a_refused_assembly_leaves_nothing_locked(assembled, tmp_path):
    with pytest.raises(siag.BadInput, match="server"):
        assembled(folder=tmp_path, server="now")
    with pytest.raises(siag.BadInput, match="record"):
        assembled(folder=tmp_path, record=0)
    Store(tmp_path, {}).close()


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
