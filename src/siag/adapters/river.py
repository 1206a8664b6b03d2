"""river's linear models, learned from several sources of which every one counts the same."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from itertools import takewhile
from typing import Any, NoReturn

import numpy as np

from siag.adapters.named import Linear
from siag.adapters.rows import HUBER, SOFTMAX, SQUARED
from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.extras import needed
from siag.steps import Step

needed("river", "river")

from river import base  # noqa: E402  # what is missing is said first
from river.utils import dataframe as frames  # noqa: E402

LOSSES = ("squared", "huber")
LABEL = "a label: a text, a number or a truth value"


class RiverClassifier(Linear, base.MiniBatchClassifier):
    """Logistic regression of two or more classes, learned from several sources of which every one counts the same.

        ℓ(u, y) = log Σ_k exp(u_k) − u_y,   u_k = x·v_k + b_k

    A source is whatever samples come from: a shop, a sensor, a carrier. The model minimises the mean of the sources'
    losses, however unevenly they come: it steps along the mean of the latest gradient of each of them (`siag.methods`).
    Sources, features and classes join when they first appear; the weight of a feature is 0 before.

    Args:
        step: `None`: steps nobody has to choose, `Automatic()`, which shrink, so that a drift is not followed for
            ever; predictions are those of a mean of the iterates, mostly of the last ninth of all samples. Or a number
            η, the size of all steps, or a step of `siag.steps`: with either `SIAG()`, and the newest w predicts.
        ridge: λ of (λ/2) Σ_k ‖v_k‖².
        source: the feature that names a sample's source and is not learned from; `None`: `learn_one` is told.
        source_weight: what sources count for: a dict by name, in which one that is left out counts for 1; or
            `"samples"`: as many as it has samples so far; `None`: the same.

    Example:
        >>> from river import datasets, evaluate, metrics, preprocessing
        >>> model = preprocessing.StandardScaler() | RiverClassifier()
        >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
        Accuracy: 88.95%
    """

    def __init__(
        self,
        step: float | Step | None = None,
        ridge: float = 0.0,
        source: Hashable = None,
        source_weight: Mapping[Hashable, float] | str | None = None,
    ) -> None:
        self.step, self.ridge, self.source, self.source_weight = step, ridge, source, source_weight
        self._classes: dict[Hashable, int] = {}
        self._begin(SOFTMAX)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"step": 0.01, "ridge": 0.001}

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def classes(self) -> list[Hashable]:
        """Those that have come so far."""
        return list(self._classes)

    @property
    def weights(self) -> dict[Hashable, dict[Hashable, float]]:
        """Those of each class, by the names of the features."""
        return {label: self._named(k) for label, k in self._classes.items()}

    @property
    def intercepts(self) -> dict[Hashable, float]:
        """That of each class."""
        return {label: float(self._weights[k, -1]) for label, k in self._classes.items()}

    def learn_one(self, x: Mapping[Hashable, Any], y: Hashable, w: float = 1.0, source: Hashable = None) -> None:
        """Learn from a sample, w being its weight and `source` where it comes from."""
        self._take(x, y, w, source)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, source: Any = None) -> None:
        """Learn from the rows of a frame, one after the other; w and `source` are for all rows, or one for each."""
        labels = frames.into_series(y)
        self._y_name, listed = labels.name, labels.to_list()
        for label in set(listed):
            check_label(label)
        self._take_many(X, listed, w, source)

    def _numbers(self, y: Any) -> Any:
        first = self._number(y[0])
        return [first, *(self._classes[label] for label in takewhile(self._classes.__contains__, y[1:]))]

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
        """The probabilities of the classes that have come so far."""
        u = self._raw(x).tolist()[: len(self._classes)]
        raised = [math.exp(each - max(u)) for each in u]  # NumPy takes longer for a few numbers
        total = sum(raised)
        return {label: each / total for label, each in zip(self._classes, raised, strict=True)}

    def predict_proba_many(self, X: Any) -> Any:
        """The same for each row, in a frame with a column for each class."""
        u = self._raw_many(X)
        raised = np.exp(u - u.max(axis=1, keepdims=True))
        shares = raised / raised.sum(axis=1, keepdims=True)
        columns = {label: shares[:, k] for label, k in self._classes.items()}
        return frames.to_native_frame(columns, like=frames.into_frame(X))

    def predict_many(self, X: Any) -> Any:
        """The most probable class of each row."""
        best = self._raw_many(X).argmax(axis=1)
        labels = [self.classes[k] for k in best] if self._classes else [None] * len(best)
        return frames.to_native_series(labels, name=self._y_name, like=frames.into_frame(X))

    def _number(self, y: Any) -> int:
        """The number of a class; one that is new joins."""
        try:
            if y in self._classes:
                return self._classes[y]
        except TypeError:
            raise BadInput("y", y, LABEL) from None
        check_label(y)
        self._classes[y] = len(self._classes)
        if len(self._classes) > 1:
            self._widen(len(self._classes), self._room)
        return self._classes[y]


class RiverRegressor(Linear, base.MiniBatchRegressor):
    """Linear regression, learned from several sources of which every one counts the same; see `RiverClassifier`.

        ℓ(u, y) = ½ (u − y)²,   u = x·v + b

    Args:
        loss: `"squared"`, or `"huber"`, for which an outlier has no large gradient.
        delta: δ of Huber's loss, in the units of y: from there on it is as |u − y|.
        step: `None`: steps nobody has to choose; or a number η, or a step of `siag.steps`.
        ridge: λ of (λ/2) ‖v‖².
        source: the feature that names a sample's source and is not learned from; `None`: `learn_one` is told.
        source_weight: what sources count for: a dict by name, in which one that is left out counts for 1; or
            `"samples"`: as many as it has samples so far; `None`: the same.

    Example:
        >>> model = RiverRegressor()
        >>> for k in range(1000):
        ...     model.learn_one({"hour": k % 7}, 3 * (k % 7) + 1, source="north")
        ...     model.learn_one({"hour": k % 5}, 3 * (k % 5) + 5, source="south")
        >>> round(model.predict_one({"hour": 2}))
        9
    """

    def __init__(
        self,
        loss: str = "squared",
        delta: float = 1.0,
        step: float | Step | None = None,
        ridge: float = 0.0,
        source: Hashable = None,
        source_weight: Mapping[Hashable, float] | str | None = None,
    ) -> None:
        self.loss, self.delta, self.step, self.ridge, self.source = loss, delta, step, ridge, source
        self.source_weight = source_weight
        check.choice("loss", loss, LOSSES)
        self._begin(HUBER if loss == "huber" else SQUARED, check.real("delta", delta, above=0))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"loss": "huber", "step": 0.0001}

    @property
    def weights(self) -> dict[Hashable, float]:
        """By the names of the features."""
        return self._named(0)

    @property
    def intercept(self) -> float:
        """What is predicted where all features are 0."""
        return float(self._weights[0, -1])

    def learn_one(self, x: Mapping[Hashable, Any], y: float, w: float = 1.0, source: Hashable = None) -> None:
        """Learn from a sample, w being its weight and `source` where it comes from."""
        self._take(x, y, w, source)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, source: Any = None) -> None:
        """Learn from the rows of a frame, one after the other; w and `source` are for all rows, or one for each."""
        targets = frames.into_series(y)
        self._y_name = targets.name
        try:
            numbers = np.ascontiguousarray(targets.to_numpy(), np.float64)
        except (TypeError, ValueError):
            refuse_label(y)
        for wrong in numbers[~np.isfinite(numbers)][:1]:
            refuse_label(float(wrong))
        self._take_many(X, numbers, w, source)

    def _number(self, y: Any) -> float:
        try:
            number = float(y)
        except (TypeError, ValueError):
            refuse_label(y)
        return number if math.isfinite(number) else refuse_label(y)

    def _numbers(self, y: Any) -> Any:
        return y

    def predict_one(self, x: Mapping[Hashable, Any]) -> float:
        """x·v + b."""
        return float(self._raw(x)[0])

    def predict_many(self, X: Any) -> Any:
        """The same for each row."""
        return frames.to_native_series(self._raw_many(X)[:, 0], name=self._y_name, like=frames.into_frame(X))


def check_label(y: Any) -> None:
    """Refuse a class that is none."""
    if y is None or (isinstance(y, float) and math.isnan(y)):
        raise BadInput("y", y, LABEL, "leave samples without one out")


def refuse_label(y: Any) -> NoReturn:
    """Refuse what is no number to predict."""
    raise BadInput("y", y, "a finite number", "leave such samples out, or fill in what is missing")
