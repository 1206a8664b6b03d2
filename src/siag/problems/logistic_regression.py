"""ℓ2-regularised logistic regression on data that differ from worker to worker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.types import Floats
from siag.problems.logistic_noise import miss, smallest_constant
from siag.problems.points import Pointwise, bend, slope
from siag.problems.problem import Constants
from siag.problems.weights import Weights, drawn_counts, listed

NEWTON_STEPS = 200


class Logistic(NamedTuple):
    """The loss log(1 + exp(−yu))."""


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Pointwise):
    """Points of the classes −1 and 1 with logistic loss, under any penalty."""

    features: Floats
    labels: Floats
    regularization: float
    batch: int = 1
    weights: Any = None
    counts: Any = None
    origin: str = field(default="", init=False)  # how it was drawn, for the record of a run

    LOSS, VALUES, CURVATURE = Logistic(), "labels", 0.25
    RANGE: ClassVar[dict[str, float]]  # of λ

    def __post_init__(self) -> None:
        self._check(**self.RANGE)
        if not np.isin(self.labels[self._there], (-1.0, 1.0)).all():
            raise BadInput("labels", self.labels, "an array of −1 and 1", "map 0 to −1 if they are 0 and 1")

    @classmethod
    def random(
        cls,
        *,
        n: int,
        d: int,
        m: int | Sequence[int] = 50,
        heterogeneity: float = 1.0,
        regularization: float = 0.1,
        batch: int = 1,
        seed: int = 0,
        weights: Weights = None,
    ) -> Self:
        """Draw points around a centre of the worker's own and label them by a weight vector of its own.

        Args:
            n: workers.
            d: dimension.
            m: points per worker; one number, or one for each.
            heterogeneity: standard deviation of what is the worker's own; 0 gives all workers the same law.
            regularization: λ.
            batch: points per stochastic gradient.
            seed: of the draw.
            weights: what workers count for: numbers, `"points"`, or by default all the same.
        """
        n, d = check.integer("n", n), check.integer("d", d)
        m, counts = drawn_counts(m, n)
        spread = check.real("heterogeneity", heterogeneity, low=0, high=1e6)
        draw = np.random.default_rng(check.seed(seed))
        common = draw.standard_normal(d)
        own = spread * draw.standard_normal((2, n, 1, d))
        features = own[0] + draw.standard_normal((n, m, d))
        odds = (features * (common + own[1])).sum(axis=2)
        labels = np.where(draw.logistic(size=(n, m)) < odds, 1.0, -1.0)
        made = cls(features, labels, regularization, batch, weights, counts)
        points = f"n={n}, d={d}, m={m if counts is None else listed(counts)}, heterogeneity={spread}"
        settings = f"{points}, regularization={regularization}, batch={batch}, seed={seed}"
        object.__setattr__(made, "origin", f"{cls.__name__}.random({settings})")
        return made


class LogisticRegression(Binary):
    r"""Logistic regression; worker i holds m_i labelled points and streams them by drawing with replacement.

        F_i(w) = (1/m_i) Σ_k log(1 + exp(−y_ik x_ik·w)) + (λ/2) ‖w‖²

    A stochastic gradient takes `batch` of the worker's points at random; ∇F_i takes them all.

    Args:
        features: (n, m, d) the x_ik; or a list of n arrays (m_i, d).
        labels: (n, m) the y_ik, each −1 or 1; or a list of n arrays (m_i,).
        regularization: λ > 0, which makes F strongly convex.
        batch: points per stochastic gradient.
        weights: what workers count for, one number of 0 or more for each; `"points"`: by their number of points, so
            that all points count the same, FedAvg's n_k/n; by default all workers count the same.
        counts: (n,) m_i, if the rows from there on are no points of worker i; lists of unequal lengths tell it.
    """

    RANGE: ClassVar[dict[str, float]] = {"above": 0}

    @cached_property
    def optimum(self) -> Floats:
        """(d,) w*, by Newton's method with halved steps until ‖∇F‖/μ, and so ‖w − w*‖, is at most 1e-10."""
        w = np.zeros(self.d)
        for _ in range(NEWTON_STEPS):
            gradient, hessian = self._derivatives(w)
            if np.linalg.norm(gradient) <= 1e-10 * self.regularization:
                w.setflags(write=False)
                return w
            direction = np.linalg.solve(hessian, gradient)
            length, here = 1.0, np.linalg.norm(gradient)
            while length > 1e-6 and np.linalg.norm(self._derivatives(w - length * direction)[0]) > here:
                length /= 2.0
            w = w - length * direction
        raise SiagError(
            f"no optimum to 1e-10 after {NEWTON_STEPS} Newton steps; scale the features or raise the regularization"
        )

    def objective(self, w: Floats) -> float:
        """F(w)."""
        margins = self.labels * (self.features @ w)
        return self._mean(np.logaddexp(0.0, -margins)) + float(0.5 * self.regularization * (w @ w))

    def _derivatives(self, w: Floats) -> tuple[Floats, Floats]:
        """∇F(w) and ∇²F(w)."""
        points = self.features.reshape(-1, self.d)
        labels = self.labels.reshape(-1)
        missed = miss(labels * (points @ w))
        gradient = self.regularization * w - self._moment(labels * missed)
        weight = missed * (1.0 - missed)
        weight = weight / len(points) if self._shares is None else weight * self._shares.reshape(-1)
        hessian = self.regularization * np.eye(self.d) + points.T @ (weight[:, None] * points)
        return gradient, hessian

    def constants(self) -> Constants:
        """μ = λ, approached far from the data; L, attained at w = 0; and a bound a few percent above the smallest σ².

        The bound is certified; how it is found is in problems/logistic_noise.py, and how close it is: within 2 % where
        the search ends by itself, farther where it is cut short, as with heterogeneity 3 (6 %) or with λ = 0.001 and
        fewer points than dimensions (21 %).
        """
        z = self.labels[..., np.newaxis] * self.features
        workers = ((factor, each[:m]) for factor, each, m in zip(self._noise_factors, z, self.counts, strict=True))
        return Constants(self.regularization, self._steepest, smallest_constant(workers, self.optimum))


@compiled
def miss_one(u: float, y: float) -> float:
    """1 / (1 + exp(yu)); tanh does not overflow."""
    return 0.5 * (1.0 - math.tanh(0.5 * y * u))


@slope.when(Logistic)
def slope_logistic(loss: Logistic, u: float, y: float) -> float:
    """−y s with s = 1 / (1 + exp(yu))."""
    return -y * miss_one(u, y)


@bend.when(Logistic)
def bend_logistic(loss: Logistic, u: float, y: float) -> float:
    """s (1 − s)."""
    s = miss_one(u, y)
    return s * (1.0 - s)
