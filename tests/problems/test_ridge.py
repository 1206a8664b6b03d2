"""Ridge regression: closed forms, constants, how it is drawn, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations.errors import BadInput
from siag.problems import Ridge

quick = settings(deadline=None, max_examples=30)
problems = st.builds(
    Ridge.random,
    n=st.integers(1, 4),
    d=st.integers(1, 4),
    m=st.integers(1, 8),
    condition=st.floats(1, 100),
    spread=st.floats(0, 3),
    tilt=st.floats(0, 1),
    regularization=st.floats(1e-2, 10),
    noise=st.floats(0, 2),
    batch=st.integers(1, 3),
    seed=st.integers(0, 999),
)


def noise_at(problem, i, w):
    """E‖∇f_i(w; ξ) − ∇F_i(w)‖², from the gradients at all of the worker's points."""
    x = problem.features[i]
    each = (x @ w - problem.targets[i])[:, None] * x
    return ((each - each.mean(axis=0)) ** 2).sum(axis=1).mean() / problem.batch


def test_the_objective_is_the_formula():
    problem = Ridge([[[1.0], [-2.0]]], [[1.0, -1.0]], regularization=0.5)
    assert problem.objective(np.array([3.0])) == pytest.approx((2**2 + 5**2) / 4 + 0.25 * 9)
    assert problem.gradient(0, [3.0]) == pytest.approx((2 * 1 + -5 * -2) / 2 + 0.5 * 3)
    assert problem.hessian(0, [3.0]) == pytest.approx((1 + 4) / 2 + 0.5)


def test_a_random_problem_is_the_one_the_claims_were_measured_on():
    problem = Ridge.random(n=10, d=5, m=20, spread=1, tilt=0.5, regularization=0.1, seed=7)
    draw = np.random.default_rng(7)
    common, own = draw.standard_normal(5), draw.standard_normal((10, 1, 5))
    features = np.exp(0.5 * draw.standard_normal((10, 1, 5))) * draw.standard_normal((10, 20, 5))
    targets = (features * (common + own)).sum(2) + 0.1 * draw.standard_normal((10, 20))
    assert np.array_equal(problem.features, features)
    assert np.array_equal(problem.targets, targets)
    mu, L, _ = problem.constants()
    mean = np.mean([problem.hessian(i, problem.optimum) for i in range(10)], axis=0)
    assert [round(x, 3) for x in (L, np.linalg.eigvalsh(mean)[-1], mu)] == [11.406, 2.625, 0.910]


@pytest.mark.parametrize(("condition", "expected"), [(100, 128), (1000, 1257)])
def test_the_condition_number_is_about_what_was_asked_for(condition, expected):
    problem = Ridge.random(n=10, d=8, m=200, condition=condition)
    smallest = min(np.linalg.eigvalsh(problem.hessian(i, problem.optimum))[0] for i in range(10))
    assert round(problem.smoothness.max() / smallest) == expected


@quick
@given(problems)
def test_the_optimum_has_no_gradient_left(problem):
    each = np.array([problem.gradient(i, problem.optimum) for i in range(problem.n)])
    scale = problem.smoothness.max() * (1 + np.abs(problem.optimum).max()) + np.abs(each).max()
    assert np.abs(each.mean(axis=0)).max() < 1e-13 * scale


@quick
@given(problems)
def test_mu_is_the_smallest_curvature_of_the_whole(problem):
    mean = np.mean([problem.hessian(i, problem.optimum) for i in range(problem.n)], axis=0)
    assert problem.constants().mu == pytest.approx(np.linalg.eigvalsh(mean)[0], rel=1e-9)


@quick
@given(problems, st.integers(0, 99))
def test_assumption_2_holds_with_the_constant_given(problem, seed):
    sigma2, draw = problem.constants().sigma2, np.random.default_rng(seed)
    for scale in (0.0, 0.1, 1.0, 100.0):
        e = scale * draw.standard_normal(problem.d)
        for i in range(problem.n):
            noise = noise_at(problem, i, problem.optimum + e)
            assert noise <= (sigma2 + 1e-12 * problem.smoothness[i] ** 2) * (1 + e @ e) * (1 + 1e-9)


@pytest.mark.thorough
def test_no_smaller_noise_constant_would_do():
    problem = Ridge.random(n=1, d=1, m=9, regularization=0.1, seed=3)
    near = problem.optimum + np.linspace(-50, 50, 100_001)[:, None]
    ratios = [noise_at(problem, 0, w) / (1 + ((w - problem.optimum) ** 2).sum()) for w in near]
    assert max(ratios) == pytest.approx(problem.constants().sigma2, rel=1e-6)


def test_one_point_per_worker_has_no_noise():
    assert Ridge.random(n=9, d=3, m=1).constants().sigma2 == 0.0


def test_a_batch_divides_the_noise():
    one, four = (Ridge.random(n=2, d=3, m=9, batch=batch).constants().sigma2 for batch in (1, 4))
    assert four == pytest.approx(one / 4)


def test_without_spread_and_noise_all_workers_share_the_optimum():
    problem = Ridge.random(n=8, d=5, m=20, spread=0, noise=0, tilt=0.5, seed=3)
    for i in range(8):
        assert np.abs(problem.gradient(i, problem.optimum)).max() < 1e-12


def test_the_draw_depends_on_the_seed_and_is_named_by_its_repr():
    one, again, other = (Ridge.random(n=2, d=3, m=4, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.features, again.features)
    assert not np.array_equal(one.features, other.features)
    assert np.array_equal(eval(repr(one)).targets, one.targets)
    assert repr(Ridge(one.features, one.targets, 0.5)) == "Ridge(n=2, m=4, d=3, regularization=0.5, batch=1)"


def test_the_arrays_of_a_problem_cannot_be_written():
    problem = Ridge.random(n=2, d=3, m=4)
    for array in (problem.features, problem.targets, problem.optimum):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1.0


@pytest.mark.parametrize(
    "features",
    [np.zeros((2, 2, 2)), np.ones((2, 2, 2)), np.ones((1, 1, 2)), np.full((1, 1, 1), 1e200)],
    ids=["no points", "one direction", "too few", "too large"],
)
def test_points_that_do_not_determine_the_optimum_are_refused_with_the_remedy(features):
    problem = Ridge(features, np.ones(features.shape[:2]), 0.0)
    for ask in (lambda: problem.optimum, problem.constants):
        with pytest.raises(BadInput, match=r"^regularization = 0.0: must be large enough .*; raise it, give points"):
            ask()
    if features.max() <= 1:
        assert np.isfinite(Ridge(features, np.ones(features.shape[:2]), 0.1).optimum).all()


GOOD = {"n": 2, "d": 3, "m": 4}


@pytest.mark.parametrize(
    ("parameter", "value"),
    [(name, value) for name in ("n", "d", "m", "batch") for value in (0, -1, 1.5, True, None)]
    + [(name, value) for name in ("spread", "tilt", "noise") for value in (-0.1, math.nan, math.inf, "1")]
    + [("condition", value) for value in (0.5, math.nan, math.inf, None)]
    + [("regularization", value) for value in (-1.0, math.nan, math.inf, None)]
    + [("seed", value) for value in (-1, 2**64, 1.0)],
)
def test_bad_parameters_are_refused_by_name(parameter, value):
    with pytest.raises(BadInput) as caught:
        Ridge.random(**(GOOD | {parameter: value}))
    assert caught.value.parameter == parameter
    assert str(caught.value).startswith(f"{parameter} = {value!r}: must be ")


@pytest.mark.parametrize(
    ("features", "targets", "parameter", "hint"),
    [
        (np.zeros((2, 3)), np.ones((2, 3)), "features", "its shape is (2, 3)"),
        (np.full((1, 1, 1), math.nan), np.ones((1, 1)), "features", "it holds NaN or infinity"),
        (np.zeros((1, 2, 1)), np.ones((1, 3)), "targets", "its shape is (1, 3)"),
        (np.zeros((1, 2, 1)), [["a", "b"]], "targets", "convert it to float64"),
    ],
)
def test_bad_data_are_refused_by_name(features, targets, parameter, hint):
    with pytest.raises(BadInput) as caught:
        Ridge(features, targets, 0.1)
    assert caught.value.parameter == parameter
    assert hint in str(caught.value)
