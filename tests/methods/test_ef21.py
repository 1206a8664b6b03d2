"""EF21: the paper's pseudo-code, what travels, and what a worker that lost its memory means."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from drawn import Drawn, some_reports
from plain import as_python, conform, simulate
from refusals import refused
from siag.activity import Clock, EveryArrivals, Everyone, Exponential, Recorded
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import blank
from siag.methods import EF21, IAG, advance, compute, fade, forget, receive, shown
from siag.methods.ef21 import threshold
from siag.problems import Ridge
from siag.server import ParameterServer
from siag.steps import Constant

N, D, T = 5, 6, 60
RIDGE = Ridge.random(n=N, d=D, m=9, tilt=0.5, regularization=0.1, seed=2)
TRACE = some_reports(N, T, seed=1)


def top(x, k):
    """C: the k largest coordinates, of equal ones the first; all others are 0."""
    kept = np.argsort(-np.abs(x), kind="stable")[:k]
    out = np.zeros(x.size)
    out[kept] = x[kept]
    return out


def algorithm(k, eta, momentum, exact, crashes=()):
    """Fatkhullin et al., Algorithm 1, along the trace, its server with the sum of the g_i alone.

    `crashes` are pairs (iteration, worker); as the server then lets go of g_i, so does the sum.
    """
    drawn, w = Drawn(RIDGE, 4), np.zeros(D)
    v, g, total, ever = np.zeros((N, D)), np.zeros((N, D)), np.zeros(D), set()
    for t, active in enumerate(TRACE):
        lost = {who for when, who in crashes if when <= t and who in active}
        crashes = [(when, who) for when, who in crashes if who not in lost]
        for i in lost:
            total = total - g[i]
            g[i] = 0.0
            ever.discard(i)
        for i in active:
            gradient = RIDGE.gradient(i, w) if exact else drawn.at(i, w)[0]
            v[i] = (1 - momentum) * v[i] + momentum * gradient if i in ever else gradient
            ever.add(i)
            c = top(v[i] - g[i], k)
            g[i] = g[i] + c
            total = total + c
        w = w - eta / N * total
    return w


@pytest.mark.parametrize("k", [1, 2, D])
@pytest.mark.parametrize(("momentum", "gradients"), [(None, "exact"), (0.3, "sample"), (1.0, "sample")])
def test_it_does_what_the_papers_write(k, momentum, gradients):
    run = simulate(
        RIDGE, EF21(k=k, momentum=momentum, gradients=gradients), Recorded(TRACE), Constant(0.1), iterations=T, seed=4
    )
    expected = algorithm(k, 0.1, momentum or 1.0, gradients == "exact")
    assert expected.any()
    np.testing.assert_allclose(run.w[0], expected, rtol=0, atol=1e-9)


def test_it_conforms():
    conform(EF21(k=2, momentum=0.5), skip=["all_active_is_gradient_descent"])  # 2 of 3 coordinates are not all


def test_if_all_coordinates_are_sent_it_conforms_in_everything_and_is_iag():
    conform(EF21(k=3))
    both = [
        simulate(RIDGE, method, Recorded(TRACE), Constant(0.1), iterations=T).w[0]
        for method in (EF21(k=D, gradients="exact"), IAG())
    ]
    np.testing.assert_allclose(*both, rtol=1e-12)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, np.inf]) | st.floats(0, 10), min_size=1, max_size=30), st.data()
)
def test_the_threshold_is_the_kth_largest_whatever_the_numbers(numbers, data):
    k = data.draw(st.integers(1, len(numbers)))
    assert threshold(np.array(numbers), k) == sorted(numbers, reverse=True)[k - 1]


# What travels


def messages(method, points, i=0):
    """What a worker sends from these points, one after the other."""
    memory, oracle, out = method.recruit(np.zeros(D), N), RIDGE.oracle(), np.full(method.message(D, N), np.nan)
    for w in points:
        assert compute(memory, oracle, blank(), i, w, out)
        yield out.copy()


def test_a_report_is_k_values_k_indices_and_whether_it_is_the_first():
    method, points = EF21(k=2, gradients="exact"), np.random.default_rng(0).standard_normal((6, D))
    assert method.message(D, N) == 5
    assert method.traffic(D, N) == (5, D)
    picture = np.zeros(D)
    for number, (w, sent) in enumerate(zip(points, messages(method, points), strict=True)):
        gradient = RIDGE.gradient(0, w)
        where = sent[2:4].astype(int)
        assert np.array_equal(sent[:2], gradient[where])
        assert set(where) == set(np.flatnonzero(top(gradient - picture, 2)))
        picture[where] = sent[:2]
        assert sent[4] == (number == 0)


def test_bytes_are_those_of_what_travels():
    run = simulate(RIDGE, EF21(k=2), Recorded(TRACE), Constant(0.1), iterations=T)
    reports = sum(map(len, TRACE))
    assert run.bytes[0, -1] == 8 * reports * (5 + D)


def test_what_is_not_a_number_is_sent_and_noticed():
    first, second = messages(EF21(k=1), [np.ones(D), np.array([1.0, np.nan, 1.0, 1.0, 1.0, 1.0])])
    assert np.isfinite(first).all()
    assert np.isnan(second[0])


def test_an_index_that_is_none_changes_nothing():
    state = EF21(k=2).init(np.zeros(3), 1)
    for index in (-1.0, 3.0, 1e300, -1e300, 2.999):
        receive(state, 0, np.array([7.0, 1.0, index, 0.0, 0.0]), 0)
    assert state.table.rows.tolist() == [[1.0, 0.0, 7.0]]
    assert np.array_equal(state.table.total, state.table.rows[0])


def test_a_server_measures_the_values_and_not_their_indices():
    server = ParameterServer(EF21(k=1), Constant(0.1), np.zeros(9), 2)
    server.join(0, 0.0)
    with as_python():
        server.push(0, 0, np.array([3.0, 8.0, 1.0]), 0, 0.1)
    assert server.members[0].largest == 3.0
    assert np.allclose(server.w, [0.0] * 8 + [-0.15])


# Crashes and departures


def test_a_worker_that_lost_its_memory_says_so_and_nothing_remains_of_what_it_sent_before():
    method = EF21(k=2, gradients="exact")
    state, memory, oracle = method.init(np.zeros(D), N), method.recruit(np.zeros(D), N), RIDGE.oracle()
    out, w, lost = np.empty(5), np.zeros(D), [(20, 1), (33, 4)]
    waiting = dict.fromkeys(())
    for t, active in enumerate(TRACE):
        waiting |= {who: None for when, who in lost if when == t}
        for i in active:
            if i in waiting:
                del waiting[i]
                forget(memory, i)
            compute(memory, oracle, blank(), i, shown(state), out)
            receive(state, i, out, 0)
        advance(state, 0.1)
    w = algorithm(2, 0.1, 1.0, True, crashes=lost)
    np.testing.assert_allclose(state.w, w, rtol=0, atol=1e-9)
    assert np.array_equal(state.table.rows, memory.own)


def test_a_row_that_was_dropped_comes_back_with_the_next_report():
    state = EF21(k=1).init(np.zeros(2), 2)
    receive(state, 0, np.array([2.0, 0.0, 1.0]), 0)
    receive(state, 1, np.array([4.0, 1.0, 1.0]), 0)
    fade(state, 0, 0.0)
    advance(state, 0.5)
    assert state.w.tolist() == [0.0, -2.0]
    for k in range(2):
        receive(state, 0, np.array([2.0, 0.0, 1.0 - k]), 0)
        advance(state, 0.5)
    assert state.w.tolist() == [-1.0, -4.0]


def test_on_a_clock_both_ends_have_the_same_picture():
    clock = Clock(Exponential(1.0), slowness=[1.0, 2.0, 3.0, 4.0, 5.0], server=EveryArrivals(2))
    run = simulate(RIDGE, EF21(k=2, gradients="exact"), clock, Constant(0.1), iterations=300)
    assert run.error[0, -1] < 1e-2 * run.error[0, 0]


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("k", 0, "at least 1"),
        ("k", 1.5, "a whole number"),
        ("momentum", 0.0, "above 0 and at most 1"),
        ("momentum", -0.5, "above 0 and at most 1"),
        ("momentum", 1.1, "above 0 and at most 1"),
        ("gradients", "all", "one of"),
    ],
)
def test_parameters_without_a_meaning_are_refused_with_the_range(parameter, value, words):
    with refused(parameter) as found:
        EF21(**{"k": 1} | {parameter: value})
    assert words in str(found.value)


def test_more_coordinates_than_there_are_are_refused_before_a_run_with_the_range():
    method = EF21(k=D + 1)
    for call in (
        lambda: siag.simulate(RIDGE, method, Everyone(), Constant(0.1), iterations=3),
        lambda: siag.train(problem=RIDGE, method=method, step=Constant(0.1), until=3),
        lambda: ParameterServer(method, Constant(0.1), np.zeros(D), N),
        lambda: method.init(np.zeros(D), N),
    ):
        with pytest.raises(Unsuitable, match=r"^EF21 cannot send k = 7 of 6 coordinates; use a k from 1 to 6$"):
            call()
