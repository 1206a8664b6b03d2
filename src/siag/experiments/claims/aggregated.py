"""What the papers on IAG, PIAG and averaging claim, put to the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from siag.activity import Activity, Cyclic, Everyone, Uniform
from siag.experiments.claims.fitted import first_below, slope
from siag.foundations.types import Floats
from siag.methods import IAG, SIAG, Method
from siag.methods.averaged import Averaged
from siag.methods.piag import PIAG
from siag.problems import LeastSquares
from siag.problems.ridge import Ridge
from siag.report import Claim
from siag.simulation import Run, simulate
from siag.steps import Constant, Step

DEEP = 1e-18  # of the start: a linear rate gets there, a sublinear one does not
FLOOR = 1e-24  # of the start: below this, rounding
PER_AGE = 400  # iterations for every iteration that a report may be old


def iag(
    method: Callable[[], Method] = IAG, step: Callable[[float], Step] = Constant, bounds: Sequence[int] = (1, 5, 15, 45)
) -> list[Claim]:
    """IAG's linear rate, in the order of its paper and for gaps of any bound.

    Args:
        method: to be put to the test.
        step: makes the step of a size.
        bounds: the T for which gaps are drawn from {1, …, T}.
    """
    problem = Ridge.random(n=10, d=10, m=20, spread=0.5, tilt=0.3, regularization=0.1, seed=6)
    cycle = _linear(problem, method(), Cyclic(), step, problem.n)
    drawn = [_linear(problem, method(), Uniform(T), step, T) for T in bounds]
    growth = slope(bounds, [found.iterations for found in drawn])
    prediction = f"error below {DEEP:g} of the start after {PER_AGE} T iterations, on a straight line in t (r² ≥ 0.99)"
    several = "; ".join(f"T = {T}: {found}" for T, found in zip(bounds, drawn, strict=True))
    return [
        Claim(
            "IAG converges linearly with a constant step if the workers take turns",
            "Blatt, Hero, Gauchman 2007",
            f"{prediction}, T = n = {problem.n}",
            str(cycle),
            cycle.straight,
        ),
        Claim(
            "It does so at any bounded delay, in a number of iterations that grows at most as the square of the bound",
            "Gürbüzbalaban, Ozdaglar, Parrilo 2017",
            f"{prediction}, for every bound T; iterations to it ∝ Tᵃ with a ≤ 2",
            f"{several}; a = {growth:.2f}",
            all(found.straight for found in drawn) and growth <= 2.0,
        ),
    ]


def piag(method: Callable[..., Method] = PIAG, bounds: Sequence[int] = (5, 15, 45)) -> list[Claim]:
    """PIAG's limit and rate, for an ℓ₁ norm and for a box.

    Args:
        method: makes the method for `l1`, or for `low` and `high`.
        bounds: the T for which gaps are drawn from {1, …, T}.
    """
    problem = Ridge.random(n=10, d=10, m=20, spread=0.3, tilt=0.3, seed=1)
    l1, low, high = 0.3, -0.2, 0.4
    lasso, boxed = minimiser(problem, l1=l1), minimiser(problem, low=low, high=high)
    runs = [_composite(problem, method(l1=l1), lasso, T) for T in bounds]
    box = _composite(problem, method(low=low, high=high), boxed, bounds[0])
    zeros = [(run.w[0] == 0).tolist() for run in runs]
    at_bounds = (boxed == low) | (boxed == high)
    same = np.array_equal(box.w[0][at_bounds], boxed[at_bounds])
    growth = slope(bounds, [first_below(run.error[0] / run.error[0, 0], DEEP, run.t) for run in runs])
    fell = f"error below {DEEP:g} of the start, and 10⁴ times less at half of the run than at a quarter"
    source = "Vanli, Gürbüzbalaban, Ozdaglar 2018; Aytekin, Feyzmahdavian, Johansson 2016"
    return [
        Claim(
            "PIAG converges linearly to the minimiser of F + λ‖w‖₁ with a constant step, however the workers differ, "
            "in a number of iterations that grows at most as the bound on the delays",
            source,
            f"{fell}, for every bound T on the gaps; iterations to it ∝ Tᵃ with a ≤ 1.1",
            "; ".join(f"T = {T}: {_fall(run)}" for T, run in zip(bounds, runs, strict=True)) + f"; a = {growth:.2f}",
            all(_falls(run) for run in runs) and growth <= 1.1,
        ),
        Claim(
            "The coordinates that are 0 in the minimiser are exactly 0",
            source,
            f"{(lasso == 0).sum()} of {problem.d} zeros, those that coordinate descent finds",
            ", ".join(f"{sum(found)} for T = {T}" for T, found in zip(bounds, zeros, strict=True)),
            all(found == (lasso == 0).tolist() for found in zeros) and 0 < (lasso == 0).sum() < problem.d,
        ),
        Claim(
            "With bounds on w it converges linearly to the minimiser within them",
            source,
            f"{fell}; the {at_bounds.sum()} of {problem.d} coordinates at a bound are there exactly",
            f"{_fall(box)}; {'exactly' if same else 'not exactly'} at the bounds",
            _falls(box) and same,
        ),
    ]


def averaged(around: Callable[..., Method] = Averaged) -> list[Claim]:
    """What the mean of the iterates gains at a constant step. Another seed would fail about once in 10⁴.

    Args:
        around: makes the method from another and `start`.
    """
    problem, start, iterations = LeastSquares.random(n=4, d=5, p=4, noise=0.1), 200, 6400
    large, small, made = 0.05, 0.025, around(SIAG(), start=start)
    runs = [
        simulate(problem, made, Everyone(), Constant(eta), iterations=iterations, repeats=60, record=60)
        for eta in (large, small)
    ]
    late = runs[0].t >= 2 * start
    falls = [slope(run.t[late] - start, run.mean[late]) for run in runs]
    law = float(problem.noise_at(problem.optimum).mean()) / (problem.n * problem.p**2 * (iterations - start))
    ends = [float(run.mean[-1]) for run in runs]
    source = "Polyak, Juditsky 1992"
    return [
        Claim(
            "With a constant step the mean of t iterates tends to the optimum as 1/t, where the iterates do not",
            source,
            f"error ∝ (t − start)ᵃ from t = {2 * start} on: a = −1 ± 0.25, for η = {large:g} and {small:g}",
            " and ".join(f"a = {fall:.2f}" for fall in falls),
            all(abs(fall + 1) <= 0.25 for fall in falls),
        ),
        Claim(
            "Its error is that of the best estimate from as many samples, whatever the step",
            source,
            f"σ*²/(n p² (t − start)) = {law:.2e} within a factor of 1.5, for η = {large:g} and {small:g}",
            " and ".join(f"{mean:.2e}, {mean / law:.2f} times that" for mean in ends),
            all(law / 1.5 <= mean <= 1.5 * law for mean in ends),
        ),
    ]


def minimiser(problem: Ridge, *, l1: float = 0.0, low: float = -np.inf, high: float = np.inf) -> Floats:
    """(d,) the minimiser of F + λ‖w‖₁ within bounds, by coordinate descent until nothing changes."""
    points, targets = problem.features.reshape(-1, problem.d), problem.targets.reshape(-1)
    matrix = points.T @ points / len(points) + problem.regularization * np.eye(problem.d)
    vector, w = points.T @ targets / len(points), np.zeros(problem.d)
    for _ in range(10_000):
        before = w.copy()
        for j in range(problem.d):
            rest = vector[j] - matrix[j] @ w + matrix[j, j] * w[j]
            w[j] = np.clip(np.sign(rest) * max(abs(rest) - l1, 0.0) / matrix[j, j], low, high)
        if np.abs(w - before).max() <= 1e-16:
            break
    return w


class Fall(NamedTuple):
    """How an error fell."""

    part: float  # the last error, as a part of the first
    r2: float  # how straight log error against t is
    iterations: float  # until it was as small as a linear rate makes it; infinite if it never was

    def __str__(self) -> str:
        return f"{self.part:.1e} of the start, r² = {self.r2:.4f}"

    @property
    def straight(self) -> bool:
        """Whether it fell linearly, as far as that can be seen."""
        return self.part <= DEEP and self.r2 >= 0.99


def _linear(problem: Ridge, method: Method, activity: Activity, step: Callable[[float], Step], T: int) -> Fall:
    eta = 1.0 / (problem.constants().L * T)
    run = simulate(problem, method, activity, step(eta), iterations=PER_AGE * T, record=2000)
    part = run.error[0] / run.error[0, 0]
    shown = (part > FLOOR) & (run.t > 2 * T)
    r2 = float(np.corrcoef(run.t[shown], np.log(part[shown]))[0, 1] ** 2)
    return Fall(float(part[-1]), r2, first_below(part, DEEP, run.t))


def _composite(problem: Ridge, method: Method, reference: Floats, T: int) -> Run:
    """A run whose errors are measured from another point than the optimum of F."""
    moved = copy(problem)
    vars(moved)["optimum"] = reference
    step = Constant(1.0 / (float(problem.smoothness.max()) * (T + 1)))
    return simulate(moved, method, Uniform(T), step, iterations=PER_AGE * T, record=1000, seed=2)


def _parts(run: Run) -> tuple[float, float, float]:
    """The errors at a quarter, at half and at the end of a run, as parts of the first."""
    places = [int(np.searchsorted(run.t, run.t[-1] // k)) for k in (4, 2, 1)]
    quarter, half, end = (run.error[0, places] / run.error[0, 0]).tolist()
    return quarter, half, end


def _fall(run: Run) -> str:
    return "{:.1e}, {:.1e}, {:.1e} of the start at a quarter, half and the end".format(*_parts(run))


def _falls(run: Run) -> bool:
    quarter, half, end = _parts(run)
    return end <= DEEP and half <= 1e-4 * quarter
