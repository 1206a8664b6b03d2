"""Linear models whose features have names and may appear at any time, learned by `Sources`."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from siag.adapters.linear import Rows
from siag.adapters.sources import Sources
from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers, Record
from siag.methods import SIAG, Automatic, Method, step_of
from siag.steps import Constant, Step

ROOM = 8  # features to begin with; twice as many when these are used up
ENCODE = "encode it first, as river.preprocessing.OneHotEncoder does"
FILL = "leave such samples out, or fill in what is missing, as river.preprocessing.StatImputer does"


class Linear:
    """A weight for each named feature and each output, learned by `Sources`."""

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

    def _take(self, x: Mapping[Hashable, Any], y: Any, w: float, source: Hashable) -> None:
        """Learn from a sample; what is wrong with it is seen before anything joins."""
        values = self._values(x)
        number = self._number(y)
        self._row[0] = self._row_of(source if self.source is None else self._named_in(x))
        last = self._room_for(tuple(values))
        last.X[0, 1:], last.y[0], last.weights[0] = list(values.values()), number, w
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

    @abstractmethod
    def _number(self, y: Any) -> float:
        """A label as a number, for which there is an output from now on."""

    @abstractmethod
    def _numbers(self, y: Any) -> Floats:
        """The first labels as numbers, as many as there are before another output is needed."""

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
        """(room, outputs): a recent mean, or with a step, that may be there to follow a drift, the newest."""
        w = self._sources.recent if self.step is None else self._sources.newest
        return w.reshape(-1, max(self._outputs, 1))

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
