"""Logistic regression against formulas written again, and its constants against the truth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from siag.foundations.errors import BadInput, SiagError
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.problems import LogisticRegression, sample
from siag.problems.logistic_noise import majorant

quick = settings(deadline=None, max_examples=30)
problems = st.builds(
    LogisticRegression.random,
    n=st.integers(1, 4),
    d=st.integers(1, 4),
    m=st.integers(1, 8),
    heterogeneity=st.floats(0, 3),
    regularization=st.floats(1e-3, 10),
    batch=st.integers(1, 3),
    seed=st.integers(0, 999),
)


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def losses_gradients(problem, i, w):
    """(m, d) ∇ of log(1 + exp(−y x·w)) + (λ/2)‖w‖² at each of worker i's points."""
    x, y = problem.features[i], problem.labels[i]
    return -(y * sigmoid(-y * (x @ w)))[:, None] * x + problem.regularization * w


def hessian(problem, i, w):
    x = problem.features[i]
    s = sigmoid(x @ w)
    return problem.regularization * np.eye(problem.d) + (x.T * (s * (1 - s))) @ x / len(x)


def points_of(problem, seed):
    draw = np.random.default_rng(seed)
    return [scale * draw.standard_normal(problem.d) for scale in (0.1, 1.0, 5.0)]


@quick
@given(problems)
def test_the_optimum_has_no_gradient_left(problem):
    gradient = np.mean([losses_gradients(problem, i, problem.optimum).mean(axis=0) for i in range(problem.n)], axis=0)
    # 1e-10 is promised; the rest is rounding, of which this other way to sum has its own.
    assert np.linalg.norm(gradient) / problem.regularization <= 1e-10 + 1e-14 / problem.regularization


def test_the_optimum_is_found_where_newtons_full_steps_overshoot():
    features = np.array([[[1.0], [1.0]], [[60.0], [50.0]]])
    problem = LogisticRegression(features, np.ones((2, 2)), regularization=1e-3)
    w = problem.optimum
    around = [problem.objective(w + step) for step in (-1e-3, 0.0, 1e-3)]
    assert around[1] < min(around[0], around[2])


@quick
@given(problems, st.integers(0, 99))
def test_the_exact_gradient_is_the_mean_over_the_workers_points(problem, seed):
    for w in points_of(problem, seed):
        for i in range(problem.n):
            expected = losses_gradients(problem, i, w).mean(axis=0)
            np.testing.assert_allclose(problem.gradient(i, w), expected, rtol=1e-10, atol=1e-12)


@quick
@given(problems, st.integers(0, 99))
def test_the_exact_gradient_is_the_slope_of_the_objective(problem, seed):
    h = 1e-5
    for w in points_of(problem, seed):
        slopes = [(problem.objective(w + h * e) - problem.objective(w - h * e)) / (2 * h) for e in np.eye(problem.d)]
        gradient = np.mean([problem.gradient(i, w) for i in range(problem.n)], axis=0)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


def test_the_objective_is_the_formula():
    problem = LogisticRegression([[[1.0], [-2.0]]], [[1.0, -1.0]], regularization=0.5)
    expected = (math.log(1 + math.exp(-3)) + math.log(1 + math.exp(-6))) / 2 + 0.25 * 9
    assert problem.objective(np.array([3.0])) == pytest.approx(expected, rel=1e-14)


def test_far_away_nothing_overflows():
    problem = LogisticRegression([[[1.0], [-2.0]]], [[1.0, 1.0]], regularization=1.0)
    for w in (1e6, -1e6):
        assert problem.gradient(0, np.array([w]))[0] == pytest.approx(w, rel=1e-5)
        assert math.isfinite(problem.objective(np.array([w])))


@quick
@given(problems, st.integers(0, 99))
def test_all_curvatures_lie_between_mu_and_smoothness(problem, seed):
    mu, L, _ = problem.constants()
    for w in points_of(problem, seed):
        for i in range(problem.n):
            curvatures = np.linalg.eigvalsh(hessian(problem, i, w))
            assert mu * (1 - 1e-9) <= curvatures.min()
            assert curvatures.max() <= L * (1 + 1e-9)


@quick
@given(problems)
def test_smoothness_is_attained_at_zero_by_the_worst_worker(problem):
    zero = np.zeros(problem.d)
    largest = max(np.linalg.eigvalsh(hessian(problem, i, zero)).max() for i in range(problem.n))
    assert largest == pytest.approx(problem.constants().L, rel=1e-9)


@quick
@given(problems, st.integers(0, 99))
def test_assumption_2_holds_with_the_constant_given(problem, seed):
    sigma2 = problem.constants().sigma2
    for w in [*points_of(problem, seed), problem.optimum]:
        limit = sigma2 * (1 + ((w - problem.optimum) ** 2).sum())
        for i in range(problem.n):
            each = losses_gradients(problem, i, w)
            noise = ((each - each.mean(axis=0)) ** 2).sum(axis=1).mean() / problem.batch
            assert noise <= limit * (1 + 1e-12)


def quotient(problem, i, e):
    """A worker's noise at w* + e over 1 + ‖e‖², with its weight and batch."""
    each = losses_gradients(problem, i, problem.optimum + e)[: problem.counts[i]]
    factor = (1.0 if problem.weights is None else problem.weights[i]) ** 2 / problem.batch
    return factor * ((each - each.mean(axis=0)) ** 2).sum(axis=1).mean() / (1 + e @ e)


def climbed(problem, starts, seed):
    """The largest quotient that is reached uphill from w* and from points drawn around it."""
    draw, largest = np.random.default_rng(seed), 0.0
    for i in range(problem.n):
        for radius in range(starts):
            start = radius * draw.normal(size=problem.d) / math.sqrt(problem.d)
            largest = max(largest, -optimize.minimize(lambda e, i=i: -quotient(problem, i, e), start, tol=1e-6).fun)
    return largest


@pytest.mark.parametrize(
    ("drawn", "within"),
    [
        ({"d": 4, "m": 30, "heterogeneity": 0.5}, 1.03),
        ({"d": 5, "m": 50, "heterogeneity": 0.0, "batch": 3}, 1.03),
        ({"d": 1, "m": 20}, 1.03),
        ({"d": 8, "m": 20, "seed": 5}, 1.03),
        ({"d": 3, "m": [5, 20, 60], "weights": "points"}, 1.03),
        ({"d": 3, "m": 20, "weights": [0, 1, 4]}, 1.05),
        ({"d": 4, "m": 30, "heterogeneity": 3.0}, 1.1),
        ({"d": 6, "m": 4, "heterogeneity": 2.0, "regularization": 1e-3}, 1.25),
    ],
)
def test_the_noise_constant_is_little_above_what_is_found_by_climbing(drawn, within):
    problem = LogisticRegression.random(n=3, **{"regularization": 0.1, "seed": 1} | drawn)
    needed = climbed(problem, starts=3, seed=2)
    assert needed * (1 - 1e-9) <= problem.constants().sigma2 <= within * needed


@quick
@given(problems, st.integers(0, 99))
def test_no_climb_leads_above_the_noise_constant(problem, seed):
    assert climbed(problem, starts=2, seed=seed) <= problem.constants().sigma2 * (1 + 1e-9)


@quick
@given(st.integers(0, 999), st.sampled_from([0.1, 1.0, 10.0, 100.0]), st.sampled_from([0.1, 1.0, 10.0]))
def test_what_bounds_the_noise_lies_above_it_everywhere(seed, size, reach):
    """Near and far, where margins overflow, and where points are the same."""
    draw = np.random.default_rng(seed)
    z, w, touch = size * draw.normal(size=(6, 3)), draw.normal(size=3), reach * draw.normal(size=3)
    z[5] = z[4]
    here, form = majorant(z, z @ w, touch)
    for away in (0.0, 1e-3, 0.03, 0.3, 1.0, 10.0, 1e3):
        e = touch + away * draw.normal(size=3)
        a = sigmoid(-(z @ (w + e))) if np.abs(z @ (w + e)).max() < 700 else (z @ (w + e) < 0).astype(float)
        noise = ((a[:, None] * z - (a[:, None] * z).mean(axis=0)) ** 2).sum(axis=1).mean()
        assert noise <= np.append(e, 1.0) @ form @ np.append(e, 1.0) * (1 + 1e-9) + 1e-9 * size**2
        if away == 0.0:
            assert here == pytest.approx(noise / (1 + e @ e), rel=1e-6, abs=1e-9 * size**2)


def test_points_that_are_all_the_same_have_hardly_any_noise():
    problem = LogisticRegression(np.ones((2, 4, 3)), np.ones((2, 4)), 0.1)
    assert problem.constants().sigma2 <= 0.01


def test_one_point_a_worker_is_an_exact_gradient():
    assert LogisticRegression.random(n=3, d=4, m=5).by_sample().constants().sigma2 == 0.0


def drawn(problem, i, w, count):
    """(count, d) stochastic gradients of worker i."""
    out, rng, root, oracle = np.empty((count, problem.d)), blank(), key(6, 0, SAMPLES), problem.oracle()
    for k in range(count):
        rewind(rng, root, i, k)
        sample(oracle, rng, i, w, out[k])
    return out


def test_a_sample_is_the_gradient_at_one_of_the_points_each_as_likely():
    problem = LogisticRegression.random(n=2, d=3, m=7, seed=1)
    w = np.array([0.3, -1.0, 0.5])
    each = losses_gradients(problem, 1, w)
    samples = drawn(problem, 1, w, 7000)
    distance = np.linalg.norm(samples[:, None, :] - each, axis=2)
    assert distance.min(axis=1).max() < 1e-12
    counts = np.bincount(distance.argmin(axis=1), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-6  # fails by chance with probability 1e-6
    np.testing.assert_allclose(each.mean(axis=0), problem.gradient(1, w), atol=1e-12)


def test_a_batch_is_unbiased_and_divides_the_variance():
    problem = LogisticRegression.random(n=1, d=2, m=6, batch=4, seed=2)
    w = np.array([0.5, 0.5])
    each, samples = losses_gradients(problem, 0, w), drawn(problem, 0, w, 8000)
    missed = np.abs(samples.mean(axis=0) - each.mean(axis=0)) / np.sqrt(each.var(axis=0) / 4 / 8000)
    assert missed.max() < 5.5  # fails by chance with probability 8e-8
    squares = ((samples - each.mean(axis=0)) ** 2).sum(axis=1)
    expected = each.var(axis=0).sum() / 4
    assert abs(squares.mean() - expected) < 5.5 * squares.std() / math.sqrt(8000)  # 4e-8


def test_heterogeneity_zero_gives_all_workers_one_law_and_more_spreads_their_optima():
    def spread(heterogeneity):
        problem = LogisticRegression.random(n=30, d=3, m=200, heterogeneity=heterogeneity, seed=0)
        return problem.features.mean(axis=1).var(axis=0).sum()

    assert spread(0.0) < 0.1 < spread(1.0) < spread(3.0)


def test_the_draw_depends_on_the_seed():
    one, again, other = (LogisticRegression.random(n=2, d=3, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.features, again.features)
    assert np.array_equal(one.labels, again.labels)
    assert not np.array_equal(one.features, other.features)


def test_the_arrays_of_a_problem_cannot_be_written():
    problem = LogisticRegression.random(n=2, d=3)
    for array in (problem.features, problem.labels, problem.optimum):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1.0


def test_an_optimum_out_of_reach_says_what_to_do():
    # Features of 1e150 make curvatures that no double can hold beside λ.
    problem = LogisticRegression([[[1e150], [1e140]]], [[1.0, -1.0]], regularization=1e-8)
    with pytest.raises(SiagError, match="scale the features or raise the regularization"):
        _ = problem.optimum


GOOD = {"n": 2, "d": 3, "m": 4, "heterogeneity": 1.0, "regularization": 0.1, "batch": 1, "seed": 0}


@pytest.mark.parametrize(
    ("parameter", "value"),
    [(name, value) for name in ("n", "d", "m", "batch") for value in (0, -1, 1.5, True, None)]
    + [("heterogeneity", value) for value in (-0.1, math.nan, math.inf, "1")]
    + [("regularization", value) for value in (0, -1.0, math.nan, math.inf, None)]
    + [("seed", value) for value in (-1, 2**64, 1.0)],
)
def test_bad_parameters_are_refused_by_name(parameter, value):
    with pytest.raises(BadInput) as caught:
        LogisticRegression.random(**(GOOD | {parameter: value}))
    assert caught.value.parameter == parameter
    assert str(caught.value).startswith(f"{parameter} = {value!r}: must be ")


@pytest.mark.parametrize(
    ("features", "labels", "parameter", "hint"),
    [
        (np.zeros((2, 3)), np.ones((2, 3)), "features", "its shape is (2, 3)"),
        (np.zeros((2, 0, 3)), np.ones((2, 0)), "features", "its shape is (2, 0, 3)"),
        (np.full((1, 1, 1), math.nan), np.ones((1, 1)), "features", "it holds NaN or infinity"),
        (np.zeros((1, 2, 1)), np.ones((1, 3)), "labels", "its shape is (1, 3)"),
        (np.zeros((1, 2, 1)), [[0, 1]], "labels", "map 0 to −1"),
        (np.zeros((1, 2, 1)), [["a", "b"]], "labels", "convert it to float64"),
    ],
)
def test_bad_data_are_refused_by_name(features, labels, parameter, hint):
    with pytest.raises(BadInput) as caught:
        LogisticRegression(features, labels, 0.1)
    assert caught.value.parameter == parameter
    assert hint in str(caught.value)
