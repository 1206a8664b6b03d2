"""Losses of numbers and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats
from siag.losses.loss import Single, finite

STEEPEST = 30.0  # beyond this u, Poisson's exp(u), which is 10¹³ there, goes on as a straight line


@dataclass(frozen=True)
class Squared(Single):
    """Least squares.

        ℓ(u, y) = ½ (u − y)²,   u = x·v + b

    Args:
        ridge: λ of (λ/2) ‖v‖².
        intercept: whether there is a b, the last entry of w.

    Example:
        >>> loss = Squared(ridge=0.5)
        >>> loss.value([1.0, 2.0, 0.0], ([1.0, 1.0], 4.0))
        1.75
        >>> loss([1.0, 2.0, 0.0], ([1.0, 1.0], 4.0)).tolist()
        [-0.5, 0.0, -1.0]
    """

    def _labels(self, y: Any, u: Any) -> Any:
        return finite(y, u, "a finite number")

    def _values(self, u: Any, y: Any) -> Any:
        return 0.5 * (u - y) ** 2

    def _slopes(self, u: Any, y: Any) -> Any:
        return u - y


@dataclass(frozen=True)
class Huber(Single):
    """Least squares near the label and absolute values far from it, so that no outlier has a large gradient.

        ℓ(u, y) = ½ r² where |r| ≤ δ, and δ (|r| − δ/2) elsewhere,   r = u − y

    Args:
        delta: δ > 0, in the units of y.
        ridge: λ of (λ/2) ‖v‖².
        intercept: whether there is a b, the last entry of w.

    Example:
        >>> Huber(delta=2.0)([0.0, 0.0], ([3.0], 100.0)).tolist()
        [-6.0, -2.0]

    Reference: P. J. Huber, Robust estimation of a location parameter, Ann. Math. Statist. 35 (1964).
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "delta", check.real("delta", self.delta, above=0))

    def _labels(self, y: Any, u: Any) -> Any:
        return finite(y, u, "a finite number")

    def _values(self, u: Any, y: Any) -> Any:
        slope = self._slopes(u, y)
        return slope * (u - y - 0.5 * slope)

    def _slopes(self, u: Any, y: Any) -> Any:
        return np.minimum(np.maximum(u - y, -self.delta), self.delta)  # np.clip takes ten times as long on a number


@dataclass(frozen=True)
class Poisson(Single):
    """Counts whose expected value is exp(u): the negative logarithm of their probability, without its constant log y!.

        ℓ(u, y) = exp(u) − y u,   u = x·v + b

    So that a bad step overflows nothing, exp(u) goes on as its tangent beyond u = 30, where it is 10¹³. The loss is
    still convex, with a continuous gradient; counts of that size are not meant.

    Args:
        ridge: λ of (λ/2) ‖v‖².
        intercept: whether there is a b, the last entry of w.

    Example:
        >>> loss = Poisson(intercept=False)
        >>> loss([0.0], ([2.0], 3)).tolist()
        [-4.0]
        >>> loss.predict([0.5], [[0.0], [2.0]]).round(3).tolist()
        [1.0, 2.718]
    """

    def predict(self, w: Floats, X: Any) -> Any:
        """The expected count, for a row of features or for several."""
        return np.exp(_near(super().predict(w, X)))

    def _labels(self, y: Any, u: Any) -> Any:
        counts = finite(y, u, "a count, 0 or more")
        least = counts.min().item() if isinstance(u, np.ndarray) else counts
        if least < 0.0:
            raise BadInput("y", least, "a count, 0 or more")
        return counts

    def _values(self, u: Any, y: Any) -> Any:
        near = _near(u)
        return np.exp(near) * (1.0 + (u - near)) - y * u

    def _slopes(self, u: Any, y: Any) -> Any:
        return np.exp(_near(u)) - y


def _near(u: Any) -> Any:
    """The least of u and 30; for a number alone NumPy takes ten times as long."""
    return np.minimum(u, STEEPEST) if isinstance(u, np.ndarray) else min(u, STEEPEST)
