"""river's linear models, learned from several sources of which every one counts the same."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from siag.adapters.linear import Huber, Rows, Softmax, Squared
from siag.adapters.sources import Sources
from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.extras import needed
from siag.foundations.types import Floats, Integers, Record
from siag.methods import SIAG, Automatic, Method, step_of
from siag.steps import Constant, Step

needed("river", "river")

from river import base  # noqa: E402  # what is missing is said first
from river.utils import dataframe as frames  # noqa: E402

ROOM = 8  # features to begin with; twice as many when these are used up
LOSSES = ("squared", "huber")
ENCODE = "encode it first, as river.preprocessing.OneHotEncoder does"
FILL = "leave such samples out, or fill in what is missing, as river.preprocessing.StatImputer does"


class Linear:
    """A weight for each named feature and each output, learned by `Sources`; what both models have in common."""

    step: float | Step | None
    ridge: float
    source: Hashable

    def _begin(self, loss: Record, outputs: int) -> None:
        check.real("ridge", self.ridge, low=0)
        method, step = method_and_step(self.step)
        self._loss, self._outputs, self._room = loss, outputs, ROOM
        self._features: dict[Hashable, int] = {}  # their numbers, from 1 on; 0 is the intercept
        self._sources = Sources(method, step, ROOM * max(outputs, 1))
        self._keys: tuple[Hashable, ...] | None = None  # the features of the last sample …
        self._last: Rows | None = None  # … which is kept to be written over by the next
        self._row = np.zeros(1, np.int64)  # of the source of a sample
        self._y_name: Any = None  # of the last batch, by which predictions are called

    @property
    def sources(self) -> list[Hashable]:
        """Those that have come so far."""
        return list(self._sources.rows)

    def forget_source(self, source: Hashable) -> None:
        """A source has ended: its last gradient counts no longer. It counts again when it comes again."""
        if source not in self._sources.rows:
            raise BadInput("source", source, "one that has come before", "see `sources`")
        self._sources.leave(source)

    def _take(self, x: Mapping[Hashable, Any], y: float, w: float, source: Hashable) -> None:
        """Learn from a sample, y being a number."""
        values = self._values(x)
        self._row[0] = self._row_of(source if self.source is None else self._named_in(x))
        last = self._room_for(tuple(values))
        last.X[0, 1:], last.y[0], last.weights[0] = list(values.values()), y, w
        if not self._sources.learn(self._row, last):
            refuse_gradient(last.X[0, 1:])

    def _room_for(self, keys: tuple[Hashable, ...]) -> Rows:
        """A place for a sample with these features."""
        if self._last is None or self._keys != keys:
            places = self._places_of(keys)
            X, y, weights = np.ones((1, len(places))), np.zeros(1), np.zeros(1)
            self._last = Rows(self._loss, places, X, y, weights, np.zeros(self._outputs), float(self.ridge))
            self._keys = keys
        return self._last

    def _take_many(self, X: Any, y: Any, w: Any, source: Any) -> None:
        """Learn from the rows of a frame, one after the other; those of a label that is new begin another batch."""
        keys, values = self._columns(X)
        m = len(values)
        if self.source is not None:
            source = self._column(X, self.source)
        each = [source] * m if isinstance(source, str) or not hasattr(source, "__len__") else list(source)
        if len(each) != m or len(y) != m:
            raise BadInput("X", X, f"{len(y)} rows, one for each y, and a source for each or one for all")
        rows = np.array([self._row_of(name) for name in each], np.int64)
        weights = np.ascontiguousarray(np.broadcast_to(np.asarray(w, np.float64), m))
        whole = np.hstack([np.ones((m, 1)), values])
        begin = 0
        while begin < m:
            numbers = self._numbers(y[begin:])
            part = slice(begin, begin + len(numbers))
            places, u = self._places_of(keys), np.zeros(self._outputs)
            oracle = Rows(self._loss, places, whole[part], numbers, weights[part], u, float(self.ridge))
            taken = self._sources.learn(rows[part], oracle)
            if taken < len(numbers):
                refuse_gradient(values[begin + taken])
            begin = part.stop

    def _numbers(self, y: Any) -> Floats:
        """The first labels as numbers, as many as there are before another output is needed."""
        raise NotImplementedError

    def _named_in(self, x: Mapping[Hashable, Any]) -> Any:
        """The source that the feature says."""
        if self.source not in x:
            raise BadInput("x", dict(x), f"a feature {self.source!r} that names the source", "or leave out source=")
        return x[self.source]

    def _row_of(self, source: Any) -> int:
        try:
            return self._sources.row(source)
        except TypeError:
            raise BadInput("source", source, "something hashable, as a text or a number") from None

    def _values(self, x: Mapping[Hashable, Any]) -> Mapping[Hashable, Any]:
        """The features that are numbers to learn from, checked."""
        if self.source is not None and self.source in x:
            x = {name: value for name, value in x.items() if name != self.source}
        try:
            if math.isfinite(sum(x.values())):
                return x
        except TypeError:
            pass
        for name, value in x.items():
            refuse_unless_finite(name, value)
        return x

    def _columns(self, X: Any) -> tuple[tuple[Hashable, ...], Floats]:
        """The names of a frame's features and their values, checked."""
        keys = tuple(name for name in X.columns if self.source is None or name != self.source)
        columns = []
        for name in keys:
            try:
                columns.append(np.asarray(self._column(X, name), np.float64))
            except (TypeError, ValueError):
                raise BadInput(f"X[{name!r}]", X[name], "a column of numbers", ENCODE) from None
            for wrong in columns[-1][~np.isfinite(columns[-1])][:1]:
                raise BadInput(f"X[{name!r}]", float(wrong), "a finite number", FILL)
        return keys, np.column_stack(columns) if columns else np.empty((len(X), 0))

    def _column(self, X: Any, name: Hashable) -> Any:
        if name not in X.columns:
            raise BadInput("X", list(X.columns), f"a column {name!r} that names the source", "or leave out source=")
        return X[name].to_numpy()

    def _places_of(self, keys: Sequence[Hashable]) -> Integers:
        """The numbers of the intercept and of these features; those that are new join."""
        features = self._features
        for name in keys:
            if name not in features:
                features[name] = len(features) + 1
        if len(features) >= self._room:
            while len(features) >= self._room:
                self._room *= 2
            self._widen(self._outputs)
        return np.array([0, *(features[name] for name in keys)])

    def _widen(self, outputs: int) -> None:
        """Have room for as many outputs and features; a weight of feature f and output k stays that."""
        before = max(self._outputs, 1)
        f, k = np.divmod(np.arange(self._sources.d), before)
        self._outputs, self._last = outputs, None
        self._sources.widen(self._room * outputs, f * outputs + k)

    @property
    def _weights(self) -> Floats:
        """(room, outputs)."""
        return self._sources.newest.reshape(-1, max(self._outputs, 1))

    def _raw(self, x: Mapping[Hashable, Any]) -> Floats:
        """(outputs,) u; the weight of a feature that was never learned from is 0."""
        values = self._values(x)
        if self._last is not None and self._keys == tuple(values):
            places, numbers = self._last.features, [1.0, *values.values()]
        else:
            known = [name for name in values if name in self._features]
            places = np.array([0, *(self._features[name] for name in known)])
            numbers = [1.0, *(values[name] for name in known)]
        u: Floats = np.array(numbers, np.float64) @ self._weights[places]
        return u

    def _raw_many(self, X: Any) -> Floats:
        """(rows, outputs) u."""
        keys, values = self._columns(X)
        known = [k for k, name in enumerate(keys) if name in self._features]
        places = np.array([self._features[keys[k]] for k in known], np.int64)
        weights = self._weights
        u: Floats = values[:, known] @ weights[places] + weights[0]
        return u

    def _named(self, output: int) -> dict[Hashable, float]:
        column = self._weights[:, output]
        return {name: float(column[place]) for name, place in self._features.items()}


class RiverClassifier(Linear, base.MiniBatchClassifier):
    """Logistic regression of two or more classes, learned from several sources of which every one counts the same.

        ℓ(u, y) = log Σ_k exp(u_k) − u_y,   u_k = x·v_k + b_k

    A source is whatever samples come from: a shop, a sensor, a carrier. The model minimises the mean of the sources'
    losses, however unevenly they come: it steps along the mean of the latest gradient of each of them (`siag.methods`).
    Sources, features and classes join when they first appear; the weight of a feature is 0 before.

    Args:
        step: `None`: steps nobody has to choose, `Automatic()`, which shrink, so that a drift is not followed for
            ever; or a number η, the size of all steps; or a step of `siag.steps`. With either, `SIAG()`.
        ridge: λ of (λ/2) Σ_k ‖v_k‖².
        source: the feature that names a sample's source and is not learned from; `None`: `learn_one` is told.

    Example:
        >>> from river import datasets, evaluate, metrics, preprocessing
        >>> model = preprocessing.StandardScaler() | RiverClassifier()
        >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
        Accuracy: 89.52%
    """

    def __init__(self, step: float | Step | None = None, ridge: float = 0.0, source: Hashable = None) -> None:
        self.step, self.ridge, self.source = step, ridge, source
        self._classes: dict[Hashable, int] = {}
        self._begin(Softmax(), 0)

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
        return {label: float(self._weights[0, k]) for label, k in self._classes.items()}

    def learn_one(self, x: Mapping[Hashable, Any], y: Hashable, w: float = 1.0, source: Hashable = None) -> None:
        """Learn from a sample, w being its weight and `source` where it comes from."""
        self._take(x, self._class_of(y), w, source)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, source: Any = None) -> None:
        """Learn from the rows of a frame, one after the other; w and `source` are for all rows, or one for each."""
        labels = frames.into_series(y)
        self._y_name = labels.name
        self._take_many(X, labels.to_list(), w, source)

    def _numbers(self, y: Any) -> Floats:
        numbers = [self._class_of(y[0])]
        for label in y[1:]:
            if label not in self._classes:
                break
            numbers.append(self._classes[label])
        return np.array(numbers, np.float64)

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

    def _class_of(self, y: Any) -> int:
        """The number of a class; one that is new joins."""
        try:
            if y in self._classes:
                return self._classes[y]
        except TypeError:
            raise BadInput("y", y, "a label: a text, a number or a truth value") from None
        if y is None or (isinstance(y, float) and math.isnan(y)):
            raise BadInput("y", y, "a label: a text, a number or a truth value", "leave samples without one out")
        self._classes[y] = len(self._classes)
        if len(self._classes) > 1:
            self._widen(len(self._classes))
        self._outputs = len(self._classes)
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
    ) -> None:
        self.loss, self.delta, self.step, self.ridge, self.source = loss, delta, step, ridge, source
        check.choice("loss", loss, LOSSES)
        self._begin(Squared() if loss == "squared" else Huber(check.real("delta", delta, above=0)), 1)

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
        return float(self._weights[0, 0])

    def learn_one(self, x: Mapping[Hashable, Any], y: float, w: float = 1.0, source: Hashable = None) -> None:
        """Learn from a sample, w being its weight and `source` where it comes from."""
        try:
            finite = math.isfinite(y)
        except TypeError:
            finite = False
        if not finite:
            refuse_label(y)
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

    def _numbers(self, y: Any) -> Floats:
        return np.asarray(y)

    def predict_one(self, x: Mapping[Hashable, Any]) -> float:
        """x·v + b."""
        return float(self._raw(x)[0])

    def predict_many(self, X: Any) -> Any:
        """The same for each row."""
        return frames.to_native_series(self._raw_many(X)[:, 0], name=self._y_name, like=frames.into_frame(X))


def method_and_step(step: Any) -> tuple[Method, Step]:
    """What a `step` of these models means."""
    if step is None:
        return Automatic(), step_of(Automatic(), None)
    return SIAG(), step if isinstance(step, Step) else Constant(check.real("step", step, above=0))


def refuse_unless_finite(name: Hashable, value: Any) -> None:
    """Refuse a feature that is no finite number."""
    try:
        finite = not isinstance(value, str | bytes) and math.isfinite(value)
    except TypeError:
        raise BadInput(f"x[{name!r}]", value, "a number", ENCODE) from None
    if not finite:
        text = isinstance(value, str | bytes)
        raise BadInput(f"x[{name!r}]", value, "a finite number", ENCODE if text else FILL)


def refuse_gradient(x: Floats) -> NoReturn:
    """Refuse features with which the numbers overflow."""
    raise BadInput("x", x, "numbers whose gradient is finite", "scale the features")


def refuse_label(y: Any) -> NoReturn:
    """Refuse what is no number to predict."""
    raise BadInput("y", y, "a finite number", "leave such samples out, or fill in what is missing")
