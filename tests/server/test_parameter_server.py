"""The parameter server without I/O: what it does with reports, refusals, departures and a second life."""

import json
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.activity import Clock, EveryArrivals, Exponential, LogNormal, OnOff, Tick, Trace
from siag.activity.agenda import STEP
from siag.foundations.errors import BadInput
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import Method, Table, advance, compute, receive, table
from siag.server import DROP, KEEP, Departed, Diverged, Guard, ParameterServer, Refused, State, Verdict
from siag.server.ledger import LARGEST
from siag.storage import TraceWriter

quick = settings(deadline=None, max_examples=60)
N, D = 3, 4
SIAG = siag.methods.SIAG()
STEPS = siag.steps.Harmonic(beta=0.6, gamma=60)
GUARD_OFF = Guard(jump=None, strikes=10**6)
POLICIES = [KEEP, DROP, Departed(3.0), Departed(40.0)]


def make(method=SIAG, step=STEPS, n=N, d=D, **options):
    return ParameterServer(method, step, np.zeros(d), n, **options)


def everything(server):
    """All that a report may change, as bytes and numbers, but for what is known of the workers."""
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in server.arrays().items()}
    counts = (server.version, server.reports, server.arrived, server.fades, tuple(server.roster.counted_ages))
    return arrays, counts, server.changed.tobytes()


# Versions and ages ---------------------------------------------------------------------------------------------------


def test_join_pull_push_leave():
    server = ParameterServer(SIAG, STEPS, np.zeros(2), ["a", "b"])
    ticket = server.join("b", now=1.0)
    assert (ticket.row, ticket.version, ticket.samples) == (1, 0, 0)
    server.push(1, stamp=0, message=np.array([2.0, -4.0]), sample=0, now=2.0)
    eta = 0.6 / 60
    assert server.w.tolist() == [-eta / 2 * 2.0, eta / 2 * 4.0]
    assert server.join(1, now=3.0) == server.join("b", now=3.0)
    assert (server.join("b", now=3.0).version, server.join("b", now=3.0).samples) == (1, 1)
    server.leave(1, now=4.0, reason="done")
    assert server.members[1].state == "left"
    assert server.join("b", now=5.0).row == 1  # it may come back
    assert server.members[1].state == "working"


def test_w_can_be_read_and_not_written():
    server = make()
    with pytest.raises(ValueError, match="read-only"):
        server.w[0] = 1.0


@pytest.mark.parametrize("name", ["z", "", -1, 3, 99])
def test_an_unknown_worker_is_refused_for_good(name):
    server = make()
    before = everything(server)
    with pytest.raises(Refused, match="not among the 3 workers") as caught:
        server.join(name, now=0.0)
    assert (caught.value.final, caught.value.why) == (True, Verdict.UNKNOWN)
    with pytest.raises(BadInput, match="worker = "):
        server.readmit(name)
    assert everything(server) == before


@pytest.mark.parametrize("row", [-1, 3, 10**9])
def test_a_report_of_an_unknown_row_is_refused(row):
    server = make()
    before = everything(server)
    with pytest.raises(Refused, match="rows 0 to 2") as caught:
        server.push(row, 0, np.ones(D), 0, now=0.0)
    assert caught.value.final
    assert everything(server) == before


class Diary(NamedTuple):
    w: np.ndarray
    ages: np.ndarray
    count: np.ndarray


class Listening(Method):
    """Writes down the ages it is told."""

    def init(self, w0, n):
        return Diary(w0.copy(), np.zeros(1000, np.int64), np.zeros(1, np.int64))


@receive.when(Diary)
def listen(state, i, message, age):
    state.ages[state.count[0]] = age
    state.count[0] += 1


@advance.when(Diary)
def on(state, eta):
    state.w[0] += 1.0


@quick
@given(st.lists(st.tuples(st.integers(0, N - 1), st.booleans()), max_size=60), st.integers(1, 4))
def test_ages_are_measured_from_the_download_stamp_and_versions_count_steps(events, k):
    server = make(Listening(), server=EveryArrivals(k))
    stamp, ages, drawn = [0] * N, [], [0] * N
    for i, reads in events:
        if reads:
            stamp[i] = server.version
        elif stamp[i] >= server.members[i].last:
            ages.append(server.version - stamp[i])
            server.push(i, stamp[i], np.ones(D), drawn[i], now=0.0)
            drawn[i] += 1
    assert server.version == len(ages) // k == server.w[0]
    assert (server.reports, server.arrived) == (len(ages), len(ages) % k)
    assert server.state.ages[: len(ages)].tolist() == ages
    assert sum(server.roster.counted_ages) == len(ages)


@pytest.mark.parametrize("k", [1, 3])
def test_the_server_steps_after_every_k_arrivals(k):
    server = make(server=EveryArrivals(k))
    versions = []
    for sample in range(9):
        server.push(0, server.version, np.ones(D), sample, now=0.0)
        versions.append(server.version)
    assert versions == [(sample + 1) // k for sample in range(9)]


def test_with_ticks_it_steps_when_told_whoever_has_arrived():
    server = make(server=Tick(0.5))
    for sample in range(5):
        server.push(0, 0, np.ones(D), sample, now=0.0)
    assert (server.version, server.w[0]) == (0, 0.0)
    server.tick(now=0.5)
    first = server.w[0]
    server.tick(now=1.0)
    assert server.version == 2
    assert first < 0
    assert server.w[0] < first  # silence is an event: the table still pulls


def test_a_server_that_waits_is_refused_and_so_are_workers_without_names_of_their_own():
    for options, words in (
        ({"server": siag.activity.WaitForAll()}, "a live server waits for nobody"),
        ({"patience": 0.0}, "patience = 0.0"),
        ({"n": 0}, "at least one"),
        ({"n": ["a", "b", "a"]}, "no name twice"),
    ):
        with pytest.raises(BadInput, match=words):
            make(**options)


# Refusals ------------------------------------------------------------------------------------------------------------

GUARD = Guard(age=30, norm=1e3, jump=50.0, strikes=10**6)


def ones(value=1.0, d=D, dtype=np.float64):
    return np.full(d, value, dtype)


def spoilt(value):
    return st.integers(0, D - 1).map(lambda k: np.where(np.arange(D) == k, value, 1.0))


def bad_reports(version, drawn, last):
    """Strategies for (stamp, message, sample), all of them bad."""
    good, later = st.integers(max(last, version - 30), version), st.integers(drawn, drawn + 5)
    return st.one_of(
        st.tuples(good, st.sampled_from([math.nan, math.inf, -math.inf, 1e160]).flatmap(spoilt), later),
        st.tuples(good, st.sampled_from([0, 1, D - 1, D + 1, 100]).map(lambda d: ones(d=d)), later),
        st.tuples(good, st.just(np.ones((D, 1))), later),
        st.tuples(
            good, st.sampled_from([np.float32, np.int64, np.complex128, ">f8"]).map(lambda t: ones(1, D, t)), later
        ),
        st.tuples(st.integers(version + 1, version + 10**6), st.just(ones()), later),
        st.tuples(st.integers(-(10**6), -1), st.just(ones()), later),
        st.tuples(st.integers(0, version - 31), st.just(ones()), later),  # too old
        st.tuples(good, st.just(ones(1e3)), later),  # too large for anybody
        st.tuples(good, st.just(ones(60.0)), later),  # too large for this worker
        st.tuples(good, st.just(ones()), st.integers(-5, drawn - 1)),  # reported before
        st.tuples(good, st.just(ones()), st.just(2**62)),
    )


def practised(**options):
    """A server at version 40, of whose worker 1 much is known."""
    server = make(guard=GUARD, **options)
    for k in range(40):
        i = 1 if k < 30 else k % 2 * 2
        server.push(i, server.version, np.cos(np.arange(D) + k), server.members[i].samples, now=0.1 * k)
    return server


@settings(deadline=None, max_examples=200)
@given(bad_reports(version=40, drawn=30, last=29))
def test_a_refused_report_changes_nothing_at_all(report):
    stamp, message, sample = report
    server = practised()
    before, known = everything(server), [member.saved() for member in server.members]
    kept = message.copy()
    with pytest.raises(Refused) as caught:
        server.push(1, stamp, message, sample, now=5.0)
    assert everything(server) == before
    assert message.tobytes() == kept.tobytes()
    assert "\n" not in caught.value.reason
    assert (caught.value.final, caught.value.blame) == (False, caught.value.why != Verdict.TOO_OLD)
    known[1] |= {"refused": 1, "reason": caught.value.reason}
    assert [member.saved() for member in server.members] == known
    assert server.members[1].strikes == caught.value.blame


@quick
@given(st.data())
def test_a_run_with_refusals_is_the_run_without_them(data):
    one, two = practised(), practised()
    for k in range(data.draw(st.integers(0, 8))):
        for _ in range(data.draw(st.integers(0, 3))):
            member = one.members[1]
            stamp, message, sample = data.draw(bad_reports(one.version, member.samples, member.last))
            with pytest.raises(Refused):
                one.push(1, stamp, message, sample, now=5.0 + k)
        for server in (one, two):
            server.push(1, server.version, np.sin(np.arange(D) + k), server.members[1].samples, now=5.5 + k)
    assert everything(one) == everything(two)


def test_a_worker_must_read_after_its_report_before_it_reports_again():
    """Otherwise two of its gradients would be on their way at once, which no trace could tell apart."""
    server = make()
    server.push(0, 0, ones(), 0, now=0.0)
    server.push(1, 0, ones(), 0, now=0.0)
    server.push(0, 0, ones(), 1, now=0.0)  # from the very version its report arrived at
    with pytest.raises(Refused) as caught:
        server.push(0, 0, ones(), 2, now=0.0)
    assert caught.value.why == Verdict.BEFORE_ITS_LAST
    server.push(0, 2, ones(), 2, now=0.0)


def test_refusals_are_counted_for_each_worker_and_a_good_report_ends_a_row_of_them():
    server = make(guard=Guard(strikes=3))
    for sample in range(4):
        for _ in range(2):
            with pytest.raises(Refused) as caught:
                server.push(0, 0, ones(math.nan), 99, now=0.0)
            assert not caught.value.final
        server.push(0, server.version, ones(), sample, now=0.0)
    assert [member.refused for member in server.members] == [8, 0, 0]
    assert server.members[0].strikes == 0
    assert server.snapshot(0.0).refused == 8


def test_strikes_in_a_row_are_final_and_nothing_brings_the_worker_back():
    server = make(guard=Guard(strikes=3))
    server.join(0, now=0.0)
    finals = []
    for _ in range(3):
        with pytest.raises(Refused) as caught:
            server.push(0, 0, ones(math.inf), 0, now=0.0)
        finals.append(caught.value.final)
    assert finals == [False, False, True]
    with pytest.raises(Refused, match=r"worker 0: refused 3 times, last: not finite") as caught:
        server.join(0, now=1.0)
    assert caught.value.final
    before = everything(server)
    for late in (ones(), ones(d=D + 1)):  # a good one, and one that is not even looked at
        with pytest.raises(Refused) as caught:
            server.push(0, 0, late, 0, now=1.0)
        assert (caught.value.final, caught.value.why) == (True, Verdict.BANNED)
    server.members[0].go_away("")
    server.leave(0, now=2.0)
    assert server.members[0].state == "refused"
    with pytest.raises(Refused):
        server.join("0", now=3.0)
    assert everything(server) == before
    server.push(1, 0, ones(), 0, now=4.0)  # the others go on
    assert server.snapshot(4.0).workers[0].state == "refused"


def restarted(server):
    again = make(guard=server.guard)
    again.restore(json.loads(json.dumps(server.meta(1.0))), now=9.0)
    return again


def readmitted(server):
    assert server.readmit("0")
    assert not server.readmit(0)  # once is enough
    assert server.members[0].state == State.AWAY
    return server


@pytest.mark.parametrize("pardoned", [restarted, readmitted])
def test_a_worker_that_was_refused_may_try_again_after_a_restart_or_once_it_is_readmitted(pardoned):
    server = make(guard=Guard(strikes=2))
    for _ in range(2):
        with pytest.raises(Refused):
            server.push(0, 0, ones(math.inf), 0, now=0.0)
    with pytest.raises(Refused, match="last: not finite"):
        server.join(0, now=0.5)
    again = pardoned(server)
    again.join(0, now=9.0)
    with pytest.raises(Refused) as caught:
        again.push(0, 7, ones(), 0, now=9.0)
    assert not caught.value.final  # its strikes are counted anew
    again.push(0, 0, ones(), 0, now=9.0)
    assert (again.version, again.members[0].state) == (1, State.WORKING)


def test_a_worker_that_is_only_slow_is_never_refused_for_good():
    server = make(guard=Guard(age=2, strikes=3))
    for k in range(10):
        server.push(1, server.version, ones(), k, now=0.0)
    for _ in range(20):
        with pytest.raises(Refused) as caught:
            server.push(0, 0, ones(), 0, now=0.0)
        assert (caught.value.final, caught.value.why) == (False, Verdict.TOO_OLD)
    assert server.members[0].refused == 20
    server.push(0, server.version, ones(), 0, now=0.0)


def test_a_norm_that_a_worker_has_found_itself_is_believed():
    server = make(guard=Guard(norm=10.0))
    server.push(0, 0, ones(), 0, now=0.0, square=4.0)
    with pytest.raises(Refused, match="norm 20"):
        server.push(0, 1, ones(), 1, now=0.0, square=400.0)
    with pytest.raises(Refused, match="not finite"):
        server.push(0, 1, ones(), 1, now=0.0, square=math.nan)


def test_messages_may_lie_in_memory_as_they_like():
    plain, server = make(), make()
    for k in range(6):
        values = np.sin(np.arange(D) + k)
        frozen = values.copy()
        frozen.setflags(write=False)
        shifted = np.frombuffer(b"x" + values.tobytes(), np.uint8)[1:].view(np.float64)
        forms = [values, frozen, np.repeat(values, 2)[::2], values[::-1].copy()[::-1], shifted, values]
        plain.push(0, k, values, k, now=0.0)
        server.push(0, k, forms[k], k, now=0.0)
    assert everything(plain) == everything(server)


# Departures ----------------------------------------------------------------------------------------------------------

moves = st.one_of(
    st.tuples(st.just("push"), st.integers(0, N - 1), st.floats(-1e3, 1e3)),
    st.tuples(st.sampled_from(["leave", "join", "away", "bad"]), st.integers(0, N - 1), st.just(0.0)),
    st.tuples(st.just("tick"), st.just(0), st.just(0.0)),
)


def play(server, plan, now=0.0):
    """Let moves happen, a quarter of a second apart; return the time of the last."""
    for what, i, value in plan:
        now += 0.25
        if what == "push":
            message = value * np.cos(np.arange(D) + server.members[i].samples)
            server.push(i, server.version, message, server.members[i].samples, now)
        elif what == "tick":
            server.tick(now)
        elif what == "leave":
            server.leave(i, now, "bye")
        elif what == "away":
            server.members[i].go_away("")
        elif what == "bad":
            with pytest.raises(Refused):
                server.push(i, -1, ones(), 0, now)
        else:
            server.join(i, now)
    return now


@pytest.mark.parametrize("rows", ["float64", "float32"])
@pytest.mark.parametrize("departed", POLICIES, ids=repr)
@quick
@given(plan=st.lists(moves, max_size=60), resum=st.integers(0, 3))
def test_the_total_is_the_sum_of_the_rows_whoever_comes_and_goes(rows, departed, plan, resum):
    server = make(siag.methods.SIAG(rows=rows, resum=resum), departed=departed, guard=GUARD_OFF)
    for move in plan:
        play(server, [move])
        total = server.state.rows.astype(float).sum(axis=0)
        np.testing.assert_allclose(server.state.total, total, rtol=0, atol=1e-9)


@pytest.mark.parametrize("departed", POLICIES, ids=repr)
def test_only_the_row_of_the_departed_fades_and_only_until_it_reports_again(departed):
    server = make(departed=departed)
    for i in range(N):
        server.push(i, server.version, ones(i + 1.0), 0, now=0.0)
    server.leave(1, now=0.0)
    server.leave(1, now=0.0)  # once is enough
    for k in range(4):
        server.push(0, server.version, ones(), k + 1, now=0.0)
    fades = [k for k in range(4, 8) if k % departed.every == 0] if 0 < departed.half_life < math.inf else []
    expected = 2.0 * departed.factor ** len(fades) if departed != DROP else 0.0
    assert server.state.rows[1] == pytest.approx(ones(expected))
    assert server.state.rows[2].tolist() == ones(3.0).tolist()
    assert server.fades == (1 if departed == DROP else len(fades))
    server.join(1, now=1.0)
    server.push(1, server.version, ones(5.0), 1, now=1.0)
    for k in range(40):
        server.push(0, server.version, ones(), k + 5, now=1.0)
    assert server.state.rows[1].tolist() == ones(5.0).tolist()


def test_after_sixty_four_half_lives_nothing_is_left_and_nothing_is_done_any_more():
    server = make(departed=Departed(10.0), server=Tick(1.0))
    for i in range(N):
        server.push(i, 0, ones(), 0, now=0.0)
    server.leave(2, now=0.0)
    for _ in range(10 * 64 + 20):
        server.tick(now=0.0)
    assert not server.state.rows[2].any()
    fades = server.fades
    server.changed[:] = False
    for _ in range(100):
        server.tick(now=0.0)
    assert server.fades == fades
    assert not server.changed.any()


CURVATURE, CENTERS = np.array([1.0, 2.0, 0.5]), np.array([[0.0, 1.0], [1.0, -1.0], [4.0, 3.0]])


def gradient(i, w):
    """Of F_i(w) = a_i/2 ‖w − c_i‖²."""
    return CURVATURE[i] * (w - CENTERS[i])


def minimiser(workers, pull=0.0):
    """Where Σ ∇F_i(w) + pull = 0."""
    a = CURVATURE[workers]
    return (a @ CENTERS[workers] - pull) / a.sum()


def rounds(server, workers, count):
    """The workers report their exact gradients in turn."""
    for k in range(count):
        i = workers[k % len(workers)]
        server.push(i, server.version, gradient(i, server.w), server.members[i].samples, now=0.0)


def depart(departed, after=5):
    """A server that worker 2 has left while w was still on its way; and its last gradient."""
    server = make(step=siag.steps.Constant(0.05), d=2, departed=departed, guard=GUARD_OFF)
    rounds(server, [0, 1, 2], 3 * after)
    pull = server.state.rows[2].copy()
    server.leave(2, now=0.0)
    return server, pull


def test_all_present_the_minimiser_is_that_of_the_average():
    server, _ = depart(KEEP, after=1000)
    np.testing.assert_allclose(server.w, minimiser([0, 1, 2]), atol=1e-12)


def test_a_row_that_is_kept_pulls_as_it_did_last():
    server, pull = depart(KEEP)
    rounds(server, [0, 1], 3000)
    np.testing.assert_allclose(server.w, minimiser([0, 1], pull), atol=1e-12)
    assert np.linalg.norm(server.w - minimiser([0, 1, 2])) > 0.05  # right only near where it was computed
    near, _ = depart(KEEP, after=1000)
    rounds(near, [0, 1], 3000)
    np.testing.assert_allclose(near.w, minimiser([0, 1, 2]), atol=1e-12)


def test_once_a_row_is_dropped_the_model_is_that_of_those_who_are_left():
    server, _ = depart(DROP)
    rounds(server, [0, 1], 3000)
    np.testing.assert_allclose(server.w, minimiser([0, 1]), atol=1e-12)


def test_those_who_are_left_go_on_at_the_same_speed():
    """One of three has left: w moves as in a run of the other two alone."""
    server, _ = depart(DROP)
    alone = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.05), server.w.copy(), 2, guard=GUARD_OFF)
    alone.state.rows[:] = server.state.rows[:2]
    alone.state.total[:] = server.state.total
    for i in (0, 1):
        alone.join(i, 0.0)
    for k in range(50):
        for one in (server, alone):
            row, samples = k % 2, one.members[k % 2].samples
            one.push(row, one.version, gradient(row, one.w), samples, now=0.0)
        np.testing.assert_allclose(server.w, alone.w, rtol=1e-12)


def test_dropping_is_the_default_and_the_last_row_stays_until_another_worker_reports():
    server = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.1), np.zeros(1), 3)
    for i in range(3):
        server.join(i, 0.0)
        server.push(i, server.version, np.ones(1), 0, now=0.0)
    for i, rows in ((0, [0, 1, 1]), (2, [0, 1, 0]), (1, [0, 1, 0])):
        server.leave(i, now=1.0)
        assert server.state.rows[:, 0].tolist() == rows
    assert (server.gone, server.fading) == ({0, 2}, {1: 0})
    again = second_life(server, 1.0)
    assert (again.gone, again.fading) == ({0, 2}, {1: 0})
    server.join(2, 2.0)
    server.push(2, server.version, np.full(1, 5.0), 1, now=2.0)
    assert server.state.rows[:, 0].tolist() == [0, 0, 5]
    assert (server.gone, server.fading) == ({0, 1}, {})


def test_a_row_that_decays_leads_slowly_from_the_one_to_the_other():
    """The half-life is thirty times as long as w needs, so w follows the minimiser of the moment to a few percent."""
    half_life = 1600
    server, pull = depart(Departed(half_life))
    whole = np.linalg.norm(minimiser([0, 1], pull) - minimiser([0, 1]))
    for halvings in range(1, 5):
        rounds(server, [0, 1], half_life)
        share = np.linalg.norm(server.state.rows[2]) / np.linalg.norm(pull)
        assert share == pytest.approx(0.5**halvings, rel=0.1)
        behind = np.linalg.norm(server.w - minimiser([0, 1], 0.5**halvings * pull))
        assert behind < 0.1 * whole * 0.5**halvings
    rounds(server, [0, 1], 64 * half_life)
    np.testing.assert_allclose(server.w, minimiser([0, 1]), atol=1e-12)


# A second life -------------------------------------------------------------------------------------------------------


class Ball(NamedTuple):
    w: np.ndarray  # the table's own
    table: Table
    velocity: np.ndarray


class HeavyBall(Method):
    """A state within a state."""

    def init(self, w0, n):
        rows = table(w0, n, 2, 0.0)
        return Ball(rows.w, rows, np.zeros(w0.size))


@receive.when(Ball)
def store(state, i, message, age):
    receive(state.table, i, message, age)


@advance.when(Ball)
def roll(state, eta):
    for j in range(state.w.size):
        state.velocity[j] = 0.5 * state.velocity[j] - eta * state.table.total[j]
        state.w[j] += state.velocity[j]


def second_life(first, now, **options):
    """Another server that goes on where the first is: through text and bytes, as on disk."""
    again = make(first.method, **options)
    saved = {name: array.copy() for name, array in first.arrays().items()}
    for name, array in again.arrays().items():
        array[...] = saved[name]
    again.restore(json.loads(json.dumps(first.meta(now))), now)
    return again


METHODS = [SIAG, siag.methods.SIAG(resum=1, rows="float32", wait=0.7), siag.methods.SGD(), HeavyBall()]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: repr(method)[:20])
@quick
@given(
    plan=st.lists(moves, max_size=60),
    cut=st.integers(0, 60),
    k=st.integers(1, 3),
    departed=st.sampled_from(POLICIES),
)
def test_a_restored_server_goes_on_bit_for_bit(method, plan, cut, k, departed):
    options = {"server": EveryArrivals(k), "departed": departed, "guard": GUARD_OFF}
    straight = make(method, **options)
    play(straight, plan)
    first = make(method, **options)
    now = play(first, plan[:cut])
    again = second_life(first, now, **options)
    play(again, plan[cut:], now)
    one, two = everything(straight), everything(again)
    assert one[:2] == two[:2]  # which rows must be saved is another matter
    end = 0.25 * len(plan) + 1.0
    one, two = straight.meta(end), again.meta(end)
    for member in one["members"] + two["members"]:
        del member["usual"], member["longest"]  # the time around a restart is no habit
    assert one == two


@pytest.mark.parametrize("method", [*METHODS, siag.methods.LAG()], ids=lambda method: repr(method)[:20])
@pytest.mark.parametrize(
    "step", [STEPS, siag.steps.DelayAdaptive(0.7, horizon=5)], ids=lambda step: type(step).__name__
)
def test_a_server_that_was_pickled_goes_on_bit_for_bit(method, step):
    plan = [(what, i, 1.0 + k) for k in range(3) for i in range(N) for what in ("push", "bad", "join", "push")]
    plan.insert(9, ("leave", 1, 0.0))
    server = make(method, step, departed=Departed(10.0), guard=GUARD_OFF)
    now = play(server, plan)
    again = pickle.loads(pickle.dumps(server))
    for each in (server, again):
        end = play(each, plan[::-1], now)
        each.warm_up()
    assert everything(server) == everything(again)
    assert server.snapshot(end) == again.snapshot(end)
    assert server.ledger.tobytes() == again.ledger.tobytes()
    read = np.empty(again.shown.size)
    again.pull(read)
    assert np.array_equal(read, server.shown)
    assert np.shares_memory(again.shown, again.state.w)


def test_all_arrays_are_saved_those_of_a_state_within_the_state_too():
    assert sorted(make(HeavyBall()).arrays()) == [
        "table.gone",
        "table.rows",
        "table.seen",
        "table.tally",
        "table.total",
        "velocity",
        "w",
    ]
    server = make()
    server.state.rows[1] = 7.0
    assert server.arrays()["rows"] is server.state.rows


def test_what_came_after_a_save_is_gone_when_that_is_restored_once_more():
    server = make(guard=GUARD_OFF)
    saved, arrays = json.loads(json.dumps(server.meta(0.0))), {k: a.copy() for k, a in server.arrays().items()}
    server.restore(saved, now=1.0)
    for k in range(30):
        server.push(0, server.version, ones(1e9), k, now=2.0 + k)
    for name, array in server.arrays().items():
        array[...] = arrays[name]
    server.restore(saved, now=50.0)
    assert server.meta(60.0) == saved
    assert server.seconds(60.0) == 0.0
    assert server.ledger[:, LARGEST].max() == 0.0
    assert server.snapshot(60.0).rate == 0.0


def test_a_restored_server_shows_who_was_there_and_is_not_yet_back():
    server = ParameterServer(SIAG, STEPS, np.zeros(D), ["a", "b", "c", "d"], guard=GUARD_OFF)
    for row in (0, 1):
        server.join(row, now=0.0)
        server.push(row, server.version, ones(), 4, now=1.0)
    server.leave(1, now=2.0)
    server.join(2, now=2.0)
    again = ParameterServer(SIAG, STEPS, np.zeros(D), ["e", "f", "g", "h"])
    again.restore(json.loads(json.dumps(server.meta(11.0))), now=500.0)
    assert [member.state for member in again.members] == ["away", "left", "away", "expected"]
    assert again.seconds(500.0) == 10.0  # as if it had never been gone
    assert again.join("a", now=500.0).samples == 5
    with pytest.raises(Refused):
        again.join("e", now=500.0)
    shown = again.snapshot(500.0)
    assert (shown.version, shown.reports, sum(shown.ages)) == (2, 2, 2)


def test_a_server_that_is_started_again_with_other_options_does_not_get_stuck():
    server = make(server=EveryArrivals(10), departed=Departed(5.0))
    for sample in range(7):
        server.push(0, 0, ones(), sample, now=0.0)
    server.leave(1, now=0.0)
    sooner = second_life(server, 0.0, server=EveryArrivals(3), departed=KEEP)
    sooner.push(0, 0, ones(), 7, now=0.0)
    assert sooner.version == 1
    assert sooner.fades == 0


def test_time_is_counted_from_the_first_report():
    server = make()
    server.join(0, now=100.0)
    assert server.seconds(200.0) == 0.0
    again = make()
    again.restore(server.meta(250.0), now=300.0)
    again.push(0, 0, ones(), 0, now=400.0)
    assert again.seconds(401.5) == 1.5


def test_the_rows_that_changed_are_known():
    server = make(departed=DROP)
    server.push(2, 0, ones(), 0, now=0.0)
    server.leave(0, now=0.0)
    assert np.flatnonzero(server.changed).tolist() == [0, 2]


# What is shown -------------------------------------------------------------------------------------------------------


def test_a_snapshot_tells_how_things_stand():
    server = ParameterServer(SIAG, STEPS, np.zeros(D), ["a", "b", "c", "d", "e"], patience=2.0)
    for row in range(4):
        server.join(row, now=0.0)
        server.push(row, 0 if row == 3 else server.version, ones(), 0, now=0.0)
    server.leave(1, now=1.0, reason="its stream ended")
    server.members[2].go_away("killed")
    server.push(0, 4, ones(), 1, now=9.0)
    shown = server.snapshot(10.0)
    assert [worker.state for worker in shown.workers] == ["working", "left", "away", "stalled", "expected"]
    assert [worker.reports for worker in shown.workers] == [2, 1, 1, 1, 0]
    assert [worker.age for worker in shown.workers] == [1, 4, 3, 5, -1]
    assert [worker.silent for worker in shown.workers] == [1.0, 9.0, 10.0, 10.0, math.inf]
    assert [worker.reason for worker in shown.workers] == ["", "its stream ended", "killed", "", ""]
    assert (shown.version, shown.reports, shown.refused, shown.seconds) == (5, 5, 0, 10.0)
    assert shown.ages == (4, 0, 1)  # ages 0, 0, 0, 3, 0
    assert json.loads(json.dumps(shown.as_dict()))["workers"][4]["silent"] is None


@pytest.mark.parametrize("k", [1, 4])
def test_the_rate_shown_is_steps_per_second(k):
    server = make(server=EveryArrivals(k), guard=GUARD_OFF)
    server.snapshot(0.0)
    for look in range(1, 61):
        for report in range(20):
            server.push(0, server.version, ones(), server.members[0].samples, now=look - 1 + report / 20)
        shown = server.snapshot(float(look))
    assert shown.rate == pytest.approx(20 / k, rel=0.01)
    assert shown.workers[0].rate == pytest.approx(20, rel=0.01)
    assert server.snapshot(60.01).rate == shown.rate  # too soon to tell anything new


def test_a_sign_of_life_is_no_work_so_the_worker_is_shown_as_stalled():
    server = make(patience=2.0)
    server.join(0, now=0.0)
    assert server.snapshot(3.0).workers[0].state == State.STALLED
    server.members[0].heard = 3.0
    view = server.snapshot(4.0).workers[0]
    assert (view.state, view.silent) == (State.STALLED, 1.0)
    server.push(0, 0, ones(), 0, now=4.0)
    assert server.snapshot(5.0).workers[0].state == State.WORKING


def test_after_a_restart_a_slow_worker_is_not_taken_for_a_stalled_one():
    server = make()
    server.join(0, now=0.0)
    for k in range(5):
        server.push(0, k, ones(), k, now=100.0 * (k + 1))
    again = second_life(server, 500.0)
    again.join(0, now=600.0)
    assert [again.snapshot(600.0 + silent).workers[0].state for silent in (900, 1100)] == ["working", "stalled"]


# Divergence ----------------------------------------------------------------------------------------------------------


def test_a_step_that_is_too_large_is_named_as_the_cause():
    server = make(step=siag.steps.Constant(10.0), d=2, guard=Guard(jump=None))
    with pytest.raises(Diverged, match=r"left the range of numbers at version \d+; use a smaller step"):
        rounds(server, [0, 1, 2], 1000)
    assert server.version <= 200


def test_workers_are_not_blamed_for_what_they_compute_from_a_w_that_is_lost():
    """w is looked at now and then only; meanwhile gradients become infinite, and that is not the workers' fault."""
    server = make(step=siag.steps.Constant(1e40), d=2, guard=Guard(jump=None, strikes=1))
    with pytest.raises(Diverged, match="use a smaller step"):
        rounds(server, [0, 1, 2], 63)
    assert server.version < 60
    assert all(member.refused == 0 for member in server.members)


# The same as the simulator -------------------------------------------------------------------------------------------

PROBLEMS = [
    siag.problems.LeastSquares.random(n=N, d=D, p=3, noise=0.1, seed=2),
    siag.problems.LogisticRegression.random(n=N, d=D, m=7, seed=3),
]


class Hand:
    """Workers of a problem, moved by hand: worker i's k-th sample is that of the simulator."""

    def __init__(self, problem, server, seed):
        self.problem, self.server, self.seed = problem, server, seed
        self.oracle, self.memory = problem.oracle(), server.method.recruit(np.zeros(problem.d), problem.n)
        self.drawn, self.flying = [0] * problem.n, {}

    def read(self, i):
        """Worker i reads w and computes; what it had computed before is lost."""
        rng, message = blank(), np.empty(self.problem.d)
        rewind(rng, key(self.seed, 0, SAMPLES), i, self.drawn[i])
        sent = compute(self.memory, self.oracle, rng, i, self.server.w, message)
        self.flying[i] = (self.server.version, message, self.drawn[i], sent)
        self.drawn[i] += 1

    def report(self, i, now):
        stamp, message, sample, sent = self.flying.pop(i)
        if sent:
            self.server.push(i, stamp, message, sample, now)


CLOCKS = [
    Clock(compute=Exponential(1.0), slowness=[1.0, 2.0, 7.0]),
    Clock(compute=LogNormal(1.0), travel=Exponential(0.3), server=EveryArrivals(3), availability=OnOff(5.0, 2.0)),
    Clock(compute=Exponential(1.0), server=Tick(0.2), slowness=[1.0, 2.0, 7.0]),
]


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: repr(clock.server))
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("method", [SIAG, siag.methods.SGD(), siag.methods.IAG(wait=1.0)], ids=repr)
def test_run_along_a_clock_it_does_what_the_simulator_does_bit_for_bit(method, problem, clock, tmp_path):
    server = ParameterServer(method, STEPS, np.zeros(problem.d), N, server=clock.server, guard=GUARD_OFF)
    server.trace = TraceWriter(tmp_path / "trace", {"workers": N})
    hand, iterates, ages = Hand(problem, server, seed=5), [], []
    for chunk in clock.events(N, 200, seed=5, repeat=0, cost=D):
        for code, age, now in zip(chunk.code.tolist(), chunk.age.tolist(), chunk.time.tolist(), strict=True):
            if code == STEP:
                if isinstance(clock.server, Tick):
                    server.tick(now)
                iterates.append(float(np.square(server.w - problem.optimum).sum()))
                assert server.version == len(iterates)
            elif code < 0:
                hand.read(-1 - code)
            else:
                stamp = hand.flying[code][0]
                ages.append((server.version - stamp, age))
                hand.report(code, now)
    run = siag.simulate(problem, method, clock, STEPS, iterations=200, seed=5, record=10**5)
    assert np.array_equal(server.w, run.w[0])
    np.testing.assert_allclose(iterates, run.error[0, 1:], rtol=1e-12)
    assert all(mine == its for mine, its in ages)
    # And so does its trace.
    server.trace.close(server.version)
    trace = Trace.read(tmp_path / "trace")
    again = siag.simulate(problem, method, trace, STEPS, iterations=200, seed=5, record=10**5)
    assert np.array_equal(again.w, run.w)
    assert np.array_equal(again.error, run.error)


def test_reports_from_one_version_are_taken_together_once_k_have_arrived():
    server = make(siag.methods.SGD(normalization="sum"), server=EveryArrivals(3))
    for i in (2, 0, 1):
        server.push(i, 0, ones(float(i)), 0, now=0.0)
    eta = 0.6 / 60
    assert server.w.tolist() == [-(eta / 3) * 3.0] * D


def test_a_pull_gives_a_copy_of_w_and_its_version():
    server = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.5), np.zeros(2), workers=1)
    server.join(0, now=0.0)
    read = np.empty(2)
    assert server.pull(read) == 0
    server.push(0, stamp=0, message=np.array([1.0, -2.0]), sample=0, now=0.1)
    assert read.tolist() == [0.0, 0.0]
    assert server.pull(read) == 1
    assert read.tolist() == server.w.tolist() == [-0.5, 1.0]
