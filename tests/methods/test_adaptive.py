"""Adam, Yogi and Adagrad at the server: Algorithm 2 of Reddi et al., and what stands around it."""

import numpy as np
import pytest

from drawn import Drawn, some_reports
from plain import conform, simulate
from refusals import refused
from siag.activity import Recorded
from siag.foundations.errors import Unsuitable
from siag.methods import SGD, SIAG, Adagrad, Adam, Averaged, FedAvg, Momentum, Prox, Yogi, advance, receive
from siag.problems import Ridge
from siag.steps import Constant, Harmonic

N, D, T = 5, 3, 60
RIDGE = Ridge.random(n=N, d=D, m=6, tilt=0.5, regularization=0.1, seed=2)
TRACE = some_reports(N, T, seed=1)
KINDS = [Adam, Yogi, Adagrad]


def algorithm_2(kind, deltas, eta, b1, b2, tau):
    """FedOpt's server: `deltas` is a function that gives Δ_t for w, or None if nobody took part in a round."""
    w, m, v = np.zeros(D), np.zeros(D), np.full(D, tau**2)
    for t, active in enumerate(TRACE):
        delta = deltas(t, w, active)
        if delta is None:
            continue
        m = b1 * m + (1 - b1) * delta
        if kind is Adagrad:
            v = v + delta**2
        elif kind is Yogi:
            v = v - (1 - b2) * delta**2 * np.sign(v - delta**2)
        else:
            v = b2 * v + (1 - b2) * delta**2
        w = w + eta(t) * m / (np.sqrt(v) + tau)
    return w


def local_models(t, w, active):
    """Δ_t = (1/|S|) Σ (x_i − x), x_i after three steps of 0.05."""
    moves = []
    for i in active:
        y = w
        for _ in range(3):
            y = y - 0.05 * RIDGE.gradient(i, y)
        moves.append(y - w)
    return np.mean(moves, axis=0) if moves else None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("b1", [0.0, 0.9])
def test_around_fedavg_it_is_algorithm_2(kind, b1):
    method = kind(FedAvg(steps=3, size=0.05, gradients="exact"), b1=b1, epsilon=0.01)
    run = simulate(RIDGE, method, Recorded(TRACE), Constant(0.03), iterations=T)
    expected = algorithm_2(kind, local_models, lambda t: 0.03, b1, 0.99, 0.01)
    assert expected.any()
    np.testing.assert_allclose(run.w[0], expected, rtol=0, atol=1e-9)


def test_around_siag_the_gradients_are_the_mean_of_the_table():
    drawn, rows, step = Drawn(RIDGE, 4), np.zeros((N, D)), Harmonic(0.5, 10)

    def table(t, w, active):
        for i in active:
            (rows[i],) = drawn.at(i, w)
        return -rows.mean(axis=0) if rows.any() else None

    run = simulate(RIDGE, Adam(SIAG(), b2=0.9), Recorded(TRACE), step, iterations=T, seed=4)
    expected = algorithm_2(Adam, table, lambda t: step.sizes(np.array([t]))[0], 0.9, 0.9, 1e-3)
    np.testing.assert_allclose(run.w[0], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_it_conforms(kind):
    # Neither is it gradient descent, nor can the means of past moves be rid of a worker's part in them, as w cannot.
    conform(kind(SIAG()), skip=["all_active_is_gradient_descent", "departures_are_obeyed"])


def test_where_the_method_rests_nothing_changes():
    state = Adam(SGD()).init(np.zeros(1), 1)
    receive(state, 0, np.ones(1), 0)
    advance(state, 1.0)
    before = [array.copy() for array in (state.w, state.mean, state.squares)]
    advance(state, 1.0)
    assert all(map(np.array_equal, before, (state.w, state.mean, state.squares)))
    assert before[0] < 0


def test_yogi_and_adam_differ_in_how_fast_they_forget():
    ends = []
    for kind in (Adam, Yogi):
        state = kind(SGD(), b1=0.0, b2=0.9).init(np.zeros(1), 1)
        for gradient in [100.0] * 5 + [1.0] * 100:
            receive(state, 0, np.array([gradient]), 0)
            advance(state, 0.0)
            state.inner.w[0] = 0.0
        ends.append(state.squares[0])
    assert ends[0] == pytest.approx(1.0, rel=0.2)
    assert ends[1] == pytest.approx(5000.0 - 10.0, rel=1e-5)


def test_a_search_has_local_steps_and_those_of_the_server_begin_with_the_same_size():
    method, step = Adam(FedAvg(steps=5, size=1.0), b1=0.5).tuned(0.5, 10.0)
    assert (method.method.size, method.method.fall, method.b1) == (0.1, 10.0, 0.5)
    assert step == Harmonic(5.0, 10.0)
    assert Adam(SIAG()).tuned(0.5, 10.0) == (Adam(SIAG()), Harmonic(5.0, 10.0))


@pytest.mark.parametrize(
    ("kind", "parameter", "value", "words"),
    [
        (Adam, "b1", -0.1, "at least 0 and below 1"),
        (Adam, "b1", 1.0, "at least 0 and below 1"),
        (Adam, "b2", 1.0, "at least 0 and below 1"),
        (Yogi, "b2", 1.5, "at least 0 and below 1"),
        (Adagrad, "epsilon", 0.0, "above 0"),
        (Adam, "epsilon", float("nan"), "above 0"),
    ],
)
def test_parameters_without_a_meaning_are_refused_with_the_range(kind, parameter, value, words):
    with refused(parameter) as found:
        kind(SIAG(), **{parameter: value})
    assert words in str(found.value)


def test_prox_and_a_second_momentum_are_refused_and_averages_are_not():
    with pytest.raises(Unsuitable, match=r"use Prox\(Momentum\(…\), …\)"):
        Prox(Adam(SIAG()), l1=0.1)
    with pytest.raises(Unsuitable, match="one momentum is enough"):
        Momentum(Yogi(SIAG()))
    with pytest.raises(TypeError):
        Adagrad(SIAG(), b2=0.9)
    assert Averaged(Adam(SIAG()), start=3)
