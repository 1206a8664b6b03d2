"""Exact moments, the sharp law and Theorem 1 where workers count for more than others."""

import numpy as np
import pytest

import siag
from siag.activity import Bernoulli, Nonuniform, Recorded, Uniform
from siag.foundations.errors import SiagError, Unsuitable
from siag.methods import SGD, SIAG, Averaged, Momentum, Weighted
from siag.problems import LeastSquares, Ridge
from siag.steps import Harmonic
from siag.theory import (
    Theorem1,
    advantage,
    best_average,
    best_step,
    biased_optimum,
    exact,
    exact_error,
    lemmas,
    price_of_staleness,
    selection_factor,
    sequential_error,
    shares,
    sharp_law,
)
from siag.theory.linear import coefficients_of

N, ITERATIONS, RUNS = 4, 400, 10_000
WEIGHTS = (0.5, 3.0, 1.0, 1.5)
P = np.array(WEIGHTS) / np.sum(WEIGHTS)
PLAIN = LeastSquares.random(n=N, d=3, p=2, noise=0.3, seed=3)
PROBLEM = PLAIN.weighted(WEIGHTS)
RIDGE = Ridge.random(n=N, d=2, m=[4, 9, 6, 2], tilt=0.5, regularization=0.2, batch=2, seed=1, weights="points")
ACTIVITY = Recorded.of(Nonuniform(2, 6), N, ITERATIONS, seed=9)
STEP = Harmonic(0.8, 15)
START = {3: np.array([1.5, -1.0, 0.5]), 2: np.array([1.5, -1.0])}
TRACES = [SIAG(), SIAG(wait=1.0), SIAG(average=3), SGD(), SGD(normalization="sum")]


def named(value):
    """A short name of a test's parameter."""
    return None if value is None else type(value).__name__


def curve_of(problem, method, **more):
    given = {"iterations": ITERATIONS, "record": 60, "w0": START[problem.d], "seed": 1}
    return exact_error(problem, method, ACTIVITY, STEP, **(given | more))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("problem", "method", "weights"),
    [
        *((PROBLEM, method, None) for method in TRACES),
        (PROBLEM, Averaged(SIAG()), None),
        (PROBLEM, Momentum(SIAG()), None),
        (PLAIN, Weighted(SIAG(), WEIGHTS), None),
        (PLAIN, SIAG(), "samples"),
        (RIDGE, SIAG(), None),
        (RIDGE, SGD(), WEIGHTS),
        (RIDGE, SIAG(average=3), "samples"),
    ],
    ids=named,
)
def test_the_mean_of_many_runs_agrees_everywhere(problem, method, weights):
    # Four standard errors at each of at most 60 points: a false alarm in fewer than 60 · 6.3e-5 = 0.4 % of seeds.
    curve = curve_of(problem, method, weights=weights)
    run = siag.simulate(
        problem, method, ACTIVITY, STEP, iterations=ITERATIONS, record=60, w0=START[problem.d], seed=1, repeats=RUNS,
        weights=weights,
    )  # fmt: skip
    assert np.array_equal(curve.t, run.t)
    allowed = np.maximum(4.0 * run.standard_error, 1e-12 * curve.error)  # some errors are not random at all
    assert (np.abs(run.mean - curve.error) <= allowed).all()
    assert (run.standard_error[-1] < 0.03 * curve.error[-1]).all()  # so a wrong curve would have been seen


@pytest.mark.few(2)
@pytest.mark.parametrize("method", TRACES, ids=repr)
def test_traces_are_what_blocks_are(method, monkeypatch):
    """The recursion in O(n) against T found by running the method's own code on unit vectors."""
    fast = curve_of(PROBLEM, method)
    monkeypatch.setattr(exact, "traces_at_start", lambda *_: None)
    whole = curve_of(PROBLEM, method)
    np.testing.assert_allclose(fast.error, whole.error, rtol=1e-9)
    np.testing.assert_allclose(fast.bias, whole.bias, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("method", TRACES, ids=repr)
def test_a_weighted_method_has_the_moments_of_a_weighted_problem(method):
    """But for the point that errors are measured from."""
    own, other = curve_of(PROBLEM, method), curve_of(PLAIN, Weighted(method, WEIGHTS))
    np.testing.assert_allclose(own.variance, other.variance, rtol=1e-12)
    assert not np.allclose(own.bias, other.bias)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", [*TRACES, Averaged(SIAG())], ids=repr)
def test_equal_weights_change_no_bit(method):
    for problem in (PLAIN, RIDGE.weighted(None)):
        plain, equal = curve_of(problem, method), curve_of(problem, method, weights=[0.1] * N)
        assert np.array_equal(plain.error, equal.error)


@pytest.mark.parametrize("problem", [PLAIN, RIDGE], ids=named)
def test_equal_weights_change_no_law(problem):
    step, activity = Harmonic(4.0, 20.0), Bernoulli([0.9, 0.1, 0.5, 0.3])
    plain = sharp_law(problem.weighted(None), activity, step)
    assert sharp_law(problem, activity, step, weights=[7.0] * N) == plain
    assert sharp_law(problem, activity, step, weights=WEIGHTS) != plain


@pytest.mark.parametrize(
    ("problem", "beta"), [(PROBLEM, 1.0), pytest.param(RIDGE, 4.0, marks=pytest.mark.thorough)], ids=named
)
def test_the_law_is_the_error_at_the_horizon(problem, beta):
    """Within 2 %; the mean over four patterns varies by less than half a percent."""
    activity, step, t = Bernoulli([0.9, 0.1, 0.5, 0.3]), Harmonic(beta, 40.0), 40_000
    found = exact_error(problem, SIAG(), activity, step, iterations=t, record=2, repeats=4).error[-1]
    assert sharp_law(problem, activity, step)(t) == pytest.approx(found, rel=0.02)
    assert sharp_law(problem.weighted(None), activity, step)(t) != pytest.approx(found, rel=0.2)  # so this can fail


def test_the_law_of_least_squares_is_as_written():
    activity, step = Bernoulli([0.9, 0.1, 0.5, 0.3]), Harmonic(1.0, 40.0)
    noise = PROBLEM.noise_at(P @ PLAIN.centers)
    expected = 1.0 / (2 * 2 - 1) * (P**2 * activity.reuse(N) * noise).sum()
    assert sharp_law(PLAIN, activity, step, weights=WEIGHTS).constant == pytest.approx(expected, rel=1e-12)
    price = price_of_staleness(PLAIN, activity, step, weights=WEIGHTS)
    np.testing.assert_allclose(price.parts, P**2 * activity.reuse(N) * noise / (3 * expected), rtol=1e-12)
    everybody = sharp_law(PROBLEM, siag.activity.Everyone(), step).constant
    assert price.overall == pytest.approx(expected / everybody, rel=1e-12)


def test_theorem_1_bounds_the_error_with_the_constants_of_the_weighted_objective():
    mu, L, sigma2 = PROBLEM.constants()
    theorem = Theorem1(mu=mu, L=L, sigma2=sigma2, n=N, T=4, beta=5.0 / mu)
    curve = exact_error(PROBLEM, SIAG(), Uniform(5), theorem.step, iterations=20_000, record=40)
    assert (curve.error <= theorem.bound(curve.t, curve.error[0])).all()


def test_the_lemmas_hold():
    found = lemmas(PROBLEM, SIAG(), Uniform(4), Harmonic(2.0, 500.0), iterations=2000, record=50)
    assert found.first.holds
    assert found.second.holds
    assert found.third.holds


def test_the_gaps_of_the_lemmas_are_those_of_rows_that_count():
    """E‖w^t − w^{τ_i(t)}‖² against many runs: within 4 standard errors, but for 6e-5 of seeds."""
    problem = LeastSquares([[0.0], [1.0]], p=1, noise=0.5, weights=[3.0, 1.0])
    sets, eta = [[0, 1], [0, 1], [0], [0], [0]], 0.1  # so that worker 1 has read a w that is random
    found = lemmas(problem, SIAG(), Recorded(sets), siag.steps.Constant(eta), iterations=5)
    draw, w, rows = np.random.default_rng(0), np.zeros(200_000), np.zeros((2, 200_000))
    read = w
    for workers in sets:
        for i in workers:
            A = draw.standard_normal(w.size)
            rows[i] = (1.5, 0.5)[i] * A * (A * (w - i) - 0.5 * draw.standard_normal(w.size))
            read = w if i == 1 else read
        gaps = np.square(w - read)
        w = w - eta / 2 * rows.sum(axis=0)
    assert abs(found.third.left[-1] - gaps.mean()) <= 4 * gaps.std() / np.sqrt(gaps.size)


def test_all_coefficients_of_a_message_are_weighed_whatever_its_length():
    for d in (1, 20):
        made, _ = coefficients_of(Weighted(SIAG(), WEIGHTS), np.zeros(d), N)
        assert made.state.numbers == made.state.weighed.size == len(made.T)


def test_sgd_goes_to_the_point_that_is_foreseen():
    activity = Recorded.of(Bernoulli([0.1, 0.9, 0.5, 0.5]), N, 3000, seed=2)
    part = shares(activity, N) * P
    np.testing.assert_allclose(biased_optimum(PROBLEM, activity), part @ PLAIN.centers / part.sum(), rtol=1e-12)
    np.testing.assert_array_equal(biased_optimum(PLAIN, activity, weights=WEIGHTS), biased_optimum(PROBLEM, activity))
    for problem in (PROBLEM, RIDGE):
        w = biased_optimum(problem, activity)
        parts = shares(activity, N) * problem.weights
        assert np.abs(parts @ [problem.gradient(i, w) for i in range(N)]).max() < 1e-12
    silent = LeastSquares([[0.0], [1.0]], p=1, noise=0.1, weights=[0.0, 1.0])
    with pytest.raises(Unsuitable, match="weight above 0"):
        biased_optimum(silent, Recorded([[0], [0]]))


@pytest.mark.parametrize("apart", [0.01, 0.3])
def test_the_advantage_is_foreseen(apart):
    """As for equal weights: sIAG's error within a quarter, SGD's within a tenth, for one pattern of 20,000 reports."""
    weights, step = np.geomspace(1.0, 4.0, 8), Harmonic(beta=0.01, gamma=1000.0)
    problem = LeastSquares(apart * np.random.default_rng(1).standard_normal((8, 5)), p=200, noise=1.0)
    rates = 1.0 / np.geomspace(1.0, 10.0, 8)
    draws = np.random.default_rng(0).choice(8, p=rates / rates.sum(), size=20_000)
    activity = Recorded(draws[:, None].tolist())
    law = advantage(problem, activity, step, weights=weights)
    ran = [
        exact_error(problem, method, activity, step, iterations=20_000, record=1, weights=weights).error[-1]
        for method in (SIAG(), SGD())
    ]
    assert law.siag(20_000) == pytest.approx(ran[0], rel=0.25)
    assert law.bias + law.sgd(20_000) == pytest.approx(ran[1], rel=0.1)


def test_sequential_sgd_draws_workers_by_their_weights():
    """The same law from workers that are there as often as they count."""
    often = LeastSquares(np.repeat(PLAIN.centers, [1, 6, 2, 3], axis=0), p=2, noise=0.3)
    one, other = (sequential_error(each, STEP, iterations=100, record=10) for each in (PROBLEM, often))
    np.testing.assert_allclose(one.error, other.error, rtol=1e-12)
    assert selection_factor(PROBLEM) == pytest.approx(selection_factor(often), rel=1e-12)


def test_searches_take_weights():
    best = best_step(PLAIN, ACTIVITY, 200, weights=WEIGHTS)
    assert best.error == exact_error(PROBLEM, SIAG(), ACTIVITY, best.step, iterations=200, record=1).error[-1]
    assert best.error < exact_error(PROBLEM, SIAG(), ACTIVITY, STEP, iterations=200, record=1).error[-1]
    found = best_average(PLAIN, ACTIVITY, 200, STEP, weights=WEIGHTS)
    assert found.error == exact_error(PROBLEM, found.method, ACTIVITY, STEP, iterations=200, record=1).error[-1]


@pytest.mark.parametrize(
    ("weights", "word"),
    [([1.0, 2.0], "shape"), ([-1.0, 1, 1, 1], "0 or more"), ([0.0] * 4, "above 0"), ("sizes", "numbers|points")],
    ids=str,
)
def test_bad_weights_are_refused_everywhere(weights, word):
    step = Harmonic(4.0, 20.0)
    for problem in (PLAIN, RIDGE):
        for call in (
            lambda problem=problem: exact_error(problem, SIAG(), ACTIVITY, STEP, iterations=5, weights=weights),
            lambda problem=problem: sharp_law(problem, Uniform(3), step, weights=weights),
            lambda problem=problem: price_of_staleness(problem, Uniform(3), step, weights=weights),
            lambda problem=problem: best_step(problem, ACTIVITY, 5, weights=weights),
            lambda problem=problem: biased_optimum(problem, ACTIVITY, weights=weights),
        ):
            with pytest.raises(SiagError, match=rf"^weights = .*({word})"):
                call()


def test_counted_weights_are_refused_where_rates_are_not_known():
    for activity in (Nonuniform(2, 5), siag.activity.Clock(siag.activity.Exponential(1.0))):
        with pytest.raises(Unsuitable, match=r"^weights='samples': it is not known how often workers report.*Recorded"):
            exact_error(PLAIN, SIAG(), activity, STEP, iterations=5, weights="samples")
