"""Ridge regression on data whose optima and curvatures differ from worker to worker as much as is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats
from siag.problems.points import Pointwise, bend, slope
from siag.problems.problem import Constants
from siag.problems.weights import Weights, drawn_counts, listed


class Squared(NamedTuple):
    """The loss ½ (u − y)²."""


@dataclass(frozen=True, eq=False, repr=False)
class Ridge(Pointwise):
    r"""Ridge regression; worker i holds m_i points and streams them by drawing with replacement.

        F_i(w) = (1/2m_i) ‖X_i w − y_i‖² + (λ/2) ‖w‖²,    ∇²F_i = X_iᵀX_i/m_i + λI

    Unlike those of `LeastSquares` the Hessians may differ, so that local steps drift. A stochastic gradient takes
    `batch` of the worker's points at random; ∇F_i takes them all.

    Args:
        features: (n, m, d) the rows of the X_i; or a list of n arrays (m_i, d).
        targets: (n, m) the y_i; or a list of n arrays (m_i,).
        regularization: λ ≥ 0.
        batch: points per stochastic gradient.
        weights: what workers count for, one number of 0 or more for each; `"points"`: by their number of points, so
            that all points count the same, FedAvg's n_k/n; by default all workers count the same.
        counts: (n,) m_i, if the rows from there on are no points of worker i; lists of unequal lengths tell it.

    Example:
        >>> problem = Ridge.random(n=10, d=5, m=20, tilt=0.5, regularization=0.1, seed=7)
        >>> problem.features.shape, round(problem.constants().L, 3), round(problem.constants().mu, 3)
        ((10, 20, 5), 11.406, 0.91)
    """

    features: Floats
    targets: Floats
    regularization: float
    batch: int = 1
    weights: Any = None
    counts: Any = None
    origin: str = field(default="", init=False)  # how it was drawn, for the record of a run

    LOSS, VALUES, CURVATURE = Squared(), "targets", 1.0

    def __post_init__(self) -> None:
        self._check(low=0)

    @classmethod
    def random(
        cls,
        *,
        n: int,
        d: int,
        m: int | Sequence[int],
        condition: float = 1.0,
        spread: float = 1.0,
        tilt: float = 0.0,
        regularization: float = 0.0,
        noise: float = 0.1,
        batch: int = 1,
        seed: int = 0,
        weights: Weights = None,
    ) -> Ridge:
        """Draw normal points, scaled per coordinate, and targets from a weight vector of the worker's own.

        Args:
            n: workers.
            d: dimension.
            m: points per worker; one number, or one for each.
            condition: ratio of the largest to the smallest expected curvature, the same for all workers.
            spread: standard deviation of what is the worker's own in its weight vector; 0: all want the same w.
            tilt: standard deviation of the logarithm of the worker's own scales; 0: all have the same law of X_i.
            regularization: λ.
            noise: standard deviation of the targets.
            batch: points per stochastic gradient.
            seed: of the draw.
            weights: what workers count for: numbers, `"points"`, or by default all the same.
        """
        n, d = check.integer("n", n), check.integer("d", d)
        m, counts = drawn_counts(m, n)
        condition = check.real("condition", condition, low=1, high=1e12)
        spread, tilt = check.real("spread", spread, low=0, high=1e6), check.real("tilt", tilt, low=0, high=10)
        noise = check.real("noise", noise, low=0, high=1e6)
        draw = np.random.default_rng(check.seed(seed))
        common, own = draw.standard_normal(d), spread * draw.standard_normal((n, 1, d))
        scale = np.exp(tilt * draw.standard_normal((n, 1, d))) * np.geomspace(1.0, condition**-0.5, d)
        features = scale * draw.standard_normal((n, m, d))
        targets = (features * (common + own)).sum(axis=2) + noise * draw.standard_normal((n, m))
        made = cls(features, targets, regularization, batch, weights, counts)
        of_each = m if counts is None else listed(counts)
        settings = f"n={n}, d={d}, m={of_each}, condition={condition}, spread={spread}, tilt={tilt}"
        rest = f"regularization={regularization}, noise={noise}, batch={batch}, seed={seed}"
        object.__setattr__(made, "origin", f"Ridge.random({settings}, {rest})")
        return made

    @cached_property
    def optimum(self) -> Floats:
        """(d,) w*, the solution of ∇²F w = Σ (p_i/m_i) Σ_k y_ik x_ik."""
        w = np.asarray(np.linalg.solve(self._curvature(), self._moment(self.targets.reshape(-1))), np.float64)
        w.setflags(write=False)
        return w

    def objective(self, w: Floats) -> float:
        """F(w)."""
        misses = self.features @ w - self.targets
        return 0.5 * self._mean(misses**2) + float(0.5 * self.regularization * (w @ w))

    def constants(self) -> Constants:
        """μ, the smallest curvature of F; L, the largest of an n p_i F_i; the smallest σ² there is."""
        misses = self.features @ self.optimum - self.targets
        mu = float(np.linalg.eigvalsh(self._curvature())[0])
        workers = zip(self._noise_factors, self.features, misses, self.counts, strict=True)
        noises = [factor * noise_constant(x[:m], miss[:m]) for factor, x, miss, m in workers]
        return Constants(mu, self._steepest, float(max(noises)))

    def _curvature(self) -> Floats:
        """(d, d) ∇²F, refused where it is singular."""
        points = self.features.reshape(-1, self.d)
        with np.errstate(over="ignore", invalid="ignore"):
            matrix: Floats = self._moment(points) + self.regularization * np.eye(self.d)
        finite = np.isfinite(matrix).all()
        curvatures = np.linalg.eigvalsh(matrix) if finite else np.zeros(1)
        if curvatures[0] <= self.d * np.finfo(float).eps * curvatures[-1]:
            allowed = "large enough for F to have one optimum in double precision"
            remedy = f"raise it, give points that span all {self.d} dimensions, or scale the features"
            raise BadInput("regularization", self.regularization, allowed, remedy)
        return matrix


def noise_constant(x: Floats, miss: Floats) -> float:
    """The smallest c with E‖∇f_i(w* + e; ξ) − ∇F_i(w* + e)‖² ≤ c (1 + ‖e‖²) for all e, one point at a time.

    With z = (x, x·w* − y), ∇f_i(w* + e; ξ) is x zᵀ(e, 1) and the noise (e, 1)ᵀ M (e, 1), M = E[‖x‖²zzᵀ] − E[zxᵀ]E[xzᵀ];
    so c is the largest eigenvalue of M. λ adds no noise.

    Args:
        x: (m, d) a worker's points.
        miss: (m,) x·w* − y at each.
    """
    z = np.column_stack((x, miss))
    mean = x.T @ z / len(x)
    square = (z.T * (x**2).sum(axis=1)) @ z / len(x)
    return max(float(np.linalg.eigvalsh(square - mean.T @ mean)[-1]), 0.0)


@slope.when(Squared)
def slope_squared(loss: Squared, u: float, y: float) -> float:
    """u − y."""
    return u - y


@bend.when(Squared)
def bend_squared(loss: Squared, u: float, y: float) -> float:
    """1."""
    return 1.0
