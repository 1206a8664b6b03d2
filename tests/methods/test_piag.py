"""PIAG: the Lasso and the box, against coordinate descent and scikit-learn."""

import numpy as np
import pytest

import siag
from plain import conform
from siag.experiments.claims.aggregated import minimiser
from siag.methods import IAG
from siag.methods.piag import PIAG
from siag.methods.prox import Prox
from siag.problems.ridge import Ridge

PROBLEM = Ridge.random(n=10, d=10, m=20, spread=0.3, tilt=0.3, seed=1)
STEP = siag.steps.Constant(1.0 / (6.0 * PROBLEM.smoothness.max()))


def run(method, activity=None, step=STEP, iterations=2000):
    activity = activity or siag.activity.Uniform(5)
    return siag.simulate(PROBLEM, method, activity, step, iterations=iterations, record=2, seed=2)


def test_it_conforms_in_all_respects_without_r():
    conform(PIAG())


def test_it_conforms():
    # 0 and the bounds do not move with the problem; R counts, so it is not gradient descent on F.
    conform(PIAG(l1=0.1, low=-0.2, high=0.5), skip=["shifting_shifts", "all_active_is_gradient_descent"])


@pytest.mark.parametrize("terms", [{"l1": 0.3}, {"low": -0.2, "high": 0.4}, {"l1": 0.1, "low": 0.0}], ids=repr)
def test_it_is_prox_around_iag_bit_for_bit(terms):
    one, two = run(PIAG(wait=1.0, **terms)), run(Prox(IAG(wait=1.0), **terms))
    assert np.array_equal(one.w, two.w)


@pytest.mark.parametrize(
    "terms", [{"l1": 0.3}, {"low": -0.2, "high": 0.4}, {"l1": 0.2, "low": -0.1, "high": 0.5}], ids=repr
)
def test_it_finds_what_coordinate_descent_finds(terms):
    expected = minimiser(PROBLEM, **terms)
    w = run(PIAG(**terms), iterations=3000).w[0]
    assert ((w - expected) ** 2).sum() < 1e-18
    for value in {0.0, terms.get("low"), terms.get("high")} - {None}:
        assert np.array_equal(w == value, expected == value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "activity",
    [
        siag.activity.Nonuniform(1, 8),
        siag.activity.Clock(compute=siag.activity.Exponential(1.0), slowness=np.linspace(1, 10, 10).tolist()),
    ],
    ids=["nonuniform", "clock"],
)
def test_the_rates_of_the_workers_do_not_move_its_limit(activity):
    step = siag.steps.Constant(1.0 / (60.0 * PROBLEM.smoothness.max()))
    w = run(PIAG(l1=0.3), activity, step, iterations=30_000).w[0]
    assert ((w - minimiser(PROBLEM, l1=0.3)) ** 2).sum() < 1e-18


@pytest.mark.parametrize("variant", ["first", "second"])
def test_steps_that_follow_ages_go_with_it(variant):
    gamma = 0.99 / float(np.sqrt((PROBLEM.smoothness**2).mean()))
    w = run(PIAG(l1=0.3), step=siag.steps.DelayAdaptive(gamma, variant=variant)).w[0]
    assert ((w - minimiser(PROBLEM, l1=0.3)) ** 2).sum() < 1e-18


@pytest.mark.thorough
def test_the_lasso_is_that_of_scikit_learn():
    from sklearn import linear_model

    points, targets = PROBLEM.features.reshape(-1, PROBLEM.d), PROBLEM.targets.reshape(-1)
    theirs = linear_model.Lasso(alpha=0.3, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(points, targets).coef_
    ours = run(PIAG(l1=0.3)).w[0]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert np.array_equal(ours == 0, theirs == 0)
