"""Exact curves and lemmas against second moments of everything at once, by dense linear algebra.

The vector x = (1, w, g_1 … g_n, u_1 … u_n), u_i being the iterate from which g_i was computed, moves linearly apart
from the noise of fresh gradients. So M = E[x xᵀ] is carried by matrix products, and the noise adds its covariance,

    Cov(∇f_i | w) = p (‖e‖² I + e eᵀ) + σ² p I,    e = w − w_i*,

which is all that this shares with the code it checks: whole matrices here, traces there.
"""

import numpy as np
import pytest

import siag
from plain import as_python

N, D, P, NOISE = 3, 2, 2, 0.4
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=P, noise=NOISE, seed=6)
STEP = siag.steps.Harmonic(0.9, 8)
ITERATIONS = 60
SIZE = 1 + D * (1 + 2 * N)
ONE, W = 0, slice(1, 1 + D)

with as_python():
    TRACES = {
        "gaps": siag.activity.Recorded.of(siag.activity.Nonuniform(2, 5), N, ITERATIONS, seed=2),
        "cyclic": siag.activity.Recorded.of(siag.activity.Cyclic(), N, ITERATIONS),
        "everyone": siag.activity.Recorded.of(siag.activity.Everyone(), N, ITERATIONS),
        "with silence": siag.activity.Recorded([[2], [0, 1], [], [], [0], [1, 2]] * (ITERATIONS // 6)),
    }


def g(i):
    return slice(1 + D * (1 + i), 1 + D * (2 + i))


def u(i):
    return slice(1 + D * (1 + N + i), 1 + D * (2 + N + i))


def trace_of(matrix, one, two):
    """E⟨a, b⟩ from M."""
    return float(np.trace(matrix[one, two]))


def report(M, active, share=lambda i: 1.0):
    """The active workers read w and report; a row becomes this share of the new gradient, and the rest of the old."""
    move, noise = np.eye(SIZE), np.zeros((SIZE, SIZE))
    for i in active:
        center, a = PROBLEM.centers[i], share(i)
        move[g(i)] *= 1.0 - a
        move[u(i)] = 0.0
        move[g(i), W], move[g(i), ONE] = a * P * np.eye(D), -a * P * center
        move[u(i), W] = np.eye(D)
        shift = np.zeros((D, SIZE))
        shift[:, W], shift[:, ONE] = np.eye(D), -center
        square = shift @ M @ shift.T  # E[e eᵀ]
        noise[g(i), g(i)] = a * a * (P * (np.trace(square) * np.eye(D) + square) + NOISE**2 * P * np.eye(D))
    return move @ M @ move.T + noise


def step_along(M, scale, workers):
    """W ← w − scale Σ g_i over `workers`."""
    move = np.eye(SIZE)
    for i in workers:
        move[W, g(i)] -= scale * np.eye(D)
    return move @ M @ move.T


def error_of(M):
    """E‖w − w*‖² and ‖E w − w*‖²."""
    optimum = PROBLEM.centers.mean(axis=0)
    square = trace_of(M, W, W) - 2.0 * optimum @ M[ONE, W] + optimum @ optimum
    return square, ((M[ONE, W] - optimum) ** 2).sum()


def sets(trace):
    return np.split(trace.tape.worker, trace.tape.start[1:-1])


def propagate(trace, rule, wait=0, average=1):
    """M before every iteration, and M between reports and step."""
    M = np.zeros((SIZE, SIZE))
    M[ONE, ONE] = 1.0
    before, between, seen, reports, t = [M], [], set(), np.zeros(N), 0
    for active in sets(trace):
        reports[active] += 1
        M = report(M, active, lambda i: 1.0 / min(reports[i], average))
        between.append(M)
        seen |= set(active.tolist())
        eta = 0.9 / (t + 8)
        if rule == "table" and len(seen) >= wait:
            M = step_along(M, eta / N, range(N))
        elif rule == "mean" and len(active):
            M = step_along(M, eta / len(active), active)
        elif rule == "sum":
            M = step_along(M, eta / N, active)
        t += len(seen) >= wait  # η is that of the steps made, those waited for left out
        before.append(M)
    return before, between


@pytest.mark.few(10)
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize(
    ("method", "rule", "wait"),
    [
        (siag.methods.SIAG(), "table", 0),
        (siag.methods.SIAG(wait=1.0), "table", N),
        (siag.methods.SGD(), "mean", 0),
        (siag.methods.SGD(normalization="sum"), "sum", 0),
        (siag.methods.SIAG(average=2), "table", 0),
        (siag.methods.SIAG(average=7, wait=1.0), "table", N),
        (siag.methods.SIAG(average=10**6), "table", 0),
    ],
)
def test_the_exact_curve_is_that_of_the_whole_second_moments(name, method, rule, wait):
    trace = TRACES[name]
    curve = siag.theory.exact_error(PROBLEM, method, trace, STEP, iterations=ITERATIONS, record=5000)
    assert np.array_equal(curve.t, np.arange(ITERATIONS + 1))
    average = getattr(method, "average", 1)
    error, bias = np.transpose([error_of(M) for M in propagate(trace, rule, wait, average)[0]])
    np.testing.assert_allclose(curve.error, error, rtol=1e-10)
    np.testing.assert_allclose(curve.bias, bias, rtol=1e-8, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("wait", [0, 1])
def test_the_left_sides_of_the_lemmas_are_those_of_the_whole_second_moments(name, wait):
    trace = TRACES[name]
    found = siag.theory.lemmas(PROBLEM, siag.methods.SIAG(wait=wait), trace, STEP, iterations=ITERATIONS, record=5000)
    optimum = PROBLEM.centers.mean(axis=0)
    _, between = propagate(trace, "table", wait * N)
    first = max(next(t for t, active in enumerate(sets(trace)) if i in active) for i in range(N))
    assert np.array_equal(found.t, np.arange(first, ITERATIONS))
    for k, t in enumerate(found.t):
        M = between[t]
        square = sum(trace_of(M, g(i), g(j)) for i in range(N) for j in range(N)) / N**2
        inner = sum(trace_of(M, W, g(i)) - optimum @ M[ONE, g(i)] for i in range(N)) / N
        apart = max(trace_of(M, W, W) - 2 * trace_of(M, W, u(i)) + trace_of(M, u(i), u(i)) for i in range(N))
        assert found.first.left[k] == pytest.approx(square, rel=1e-10)
        assert found.inner[k] == pytest.approx(inner, rel=1e-10, abs=1e-14)
        assert found.third.left[k] == pytest.approx(apart, rel=1e-8, abs=1e-14)
        assert found.error[k] == pytest.approx(error_of(M)[0], rel=1e-10)
        mu = PROBLEM.constants().mu
        assert found.second.left[k] == pytest.approx(mu / 4 * error_of(M)[0] - inner, rel=1e-9, abs=1e-13)
