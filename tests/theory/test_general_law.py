"""The sharp law of any quadratic, of means of iterates and constant steps; what staleness costs; the best β and m."""

import numpy as np
import pytest
from scipy.linalg import solve_continuous_lyapunov

import siag
from plain import as_python
from siag.activity import Bernoulli, Cyclic, Everyone, Nonuniform, Recorded, Uniform
from siag.methods import SGD, SIAG, Averaged
from siag.problems import LeastSquares, Ridge
from siag.steps import Constant, Harmonic
from siag.theory import best_average, best_step, biased_optimum, exact_error, price_of_staleness, sharp_law
from siag.theory.blocks import quadratic
from siag.theory.sharp import at_optimum_of, response_of

RIDGE = Ridge.random(n=4, d=3, m=6, tilt=0.4, spread=1.0, regularization=0.2, noise=0.3, batch=2, seed=3)
HESSIANS = np.einsum("nmi,nmj->nij", RIDGE.features, RIDGE.features) / 6 + 0.2 * np.eye(3)
H = HESSIANS.mean(axis=0)
MU = np.linalg.eigvalsh(H)[0]
LONG = 100_000
RATES = Bernoulli([0.1, 0.5, 0.9, 0.3])


def noise_at_optimum():
    """(n, d, d) the N_i(w*), from the gradients of single points."""
    found = []
    for X, y in zip(RIDGE.features, RIDGE.targets, strict=True):
        z = X * (X @ RIDGE.optimum - y)[:, None]
        found.append(np.cov(z.T, bias=True) / RIDGE.batch)
    return np.array(found)


def noise_of(activity):
    """S = (1/n²) Σ κ_i N_i(w*)."""
    return np.tensordot(activity.reuse(4), noise_at_optimum(), 1) / 16


@pytest.mark.few(1)
@pytest.mark.parametrize("activity", [Everyone(), Cyclic(), RATES])
def test_the_constant_solves_the_lyapunov_equation(activity):
    S = noise_of(activity)
    for beta in (0.6 / MU, 3.0 / MU):
        P = solve_continuous_lyapunov(beta * H - 0.5 * np.eye(3), beta**2 * S)
        law = sharp_law(RIDGE, activity, Harmonic(beta, 77.0))
        assert law.constant == pytest.approx(np.trace(P), rel=1e-10)
        assert law(923.0) == pytest.approx(np.trace(P) / 1000.0, rel=1e-10)
    assert sharp_law(RIDGE, activity, Constant(0.01)).constant == pytest.approx(
        np.trace(solve_continuous_lyapunov(H, 0.01 * S)), rel=1e-10
    )
    inverse = np.linalg.inv(H)
    assert sharp_law(RIDGE, activity, Constant(0.01), averaged=True).constant == pytest.approx(
        np.trace(inverse @ S @ inverse), rel=1e-10
    )


def ending(problem, activity, step, method=None, iterations=LONG):
    """The exact error along a pattern, and the pattern."""
    pattern = Recorded.of(activity, problem.n, iterations, seed=1)
    return exact_error(problem, method or SIAG(), pattern, step, iterations=iterations, record=1).error[-1], pattern


@pytest.mark.thorough
@pytest.mark.parametrize("activity", [Uniform(5), Cyclic(), RATES, Nonuniform(2, 8)])
@pytest.mark.parametrize("times", [1.0, 2.0, 5.0])
def test_the_law_on_ridge_is_the_exact_error_to_two_percent(activity, times):
    step = Harmonic(times / MU, 40.0 * times)
    error, pattern = ending(RIDGE, activity, step)
    assert error == pytest.approx(sharp_law(RIDGE, pattern, step)(LONG), rel=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("activity", [Uniform(5), Cyclic(), Bernoulli(0.3)])
@pytest.mark.parametrize("beta", [0.15, 0.5])
def test_the_law_on_least_squares_is_the_exact_error_to_two_percent(activity, beta):
    problem, step = LeastSquares.random(n=6, d=4, p=10, noise=0.1), Harmonic(beta, 1000.0 * beta)
    error, pattern = ending(problem, activity, step)
    assert error == pytest.approx(sharp_law(problem, pattern, step)(LONG), rel=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("average", [2, 8])
def test_the_law_on_ridge_holds_for_rows_that_average(average):
    step = Harmonic(2.0 / MU, 80.0)
    error, pattern = ending(RIDGE, RATES, step, SIAG(average=average))
    law = sharp_law(RIDGE, pattern, step, average=average)
    assert error == pytest.approx(law(LONG), rel=0.02)
    assert law.constant < 0.9 * sharp_law(RIDGE, pattern, step).constant


@pytest.mark.thorough
@pytest.mark.parametrize("step", [Constant(0.004), Harmonic(3.0 / MU, 100.0)])
def test_the_law_of_the_mean_of_iterates_is_its_exact_error_to_two_percent(step):
    """Exact from w* on; the start fades as 1/t² only, since the mean does not forget it."""
    pattern = Recorded.of(RATES, 4, LONG, seed=1)
    parts = (RIDGE, Averaged(SIAG()), pattern, step)
    error = exact_error(*parts, iterations=LONG, record=1, w0=RIDGE.optimum).error[-1]
    assert error == pytest.approx(sharp_law(RIDGE, pattern, step, averaged=True)(LONG), rel=0.02)


@pytest.mark.thorough
def test_the_law_of_a_constant_step_is_the_error_that_remains_to_two_percent():
    step = Constant(0.0005)
    error, pattern = ending(RIDGE, Uniform(4), step)
    law = sharp_law(RIDGE, pattern, step)
    assert error == pytest.approx(law(LONG), rel=0.02)
    assert law(LONG) == law(10 * LONG)


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("step", [Harmonic(0.2, 200.0), Constant(0.001)])
def test_on_least_squares_the_law_of_matrices_is_that_of_traces(step, averaged):
    problem = LeastSquares.random(n=6, d=4, p=10, noise=0.1)
    with as_python():
        curvatures, variances = at_optimum_of(quadratic(problem, True), problem.optimum)
    general = Bernoulli(np.linspace(0.1, 1.0, 6)).reuse(6) @ variances @ response_of(curvatures, step, averaged) / 36
    law = sharp_law(problem, Bernoulli(np.linspace(0.1, 1.0, 6)), step, averaged=averaged)
    assert law.constant == pytest.approx(general, rel=1e-12)


def test_on_least_squares_the_constant_is_what_it_was():
    problem, step = LeastSquares.random(n=6, d=4, p=10, noise=0.1), Harmonic(0.2, 200.0)
    noise = float((RATES.reuse(4).repeat(2)[:6] * problem.noise_at(problem.optimum)).mean())
    law = sharp_law(problem, Bernoulli([0.1, 0.1, 0.5, 0.5, 0.9, 0.9]), step)
    assert law.constant == pytest.approx(0.2**2 / (2 * 0.2 * 10 - 1) * noise / 6, rel=1e-12)


def test_a_beta_too_small_for_the_flattest_direction_is_refused_with_the_range():
    with pytest.raises(siag.BadInput, match=rf"^beta = .*above 1/\(2 mu\) = {0.5 / MU:g}"):
        sharp_law(RIDGE, Cyclic(), Harmonic(0.49 / MU, 10.0))
    with pytest.raises(siag.BadInput, match=r"^averaged = 1"):
        sharp_law(RIDGE, Cyclic(), Harmonic(2.0 / MU, 10.0), averaged=1)


@pytest.mark.thorough
def test_sgd_on_ridge_goes_to_the_biased_optimum():
    pattern = Recorded.of(RATES, 4, LONG, seed=1)
    bias = exact_error(RIDGE, SGD(), pattern, Harmonic(2.0 / MU, 80.0), iterations=LONG, record=1).bias[-1]
    away = ((biased_optimum(RIDGE, pattern) - RIDGE.optimum) ** 2).sum()
    assert away > 1e-3
    assert bias == pytest.approx(away, rel=0.05)


def test_the_price_of_staleness_is_the_error_over_that_of_workers_always_active():
    step = Harmonic(2.0 / MU, 80.0)
    error, pattern = ending(RIDGE, RATES, step, iterations=30_000)
    fresh, _ = ending(RIDGE, Everyone(), step, iterations=30_000)
    price = price_of_staleness(RIDGE, pattern, step)
    assert price.overall == pytest.approx(error / fresh, rel=0.02)
    assert price.due == pytest.approx(1.0 - fresh / error, abs=0.01)
    np.testing.assert_allclose(price.by_worker, pattern.reuse(4))
    assert price.parts.sum() == pytest.approx(1.0)
    assert price_of_staleness(RIDGE, Everyone(), step).due == 0.0


def test_without_noise_at_the_optimum_staleness_has_no_price():
    quiet = LeastSquares(np.ones((3, 2)), p=2, noise=0.0)
    with pytest.raises(siag.Unsuitable, match="no noise at the optimum"):
        price_of_staleness(quiet, Cyclic(), Harmonic(2.0, 10.0))


SQUARES = LeastSquares.random(n=20, d=20, p=10, noise=0.1, seed=9001)
BETAS, GAMMAS = np.array([0.5, 1, 2, 4, 8, 16]), np.array([0.15, 0.5, 1.5, 5, 15, 50])


def best_of_grid(problem, activity, iterations, betas, gammas, method=None):
    """The best of the 36 pairs of benchmarks/automatic.py."""
    errors = [
        exact_error(problem, method or SIAG(), activity, Harmonic(beta, gamma), iterations=iterations, record=1).error[
            -1
        ]
        for beta in betas
        for gamma in gammas
    ]
    return np.nan_to_num(errors, nan=np.inf).min()


@pytest.mark.parametrize(
    ("activity", "age", "iterations"),
    [(Nonuniform(10, 20), 10, 1000), (Nonuniform(2, 200), 100, 3000), (Cyclic(), 20, 3000)],
)
def test_the_best_step_beats_a_grid_on_least_squares(activity, age, iterations):
    best = best_step(SQUARES, activity, iterations)
    assert best.error <= best_of_grid(SQUARES, activity, iterations, BETAS / 10, GAMMAS * age)
    curve = exact_error(SQUARES, best.method, activity, best.step, iterations=iterations, record=1)
    assert best.error == curve.error[-1]
    assert best.tried < 150


def test_the_best_step_is_as_good_as_any_of_a_thousand():
    """β over three decades, γ over five, 33 of each; where the search begins, the error is 4 % larger."""
    activity, betas, gammas = Nonuniform(2, 60), np.geomspace(0.01, 10.0, 33), np.geomspace(0.1, 1e4, 33)
    best = best_step(SQUARES, activity, 400)
    assert best.error <= 1.001 * best_of_grid(SQUARES, activity, 400, betas, gammas)


@pytest.mark.thorough
@pytest.mark.parametrize("method", [SIAG(), SGD()], ids=repr)
def test_the_best_step_beats_a_grid_on_ridge(method):
    ill = Ridge.random(n=4, d=3, m=6, condition=100.0, spread=0.5, regularization=1e-6, seed=1)
    betas, gammas = np.array([2.0, 8, 32, 128, 512, 2048]), np.array([0.3, 1, 4, 16, 64, 256]) * 4
    best = best_step(ill, Uniform(4), 1500, method)
    assert best.error <= best_of_grid(ill, Uniform(4), 1500, betas, gammas, method)


def test_the_best_average_is_that_of_a_search_through_all():
    activity, step = Bernoulli([1.0] + 7 * [0.1]), Harmonic(0.2, 200)
    problem = LeastSquares.random(n=8, d=3, p=10, noise=0.1)
    best = best_average(problem, activity, 600, step)
    errors = [
        exact_error(problem, SIAG(average=m), activity, step, iterations=600, record=1).error[-1] for m in range(1, 601)
    ]
    assert best.error == pytest.approx(min(errors), rel=1e-3)
    assert best.method.average > 1
    assert best.tried < 30


def test_the_best_average_may_have_its_step_searched_for_too():
    activity, problem = Bernoulli([1.0, 0.2, 0.2]), LeastSquares.random(n=3, d=2, p=10, noise=0.1)
    best = best_average(problem, activity, 60, None)
    for m in (1, 4, 16):
        assert best.error <= best_step(problem, activity, 60, SIAG(average=m)).error


def test_a_search_is_refused_where_there_is_nothing_to_search():
    logistic = siag.problems.LogisticRegression.random(n=3, d=2, m=5)
    with pytest.raises(siag.Unsuitable, match="LogisticRegression is none; use simulate"):
        best_step(logistic, Cyclic(), 10)
    with pytest.raises(siag.Unsuitable, match="give a SIAG"):
        best_average(SQUARES, Cyclic(), 10, Harmonic(0.2, 200), method=SGD())
    with pytest.raises(siag.BadInput, match=r"^iterations = 0"):
        best_step(SQUARES, Cyclic(), 0)
