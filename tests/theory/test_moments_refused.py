"""Exact moments of a problem and a method of one's own, and what is refused."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import siag
from plain import as_python
from siag.activity import Cyclic, Recorded
from siag.methods import IAG, SIAG, FedAvg, Prox, Table, advance, receive, table
from siag.problems import LeastSquares, LogisticRegression, Problem, Ridge, exact, sample
from siag.theory import exact_error, linear, noise, sharp_law
from siag.theory.exact import moments_at_start

STEP = siag.steps.Harmonic(2.0, 10.0)


@dataclass(frozen=True, eq=False)
class Sensors(Problem):
    """F_i(w) = ½ E‖w − x‖², x ~ N(level_i, spread² I), as in examples/own_problem.py, and no Hessian told."""

    levels: np.ndarray
    spread: float

    n = property(lambda self: len(self.levels))
    d = property(lambda self: self.levels.shape[1])
    optimum = property(lambda self: self.levels.mean(axis=0))

    def oracle(self):
        return Reading(self.levels, self.spread)


class Reading(NamedTuple):
    levels: np.ndarray
    spread: float


@sample.when(Reading)
def draw(oracle, rng, i, w, out):
    siag.rng.normals(rng, out)
    for j in range(w.size):
        out[j] = w[j] - (oracle.levels[i, j] + oracle.spread * out[j])


@exact.when(Reading)
def mean(oracle, i, w, out):
    for j in range(w.size):
        out[j] = w[j] - oracle.levels[i, j]


@noise.when(Reading)
def same_everywhere(oracle, i, m, V, out, scratch):
    out[:] = 0.0
    for j in range(m.size):
        out[j, j] = oracle.spread**2


class Odd(NamedTuple):
    """Readings whose noise nobody has told."""

    levels: np.ndarray


@exact.when(Odd)
def odd_mean(oracle, i, w, out):
    out[:] = w - oracle.levels[i]


@sample.when(Odd)
def odd_sample(oracle, rng, i, w, out):
    out[:] = w - oracle.levels[i]


class Untold(Sensors):
    def oracle(self):
        return Odd(self.levels)


class Crooked(NamedTuple):
    """Readings whose noise is no covariance."""

    levels: np.ndarray


exact.when(Crooked)(odd_mean)
sample.when(Crooked)(odd_sample)


@noise.when(Crooked)
def not_symmetric(oracle, i, m, V, out, scratch):
    out[:] = np.arange(m.size)


class Wrong(Sensors):
    def oracle(self):
        return Crooked(self.levels)


LEVELS = np.arange(8.0).reshape(4, 2)


def test_a_quadratic_of_ones_own_has_exact_moments_and_a_law():
    """Everyone at once, w^0 = w*: E_{t+1} = (1 − η)² E_t + η² s²d/n."""
    problem, iterations = Sensors(LEVELS, 0.5), 40
    moments_at_start(problem, SIAG(), None)  # tries what is not the package's own, which ends the plain mode
    with as_python():
        curve = exact_error(
            problem, SIAG(), siag.activity.Everyone(), STEP, iterations=iterations, record=99, w0=problem.optimum
        )
        law = sharp_law(problem, siag.activity.Everyone(), STEP)
    error = [0.0]
    for t in range(iterations):
        eta = 2.0 / (t + 10.0)
        error.append((1.0 - eta) ** 2 * error[-1] + eta**2 * 0.25 * 2 / 4)
    np.testing.assert_allclose(curve.error, error, rtol=1e-12, atol=1e-25)
    assert law.constant == pytest.approx(4.0 / 3.0 * 0.25 * 2 / 4)


def refused(match, problem, method=None, w0=None, kind=siag.Unsuitable):
    with as_python(), pytest.raises(kind, match=match):
        exact_error(problem, method or SIAG(), Cyclic(), STEP, iterations=10, w0=w0)


def test_problems_of_which_the_moments_are_not_known_are_refused_with_a_remedy():
    refused(
        "known for quadratics, and F_0 of LogisticRegression is none; use simulate, or LeastSquares or Ridge",
        LogisticRegression.random(n=3, d=2, m=5),
    )
    refused(
        r"Untold does not tell it; use simulate, or give `siag.theory.noise` a meaning for Odd", Untold(LEVELS, 0.5)
    )
    refused(r"^noise of worker 0 = .* symmetric matrix", Wrong(LEVELS, 0.5), kind=siag.BadInput)


def test_exact_gradients_need_no_noise_to_be_told():
    moments_at_start(Untold(LEVELS, 0.5), IAG(), None)
    with as_python():
        curve = exact_error(Untold(LEVELS, 0.5), IAG(), Cyclic(), siag.steps.Constant(0.2), iterations=60)
    assert not curve.variance.any()
    assert curve.error[-1] < 1e-2 * curve.error[0]


def test_methods_of_which_the_moments_are_not_known_are_refused_with_a_remedy():
    ridge = Ridge.random(n=3, d=2, m=4)
    refused(r"not known: its workers remember; use simulate", ridge, FedAvg(steps=2, size=0.1))
    refused(r"not known: .* is not linear, or not declared so; use simulate", ridge, Prox(SIAG(), l1=0.1))


def test_a_method_that_is_not_declared_linear_is_refused():
    class Plain(SIAG):
        def init(self, w0, n):
            rows = table(w0, n, 0, 0.0)
            return Wrapped(rows.w, rows)

    refused(
        "Wrapped is not linear, or not declared so; use simulate, or declare it", Ridge.random(n=3, d=2, m=4), Plain()
    )


class Wrapped(NamedTuple):
    w: np.ndarray
    table: Table


@receive.when(Wrapped)
def pass_on(state, i, message, age):
    receive(state.table, i, message, age)


@advance.when(Wrapped)
def step_on(state, eta):
    advance(state.table, eta)


@linear
class Capped(NamedTuple):
    w: np.ndarray
    table: Table


receive.when(Capped)(pass_on)


@advance.when(Capped)
def step_of_at_most_one(state, eta):
    for j in range(state.w.size):
        state.w[j] -= max(-1.0, min(1.0, eta * state.table.total[j]))


@pytest.mark.parametrize("problem", [Ridge.random(n=3, d=2, m=4), LeastSquares.random(n=3, d=2, p=2, noise=0.1)])
def test_a_method_that_is_declared_linear_and_is_not_is_refused(problem):
    class Careful(SIAG):
        def init(self, w0, n):
            rows = table(w0, n, 0, 0.0)
            return Capped(rows.w, rows)

    refused("Capped is declared linear, but its steps are not; use simulate", problem, Careful())


def test_a_problem_too_large_for_matrices_is_refused_with_its_size():
    large = Ridge(np.ones((300, 1, 20)) + np.eye(20)[None, :1], np.zeros((300, 1)), 1.0)
    refused(
        r"300 workers and 20 parameters are covariances of 6060 numbers, 0\.3 GiB; at most 4096.*use simulate", large
    )
    many = Ridge(np.ones((2000, 1, 100)), np.zeros((2000, 1)), 1.0)
    refused(r"the 2000 Hessians .* take 0\.1 GiB; at most .*; use simulate, or fewer parameters", many)


def test_a_bad_start_is_refused_by_name():
    refused("^w0 = ", Ridge.random(n=3, d=2, m=4), w0=[1.0], kind=siag.BadInput)


def test_a_trace_is_followed_to_its_end_and_no_further():
    pattern = Recorded([[0], [1], [2]])
    with pytest.raises(siag.BadInput, match="at most the trace's 3"):
        exact_error(Ridge.random(n=3, d=2, m=4), SIAG(), pattern, STEP, iterations=4)
