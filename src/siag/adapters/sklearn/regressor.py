"""A linear regression of which every source counts the same."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from siag.adapters.rows import HUBER, SQUARED
from siag.adapters.sklearn.linear import Linear, weighed
from siag.foundations import check
from siag.foundations.types import Floats
from siag.losses import Huber, Loss, Squared

LOSSES = ("squared_error", "huber")


class SIAGRegressor(RegressorMixin, Linear):
    r"""Linear regression in which every source of data counts the same.

        min_w (1/n) Σ_i (1/m_i) Σ_k ℓ(x_ik·v + b, y_ik) + (α/2) ‖v‖²,    w = (v, b)

    over n sources with m_i rows each; all else is as in `SIAGClassifier`.

    Args:
        loss: "squared_error", ½ (u − y)², or "huber", which is linear beyond a distance δ and so bears outliers.
        delta: δ > 0 of "huber", in the units of y.
        alpha: α ≥ 0; the intercept is not shrunk.
        fit_intercept: whether there is a b.
        max_iter: the most passes of `fit` over the data.
        tol: `fit` ends when its loss has not fallen by this times the variance of y for 5 passes, and 64 reports of
            each source; `None`: never.
        shuffle: whether `fit` reads the rows of a source in random order.
        random_state: of that order.
        batch_size: rows of a report; by default 64 in `fit` and 1 in `partial_fit`.
        method: a `siag.methods.Method` of which a report is one gradient; by default `Automatic()`, or `SIAG()` if
            there is a step.
        step: a `siag.steps.Step`, for methods that need one.
        workers: `True` for `fit` on processes, one for each source; a number to deal the rows of a single source to so
            many. `max_iter` passes are made then.
        source_weight: as of `SIAGClassifier`.

    Attributes:
        coef_: (features,).
        intercept_: (1,).
        sources_, n_iter_, n_features_in_, feature_names_in_: as of `SIAGClassifier`.

    Example:
        >>> import numpy as np
        >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> SIAGRegressor(alpha=0.0, tol=1e-9).fit(X, 3.0 * X[:, 0] + 1.0).predict([[4.0]]).round(2).tolist()
        [13.0]
    """

    _numeric = True

    def __init__(
        self,
        *,
        loss: str = "squared_error",
        delta: float = 1.0,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        random_state: Any = None,
        batch_size: int | None = None,
        method: Any = None,
        step: Any = None,
        workers: int | bool | None = None,
        source_weight: Any = None,
    ) -> None:
        self.loss = loss
        self.delta = delta
        limits: Any = {"max_iter": max_iter, "tol": tol, "batch_size": batch_size, "workers": workers}
        order: Any = {"shuffle": shuffle, "random_state": random_state, "source_weight": source_weight}
        super().__init__(alpha=alpha, fit_intercept=fit_intercept, method=method, step=step, **limits, **order)

    def _first(self, y: Any) -> Floats:
        numbers: Floats = y.astype(np.float64, copy=False)
        return numbers

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, source: Any = None) -> Self:
        """Learn from the next rows of a stream, each read once.

        Args:
            X: (rows, features) numbers, dense or sparse.
            y: (rows,) numbers.
            sample_weight: (rows,) by which the loss of each row is multiplied.
            source: where the rows came from: a name for all of them, the name of a column of X, or (rows,) an array.
        """
        X, y, source = self._read(X, y, source, reset=self._first_call())
        X, y, weights, source = weighed(X, y, sample_weight, source)
        self._learn_some(X, self._first(y), weights, source)
        return self

    def predict(self, X: Any) -> Floats:
        """(rows,) x·v + b."""
        u: Floats = self._outputs(X)[:, 0]
        return u

    @property
    def coef_(self) -> Floats:
        """(features,) the weights v."""
        v: Floats = self._weights[0]
        return v

    def _loss(self) -> tuple[int, float, int]:
        huber = check.choice("loss", self.loss, LOSSES) == "huber"
        return (HUBER if huber else SQUARED), check.real("delta", self.delta, above=0), 1

    def _unit(self, labels: Floats) -> float:
        return float(np.var(labels)) or 1.0

    def _ready_made(self) -> Loss:
        shared: Any = {"ridge": self.alpha, "intercept": self.fit_intercept}
        return Huber(delta=self.delta, **shared) if self.loss == "huber" else Squared(**shared)
