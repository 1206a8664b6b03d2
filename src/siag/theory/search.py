"""The best β, γ and m: searched for on the exact error, which no noise of samples blurs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from siag.activity import Activity, Recorded
from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats
from siag.methods import SIAG, Method, check_fit
from siag.problems import LeastSquares, Problem, reweighted, weights_of
from siag.problems.weights import Weights, mean_by
from siag.steps import Harmonic, Step
from siag.theory.exact import exact_error
from siag.theory.quadratic import quadratics

ALGORITHM_1 = SIAG()
LEVELS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)  # how far to look around, as powers of 2: factors from 4 down to 1.04
DIRECTIONS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
SMALLER = 30  # how often the first γ is made four times as large, at most

Point = tuple[float, float]


@dataclass(frozen=True)
class Best:
    """What a search has found.

    Attributes:
        method: the method, with the best m if that was searched for.
        step: the best step.
        error: the exact error at the last iteration.
        tried: how many error curves were computed.
    """

    method: Method
    step: Step
    error: float
    tried: int


def best_step(
    problem: Problem,
    activity: Activity,
    iterations: int,
    method: Method = ALGORITHM_1,
    *,
    seed: int = 0,
    repeats: int = 1,
    w0: Floats | None = None,
    weights: Weights = None,
) -> Best:
    """The `Harmonic` step β/(t + γ) with the smallest exact error after the given number of iterations.

    A search without derivatives in the logarithms of β and γ. It begins at β = 1/μ with the γ that does best, and looks
    around in eight directions, going on in one as long as that helps, first by factors of 4, in the end of 1.04.
    Nothing is drawn but who reports when, so the same arguments give the same step. Like any such search it may end in
    a local minimum; the tests hold it against grids.

    Args:
        problem: as in `exact_error`, strongly convex.
        activity: who reports when.
        iterations: the horizon.
        method: the method; Algorithm 1 by default.
        seed: of the activity.
        repeats: how many patterns of the activity to average over.
        w0: (d,) where to start; 0 by default.
        weights: numbers, or `"points"`, as in `simulate`, in place of the problem's own.

    Example:
        >>> from siag.activity import Cyclic
        >>> problem = LeastSquares.random(n=8, d=5, p=10, noise=0.1)
        >>> best = best_step(problem, Cyclic(), 2000)
        >>> usual = exact_error(problem, SIAG(), Cyclic(), Harmonic(0.2, 200), iterations=2000).error[-1]
        >>> bool(best.error < 0.6 * usual)
        True
    """
    problem = reweighted(problem, weights)
    check_fit(problem, method, activity, Harmonic(1.0, 1.0), check.integer("iterations", iterations))
    seen: dict[Point, float] = {}

    def score(point: Point) -> float:
        if point not in seen:
            step = Harmonic(2.0 ** point[0], 2.0 ** point[1])
            seen[point] = last_error(problem, method, activity, step, iterations, seed, repeats, w0)
        return seen[point]

    point = descend(score, first_point(problem, score))
    if seen[point] == math.inf:
        raise Unsuitable(f"no Harmonic step keeps {method!r} finite over {iterations} iterations here")
    return Best(method, Harmonic(2.0 ** point[0], 2.0 ** point[1]), seen[point], len(seen))


def best_average(
    problem: Problem,
    activity: Activity,
    iterations: int,
    step: Step | None = None,
    *,
    method: SIAG = ALGORITHM_1,
    seed: int = 0,
    repeats: int = 1,
    w0: Floats | None = None,
    weights: Weights = None,
) -> Best:
    """The m of `SIAG(average=m)` with the smallest exact error after the given number of iterations.

    All powers of two are tried, as far as anybody has reported so often, and then what lies between the neighbours of
    the best.

    Args:
        problem: as in `exact_error`.
        activity: who reports when.
        iterations: the horizon.
        step: the step; `None` for the best of each m, which takes some fifty times as long.
        method: all but m.
        seed: of the activity.
        repeats: how many patterns of the activity to average over.
        w0: (d,) where to start; 0 by default.
        weights: numbers, or `"points"`, as in `simulate`, in place of the problem's own.

    Example:
        >>> from siag.activity import Bernoulli
        >>> problem = LeastSquares.random(n=8, d=5, p=10, noise=0.1)
        >>> best = best_average(problem, Bernoulli([1.0] + 7 * [0.05]), 2000, Harmonic(0.2, 200))
        >>> best.method.average > 1
        True
    """
    if not isinstance(method, SIAG):
        raise Unsuitable(f"rows that average are SIAG's, not those of {method!r}; give a SIAG")
    problem = reweighted(problem, weights)
    pattern = Recorded.of(activity, problem.n, iterations, seed).tape
    most = max(1, int(np.bincount(pattern.worker, minlength=1).max()))
    found: dict[int, Best] = {}

    def score(m: int) -> float:
        if m not in found:
            made = replace(method, average=m)
            if step is None:
                found[m] = best_step(problem, activity, iterations, made, seed=seed, repeats=repeats, w0=w0)
            else:
                error = last_error(problem, made, activity, step, iterations, seed, repeats, w0)
                found[m] = Best(made, step, error, 1)
        return found[m].error

    m = min((2**k for k in range(most.bit_length())), key=score)
    reach = m // 4
    while reach > 0:
        m = min((m, m - reach, m + reach), key=score)
        reach //= 2
    return replace(found[m], tried=sum(best.tried for best in found.values()))


def last_error(
    problem: Problem,
    method: Method,
    activity: Activity,
    step: Step,
    iterations: int,
    seed: int,
    repeats: int,
    w0: Floats | None,
) -> float:
    """E‖w − w*‖² at the end; infinite if it has diverged."""
    with np.errstate(over="ignore", invalid="ignore"):
        curve = exact_error(
            problem, method, activity, step, iterations=iterations, seed=seed, record=1, repeats=repeats, w0=w0
        )
    error = float(curve.error[-1])
    return error if math.isfinite(error) else math.inf


def first_point(problem: Problem, score: Callable[[Point], float]) -> Point:
    """β = 1/μ, and the first γ ≥ L/μ of a row of them after which the error grows again."""
    if isinstance(problem, LeastSquares):
        mu, L, _ = problem.constants()
    else:
        hessians, _ = quadratics(problem, "the best step")
        weights = weights_of(problem)
        mu = float(np.linalg.eigvalsh(mean_by(weights, hessians))[0])
        most = np.linalg.eigvalsh(hessians)[:, -1]
        L = float((most if weights is None else weights * most).max())
    if mu <= 0.0:
        raise Unsuitable("the best step is searched for where F is strongly convex; add a regularization")
    point = (-math.log2(mu), math.log2(L / mu))
    for _ in range(SMALLER):
        after = point[0], point[1] + 2.0
        if score(after) > score(point):
            break
        point = after
    return point


def descend(score: Callable[[Point], float], point: Point) -> Point:
    """The end of a search around a point, ever closer."""
    for size in LEVELS:
        stuck = 0
        while stuck < len(DIRECTIONS):
            for direction in DIRECTIONS:
                stuck += 1
                while score(after := _next(point, direction, size)) < score(point):
                    point, stuck = after, 0
    return point


def _next(point: Point, direction: tuple[int, int], size: float) -> Point:
    return point[0] + size * direction[0], point[1] + size * direction[1]
