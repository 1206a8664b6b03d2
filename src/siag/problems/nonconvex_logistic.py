"""Logistic regression with a penalty that is not convex, on which asynchronous methods are often compared."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats
from siag.problems.logistic_regression import Binary
from siag.problems.points import pull, stiffness
from siag.problems.problem import Constants


class Saturating(NamedTuple):
    """The penalty x²/(1 + x²), per coordinate: it grows to 1 and no further."""


class NonconvexLogistic(Binary):
    r"""Logistic regression with a non-convex penalty; worker i holds m_i labelled points, drawn with replacement.

        F_i(w) = (1/m_i) Σ_k log(1 + exp(−y_ik x_ik·w)) + λ Σ_j w_j²/(1 + w_j²)

    The penalty's curvature falls from 2λ at 0 to −λ/2 at ±1. No optimum is known: runs are judged by ‖∇F‖².

    Args:
        features: (n, m, d) the x_ik; or a list of n arrays (m_i, d).
        labels: (n, m) the y_ik, each −1 or 1; or a list of n arrays (m_i,).
        regularization: λ ≥ 0.
        batch: points per stochastic gradient.
        weights: what workers count for, one number of 0 or more for each; `"points"`: by their number of points, so
            that all points count the same, FedAvg's n_k/n; by default all workers count the same.
        counts: (n,) m_i, if the rows from there on are no points of worker i; lists of unequal lengths tell it.

    Reference:
        A. Antoniadis, I. Gijbels, M. Nikolova, "Penalized likelihood regression for generalized linear models with
        non-quadratic penalties", Annals of the Institute of Statistical Mathematics, 2011.

    Example:
        >>> problem = NonconvexLogistic.random(n=8, d=5, m=20, regularization=0.1, seed=7)
        >>> problem.optimum is None, bool(np.linalg.eigvalsh(problem.hessian(0, np.full(5, 9.0)))[0] < 0)
        (True, True)
    """

    PENALTY, STIFFEST = Saturating(), 2.0
    RANGE: ClassVar[dict[str, float]] = {"low": 0}

    def objective(self, w: Floats) -> float:
        """F(w)."""
        margins = self.labels * (self.features @ w)
        penalty = (1.0 - 1.0 / (1.0 + w * w)).sum()
        return self._mean(np.logaddexp(0.0, -margins)) + float(self.regularization * penalty)

    def constants(self) -> Constants:
        """There is no μ; the L_i, which are attained at w = 0, are `smoothness`."""
        raise Unsuitable("NonconvexLogistic is not convex and has no μ; its L_i are `smoothness`")


@pull.when(Saturating)
def pull_saturating(penalty: Saturating, x: float) -> float:
    """2x/(1 + x²)²."""
    share = 1.0 / (1.0 + x * x)
    return 2.0 * x * share * share


@stiffness.when(Saturating)
def stiffness_saturating(penalty: Saturating, x: float) -> float:
    """(2 − 6x²)/(1 + x²)³."""
    share = 1.0 / (1.0 + x * x)
    return (8.0 * share - 6.0) * share * share
