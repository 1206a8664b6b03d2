"""Logistic regression with a penalty that is not convex, against formulas written again."""

import numpy as np
import pytest

import siag
from plain import simulate
from refusals import refused
from siag.problems import LogisticRegression, NonconvexLogistic, optimum_of

PROBLEM = NonconvexLogistic.random(n=4, d=3, m=12, heterogeneity=0.5, regularization=0.2, seed=2)


def gradient(problem, i, w):
    x, y = problem.features[i], problem.labels[i]
    loss = -(y / (1.0 + np.exp(y * (x @ w)))) @ x / len(x)
    return loss + problem.regularization * 2.0 * w / (1.0 + w * w) ** 2


def test_gradient_and_objective_are_those_of_the_formula():
    for w in np.random.default_rng(1).standard_normal((5, 3)) * 2.0:
        for i in range(PROBLEM.n):
            np.testing.assert_allclose(PROBLEM.gradient(i, w), gradient(PROBLEM, i, w), rtol=1e-12)
        mean = np.mean([gradient(PROBLEM, i, w) for i in range(PROBLEM.n)], axis=0)
        np.testing.assert_allclose(PROBLEM.full_gradient(w), mean, rtol=1e-12)
        margins = PROBLEM.labels * (PROBLEM.features @ w)
        expected = np.log1p(np.exp(-margins)).mean() + 0.2 * (w**2 / (1.0 + w**2)).sum()
        assert PROBLEM.objective(w) == pytest.approx(expected, rel=1e-12)


def test_it_is_not_convex_and_no_curvature_is_below_minus_half_of_lambda():
    flat = NonconvexLogistic(np.zeros((1, 1, 1)), np.ones((1, 1)), regularization=0.2)
    curvatures = [flat.hessian(0, np.array([x]))[0, 0] for x in np.linspace(-3.0, 3.0, 601)]
    assert min(curvatures) == pytest.approx(-0.1, rel=1e-12)
    assert max(curvatures) == pytest.approx(0.4, rel=1e-12)


def test_the_points_are_those_of_logistic_regression():
    other = LogisticRegression.random(n=4, d=3, m=12, heterogeneity=0.5, seed=2)
    assert np.array_equal(other.features, PROBLEM.features)
    assert np.array_equal(other.labels, PROBLEM.labels)


def test_a_run_is_judged_by_the_gradient_which_vanishes():
    run = simulate(PROBLEM, siag.methods.IAG(), siag.activity.Cyclic(), siag.steps.Constant(0.2), iterations=1500)
    assert run.measure == "‖∇F(wᵗ)‖²"
    assert run.error[0, -1] < 1e-12 < run.error[0, 0]
    assert run.error[0, -1] == pytest.approx(np.square(PROBLEM.full_gradient(run.w[0])).sum())
    assert run.objective[0, -1] == PROBLEM.objective(run.w[0]) < run.objective[0, 0]


def test_there_is_no_optimum_and_no_mu():
    assert PROBLEM.optimum is None
    with pytest.raises(siag.Unsuitable, match="NonconvexLogistic is not convex and has no μ; its L_i are `smoothness`"):
        PROBLEM.constants()
    with pytest.raises(siag.Unsuitable, match="NonconvexLogistic knows no optimum"):
        optimum_of(PROBLEM)


def test_bad_input_is_refused_by_name():
    with refused("regularization"):
        NonconvexLogistic.random(n=2, d=2, regularization=-0.1)
    with refused("labels"):
        NonconvexLogistic(np.zeros((1, 2, 1)), [[0.0, 1.0]], regularization=0.1)
    with refused("heterogeneity"):
        NonconvexLogistic.random(n=2, d=2, heterogeneity=-1.0)
