"""What ready-made losses have in common: a linear model, an intercept, a ridge, and checks of what comes in."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats

FLOAT = np.dtype(np.float64)
SAMPLE = "a pair (x, y) of features and label, or (X, y) of rows of features and their labels"


@dataclass(frozen=True, kw_only=True)
class Loss(ABC):
    """A loss of samples (x, y) with a ridge, as a function of w; on a batch (X, y), the mean over its samples.

        F(w) = ℓ(x·v + b, y) + (λ/2) ‖v‖²,   w = (v, b)

    An object of it is what `siag.train` calls a gradient: `loss(w, sample)` is ∇F(w).

    Args:
        ridge: λ ≥ 0. The intercept is not shrunk.
        intercept: whether there is a b, the last entry of w (of each class's part of it, for several classes).
    """

    ridge: float = 0.0
    intercept: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "ridge", check.real("ridge", self.ridge, low=0))
        check.truth("intercept", self.intercept)

    def __call__(self, w: Floats, sample: Any) -> Floats:
        """The gradient at w on a sample or a batch."""
        w, x, y = self._read(w, sample)
        u = self._outputs(w, x)
        return self._gradient(w, x, self._slopes(u, self._labels(y, u)))

    def value(self, w: Floats, sample: Any) -> float:
        """The loss of w on a sample or a batch, the ridge included."""
        w, x, y = self._read(w, sample)
        u = self._outputs(w, x)
        return self._value(w, x, self._values(u, self._labels(y, u)))

    def each(self, w: Floats, batch: Any) -> Floats:
        """(samples,) the loss of w on each sample of a batch, the ridge included."""
        w, x, y = self._read(w, batch)
        u = self._outputs(w, x)
        return np.atleast_1d(self._values(u, self._labels(y, u))) + self._value(w, x, np.zeros(1))

    def value_and_gradient(self, w: Floats, sample: Any) -> tuple[float, Floats]:
        """Both, for less than the two of them."""
        w, x, y = self._read(w, sample)
        u = self._outputs(w, x)
        labels = self._labels(y, u)
        return self._value(w, x, self._values(u, labels)), self._gradient(w, x, self._slopes(u, labels))

    def dimension(self, features: int) -> int:
        """How many parameters w has for this many features.

        Example:
            >>> from siag.losses import Softmax, Squared
            >>> Squared().dimension(5), Squared(intercept=False).dimension(5), Softmax(["a", "b", "c"]).dimension(5)
            (6, 5, 18)
        """
        return self._size(check.integer("features", features))

    @abstractmethod
    def predict(self, w: Floats, X: Any) -> Any:
        """What the model says of a row of features, or of several."""

    @abstractmethod
    def _size(self, features: int) -> int:
        """As `dimension`, unchecked."""

    @abstractmethod
    def _outputs(self, w: Floats, x: Floats) -> Any:
        """u = x·v + b, for each row if there are several."""

    @abstractmethod
    def _labels(self, y: Any, u: Any) -> Any:
        """The labels as ℓ wants them, as many as there are outputs."""

    @abstractmethod
    def _values(self, u: Any, y: Any) -> Any:
        """ℓ(u, y)."""

    @abstractmethod
    def _slopes(self, u: Any, y: Any) -> Any:
        """The derivative of ℓ by u."""

    @abstractmethod
    def _gradient(self, w: Floats, x: Floats, slopes: Any) -> Floats:
        """From the derivatives by u to that by w."""

    @abstractmethod
    def _weights(self, w: Floats, features: int) -> Floats:
        """v, a view of w without the intercept."""

    def _value(self, w: Floats, x: Floats, values: Any) -> float:
        penalty = 0.5 * self.ridge * float(np.square(self._weights(w, x.shape[-1])).sum()) if self.ridge else 0.0
        return float(values.mean()) + penalty

    def _read(self, w: Floats, sample: Any) -> tuple[Floats, Floats, Any]:
        try:
            x, y = sample
        except (TypeError, ValueError):
            raise BadInput("sample", sample, SAMPLE) from None
        arrays = type(x) is type(w) is np.ndarray and x.dtype is w.dtype is FLOAT and 1 == w.ndim <= x.ndim <= 2
        if arrays and x.size and self._size(x.shape[-1]) == w.size:
            return w, x, y  # the usual case, at once
        return *self._fitting(w, x), y

    def _fitting(self, w: Floats, x: Any) -> tuple[Floats, Floats]:
        """w and x as arrays that fit together."""
        w = np.asarray(w, dtype=np.float64)
        try:
            array = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadInput("x", x, "an array of numbers, one for each feature, or of such rows") from None
        if not 1 <= array.ndim <= 2 or not array.size:
            remedy = "write a single feature as [x]" if array.ndim == 0 else f"its shape is {array.shape}"
            raise BadInput("x", x, "an array of numbers, one for each feature, or of such rows", remedy)
        features = array.shape[-1]
        if w.ndim != 1 or self._size(features) != w.size:
            wanted = next((f"{p}" for p in range(1, w.size + 1) if self._size(p) == w.size), "other")
            remedy = f"for {features} features w must have {self._size(features)} numbers: dimension({features})"
            raise BadInput("x", x, f"{wanted} features, as w has {w.size} numbers", f"or {remedy}")
        return w, array


@dataclass(frozen=True, kw_only=True)
class Single(Loss):
    """A loss ℓ(u, y) of one number u = x·v + b for each sample."""

    def predict(self, w: Floats, X: Any) -> Any:
        """u = x·v + b for a row of features, or for several."""
        return self._outputs(*self._fitting(w, X))

    def _size(self, features: int) -> int:
        return features + self.intercept

    def _weights(self, w: Floats, features: int) -> Floats:
        return w[:features]

    def _outputs(self, w: Floats, x: Floats) -> Any:
        v, b = (w[:-1], w[-1]) if self.intercept else (w, 0.0)
        if x.ndim == 1:
            u = x @ v + b
            fine = math.isfinite(u)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                u = x @ v + b
                fine = math.isfinite(u @ u)  # or else it is looked at again
        if not fine:
            refuse_what_is_not_finite(x)
        return u

    def _gradient(self, w: Floats, x: Floats, slopes: Any) -> Floats:
        features = x.shape[-1]
        found = np.empty(w.size)
        if x.ndim == 1:
            np.multiply(x, slopes, out=found[:features])
        else:
            slopes = slopes / len(x)
            np.matmul(slopes, x, out=found[:features])
        if self.intercept:
            found[-1] = slopes if x.ndim == 1 else slopes.sum()
        if self.ridge:
            found[:features] += self.ridge * w[:features]
        return found


def refuse_what_is_not_finite(x: Floats) -> None:
    """Refuse a row with NaN or infinity; if there is none, it is w that has left the range of numbers."""
    rows = np.atleast_2d(x)
    for row in rows[~np.isfinite(rows).all(axis=1)][:1]:
        raise BadInput("x", row, "finite numbers", "leave such samples out, or fill in what is missing")


def finite(y: Any, u: Any, allowed: str) -> Any:
    """Labels as finite numbers: one, or an array with one for each output of a batch."""
    labels = as_numbers(y, u, allowed)
    if not math.isfinite(labels @ labels if isinstance(u, np.ndarray) else labels):
        for wrong in np.ravel(labels)[~np.isfinite(np.ravel(labels))][:1].tolist():
            raise BadInput("y", wrong, allowed, "leave such samples out, or fill in what is missing")
    return labels


def as_numbers(y: Any, u: Any, allowed: str, remedy: str = "") -> Any:
    """Labels as numbers, finite or not: one, or an array with one for each output of a batch."""
    try:
        if isinstance(u, np.ndarray):
            return check_rows(y, len(u)).astype(np.float64, copy=False)
        if not isinstance(y, np.ndarray) or y.ndim == 0:
            return float(y)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
    raise BadInput("y", y, allowed, remedy)


def check_rows(y: Any, rows: int) -> np.ndarray[Any, Any]:
    """The labels of a batch as an array."""
    labels = np.asarray(y)
    if labels.dtype.kind == "O":  # as a DataFrame has texts
        labels = np.array(labels.tolist())
    if labels.shape != (rows,):
        raise BadInput("y", y, f"{rows} labels, one for each row of X", f"its shape is {labels.shape}")
    return labels
