"""Problems whose workers count for more than others, and whose workers have different numbers of points."""

import re
from dataclasses import dataclass

import numpy as np
import pytest

from siag.checks import Bowl
from siag.experiments.config import written
from siag.foundations.dispatch import plainly
from siag.foundations.errors import BadInput, SiagError, Unsuitable
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.problems import (
    FromFunction,
    LeastSquares,
    LogisticRegression,
    Network,
    NonconvexLogistic,
    Problem,
    Ridge,
    sample,
    weights_of,
)
from siag.problems.weights import check_weights

WEIGHTS, COUNTS = [0.5, 3.0, 0.0, 1.5], [4, 9, 6, 1]
SHARES = np.array(WEIGHTS) / np.sum(WEIGHTS)
MEANS = np.array([[1.0, 0.0], [2.0, 5.0], [6.0, -1.0], [0.5, 0.5]])
POINTWISE = {
    "Ridge": lambda **more: Ridge.random(n=4, d=2, m=COUNTS, regularization=0.2, seed=1, batch=2, **more),
    "LogisticRegression": lambda **more: LogisticRegression.random(n=4, d=2, m=COUNTS, seed=1, **more),
    "NonconvexLogistic": lambda **more: NonconvexLogistic.random(n=4, d=2, m=COUNTS, seed=1, **more),
    "Network": lambda **more: Network.random(n=4, p=2, m=COUNTS, classes=3, hidden=2, seed=1, **more),
}
PROBLEMS = POINTWISE | {
    "LeastSquares": lambda **more: LeastSquares.random(n=4, d=3, p=2, noise=0.3, seed=3, **more),
    "FromFunction": lambda **more: FromFunction(
        lambda i, w: w - MEANS[i], n=4, d=2, exact=lambda i, w: w - MEANS[i], **more
    ),
}
with_optimum = pytest.mark.parametrize("name", ["LeastSquares", "Ridge", "LogisticRegression"])
with_points = pytest.mark.parametrize("name", POINTWISE)
everyone = pytest.mark.parametrize("name", PROBLEMS)


@pytest.fixture(autouse=True)
def without_compiling():
    with plainly():
        yield


def somewhere(problem):
    return np.random.default_rng(5).standard_normal(problem.d)


def slope(function, w, h=1e-5):
    return np.array([(function(w + h * e) - function(w - h * e)) / (2 * h) for e in np.eye(w.size)])


@everyone
def test_the_gradient_is_that_of_the_weighted_sum(name):
    problem = PROBLEMS[name](weights=WEIGHTS)
    w = somewhere(problem)
    expected = SHARES @ [problem.gradient(i, w) for i in range(4)]
    np.testing.assert_allclose(problem.full_gradient(w), expected, rtol=1e-12, atol=1e-14)
    if name != "FromFunction":
        np.testing.assert_allclose(slope(problem.objective, w), expected, rtol=1e-6, atol=1e-8)


@with_optimum
def test_at_the_optimum_the_weighted_gradients_cancel(name):
    problem, plain = PROBLEMS[name](weights=WEIGHTS), PROBLEMS[name]()
    each = np.array([problem.gradient(i, problem.optimum) for i in range(4)])
    assert np.abs(SHARES @ each).max() < 1e-9
    assert np.linalg.norm(problem.optimum - plain.optimum) > 1e-2
    assert problem.objective(problem.optimum) < problem.objective(plain.optimum)


@with_optimum
def test_the_constants_are_those_of_the_weighted_objective(name):
    """F̃_i = n p_i F_i: μ bounds the curvature of F, L those of the F̃_i, and σ² the noise of their gradients."""
    problem = PROBLEMS[name](weights=WEIGHTS)
    mu, L, sigma2 = problem.constants()
    assert (problem.weights * problem.smoothness).max() == L
    draw, largest = np.random.default_rng(2), 0.0
    for length in (0.0, 0.3, 1.0, 3.0, 30.0):
        w = problem.optimum + length * draw.standard_normal(problem.d)
        hessian = np.tensordot(SHARES, [problem.hessian(i, w) for i in range(4)], 1)
        assert np.linalg.eigvalsh(hessian)[0] >= mu * (1 - 1e-9)
        allowed = sigma2 * (1 + np.square(w - problem.optimum).sum())
        ratio = problem.weights**2 * noise_of(problem, w) / allowed
        assert ratio.max() <= 1 + 1e-9
        largest = max(largest, ratio.max())
    assert largest > 0.2  # so that the bound is one of this problem
    assert PROBLEMS[name]().constants() != problem.constants()


def noise_of(problem, w):
    """(n,) E‖∇f_i − ∇F_i‖²."""
    if isinstance(problem, LeastSquares):
        return problem.noise_at(w)
    single = problem.by_sample()
    gradients = np.array([single.gradient(k, w) for k in range(single.n)])
    own = np.split(gradients, np.cumsum(problem.counts)[:-1])
    return np.array([np.square(each - each.mean(axis=0)).sum(axis=1).mean() for each in own]) / problem.batch


@everyone
@pytest.mark.parametrize("equal", [2.0, 0.1, 1e-300, 1e300])
def test_equal_weights_are_none(name, equal):
    problem, plain = PROBLEMS[name](weights=[equal] * 4), PROBLEMS[name]()
    w = somewhere(problem)
    assert problem.weights is None
    assert plain.weighted([equal] * 4).weights is None
    assert np.array_equal(problem.full_gradient(w), plain.full_gradient(w))
    if name != "FromFunction":
        assert problem.objective(w) == plain.objective(w)
        assert repr(problem) == repr(plain)


@everyone
def test_weighted_is_the_same_problem_with_weights(name):
    plain, made = PROBLEMS[name](), PROBLEMS[name](weights=WEIGHTS)
    again, w = plain.weighted(WEIGHTS), somewhere(made)
    assert np.array_equal(again.weights, made.weights)
    assert again.weights.mean() == pytest.approx(1.0)
    assert np.array_equal(again.full_gradient(w), made.full_gradient(w))
    assert repr(again) == repr(made)
    assert "weights=[0.4, 2.4" in repr(made)
    assert plain.weights is None
    assert again.weighted(None).weights is None
    assert repr(again.weighted(None)) == repr(plain)
    if plain.optimum is not None:
        assert not np.array_equal(plain.optimum, again.optimum)  # though that of `plain` was known already


@with_points
def test_a_worker_has_as_many_points_as_it_has(name):
    """The F_i of unequal numbers of points are those of workers that are alone."""
    problem = POINTWISE[name]()
    w, values = somewhere(problem), getattr(problem, problem.VALUES)
    assert problem.counts.tolist() == COUNTS
    assert problem.m == 9
    losses = []
    for i, m in enumerate(COUNTS):
        alone = like(problem, problem.features[i : i + 1, :m], values[i : i + 1, :m])
        assert np.array_equal(alone.gradient(0, w), problem.gradient(i, w))
        losses.append(alone.objective(w))
        if name != "Network":
            assert alone.smoothness[0] == pytest.approx(problem.smoothness[i], rel=1e-12)
            assert np.array_equal(alone.hessian(0, w), problem.hessian(i, w))
    assert problem.objective(w) == pytest.approx(np.mean(losses), rel=1e-12)
    assert problem.weighted(WEIGHTS).objective(w) == pytest.approx(SHARES @ losses, rel=1e-12)


def like(problem, features, values, **more):
    """Another problem of the same kind."""
    names = ("classes", "hidden", "seed") if isinstance(problem, Network) else ("regularization", "batch")
    return type(problem)(features, values, **{name: getattr(problem, name) for name in names}, **more)


@with_points
def test_lists_of_arrays_and_counts_say_the_same(name):
    problem = POINTWISE[name]()
    values, w = getattr(problem, problem.VALUES), somewhere(problem)
    lists = [[array[i, :m].tolist() for i, m in enumerate(COUNTS)] for array in (problem.features, values)]
    padded = problem.features.copy()
    padded[0, 5:] = 1e9  # no points of worker 0
    for other in (like(problem, *lists), like(problem, padded, values, counts=COUNTS)):
        assert np.array_equal(other.features, problem.features)
        assert np.array_equal(other.full_gradient(w), problem.full_gradient(w))
        assert other.objective(w) == problem.objective(w)
        assert f"m={COUNTS}" in repr(other)


@with_points
def test_samples_are_drawn_from_the_workers_own_points(name):
    problem = POINTWISE[name]()
    w, out, rng, root = somewhere(problem), np.empty(problem.d), blank(), key(0, 0, SAMPLES)
    for k in range(20):  # the last worker has one point: its sample is its exact gradient
        with np.errstate(over="ignore"):
            rewind(rng, root, 3, k)
            sample(problem.oracle(), rng, 3, w, out)
        np.testing.assert_allclose(out, problem.gradient(3, w), rtol=1e-12)


def fields_of(name):
    return "features", ("targets" if name == "Ridge" else "labels")


@with_points
def test_weights_by_points_make_all_points_count_the_same(name):
    """FedAvg's n_k/n: the mean over all points, wherever they are."""
    problem = POINTWISE[name](weights="points")
    there = np.arange(9) < np.array(COUNTS)[:, None]
    features, values = (getattr(problem, each)[there] for each in fields_of(name))
    pooled, w = like(problem, features[None], values[None]), somewhere(problem)
    np.testing.assert_allclose(problem.weights, np.array(COUNTS) / 5.0, rtol=1e-15)
    assert problem.objective(w) == pytest.approx(pooled.objective(w), rel=1e-12)
    np.testing.assert_allclose(problem.full_gradient(w), pooled.full_gradient(w), rtol=1e-9, atol=1e-13)
    if problem.optimum is not None:
        np.testing.assert_allclose(problem.optimum, pooled.optimum, rtol=1e-8)
    if name == "Network":
        assert problem.accuracy(w) == pooled.accuracy(w)
    assert like(problem, features[None], values[None], weights="points").weights is None


@pytest.mark.parametrize("name", ["Ridge", "LogisticRegression"])
@pytest.mark.parametrize("weights", [None, WEIGHTS, "points"], ids=str)
def test_by_sample_is_the_same_function(name, weights):
    problem = POINTWISE[name](weights=weights)
    split, w = problem.by_sample(), somewhere(problem)
    assert (split.n, split.m) == (sum(COUNTS), 1)
    assert split.objective(w) == pytest.approx(problem.objective(w), rel=1e-12)
    np.testing.assert_allclose(split.full_gradient(w), problem.full_gradient(w), rtol=1e-9)
    assert (split.weights is None) == (weights == "points")
    assert split.constants().sigma2 == 0.0


@pytest.mark.parametrize("name", ["LeastSquares", "Ridge", "LogisticRegression", "NonconvexLogistic", "Network"])
def test_a_problem_that_was_drawn_can_be_made_again_from_how_it_prints(name):
    problem = PROBLEMS[name](weights=WEIGHTS)
    made, w = written("problem", repr(problem)), somewhere(problem)
    assert np.allclose(made.full_gradient(w), problem.full_gradient(w), rtol=1e-14)


def test_weights_of_many_workers_are_printed_in_short():
    problem = LeastSquares(np.ones((500, 2)), 1, 0.1, weights=np.arange(500))
    assert len(repr(problem)) < 500
    assert repr(problem).endswith(", ...])")


BAD = [
    ([1.0, -1.0, 1.0, 1.0], "0 or more"),
    ([0.0] * 4, "above 0"),
    ([1.0, np.inf, 1.0, 1.0], "NaN or infinity"),
    ([1.0, 2.0], r"shape \(4\)"),
    (3.0, r"shape \(4\)"),
    (["a", "b", "c", "d"], "float64"),
    ({0: 3.0, 1: 1.0, 2: 1.0, 3: 1.0}, "in the order of the workers; give a list"),
    ("sizes", "points|numbers"),
    ("samples", "points|numbers"),
]


@everyone
@pytest.mark.parametrize(("weights", "word"), BAD, ids=str)
def test_weights_that_are_none_are_refused_in_one_line(name, weights, word):
    for make in (lambda: PROBLEMS[name](weights=weights), lambda: PROBLEMS[name]().weighted(weights)):
        with pytest.raises(BadInput, match=rf"^weights = {re.escape(repr(weights))}: .*({word})") as refused:
            make()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("features", "targets", "counts", "word"),
    [
        ([[[1.0], [2.0]], [[3.0]]], [[1.0, 2.0]], None, r"^targets = .*list of 2"),
        ([[[1.0], [2.0]], [[3.0]]], [[1.0, 2.0], [3.0, 4.0]], None, r"^targets\[1\] = .*shape \(1\)"),
        ([[[1.0], [2.0]], [[3.0, 4.0]]], [[1.0, 2.0], [3.0]], None, r"^features\[1\] = .*shape \(any × 1\)"),
        ([[[1.0], [2.0]], []], [[1.0, 2.0], []], None, r"^features\[1\] = "),
        (np.ones((2, 3, 1)), np.ones((2, 3)), [1, 4], r"^counts\[1\] = 4: .*from 1 to 3"),
        (np.ones((2, 3, 1)), np.ones((2, 3)), [1], r"^counts = \[1\]: must be 2 whole numbers"),
        (np.ones((2, 3, 1)), np.ones((2, 3)), 2, r"^counts = 2: must be 2 whole numbers"),
    ],
)
def test_points_that_do_not_fit_are_refused(features, targets, counts, word):
    with pytest.raises(BadInput, match=word):
        Ridge(features, targets, 0.1, counts=counts)


def test_numbers_of_points_for_other_workers_are_refused():
    with pytest.raises(BadInput, match=r"^m = \[2, 3\]: must be a whole number, or 4 of them"):
        Ridge.random(n=4, d=2, m=[2, 3])


def test_labels_of_points_that_are_there_are_looked_at():
    with pytest.raises(BadInput, match="labels"):
        LogisticRegression([[[1.0]], [[1.0], [2.0]]], [[1.0], [1.0, 0.0]], 0.1)


def test_numbers_at_the_ends_of_their_range_are_weights():
    for scale in (1e308, 5e-324 * 2**20):
        np.testing.assert_allclose(check_weights([scale, scale / 2, scale]), [1.2, 0.6, 1.2], rtol=1e-6)


class Own(Bowl):
    """A problem of the user's that says what its workers count for."""

    @property
    def weights(self):
        return [3, 1, 1, 1]


@dataclass(frozen=True, eq=False)
class Fielded(Bowl):
    """One that takes it as an argument."""

    weights: object = None


def test_a_problem_of_the_users_own_has_weights():
    problem, w = Own(MEANS, np.ones(2)), np.ones(2)
    np.testing.assert_allclose(weights_of(problem), [2.0, 2 / 3, 2 / 3, 2 / 3])
    expected = np.array([0.5, 1 / 6, 1 / 6, 1 / 6]) @ [problem.gradient(i, w) for i in range(4)]
    np.testing.assert_allclose(problem.full_gradient(w), expected, rtol=1e-12)
    assert Fielded(MEANS, np.ones(2)).weighted(WEIGHTS).weights == WEIGHTS


def test_one_that_takes_none_says_so():
    with pytest.raises(Unsuitable, match="Bowl takes no weights; make it a dataclass with a field weights"):
        Bowl(MEANS, np.ones(2)).weighted(WEIGHTS)
    assert Problem.weights.__get__(Bowl(MEANS, np.ones(2))) is None


def test_what_was_given_for_other_weights_is_not_kept():
    problem = FromFunction(lambda i, w: w, n=4, d=2, optimum=[0.0, 0.0])
    with pytest.raises(SiagError, match=r"was given its optimum for other weights; make it anew"):
        problem.weighted(WEIGHTS)
    assert problem.weighted([2.0] * 4).optimum is not None
    assert "<lambda>, n=4, d=2, weights=[0.4" in repr(FromFunction(lambda i, w: w, n=4, d=2, weights=WEIGHTS))
