"""IAG with curvature: linear models of gradients, which on quadratics are the gradients themselves."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import simulate
from siag.checks import Sides, conform
from siag.methods import advance, compute, fade, ready, receive
from siag.methods.curvature import CurvatureIAG
from siag.problems import LogisticRegression, Problem, Ridge, exact, hessian, sample
from siag.steps import Constant

QUADRATIC = Ridge.random(n=4, d=3, m=6, spread=1.0, tilt=0.5, regularization=0.1, seed=3)
CURVED = LogisticRegression.random(n=5, d=3, m=8, heterogeneity=0.5, regularization=0.2, seed=4)

if not hessian.knows(Sides):

    @hessian.when(Sides)
    def curvature_of_bowl(oracle, i, w, out):
        out[:] = 0.0
        for j in range(w.size):
            out[j, j] = oracle.curvature[j]


@pytest.mark.few(1)
@pytest.mark.parametrize("method", [CurvatureIAG(), CurvatureIAG(wait=0.0)])
def test_it_does_what_every_method_must(method):
    conform(method)


def test_a_message_is_the_model_of_the_gradient_row_by_row():
    w, out = np.array([0.5, -1.0, 2.0]), np.full(12, np.nan)
    method = CurvatureIAG()
    assert method.message(3, 5) == 12
    assert compute(method.recruit(w, 5), CURVED.oracle(), siag.rng.fresh(0, 0, 0), 2, w, out)
    np.testing.assert_array_equal(out[3:].reshape(3, 3), CURVED.hessian(2, w))
    np.testing.assert_allclose(out[:3] + CURVED.hessian(2, w) @ w, CURVED.gradient(2, w), rtol=0, atol=1e-15)


@pytest.mark.parametrize("wait", [0.0, 1.0])
def test_it_follows_its_formula(wait):
    """The sum over workers as the paper writes it, from the points at which they last reported."""
    problem, eta = CURVED, 0.3
    trace = siag.activity.Recorded.of(siag.activity.Nonuniform(2, 6), problem.n, 60, seed=2)
    w, points = np.zeros(3), {}
    for active in np.split(trace.tape.worker, trace.tape.start[1:-1]):
        points |= dict.fromkeys(active, w)
        if len(points) >= wait * problem.n:
            models = [problem.gradient(i, at) + problem.hessian(i, at) @ (w - at) for i, at in points.items()]
            w = w - eta / problem.n * np.sum(models, axis=0)
    run = simulate(problem, CurvatureIAG(wait=wait), trace, Constant(eta), iterations=60)
    np.testing.assert_allclose(run.w[0], w, rtol=1e-9)


def descent(problem, eta, steps):
    """Gradient descent from 0."""
    w = np.zeros(problem.d)
    for _ in range(steps):
        w = w - eta * np.mean([problem.gradient(i, w) for i in range(problem.n)], axis=0)
    return w


@settings(max_examples=40)
@given(st.lists(st.sets(st.integers(0, 3)), max_size=30))
def test_on_quadratics_it_is_gradient_descent_whoever_reports(later):
    trace = siag.activity.Recorded([[0, 1, 2, 3], *(sorted(active) for active in later)])
    run = simulate(QUADRATIC, CurvatureIAG(), trace, Constant(0.2), iterations=1 + len(later))
    np.testing.assert_allclose(run.w[0], descent(QUADRATIC, 0.2, 1 + len(later)), rtol=0, atol=1e-11)


def test_on_a_virtual_clock_with_workers_of_unequal_speed_it_converges_to_the_optimum():
    times = siag.activity.Exponential(1.0)
    clock = siag.activity.Clock(times, slowness=[1.0, 2.0, 4.0, 6.0, 10.0])
    run = simulate(CURVED, CurvatureIAG(), clock, Constant(0.5), iterations=2000)
    assert run.error[0, -1] < 1e-17


def test_what_travels_is_counted():
    run = simulate(CURVED, CurvatureIAG(), siag.activity.Cyclic(), Constant(0.1), iterations=10)
    assert run.bytes[0, -1] == 8 * 10 * (3 + 9 + 3)


def test_a_model_that_has_faded_counts_no_more():
    state, draw = CurvatureIAG().init(np.ones(2), 2), np.random.default_rng(1)
    kept, left = draw.standard_normal((2, 6))
    receive(state, 0, left, 0)
    advance(state, 1.0)
    assert not ready(state)
    receive(state, 1, kept, 0)
    assert ready(state)
    fade(state, 0, 0.0)
    advance(state, 0.5)
    expected = np.ones(2) - 0.5 * (kept[:2] + kept[2:].reshape(2, 2) @ np.ones(2))
    np.testing.assert_allclose(state.w, expected, rtol=1e-14)


class Slopes(NamedTuple):
    nothing: np.ndarray


@dataclass(frozen=True, eq=False)
class NoHessian(Problem):
    n = 2
    d = 1
    optimum = np.zeros(1)

    def oracle(self):
        return Slopes(np.zeros(1))


@exact.when(Slopes)
def down(oracle, i, w, out):
    out[:] = w


@sample.when(Slopes)
def down_again(oracle, rng, i, w, out):
    out[:] = w


def test_a_problem_without_hessians_is_refused_with_what_works():
    with pytest.raises(
        siag.Unsuitable, match=r"needs Hessians, which NoHessian .* use IAG, or give `hessian` .* Slopes"
    ):
        siag.simulate(NoHessian(), CurvatureIAG(), siag.activity.Cyclic(), Constant(0.1), iterations=5)


def test_a_table_that_would_not_fit_is_refused_before_it_is_made():
    with pytest.raises(siag.Unsuitable, match=r"1000000 × 4002000 numbers .* use IAG"):
        CurvatureIAG().init(np.zeros(2000), 10**6)


@pytest.mark.parametrize(("parameter", "value"), [("resum", 0.5), ("wait", float("nan")), ("rows", "int8")])
def test_hyper_parameters_out_of_range_are_refused_by_name(parameter, value):
    with pytest.raises(siag.BadInput, match=parameter):
        CurvatureIAG(**{parameter: value})
