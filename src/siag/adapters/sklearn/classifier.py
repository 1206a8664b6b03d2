"""A linear classifier of which every source counts the same."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from siag.adapters.rows import LOGISTIC, SOFTMAX
from siag.adapters.sklearn.linear import Linear, weighed
from siag.foundations.errors import BadInput, Missing
from siag.foundations.types import Floats
from siag.losses import Logistic, Loss, Softmax


class SIAGClassifier(ClassifierMixin, Linear):
    r"""Logistic regression, on several classes by softmax, in which every source of data counts the same.

        min_w (1/n) Σ_i (1/m_i) Σ_k ℓ(w; x_ik, y_ik) + (α/2) ‖v‖²,    w = (v, b)

    over n sources with m_i rows each. `fit(X, y, source=…)` reads finite data: sources take turns, 64 rows a report, or
    all rows of a smaller one. `partial_fit(X, y, source="north")` reads a stream once, as it comes: each row is a
    report of its source, and the mean is over the sources met so far. Without `source` there is one.

    Steps need no constants. Features are not scaled; unequal ones are warned of.

    Args:
        alpha: α ≥ 0; the intercept is not shrunk.
        fit_intercept: whether there is a b.
        max_iter: the most passes of `fit` over the data.
        tol: `fit` ends when its loss has not fallen by this for 5 passes, and 64 reports of each source; `None`: never.
        shuffle: whether `fit` reads the rows of a source in random order.
        random_state: of that order.
        batch_size: rows of a report; by default 64 in `fit` and 1 in `partial_fit`.
        method: a `siag.methods.Method` of which a report is one gradient; by default `Automatic()`, or `SIAG()` if
            there is a step.
        step: a `siag.steps.Step`, for methods that need one.
        workers: `True` for `fit` on processes, one for each source; a number to deal the rows of a single source to so
            many. `max_iter` passes are made then.
        source_weight: p_i in place of 1/n, up to a factor: a dict by source, in which one that is left out, or comes
            later, counts for 1; or `"samples"`: as many as it has rows so far, or the sum of their weights.

    Attributes:
        classes_: the labels, sorted.
        coef_: (1, features), or (classes, features) if there are more than two.
        intercept_: (1,) or (classes,).
        sources_: the sources met so far.
        n_iter_: passes of `fit`.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Example:
        >>> import numpy as np
        >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> model = SIAGClassifier(random_state=0).fit(X, ["no", "no", "yes", "yes"], source=["a", "b", "a", "b"])
        >>> model.predict([[-3.0], [3.0]]).tolist(), model.sources_
        (['no', 'yes'], ['a', 'b'])

    Reference:
        X. Wang, C. Jin, H.-T. Wai, Y. Gu, "Linear speedup of incremental aggregated gradient methods on streaming
        data", CDC 2023.
    """

    def _first(self, y: Any) -> Floats:
        check_classification_targets(y)
        labels, places = np.unique(y, return_inverse=True)
        self.classes_ = at_least_two(labels)
        return self._coded(places)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, source: Any = None) -> Self:
        """Learn from the next rows of a stream, each read once.

        Args:
            X: (rows, features) numbers, dense or sparse.
            y: (rows,) labels.
            classes: all labels there will ever be; needed in the first call.
            sample_weight: (rows,) by which the loss of each row is multiplied.
            source: where the rows came from: a name for all of them, the name of a column of X, or (rows,) an array.
        """
        first = self._first_call()
        if first and classes is None:
            raise Missing("classes", "give all labels to the first partial_fit, such as classes=np.unique(y)")
        X, y, source = self._read(X, y, source, reset=first)
        if classes is not None:
            self._announce(classes, first)
        X, y, weights, source = weighed(X, y, sample_weight, source)
        self._learn_some(X, self._coded(self._places(y)), weights, source)
        return self

    def decision_function(self, X: Any) -> Floats:
        """x·v + b: (rows,) of the second of two classes, or (rows, classes)."""
        u = self._outputs(X)
        return u[:, 0] if u.shape[1] == 1 else u

    def predict(self, X: Any) -> Any:
        """(rows,) the most probable labels."""
        u = self.decision_function(X)
        return self.classes_[(u > 0.0).astype(np.int64) if u.ndim == 1 else u.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """(rows, classes) how probable each is."""
        u = self._outputs(X)
        if u.shape[1] == 1:
            u = np.concatenate([-0.5 * u, 0.5 * u], axis=1)
        raised = np.exp(u - u.max(axis=1, keepdims=True))
        found: Floats = raised / raised.sum(axis=1, keepdims=True)
        return found

    def predict_log_proba(self, X: Any) -> Floats:
        """(rows, classes) the logarithms of that."""
        return np.log(self.predict_proba(X))

    @property
    def coef_(self) -> Floats:
        """(1, features) or (classes, features) the weights v."""
        return self._weights

    def _loss(self) -> tuple[int, float, int]:
        two = len(self.classes_) == 2
        return (LOGISTIC if two else SOFTMAX), 0.0, (1 if two else len(self.classes_))

    def _ready_made(self) -> Loss:
        shared: Any = {"ridge": self.alpha, "intercept": self.fit_intercept}
        count = len(self.classes_)
        return Logistic(**shared) if count == 2 else Softmax([float(k) for k in range(count)], **shared)

    def _coded(self, places: Any) -> Floats:
        labels: Floats = places.astype(np.float64)
        return 2.0 * labels - 1.0 if len(self.classes_) == 2 else labels

    def _announce(self, classes: Any, first: bool) -> None:
        labels = unique_labels(classes)
        if first:
            self.classes_ = at_least_two(labels)
        elif not np.array_equal(labels, self.classes_):
            raise BadInput("classes", classes, f"as in the first partial_fit, {self.classes_.tolist()}")

    def _places(self, y: Any) -> Any:
        """The places of labels among the classes."""
        numbers = self.classes_.dtype.kind in "biuf"
        places = np.searchsorted(self.classes_, y) if numbers == (y.dtype.kind in "biuf") else np.zeros(len(y), int)
        places[places == len(self.classes_)] = 0
        wrong = self.classes_[places] != y
        if wrong.any():
            listed = self.classes_.tolist()
            known = f"{listed}" if len(listed) <= 10 else f"{listed[:10]} and others"
            remedy = "name all labels in classes= of the first partial_fit"
            raise BadInput("y", y[wrong].tolist()[0], f"one of the classes that were announced, {known}", remedy)
        return places


def at_least_two(labels: Any) -> Any:
    """The classes, if there is something to tell apart."""
    if len(labels) < 2:
        remedy = "there is one class only, add rows of another"
        raise BadInput("y", labels.tolist(), "labels of at least two classes", remedy)
    return labels
