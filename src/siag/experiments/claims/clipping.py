"""What is claimed of clipped gradients: steep slopes do no harm, and noise leaves a bias."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from siag.activity import Everyone
from siag.foundations.errors import DivergenceWarning
from siag.foundations.types import Floats, Record, Rng
from siag.methods import SGD, Clipped, Method
from siag.problems import Problem, Ridge, sample
from siag.report import Claim
from siag.simulation import simulate
from siag.steps import Constant

Maker: TypeAlias = Callable[..., Method]

STARTS, SMALL = (2.0, 4.0, 6.0), 1e-3  # where to start on cosh, and the |∇F| to get to
ATOMS, LEVELS = 256, (1.0, 2.0, 4.0, 8.0)  # workers, and thresholds in units of σ


def clipped(method: Maker = Clipped) -> list[Claim]:
    """Clipped gradient descent bears gradients that grow with the curvature; with noise its limit is biased.

    Args:
        method: makes what is put to the test from a method and `norm`.
    """
    return [_steep(method), _biased(method)]


@dataclass(frozen=True, eq=False)
class Steep(Problem):
    """F(w) = cosh(w): |F″| ≤ 1 + |F′|, so F is (L₀, L₁)-smooth with L₀ = L₁ = 1, and smooth in no other sense."""

    n = 1
    d = 1

    @property
    def optimum(self) -> Floats:
        """(1,) 0."""
        return np.zeros(1)

    def oracle(self) -> Record:
        """Nothing is needed."""
        return Cosh()


class Cosh(NamedTuple):
    """The hyperbolic cosine."""


@sample.when(Cosh)
def sinh(oracle: Cosh, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """Its derivative."""
    out[0] = math.sinh(w[0]) if abs(w[0]) < 700.0 else math.nan


def _steep(method: Maker) -> Claim:
    """Clipped with one step for all starts; gradient descent with 1/M, M the largest curvature on its way."""
    steepness = [math.sinh(start) for start in STARTS]
    ours = [_iterations(method(SGD(), norm=1.0), start, 0.5, 200) for start in STARTS]
    theirs = [_iterations(SGD(), start, 1.0 / math.cosh(start), 2000) for start in STARTS]
    slopes = [_slope(steepness, counts) for counts in (ours, theirs)]
    return Claim(
        "Where the curvature grows with the gradient, clipped gradient descent does not slow down with M, the largest "
        "gradient on the way; gradient descent with a fixed step does in proportion",
        "Zhang et al. 2020, the theorems on both, on non-convex problems; here on cosh",
        f"iterations to |∇F| = {SMALL:g} for M = {', '.join(f'{m:.1f}' for m in steepness)} grow as M^p, p at most 0.3 "
        "with clipping and at least 0.7 without",
        f"{', '.join(f'{count:g}' for count in ours)} (p = {slopes[0]:.2f}) and "
        f"{', '.join(f'{count:g}' for count in theirs)} (p = {slopes[1]:.2f})",
        slopes[0] <= 0.3 and slopes[1] >= 0.7,
    )


def _biased(method: Maker) -> Claim:
    """The paper's worst case: a gradient is seldom longer than c, and then twice as long.

    A worker for each value of the noise, all active: their mean is the expectation, and chance plays no part.
    """
    ends = []
    for c in LEVELS:
        rare = round(ATOMS / (4.0 * c * c))
        values = np.full((ATOMS, 1), 2.0 * c * rare / (ATOMS - rare))
        values[:rare] = -2.0 * c
        problem = Ridge(np.ones((ATOMS, 1, 1)), values, regularization=0.0)
        run = simulate(
            problem, method(SGD(), norm=c), Everyone(), Constant(0.9), iterations=15, record=2, compiled=False
        )
        ends.append(math.sqrt(float(run.error[0, -1])))
    slope = _slope(list(LEVELS[1:]), ends[1:])
    return Claim(
        "With noise clipping leaves a bias of the order of min{σ, σ²/c}, however small the step",
        "Koloskova et al. 2023, the lower bound for clipped SGD",
        f"‖∇F‖ at the limit for c = {', '.join(f'{c:g}' for c in LEVELS)} σ: at least σ²/12c, and from c = 2σ on it "
        "falls as c^−1, to 0.1 in the exponent",
        f"{', '.join(f'{end:.4f}' for end in ends)} σ, as c^{slope:.2f}",
        all(end >= 1.0 / (12.0 * c) for end, c in zip(ends, LEVELS, strict=True)) and abs(slope + 1.0) < 0.1,
    )


def _iterations(method: Method, start: float, eta: float, most: int) -> float:
    """Until |∇F| is small; infinite if it never is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        run = simulate(
            Steep(),
            method,
            Everyone(),
            Constant(eta),
            iterations=most,
            record=10**5,
            w0=np.array([start]),
            compiled=False,
        )
    there = np.flatnonzero(run.error[0] <= math.asinh(SMALL) ** 2)
    return float(run.t[there[0]]) if len(there) else math.inf


def _slope(x: list[float], y: list[float]) -> float:
    """Of log y over log x; infinite if y is 0 or infinite somewhere."""
    if not all(0.0 < value < math.inf for value in y):
        return math.inf
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
