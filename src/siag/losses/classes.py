"""Losses of labels: one of two, one of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput
from siag.foundations.types import Floats
from siag.losses.loss import Loss, Single, as_numbers, check_rows, refuse_what_is_not_finite

TWO = "0 or 1, or −1 or 1, or a truth value"
OTHERS = "Softmax(classes=[…]) takes other labels"


@dataclass(frozen=True)
class Logistic(Single):
    """Logistic regression on two classes.

        ℓ(u, y) = log(1 + exp(−s u)),   s = 1 for the label 1 or True, and −1 for 0, −1 or False

    Labels may be 0 and 1, −1 and 1, or truth values. A batch with both 0 and −1 is refused, since these may be two
    classes; of single samples it cannot be known. Neither loss nor gradient overflows.

    Args:
        ridge: λ of (λ/2) ‖v‖².
        intercept: whether there is a b, the last entry of w.

    Example:
        >>> loss = Logistic(intercept=False)
        >>> [loss([0.0], ([2.0], y)).tolist() for y in (1, True, 0, -1)]
        [[-1.0], [-1.0], [1.0], [1.0]]
        >>> loss.predict([1.0], [[3.0], [-3.0]]).tolist(), loss.probability([1.0], [[3.0]]).round(3).tolist()
        ([True, False], [0.953])
    """

    def predict(self, w: Floats, X: Any) -> Any:
        """Whether the label is 1, for a row of features or for several."""
        return super().predict(w, X) > 0.0

    def probability(self, w: Floats, X: Any) -> Any:
        """How probable it is that the label is 1, for a row of features or for several."""
        return 0.5 * (1.0 + np.tanh(0.5 * super().predict(w, X)))

    def _labels(self, y: Any, u: Any) -> Any:
        """The signs s."""
        labels = as_numbers(y, u, TWO, OTHERS)
        if not isinstance(u, np.ndarray):
            if labels in (1.0, 0.0, -1.0):
                return 1.0 if labels > 0.0 else -1.0
            raise BadInput("y", y, TWO, OTHERS)
        squares = labels * labels
        if (squares == labels).all():
            return 2.0 * labels - 1.0
        if (squares == 1.0).all():
            return labels
        for wrong in labels[(squares != labels) & (squares != 1.0)][:1]:
            raise BadInput("y", wrong.item(), TWO, OTHERS)
        raise BadInput("y", y, "0 and 1, or −1 and 1, not both 0 and −1", OTHERS)

    def _values(self, u: Any, y: Any) -> Any:
        return np.logaddexp(0.0, -y * u)

    def _slopes(self, u: Any, y: Any) -> Any:
        return 0.5 * (np.tanh(0.5 * u) - y)  # −s / (1 + exp(s u))


@dataclass(frozen=True)
class Softmax(Loss):
    """Logistic regression on several classes.

        ℓ(u, y) = log Σ_k exp(u_k) − u_y,   u_k = x·v_k + b_k

    w has the parts (v_k, b_k) of the classes one after the other. Neither loss nor gradient overflows.

    Args:
        classes: all labels that there are, different numbers or different texts, in the order of w.
        ridge: λ of (λ/2) Σ_k ‖v_k‖².
        intercept: whether there are b_k.

    Example:
        >>> loss = Softmax(["cat", "dog", "owl"], intercept=False)
        >>> loss(np.zeros(3), ([3.0], "owl")).round(3).tolist()
        [1.0, 1.0, -2.0]
        >>> loss.predict([0.0, 1.0, -1.0], [[2.0], [-2.0]]).tolist()
        ['dog', 'owl']
    """

    classes: Sequence[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.classes
        listed = [] if isinstance(given, str | bytes) or not hasattr(given, "__iter__") else list(given)
        labels = tuple(each.item() if isinstance(each, np.generic) else each for each in listed)
        texts = all(isinstance(each, str) for each in labels)
        numbers = all(isinstance(each, int | float) and math.isfinite(each) for each in labels)
        if len(labels) < 2 or not (texts or numbers) or len(set(labels)) < len(labels):
            allowed = "a list of at least two different labels, all numbers or all texts"
            raise BadInput("classes", given, allowed, "for two classes, Logistic() has half as many parameters")
        object.__setattr__(self, "classes", labels)

    def predict(self, w: Floats, X: Any) -> Any:
        """The most probable label, for a row of features or an array of them for several."""
        return self._listed[self._outputs(*self._fitting(w, X)).argmax(axis=-1)]

    def probability(self, w: Floats, X: Any) -> Floats:
        """The probabilities of all classes, in a row for each row of features."""
        return _shares(self._outputs(*self._fitting(w, X)))

    @cached_property
    def _listed(self) -> np.ndarray[Any, Any]:
        return np.array(self.classes)

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {label: k for k, label in enumerate(self.classes)}

    @cached_property
    def _order(self) -> np.ndarray[Any, Any]:
        return np.argsort(self._listed)

    def _size(self, features: int) -> int:
        return len(self.classes) * (features + self.intercept)

    def _weights(self, w: Floats, features: int) -> Floats:
        return w.reshape(len(self.classes), -1)[:, :features]

    def _outputs(self, w: Floats, x: Floats) -> Any:
        parts = w.reshape(len(self.classes), -1)
        with np.errstate(over="ignore", invalid="ignore"):
            u = x @ parts[:, :-1].T + parts[:, -1] if self.intercept else x @ parts.T
        if not np.isfinite(u).all():
            refuse_what_is_not_finite(x)
        return u

    def _labels(self, y: Any, u: Any) -> Any:
        """Their places in the list of classes."""
        if u.ndim == 1:
            try:
                return self._places[y.item() if isinstance(y, np.ndarray) else y]
            except (KeyError, TypeError, ValueError):
                raise self._unknown(y) from None
        labels = check_rows(y, len(u))
        if labels.dtype.kind not in "biufU" or (labels.dtype.kind == "U") != (self._listed.dtype.kind == "U"):
            raise self._unknown(y)
        found = self._order[np.searchsorted(self._listed, labels, sorter=self._order) % len(self.classes)]
        for wrong in labels[self._listed[found] != labels][:1]:
            raise self._unknown(wrong.item())
        return found

    def _unknown(self, y: Any) -> BadInput:
        known = ", ".join(map(repr, self.classes[:10])) + ", …" * (len(self.classes) > 10)
        return BadInput("y", y, f"one of the classes {known}", "name all labels that there are in classes=[…]")

    def _values(self, u: Any, y: Any) -> Any:
        largest = u.max(axis=-1)
        chosen = u[y] if u.ndim == 1 else u[np.arange(len(u)), y]
        return np.log(np.exp(u - largest[..., None]).sum(axis=-1)) + largest - chosen

    def _slopes(self, u: Any, y: Any) -> Any:
        shares = _shares(u)
        if u.ndim == 1:
            shares[y] -= 1.0
        else:
            shares[np.arange(len(u)), y] -= 1.0
        return shares

    def _gradient(self, w: Floats, x: Floats, slopes: Any) -> Floats:
        features = x.shape[-1]
        found = np.empty((len(self.classes), features + self.intercept))
        if x.ndim == 1:
            np.multiply(slopes[:, None], x, out=found[:, :features])
        else:
            slopes = slopes / len(x)
            found[:, :features] = slopes.T @ x
        if self.intercept:
            found[:, -1] = slopes if x.ndim == 1 else slopes.sum(axis=0)
        if self.ridge:
            found[:, :features] += self.ridge * self._weights(w, features)
        return found.reshape(-1)


def _shares(u: Any) -> Floats:
    """exp(u_k) / Σ_j exp(u_j), along the last axis."""
    raised = np.exp(u - u.max(axis=-1, keepdims=True))
    raised /= raised.sum(axis=-1, keepdims=True)
    return raised  # type: ignore[no-any-return]  # an array, as u is
