"""What problems on points per worker have in common: derivatives, samples, smoothness and the sum by sample."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.problems import LogisticRegression, NonconvexLogistic, Ridge, exact, hessian, sample
from siag.problems.points import add_outer, add_point

quick = settings(deadline=None, max_examples=30)
sizes = {
    "n": st.integers(1, 4),
    "d": st.integers(1, 4),
    "m": st.integers(1, 8),
    "regularization": st.floats(1e-2, 10),
    "batch": st.integers(1, 3),
    "seed": st.integers(0, 999),
}
ridges = st.builds(Ridge.random, spread=st.floats(0, 3), tilt=st.floats(0, 1), condition=st.floats(1, 100), **sizes)
problems = ridges | st.builds(LogisticRegression.random, heterogeneity=st.floats(0, 3), **sizes)
anything = problems | st.builds(NonconvexLogistic.random, heterogeneity=st.floats(0, 3), **sizes)
both = pytest.mark.parametrize("kind", [LogisticRegression, Ridge])
all_three = pytest.mark.parametrize("kind", [LogisticRegression, NonconvexLogistic, Ridge])


def points_of(problem, seed):
    draw = np.random.default_rng(seed)
    return [scale * draw.standard_normal(problem.d) for scale in (0.1, 1.0, 5.0)]


def whole(function, problem, w):
    return np.mean([function(i, w) for i in range(problem.n)], axis=0)


def slopes(function, w, h):
    """The derivative of `function` along each axis, by central differences."""
    return np.array([(function(w + h * e) - function(w - h * e)) / (2 * h) for e in np.eye(w.size)])


@quick
@given(anything, st.integers(0, 99))
def test_the_gradient_is_the_slope_of_the_objective(problem, seed):
    for w in points_of(problem, seed):
        found, expected = whole(problem.gradient, problem, w), slopes(problem.objective, w, 1e-5)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * (1 + problem.objective(w)))


@quick
@given(anything, st.integers(0, 99))
def test_the_hessian_is_the_slope_of_the_gradient_and_symmetric(problem, seed):
    for w in points_of(problem, seed):
        for i in range(problem.n):
            found, expected = problem.hessian(i, w), slopes(lambda v, i=i: problem.gradient(i, v), w, 1e-5)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * (1 + np.abs(found).max()))
            assert np.array_equal(found, found.T)


@quick
@given(problems, st.integers(0, 99))
def test_no_curvature_exceeds_the_workers_smoothness_nor_falls_below_mu(problem, seed):
    mu, L, _ = problem.constants()
    assert problem.smoothness.shape == (problem.n,)
    assert problem.smoothness.max() == L
    for w in points_of(problem, seed):
        assert np.linalg.eigvalsh(whole(problem.hessian, problem, w))[0] >= mu * (1 - 1e-9)
        for i, most in enumerate(problem.smoothness):
            assert np.linalg.eigvalsh(problem.hessian(i, w))[-1] <= most * (1 + 1e-9)


@quick
@given(anything)
def test_the_smoothness_of_every_worker_is_attained_at_zero(problem):
    for i, most in enumerate(problem.smoothness):
        assert np.linalg.eigvalsh(problem.hessian(i, np.zeros(problem.d)))[-1] == pytest.approx(most, rel=1e-9)


@all_three
def test_a_sample_is_unbiased(kind):
    problem = kind.random(n=2, d=3, m=6, batch=2, regularization=0.3, seed=1)
    w, count = np.array([0.5, -1.0, 0.3]), 8000
    drawn, rng, root, oracle = np.empty((count, 3)), blank(), key(5, 0, SAMPLES), problem.oracle()
    for k in range(count):
        rewind(rng, root, 1, k)
        sample(oracle, rng, 1, w, drawn[k])
    missed = (drawn.mean(axis=0) - problem.gradient(1, w)) / (drawn.std(axis=0) / math.sqrt(count))
    assert np.abs(missed).max() < 5.5  # fails by chance with probability 1.2e-7


@compiled
def fill(oracle, rng, w, one, mean, curvature):
    sample(oracle, rng, 1, w, one)
    exact(oracle, 1, w, mean)
    hessian(oracle, 1, w, curvature)


@pytest.mark.thorough
@all_three
def test_compiled_derivatives_equal_plain_ones_bit_for_bit(kind):
    problem = kind.random(n=3, d=4, m=5, batch=2, regularization=0.3, seed=1)
    w, results = np.array([0.5, -1.0, 0.3, 2.0]), []
    for function in (fill, fill.plain):
        rng, out = blank(), (np.empty(4), np.empty(4), np.empty((4, 4)))
        rewind(rng, key(5, 0, SAMPLES), 1, 0)
        function(problem.oracle(), rng, w, *out)
        results.append([array.tolist() for array in out])
    assert results[0] == results[1]
    fast, slow = ((np.zeros(4), np.zeros((4, 4))) for _ in range(2))
    add_point(problem.oracle(), 1, 2, 0.3, w, fast[0])
    add_outer(problem.oracle(), 1, 2, 0.3, w, fast[1])
    add_point.plain(problem.oracle(), 1, 2, 0.3, w, slow[0])
    add_outer.plain(problem.oracle(), 1, 2, 0.3, w, slow[1])
    assert [array.tolist() for array in fast] == [array.tolist() for array in slow]


@both
def test_compiled_runs_equal_plain_ones_bit_for_bit(kind):
    problem = kind.random(n=4, d=3, m=5, batch=2, regularization=0.3, seed=1)
    parts = problem, siag.methods.SIAG(), siag.activity.Uniform(3), siag.steps.Constant(0.01)
    fast, slow = (siag.simulate(*parts, iterations=50, compiled=how) for how in (True, False))
    assert fast.w.tolist() == slow.w.tolist()


@quick
@given(problems, st.integers(0, 99))
def test_by_sample_is_the_same_function_with_one_point_per_worker(problem, seed):
    split = problem.by_sample()
    assert type(split) is type(problem)
    assert (split.n, split.m, split.d, split.batch) == (problem.n * problem.m, 1, problem.d, 1)
    for w in points_of(problem, seed):
        assert split.objective(w) == pytest.approx(problem.objective(w), rel=1e-12)
        for function in ("gradient", "hessian"):
            one, other = (whole(getattr(each, function), each, w) for each in (problem, split))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11 * (1 + np.abs(one).max()))
    assert np.array_equal(split.optimum, problem.optimum)


@both
def test_by_sample_keeps_the_order_shares_the_points_and_leaves_the_problem_as_it_was(kind):
    problem = kind.random(n=2, d=3, m=4, batch=3, regularization=0.3)
    before = repr(problem), problem.optimum.tolist(), problem.smoothness.tolist()
    split = problem.by_sample()
    assert np.shares_memory(split.features, problem.features)
    assert np.array_equal(split.features[5, 0], problem.features[1, 1])
    assert not split.features.flags.writeable
    assert repr(split) == f"{problem!r}.by_sample()"
    assert (repr(problem), problem.optimum.tolist(), problem.smoothness.tolist()) == before
    assert problem.batch == 3
    curvature = kind.CURVATURE * (problem.features**2).sum(axis=2).reshape(-1)
    np.testing.assert_allclose(split.smoothness, problem.regularization + curvature)


@both
def test_by_sample_a_sample_is_the_exact_gradient(kind):
    problem = kind.random(n=2, d=3, m=4, regularization=0.3).by_sample()
    w, out, rng = np.ones(3), np.empty(3), blank()
    sample(problem.oracle(), rng, 5, w, out)
    assert out.tolist() == problem.gradient(5, w).tolist()


@both
def test_a_hessian_at_a_wrong_place_is_refused(kind):
    problem = kind.random(n=2, d=3, m=4, regularization=0.3)
    with pytest.raises(BadInput, match=r"^w = "):
        problem.hessian(0, np.zeros(2))
    for i in (-1, 2, 0.5):
        with pytest.raises(BadInput, match=r"^i = "):
            problem.hessian(i, np.zeros(3))
