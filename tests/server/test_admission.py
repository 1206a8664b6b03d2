"""Admission: reports taken at once are taken as one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.activity import EveryArrivals, Tick
from siag.server import Departed, Diverged, Guard, ParameterServer, Refused, Verdict
from siag.storage.trace_writer import TraceLines

quick = settings(deadline=None, max_examples=100)
N, D = 3, 4
ANY = 10**9


def make(**options):
    step = siag.steps.Harmonic(beta=0.6, gamma=60)
    server = ParameterServer(siag.methods.SIAG(), step, np.zeros(D), N, **options)
    for row in range(N):
        server.join(row, now=0.0)
    return server


def known(server):
    """All there is to know of a server."""
    arrays = {name: array.tobytes() for name, array in server.arrays().items()}
    return arrays, server.meta(10.0), server.ledger.tobytes(), [member.state for member in server.members]


def one_by_one(server, rows, messages, notes, figures, now):
    """Push; return what happened to each."""
    happened = []
    for row in rows.tolist():
        try:
            server.push(row, int(notes[row, 0]), messages[row], int(notes[row, 1]), now, *figures[row].tolist())
            happened.append("taken")
        except Refused as refusal:
            happened.append(refusal.reason)
    return happened


def at_once(server, rows, messages, notes, figures, now, stop):
    """The same with `push_many`, what it leaves being pushed."""
    happened, at = [], 0
    while at < len(rows):
        taken = server.push_many(rows[at:], messages, notes, figures, now, ANY, max(stop, server.version + 1))
        happened += ["taken"] * taken
        at += taken
        if at < len(rows):
            happened += one_by_one(server, rows[at : at + 1], messages, notes, figures, now)
            at += 1
    return happened


reports = st.tuples(
    st.integers(0, N - 1),
    st.integers(-1, 3),
    st.integers(-1, 1),
    st.sampled_from([0.5, 1.0, 30.0, math.nan, math.inf]),
    st.sampled_from([0.25, -3.0, math.nan, math.inf]),
)


@quick
@given(
    batches=st.lists(st.lists(reports, min_size=1, max_size=5), max_size=12),
    k=st.integers(1, 4),
    guard=st.sampled_from([Guard(), Guard(age=1), Guard(norm=2.0, strikes=3), Guard(jump=None)]),
    stop=st.integers(1, 9),
)
def test_reports_taken_at_once_leave_what_reports_taken_one_by_one_leave(batches, k, guard, stop):
    one, other = (make(server=EveryArrivals(k), guard=guard) for _ in range(2))
    messages, notes, figures = np.zeros((N, D)), np.zeros((N, 2), np.int64), np.zeros((N, 2))
    for now, batch in enumerate(batches):
        rows = []
        for row, back, ahead, size, loss in batch:
            if row in rows:  # a worker rings once and waits
                continue
            rows.append(row)
            messages[row] = size * np.cos(np.arange(D) + now)
            notes[row] = max(0, one.version - back), one.members[row].samples + ahead
            figures[row] = size**2, loss
        what = np.array(rows, np.int32), messages, notes, figures, float(now)
        assert one_by_one(one, *what) == at_once(other, *what, stop)
        assert known(one) == known(other)


def everyone_reports(server, most=ANY, stop=ANY, rows=range(N)):
    notes = np.array([[server.version, member.samples] for member in server.members])
    what = np.ones((N, D)), notes, np.full((N, 2), float(D))
    return server.push_many(np.array(list(rows), np.int32), *what, 1.0, most, stop)


def test_it_stops_where_it_is_told_to():
    server = make()
    assert everyone_reports(server, most=2) == 2
    assert everyone_reports(server, stop=server.version + 1) == 1
    assert everyone_reports(server, most=0) == 0
    assert everyone_reports(server, stop=server.version) == 0
    assert everyone_reports(server, rows=(0, N, 1)) == 1
    assert everyone_reports(server, rows=(-1, 1)) == 0
    assert server.version == server.reports == 4


def test_what_must_be_seen_one_by_one_is_left():
    fading = make(departed=Departed(half_life=10.0))
    assert everyone_reports(fading) == N
    fading.leave(2, now=2.0)
    assert everyone_reports(fading) == 0
    assert everyone_reports(make(trace=TraceLines())) == 0


def test_with_a_ticking_server_reports_are_taken_and_no_step_is():
    server = make(server=Tick(1.0))
    assert everyone_reports(server) == N
    assert (server.version, server.arrived, server.w.tolist()) == (0, N, [0.0] * D)


def test_a_w_beyond_all_numbers_is_noticed():
    server = ParameterServer(siag.methods.SGD(), siag.steps.Constant(1e6), np.zeros(D), N, guard=Guard(jump=None))
    for row in range(N):
        server.join(row, now=0.0)

    def follow():
        for _ in range(200):
            notes = np.array([[server.version, member.samples] for member in server.members])
            messages = np.tile(1.0 - server.w, (N, 1))
            figures = np.column_stack([np.square(messages).sum(axis=1), np.zeros(N)])
            server.push_many(np.arange(N, dtype=np.int32), messages, notes, figures, 1.0, ANY, ANY)

    with np.errstate(over="ignore"), pytest.raises(Diverged):
        follow()


def test_a_new_worker_is_judged_by_those_that_are_known():
    server = make()
    for sample in range(25):
        server.push(0, server.version, np.ones(D), sample, now=0.0)
    with pytest.raises(Refused) as caught:
        server.push(1, server.version, np.full(D, 1e150), 0, now=0.0)
    assert caught.value.why == Verdict.JUMP
    server.push(1, server.version, np.full(D, 1e7), 0, now=0.0)  # the one that is known may be at its optimum
    again = make()
    again.restore(server.meta(1.0), now=1.0)
    with pytest.raises(Refused) as caught:
        again.push(1, again.version, np.full(D, 1e150), 1, now=2.0)
    assert caught.value.why == Verdict.JUMP


def test_before_anybody_is_known_nobody_is_judged():
    server = make()
    server.push(0, 0, np.full(D, 1e9), 0, now=0.0)
    assert server.version == 1


def test_machine_code_to_take_many_is_made_only_if_many_are_ever_taken(monkeypatch):
    asked = []
    monkeypatch.setattr("siag.server.parameter_server.warm_up_many", lambda *what: asked.append(what))
    make(trace=TraceLines()).warm_up_many()
    delayed = siag.steps.DelayAdaptive(1.0)
    ParameterServer(siag.methods.SIAG(), delayed, np.zeros(D), N).warm_up_many()
    assert asked == []
    server = make()
    server.warm_up_many()
    [(method, kind, state, *_)] = asked
    assert (method, kind) == (server.method, np.float64)
    assert state is server.state
