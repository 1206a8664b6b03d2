"""Exact moments of any quadratic, against second moments of everything at once by dense linear algebra.

The vector x = (1, w, w̄, v, g_1 … g_n) moves linearly apart from the noise of fresh gradients. So M = E[x xᵀ] is carried
by matrix products, and the noise adds its covariance, which for points drawn at random is an average of squares:
with z_k = x_k (x_k·w − y_k), E[z_k z_kᵀ] = x_k x_kᵀ · qᵀMq for the q that makes x_k·w − y_k of (1, w).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest

import siag
from plain import as_python
from siag.activity import Recorded, unfold
from siag.foundations.schedule import points
from siag.methods import IAG, SAG, SAGA, SGD, SIAG, Averaged, Method, Table, advance, receive, table
from siag.methods.around import Around, receive_within
from siag.problems import LeastSquares, Ridge
from siag.theory import blocks as matrices
from siag.theory import exact_error, linear
from siag.theory.exact import alike, carry, moments_at_start
from siag.theory.trail import Trail, mark

N, D, POINTS, BATCH = 3, 2, 4, 2
RIDGE = Ridge.random(n=N, d=D, m=POINTS, tilt=0.6, spread=1.0, regularization=0.3, noise=0.5, batch=BATCH, seed=5)
STEP = siag.steps.Harmonic(1.5, 6.0)
START = np.array([1.0, -0.5])
ITERATIONS, THETA, FIRST = 36, 0.6, 4
TRACES = {
    "gaps": Recorded.of(siag.activity.Nonuniform(2, 4), N, ITERATIONS, seed=2),
    "with silence": Recorded([[2], [0, 1], [], [], [0], [1, 2]] * (ITERATIONS // 6)),
}

SIZE = 1 + D * (3 + N)
ONE, W, MEAN, VELOCITY = 0, slice(1, 1 + D), slice(1 + D, 1 + 2 * D), slice(1 + 2 * D, 1 + 3 * D)


def g(i):
    return slice(1 + D * (3 + i), 1 + D * (4 + i))


@dataclass(frozen=True, kw_only=True)
class HeavyBall(Method):
    """v ← θ v − (η/n) Σ g_i;  w ← w + v, as in examples/heavy_ball.py."""

    theta: float = THETA

    def init(self, w0, n):
        rows = table(w0, n, resum=64, wait=0.0)
        return Ball(rows.w, rows, np.zeros(w0.size), self.theta)


@linear
class Ball(NamedTuple):
    w: np.ndarray
    table: Table
    velocity: np.ndarray
    theta: float


@receive.when(Ball)
def store(state, i, message, age):
    receive(state.table, i, message, age)


@advance.when(Ball)
def roll(state, eta):
    for j in range(state.w.size):
        state.velocity[j] = state.theta * state.velocity[j] - eta / state.table.rows.shape[0] * state.table.total[j]
        state.w[j] += state.velocity[j]


@dataclass(frozen=True)
class Rolling(Around):
    """The same around any method: its own step, and θ of the last move."""

    def init(self, w0, n):
        inner = self.method.init(w0, n)
        return Rolled(inner.w, inner, w0.copy(), w0.copy(), THETA)


@linear
class Rolled(NamedTuple):
    w: np.ndarray
    inner: tuple
    before: np.ndarray
    now: np.ndarray
    theta: float


receive.when(Rolled)(receive_within)


@advance.when(Rolled)
def roll_on(state, eta):
    for j in range(state.w.size):
        state.now[j] = state.w[j]
    advance(state.inner, eta)
    for j in range(state.w.size):
        state.w[j] += state.theta * (state.now[j] - state.before[j])
        state.before[j] = state.now[j]


def noise_of(i, M, batch=BATCH):
    """E[N_i(w)], point by point."""
    squares, mean = np.zeros((D, D)), np.zeros((D, SIZE))
    for x, y in zip(RIDGE.features[i], RIDGE.targets[i], strict=True):
        q = np.zeros(SIZE)
        q[W], q[ONE] = x, -y
        squares += np.outer(x, x) * (q @ M @ q) / POINTS
        mean += np.outer(x, q) / POINTS
    return (squares - mean @ M @ mean.T) / batch


def report(M, active, share):
    """The active workers read w and report; a row becomes this share of the new gradient, and the rest of the old."""
    move, noise = np.eye(SIZE), np.zeros((SIZE, SIZE))
    for i in active:
        a, X = share(i), RIDGE.features[i]
        hessian = X.T @ X / POINTS + RIDGE.regularization * np.eye(D)
        move[g(i)] *= 1.0 - a
        move[g(i), W], move[g(i), ONE] = a * hessian, -a * X.T @ RIDGE.targets[i] / POINTS
        noise[g(i), g(i)] = a * a * noise_of(i, M)
    return move @ M @ move.T + noise


def step_of(rule, eta, active, kept):
    """The matrix of a step."""
    along, move = np.zeros((D, SIZE)), np.eye(SIZE)
    workers, divisor = (
        (active, N if rule == "sum" else max(len(active), 1))
        if rule in {"sum", "mean"}
        else (
            range(N),
            N,
        )
    )
    for i in workers:
        along[:, g(i)] = np.eye(D) / divisor
    if rule == "ball":
        move[VELOCITY] = THETA * move[VELOCITY] - eta * along
        move[W] += move[VELOCITY]
    else:
        move[W] -= eta * along
    if rule == "averaged":
        move[MEAN] = move[MEAN] + (move[W] - move[MEAN]) / kept if kept > 1 else move[W]
    return move


def dense(trace, rule, average=1, wait=0):
    """(error, bias) of w, or of w̄, before every iteration."""
    x = np.zeros(SIZE)
    x[ONE], x[W], x[MEAN] = 1.0, START, START
    M, seen, reports, t, kept, found = np.outer(x, x), set(), np.zeros(N), 0, 0, []
    result = MEAN if rule == "averaged" else W
    for done, active in enumerate([*np.split(trace.tape.worker, trace.tape.start[1:-1]), None]):
        off = M[ONE, result] - RIDGE.optimum
        spread = np.trace(M[result, result]) - (M[ONE, result] ** 2).sum()
        found.append((off @ off + spread, off @ off))
        if active is None:
            return np.transpose(found)
        reports[active] += 1
        M = report(M, active, lambda i: 1.0 / min(reports[i], average))
        seen |= set(active.tolist())
        if len(seen) >= wait:
            kept += done >= FIRST and len(seen) > 0
            move = step_of(rule, STEP.beta / (t + STEP.gamma), active, kept)
            M, t = move @ M @ move.T, t + 1
    return None


FAMILIES = {
    "sIAG": (SIAG(), "table", {}),
    "sIAG that waits": (SIAG(wait=1.0), "table", {"wait": N}),
    "averages in rows": (SIAG(average=3), "table", {"average": 3}),
    "averages of all, which wait": (SIAG(average=10**6, wait=1.0), "table", {"average": 10**6, "wait": N}),
    "SGD": (SGD(), "mean", {}),
    "SGD, sum": (SGD(normalization="sum"), "sum", {}),
    "mean of the iterates": (Averaged(SIAG(), start=FIRST), "averaged", {}),
    "all of these": (Averaged(SIAG(average=3, wait=1.0), start=FIRST), "averaged", {"average": 3, "wait": N}),
    "momentum": (HeavyBall(), "ball", {}),
    "momentum around sIAG": (Rolling(SIAG()), "ball", {}),
}


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_curve_on_ridge_is_that_of_the_whole_second_moments(family, name):
    method, rule, options = FAMILIES[family]
    moments_at_start(RIDGE, method, START)  # tries what is not the package's own; that ends the plain mode
    with as_python():
        curve = exact_error(RIDGE, method, TRACES[name], STEP, iterations=ITERATIONS, record=5000, w0=START)
    error, bias = dense(TRACES[name], rule, **options)
    np.testing.assert_allclose(curve.error, error, rtol=1e-9)
    np.testing.assert_allclose(curve.bias, bias, rtol=1e-8, atol=1e-13)


def carried(moments, problem, trace, step):
    """(bias, variance) at every iteration."""
    trail = Trail(points(ITERATIONS, 5000), np.array(problem.optimum), np.zeros((2, ITERATIONS + 1)), np.zeros(1, int))
    with as_python():
        mark(trail, moments.m, moments.V)
        for first, chunk in unfold(trace, problem.n, ITERATIONS, 0, 0, step.sizes):
            carry(moments, chunk, first, trail)
    return trail.parts


@pytest.mark.parametrize("sampler", ["exact", "literal"])
@pytest.mark.parametrize("method", [SIAG(), SIAG(average=4), SGD(), SGD(normalization="sum"), IAG()], ids=repr)
def test_on_least_squares_matrices_and_traces_agree(method, sampler):
    problem = LeastSquares.random(n=N, d=D, p=3, noise=0.4, seed=6, sampler=sampler)
    step, noisy = siag.steps.Harmonic(0.6, 8.0), method != IAG()
    traces = moments_at_start(problem, method, START)
    assert not isinstance(traces, matrices.Linear)  # the fast recursion, in O(n |A|)
    whole = matrices.blocks_at_start(matrices.quadratic(problem, noisy), method, START, N)
    short = matrices.blocks_at_start(alike(problem, noisy), method, START, N)
    expected = carried(traces, problem, TRACES["gaps"], step)
    for blocks in (whole, short):
        np.testing.assert_allclose(carried(blocks, problem, TRACES["gaps"], step), expected, rtol=1e-9, atol=1e-13)


def test_traces_of_blocks_serve_means_of_iterates_on_least_squares():
    problem, method = LeastSquares.random(n=N, d=D, p=3, noise=0.4, seed=6), Averaged(SIAG(), start=FIRST)
    step = siag.steps.Harmonic(0.6, 8.0)
    short = moments_at_start(problem, method, START)
    assert short.blocks.C.shape == (N + 4, N + 4)  # of the message, w, the sum, w̄ and the rows
    whole = matrices.blocks_at_start(matrices.quadratic(problem, True), method, START, N)
    np.testing.assert_allclose(
        *(carried(blocks, problem, TRACES["gaps"], step) for blocks in (short, whole)), rtol=1e-9, atol=1e-13
    )


def test_summing_the_rows_anew_changes_nothing_but_rounding(monkeypatch):
    moments = [moments_at_start(RIDGE, SIAG(), START) for _ in range(2)]
    usual = carried(moments[0], RIDGE, TRACES["gaps"], STEP)
    monkeypatch.setattr(matrices, "RESUM", 5)
    np.testing.assert_allclose(carried(moments[1], RIDGE, TRACES["gaps"], STEP), usual, rtol=1e-11)
    assert moments[1].blocks.since[0] < 5
    np.testing.assert_allclose(moments[1].blocks.C, moments[0].blocks.C, rtol=1e-9, atol=1e-15)


RUNS = 10_000


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["sIAG", "SGD", "all of these", "momentum"])
def test_the_mean_of_ten_thousand_runs_agrees_everywhere(family):
    # Four standard errors at each of at most 12 points, four times: a false alarm in fewer than 0.3 % of seeds.
    parts = (RIDGE, FAMILIES[family][0], TRACES["gaps"], STEP)
    common = {"iterations": ITERATIONS, "record": 12, "w0": START, "seed": 1}
    curve, run = exact_error(*parts, **common), siag.simulate(*parts, repeats=RUNS, **common)
    assert np.array_equal(curve.t, run.t)
    allowed = np.maximum(4.0 * run.standard_error, 1e-12 * curve.error)  # some errors are not random at all
    assert (np.abs(run.mean - curve.error) <= allowed).all()
    assert run.standard_error[-1] < 0.03 * curve.error[-1]  # so a wrong curve would have been seen


@pytest.mark.parametrize("method", [IAG(), SAG(), SAGA(), SAG(wait=0.5), Averaged(SAG(), start=FIRST)], ids=repr)
def test_exact_gradients_have_nothing_random_and_runs_agree_to_rounding(method):
    problem, step = RIDGE.by_sample(), siag.steps.Constant(0.05)
    parts = (problem, method, siag.activity.Sequential(), step)
    common = {"iterations": 40, "record": 50, "w0": START, "seed": 3, "repeats": 2, "threads": 1}
    with as_python():
        curve = exact_error(*parts, **common)
        run = siag.simulate(*parts, compiled=False, **common)
    np.testing.assert_allclose(run.mean, curve.error, rtol=1e-10)
    assert not curve.variance.any()


def test_a_sample_that_is_the_whole_data_has_no_noise():
    single = RIDGE.by_sample()
    pattern = Recorded.of(siag.activity.Cyclic(), single.n, 20)
    with as_python():
        streamed, exact = (
            exact_error(single, method, pattern, STEP, iterations=20, record=30) for method in (SIAG(), IAG())
        )
    np.testing.assert_array_equal(streamed.error, exact.error)
    assert not streamed.variance.any()


def test_a_larger_batch_has_less_variance_and_the_same_bias():
    with as_python():
        small, large = (
            exact_error(replace(RIDGE, batch=batch), SIAG(), TRACES["gaps"], STEP, iterations=ITERATIONS)
            for batch in (1, 10)
        )
    np.testing.assert_allclose(small.bias, large.bias, rtol=1e-12)
    assert (small.variance[5:] > 9.0 * large.variance[5:]).all()  # more than ten times less: noise breeds noise
