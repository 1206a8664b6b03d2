"""Linear models whose features have names and may appear at any time, as may outputs and sources."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from struct import pack_into
from typing import Any

import numpy as np

from siag.adapters.rows import NO_INTEGERS, Rows, outputs, scratch
from siag.adapters.sources import Sources, weight_of
from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers
from siag.methods import SIAG, Automatic, Averaged, Method, step_of
from siag.server import Diverged
from siag.server.in_process import InProcess
from siag.steps import Constant, Step

ROOM = 8  # features to begin with; twice as many when these are used up
LATE = 8.0  # the decay of the mean of iterates that predicts
ENCODE = "encode it first, as river.preprocessing.OneHotEncoder does"
FILL = "leave such samples out, or fill in what is missing, as river.preprocessing.StatImputer does"
SOURCE = "that names the source"


class Linear:
    """A weight for each named feature and each output; w has those of an output and its intercept, then the next's."""

    step: float | Step | None
    ridge: float
    source: Hashable
    source_weight: Mapping[Hashable, float] | str | None
    _code: Callable[..., None] = outputs  # for a sample, whose types are always the same

    def _begin(self, loss: int, delta: float = 0.0) -> None:
        check.real("ridge", self.ridge, low=0)
        method, step = method_and_step(self.step)
        self._loss, self._room, self._outputs = (loss, delta), ROOM, 1
        self._features: dict[Hashable, int] = {}
        self._sources, self._given = Sources(), Counter[int]()  # and how many samples of each there were
        weight_of(self.source_weight, None, 0)
        self._learner = InProcess(method, step, np.zeros(ROOM + 1), weighted=self.source_weight is not None)
        self._keys: list[Hashable] = []  # the features of the last sample …
        self._sample = self._room_for(1, ROOM)  # … which is written over by the next
        self._y_name: Any = None  # of the last batch, by which predictions are called

    @property
    def sources(self) -> list[Hashable]:
        """Those that have come so far."""
        return self._sources.names

    def forget_source(self, source: Hashable) -> None:
        """A source has ended: its last gradient counts no longer. It counts again when it comes again."""
        if source not in self._sources.names:
            raise BadInput("source", source, "one that has come before", "see `sources`")
        self._learner.leave_out(self._sources.row(source))

    def _take(self, x: Mapping[Hashable, Any], y: Any, w: float, source: Hashable) -> None:
        """Learn from a sample; what is wrong with it is seen before anything joins."""
        values = self._values(x)
        if type(w) is not float or not 0.0 <= w < math.inf:  # which costs less than to have it checked
            w = check.real("w", w, low=0)
        number = self._number(y)
        if self.source is not None:
            if self.source not in x:
                raise BadInput("x", dict(x), f"a feature {self.source!r} {SOURCE}", "or leave out source=")
            source = x[self.source]
        row = self._sources.row(source)
        try:
            sample = self._written(values)
        except KeyError:
            self._join(values)
            sample = self._written(values)
        sample.y[0], sample.weights[0], sample.whose[0] = number, w, row
        self._learn(sample)

    def _take_many(self, X: Any, y: Any, w: Any, source: Any) -> None:
        """Learn from the rows of a frame, one after the other; those of a label that is new begin another batch."""
        keys, values = self._columns(X)
        if self.source is not None:
            if self.source not in X.columns:
                raise BadInput("X", list(X.columns), f"a column {self.source!r} {SOURCE}", "or leave out source=")
            source = X[self.source].to_numpy()
        m, p = values.shape
        if len(y) != m:
            raise BadInput("X", X, f"{len(y)} rows, one for each y")
        weights = _weights_of(w, m)
        whose = np.broadcast_to(self._sources.rows(source, m), m)
        self._join(keys)
        places = [self._features[name] for name in keys]
        end = 0
        while end < m:
            numbers = self._numbers(y[end:])
            begin, end = end, end + len(numbers)
            rows = self._room_for(end - begin, p)
            rows.data[:], rows.indices[:] = values[begin:end].ravel(), np.tile(places, end - begin)
            rows.indptr[:] = p * np.arange(end - begin + 1)
            rows.y[:], rows.weights[:], rows.whose[:] = numbers, weights[begin:end], whose[begin:end]
            self._learn(rows)

    def _learn(self, rows: Rows) -> None:
        learner = self._learner
        learner.grow(len(self._sources))
        if self.source_weight is not None:
            self._given.update(rows.whose.tolist())
            names = self._sources.names
            for row in set(rows.whose.tolist()):
                learner.count_for(row, weight_of(self.source_weight, names[row], self._given[row]))
        before = learner.server.version
        try:
            learner.learn(rows, kept=rows is self._sample)
        except Diverged:
            k = learner.server.version - before
            if k == rows.whose.size:
                raise
            x = rows.data[rows.indptr[k] : rows.indptr[k + 1]]
            raise BadInput("x", x, "numbers whose gradient is finite", "scale the features") from None

    def _room_for(self, m: int, p: int) -> Rows:
        """A table of m samples with p features or fewer, still to be written."""
        places = np.zeros(m * p, np.int32), np.zeros(m + 1, np.int32)
        table = np.zeros((0, 0)), np.zeros(m * p), *places, self._room, np.zeros(m), np.zeros(m)
        reports = np.zeros(m, np.int64), np.arange(m + 1), NO_INTEGERS
        what: Any = *table, *reports, *self._loss, float(self.ridge), *scratch(self._outputs)
        return Rows(*what)

    @abstractmethod
    def _number(self, y: Any) -> float:
        """A label as a number, for which there is an output from now on."""

    @abstractmethod
    def _numbers(self, y: Any) -> Any:
        """The first labels as numbers, as many as there are before another output is needed."""

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

    def _columns(self, X: Any) -> tuple[list[Hashable], Floats]:
        """The names of a frame's features and their values, checked."""
        keys = [name for name in X.columns if self.source is None or name != self.source]
        columns = []
        for name in keys:
            try:
                columns.append(np.asarray(X[name].to_numpy(), np.float64))
            except (TypeError, ValueError):
                raise BadInput(f"X[{name!r}]", X[name], "a column of numbers", ENCODE) from None
            for wrong in columns[-1][~np.isfinite(columns[-1])][:1]:
                raise BadInput(f"X[{name!r}]", float(wrong), "a finite number", FILL)
        return keys, np.column_stack(columns) if columns else np.empty((len(X), 0))

    def _written(self, values: Mapping[Hashable, Any]) -> Rows:
        """A sample with these features; a `KeyError` if one is not known."""
        sample, keys = self._sample, list(values)
        places: Any = sample.indices
        numbers: Any = sample.data
        if keys != self._keys:
            pack_into(f"{len(keys)}i", places, 0, *[self._features[name] for name in keys])
            self._keys, sample.indptr[1] = keys, len(keys)
        pack_into(f"{len(keys)}d", numbers, 0, *values.values())  # in a third of the time that NumPy takes
        return sample

    def _join(self, names: Iterable[Hashable]) -> None:
        """Features that are new have weights from now on."""
        features, room = self._features, self._room
        for name in names:
            if name not in features:
                features[name] = len(features)
        while len(features) > room:
            room *= 2
        if room > self._room:
            self._widen(self._outputs, room)

    def _widen(self, outputs: int, room: int) -> None:
        """Make room for this number of outputs and of features."""
        before = self._room
        k, f = np.divmod(np.arange(self._learner.server.d), before + 1)
        places: Integers = k * (room + 1) + np.where(f == before, room, f)  # intercepts come last
        self._outputs, self._room = outputs, room
        self._learner.widen(outputs * (room + 1), places)
        self._keys, self._sample = [], self._room_for(1, room)

    @property
    def _weights(self) -> Floats:
        """(outputs, room + 1)."""
        return self._learner.w.reshape(self._outputs, -1)

    def _raw(self, x: Mapping[Hashable, Any]) -> Floats:
        """(outputs,) u; the weight of a feature that was never learned from is 0."""
        values = self._values(x)
        try:
            sample = self._written(values)
        except KeyError:
            sample = self._written({name: value for name, value in values.items() if name in self._features})
        given = sample, 0, self._learner.w, sample.slopes
        Linear._code(*given)
        if Linear._code is outputs:
            Linear._code = outputs.bare(*given)
        return sample.slopes

    def _raw_many(self, X: Any) -> Floats:
        """(rows, outputs) u."""
        keys, values = self._columns(X)
        known = [k for k, name in enumerate(keys) if name in self._features]
        places, w = [self._features[keys[k]] for k in known], self._weights
        u: Floats = values[:, known] @ w[:, places].T + w[:, -1]
        return u

    def _named(self, output: int) -> dict[Hashable, float]:
        row = self._weights[output].tolist()
        return {name: row[place] for name, place in self._features.items()}


def _weights_of(w: Any, count: int) -> Floats:
    """(count,) the weights of samples, given as one for all or one for each."""
    try:
        weights = np.broadcast_to(np.asarray(w, np.float64), count)
    except (TypeError, ValueError):
        raise BadInput("w", w, f"a number, or {count} of them, one for each row") from None
    for wrong in weights[~(np.isfinite(weights) & (weights >= 0.0))][:1]:
        raise BadInput("w", float(wrong), "a finite number at least 0")
    return weights


def method_and_step(step: Any) -> tuple[Method, Step]:
    """What a `step` of these models means; with one, that may be there to follow a drift, the newest w predicts."""
    if step is None:
        method = Averaged(Automatic(), decay=LATE)
        return method, step_of(method, None)
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
