"""The past that a page shows is bounded, loses no report, and is sent within its budget."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from snapshots import snapshot, snapshots, worker

from siag.activity import Trace
from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.history import MOST, History, most_columns
from siag.live.monitor.dashboard.messages import EVERY, ROOM, Sender
from siag.live.monitor.dashboard.recorded import Recorded
from siag.server.status import State

quick = settings(deadline=None, max_examples=60, phases=(Phase.generate,), suppress_health_check=[HealthCheck.too_slow])


def looks(n, seconds, every=0.25):
    """A run of n workers, the first of which reports most."""
    for second in np.arange(0.0, seconds, every):
        views = tuple(worker(row, reports=int(second * 40 / (1 + row)), loss=1.0 / (1 + second)) for row in range(n))
        yield snapshot(workers=views, seconds=float(second), reports=sum(view.reports for view in views))


def test_columns_are_bounded_and_no_report_is_lost():
    history = History()
    for each in looks(3, 1000):
        history.add(each)
        assert len(history.columns) <= MOST
    history.close(each)
    assert sum(column.counts for column in history.columns).tolist() == [view.reports for view in each.workers]
    assert history.columns[0].start == 0.0
    assert all(a.end == b.start for a, b in zip(history.columns, history.columns[1:], strict=False))


def test_workers_that_come_later_have_lanes_from_then_on():
    history = History()
    for each in looks(3, 500):
        history.add(replace(each, workers=each.workers[: 2 + (each.seconds > 250)]))
    history.close(each)
    first, last = history.columns[0].packed, history.columns[-1].packed
    assert (len(first["lane"]), len(last["lane"])) == (2, 3)
    reports = [sum(column.counts[row] for column in history.columns if row < len(column.counts)) for row in range(3)]
    assert reports == [view.reports for view in each.workers]
    assert any(column.packed["lane"][2:] == "e" for column in history.columns)  # two that became one, half of it before


def test_a_stall_stays_visible_when_columns_become_one():
    history = History()
    for k, each in enumerate(looks(2, 500)):
        stalled = (each.workers[0]._replace(state=State.STALLED), each.workers[1])
        history.add(replace(each, workers=stalled) if k == 100 else each)
    assert any(column.packed["lane"][0] == "s" for column in history.columns)


def test_a_run_that_goes_on_begins_where_it_is():
    history = History()
    for each in looks(1, 20):
        if each.seconds >= 10:
            history.add(each)
    assert history.columns[0].start == 10.0
    assert history.columns[0].counts[0] == 10


@quick
@given(st.lists(snapshots, max_size=5))
def test_whatever_happens_can_be_sent(shown):
    board, sender = Board(), Sender()
    for each in shown:
        board.show(replace(each, workers=shown[0].workers))
        board.event("".join(chr(k) for k in range(40)))
    board.end()
    message = board.next_message(sender)
    assert message.startswith(b"data: ")
    assert message.count(b"\n") == 2
    assert json.loads(message[6:])["ended"] is True


def test_levels_say_how_much_less_than_the_busiest():
    history = History()
    counts = [64, 32, 16, 1, 0]
    for second in (0.0, 1.0):
        views = tuple(worker(row, reports=int(second) * count) for row, count in enumerate(counts))
        history.add(snapshot(workers=views, seconds=second))
    assert history.columns[0].packed["lane"] == "98730"
    assert history.columns[0].packed["most"] == 64


@pytest.mark.parametrize("n", [4, 1000])
def test_a_browser_gets_less_than_fifty_kilobytes_a_second_and_all_of_it_in_the_end(n):
    board, sender, sent, seconds = Board(), Sender(), 0.0, 0.0
    rows, columns, first = {}, {}, None
    for each in looks(n, 15 if n > 100 else 60):
        board.show(each)
        if seconds > each.seconds:  # what was longer than it should be took longer
            continue
        message = board.next_message(sender)
        seconds = each.seconds + EVERY * max(1.0, len(message) / ROOM)
        sent += len(message)
        told = json.loads(message[6:])
        rows |= {row[0]: row for row in told["rows"]}
        columns |= {column["k"]: column for column in told["columns"]}
        first = each.seconds if first is None and len(rows) == n else first
    assert sent <= 50_000 * seconds
    assert first < 5.0
    while sender.behind:
        told = json.loads(board.next_message(sender)[6:])
        rows |= {row[0]: row for row in told["rows"]}
        columns |= {column["k"]: column for column in told["columns"]}
    assert {row: rows[row][2] for row in rows} == {view.row: view.reports for view in each.workers}
    assert columns.keys() >= {column.number for column in board.columns}


def test_what_has_not_changed_is_not_sent_again():
    board, sender = Board(), Sender()
    for each in looks(5, 10):
        board.show(each)
    board.event("worker 0 joined")
    first = json.loads(board.next_message(sender)[6:])
    again = json.loads(board.next_message(sender)[6:])
    assert (len(first["rows"]), len(first["events"])) == (5, 1)
    assert (again["rows"], again["columns"]) == ([], [])
    assert not {"about", "events", "warnings"} & again.keys()


def test_many_workers_have_fewer_columns():
    assert [most_columns(n) for n in (1, 250, 1000, 10**6)] == [240, 240, 60, 60]


# A trace


def trace_of(reports=300, n=3):
    version = np.arange(reports)
    names = version % n
    factor = np.full(reports, np.nan)
    stamp = np.where(version >= n, version - n + 1, 0)
    sample = version // n
    seconds = version / 10
    factor[-1], stamp[-1], sample[-1] = 0.0, 0, 0  # the last worker leaves
    told = {
        "about": {"workers": n, "method": "SIAG()"},
        "loss": np.where(np.isnan(factor), 1.0 / (1 + version), np.nan),
    }
    return Trace(version, names, stamp, sample, seconds, factor, reports - 1, **told)


def test_a_moment_of_a_trace_is_what_its_lines_say():
    trace = trace_of()
    board = Recorded(trace, alike=True)
    for second in (0.0, 3.14, 12.0, 29.8, 100.0):
        seen = np.flatnonzero((trace.seconds <= second) & np.isnan(trace.factor))
        moment = board.moment(second)
        assert [view.reports for view in moment.workers] == [int((trace.worker[seen] == row).sum()) for row in range(3)]
        assert moment.reports == len(seen)
    assert [view.state for view in board.moment(29.9).workers] == ["working", "working", "left"]
    assert [view.share for view in board.moment(29.9).workers] == [0.5, 0.5, 0.0]
    assert board.moment(12.0).workers[0].age == 121 - 118
    assert sum(column.counts.sum() for column in board.columns) == 299
    assert board.at(float("nan")) is board.at(-1.0) is None
    json.dumps(board.at(5.0), allow_nan=False)


def test_a_method_that_is_not_known_has_no_shares():
    assert np.isnan([view.share for view in Recorded(trace_of()).moment(5.0).workers]).all()
    assert [view.share for view in Recorded(trace_of(), alike=False).moment(0.55).workers] == [2 / 6] * 3


def test_relays_count_for_what_they_have_said_by_then():
    trace = trace_of()
    factor, loss = trace.factor.copy(), trace.loss.copy()
    factor[[30, 60]], loss[[30, 60]] = -2.0, (2.0, 6.0)  # worker 0 is a relay
    board = Recorded(replace(trace, factor=factor, loss=loss), alike=True)
    assert [[view.weight for view in board.moment(second).workers] for second in (2.0, 4.0, 7.0)] == [
        [1.0, 1.0, 1.0],
        [2.0, 1.0, 1.0],
        [6.0, 1.0, 1.0],
    ]
    assert board.moment(7.0).workers[0].share == 0.75
    assert [text for *_, text in board.events][:2] == [f"worker 0 is a relay, and counts for {k}" for k in (2, 6)]


def test_rows_that_nobody_has_yet_have_not_left():
    trace = trace_of()
    factor = trace.factor.copy()
    factor[1] = 0.0  # before worker 1 has reported
    board = Recorded(replace(trace, factor=factor), alike=True)
    assert [(view.state, view.share) for view in board.moment(0.25).workers][1] == ("expected", 0.0)
    assert [(view.state, view.share) for view in board.moment(5.0).workers][1] == ("working", 1 / 3)
    assert [text for *_, text in board.events if "worker 1" in text] == []


def test_a_worker_that_is_silent_for_long_is_shown_as_stalled():
    trace = trace_of()
    late = replace(trace, seconds=np.where(trace.version < 150, trace.version / 10, 100.0))
    assert Recorded(late).moment(90.0).workers[0].state == State.STALLED
