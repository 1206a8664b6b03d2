"""Momentum: FedAvgM and the heavy ball, what stands around it, and what it cannot stand around."""

import numpy as np
import pytest

import siag
from drawn import Drawn, some_reports
from plain import conform, simulate
from refusals import refused
from siag.activity import Recorded
from siag.foundations.errors import Unsuitable
from siag.methods import (
    ADPSGD,
    IAG,
    LAG,
    PIAG,
    SCAFFOLD,
    SGD,
    SIAG,
    Adam,
    Automatic,
    Averaged,
    Clipped,
    FedAvg,
    Momentum,
    Prox,
    Scaffnew,
    advance,
    answer,
    ready,
    receive,
    shown,
)
from siag.problems import Ridge
from siag.steps import Constant, Harmonic

N, D, T = 5, 3, 60
RIDGE = Ridge.random(n=N, d=D, m=6, tilt=0.5, regularization=0.1, seed=2)
TRACE = some_reports(N, T, seed=1)


def fedavgm(problem, steps, size, beta):
    """Hsu et al.: every client takes K steps, Δw = w − mean of their models, v ← β v + Δw, w ← w − v."""
    w, v = np.zeros(D), np.zeros(D)
    for active in TRACE:
        models = []
        for i in active:
            y = w
            for _ in range(steps):
                y = y - size * problem.gradient(i, y)
            models.append(y)
        if models:
            v = beta * v + (w - np.mean(models, axis=0))
            w = w - v
    return w


def heavy_ball(problem, step, beta, soft=0.0):
    """sIAG with w⁺ = prox(w − η g + β (w − w⁻)), both w those after the proximal step."""
    drawn, rows, seen = Drawn(problem, 4), np.zeros((N, D)), False
    w = before = np.zeros(D)
    for t, active in enumerate(TRACE):
        for i in active:
            (rows[i],) = drawn.at(i, w)
        seen |= bool(active)
        if seen:
            eta = step.sizes(np.array([t]))[0]
            v = w - eta * rows.mean(axis=0) + beta * (w - before)
            w, before = np.sign(v) * np.maximum(np.abs(v) - eta * soft, 0.0), w
    return w


def ends(method, step, seed=4):
    return simulate(RIDGE, method, Recorded(TRACE), step, iterations=T, seed=seed).w[0]


@pytest.mark.parametrize("method", [Momentum(SIAG()), Momentum(FedAvg(steps=2, size=0.1), beta=0.5)], ids=repr)
def test_it_conforms(method):
    conform(method, skip=["all_active_is_gradient_descent"])  # which is without momentum


def test_around_fedavg_it_is_fedavgm():
    method = Momentum(FedAvg(steps=3, size=0.05, gradients="exact"), beta=0.9)
    expected = fedavgm(RIDGE, 3, 0.05, 0.9)
    assert expected.any()
    np.testing.assert_allclose(ends(method, Constant(1.0)), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("step", [Constant(0.02), Harmonic(0.5, 10)], ids=repr)
def test_around_siag_it_is_a_heavy_ball(step):
    np.testing.assert_allclose(ends(Momentum(SIAG(), beta=0.8), step), heavy_ball(RIDGE, step, 0.8), atol=1e-9)


def test_within_prox_its_moves_are_those_of_the_iterates_that_result():
    step = Constant(0.05)
    w = ends(Prox(Momentum(SIAG(), beta=0.5), l1=1.0), step)
    np.testing.assert_allclose(w, heavy_ball(RIDGE, step, 0.5, soft=1.0), atol=1e-9)
    assert not w.all()  # some coordinates are 0, exactly


def test_where_the_method_rests_so_does_the_ball_and_it_rolls_on_afterwards():
    state = Momentum(SGD(), beta=0.5).init(np.zeros(1), 1)
    receive(state, 0, np.ones(1), 0)
    advance(state, 1.0)
    for _ in range(5):
        assert not ready(state)
        advance(state, 1.0)
        assert state.w[0] == -1.0
    receive(state, 0, np.zeros(1), 0)
    advance(state, 1.0)
    assert state.w[0] == -1.5


def test_workers_read_where_the_ball_is():
    state = Momentum(SCAFFOLD(steps=1, size=1.0)).init(np.ones(2), 2)
    for _ in range(3):
        receive(state, 0, np.array([0.5, 0.5, 0.1, 0.2]), 0)
        advance(state, 1.0)
    assert np.array_equal(shown(state)[:2], state.w)
    assert np.array_equal(answer(state), state.w)
    assert shown(state).size == 4
    assert state.w[0] == pytest.approx(1.0 - 0.5 * (1.0 + 1.9 + 2.71))


def test_a_search_counts_what_a_step_comes_to_in_the_long_run():
    method, step = Momentum(SIAG(), beta=0.75).tuned(1.0, 10.0)
    assert (method, step) == (Momentum(SIAG(), beta=0.75), Harmonic(2.5, 10.0))
    method, _ = Momentum(FedAvg(steps=5, size=1.0), beta=0.75).tuned(1.0, 10.0)
    assert method.method.size == 0.05


def test_what_is_the_methods_own_is_passed_on():
    assert Momentum(SIAG()).split
    assert not Momentum(SCAFFOLD(steps=1, size=1.0)).split
    assert Momentum(SIAG(wait=0.5)).quorum(4) == 2
    assert Momentum(Clipped(SIAG(), norm=1.0)).split is False


@pytest.mark.parametrize("beta", [0.0, -0.1, 1.0, 2.0, float("nan"), "0.9"])
def test_a_share_that_is_none_is_refused_with_the_range(beta):
    with refused("beta") as found:
        Momentum(SIAG(), beta=beta)
    assert "above 0 and below 1" in str(found.value)


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (Momentum(SIAG()), "one momentum is enough"),
        (Adam(SIAG()), "one momentum is enough"),
        (Averaged(SIAG()), "put Averaged around both"),
        (Prox(SIAG()), r"write Prox\(Momentum\(…\), …\)"),
        (PIAG(), r"write Prox\(Momentum\(IAG\(\)\), …\)"),
        (LAG(), r"use Momentum\(IAG\(\)\)"),
        (Clipped(LAG(), norm=1.0), r"use Momentum\(IAG\(\)\)"),
        (Automatic(), r"use Momentum\(SIAG\(\)\) and a step"),
        (Scaffnew(p=0.5, size=0.1), r"use Momentum\(FedAvg\(…\)\)"),
        (ADPSGD(), r"use Momentum\(AsyncSGD\(\)\)"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("around", [Momentum, Adam])
def test_what_it_cannot_go_around_is_refused_in_a_line_with_the_remedy(around, inner, words):
    with pytest.raises(Unsuitable, match=f"^{around.__name__} cannot follow .*{words}") as found:
        around(inner)
    assert "\n" not in str(found.value)


def test_around_it_prox_refuses_what_it_refuses_of_the_method():
    with pytest.raises(Unsuitable, match="use PIAG"):
        Prox(Momentum(FedAvg(steps=1, size=1.0)))
    assert Averaged(Prox(Momentum(Clipped(IAG(), norm=1.0)), l1=0.1), start=3)


def test_it_can_be_written_in_a_file_and_on_the_command_line():
    from siag.experiments.config import written

    for method in (Momentum(FedAvg(steps=2, size=0.1)), Prox(Momentum(Clipped(siag.methods.SIAG(), norm=2.0)), l1=0.1)):
        assert written("method", repr(method)) == method
