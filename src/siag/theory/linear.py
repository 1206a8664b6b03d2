"""Which methods are linear, and the coefficients of their steps: found by running the method on unit vectors.

Many servers only ever add multiples of vectors: w ← w − (η/n) Σ g_i, v ← βv + g, w̄ ← w̄ + (w − w̄)/k. The multiples may
depend on t, on η and on who has reported, but not on the numbers in the vectors, and all coordinates are treated alike.
So if w, the sum, the velocity, row i and the message are the first, second, … unit vector when `receive` or `advance`
begins, each of them holds its coefficients when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from siag.foundations.dispatch import compiled, is_foreign
from siag.foundations.errors import Unsuitable
from siag.foundations.schedule import Schedule
from siag.foundations.shape import kinds_within
from siag.foundations.types import Floats, Record
from siag.methods import Fresh, MeanRows, Method, Table, advance, answer, fade, receive, shown
from siag.methods.averaged import Averaging
from siag.methods.momentum import Rolling
from siag.methods.saga import Jump
from siag.methods.weighted import Weighing

K = TypeVar("K", bound=type)

_linear: set[type] = {Table, MeanRows, Fresh, Averaging, Jump, Rolling, Weighing}


def linear(kind: K) -> K:
    """Declare that a server's memory, a `NamedTuple` class, is linear, so that its exact moments are known.

    Its `receive` and `advance` must only add multiples of its (d,) arrays, of row i of its (n, d) array if it has one,
    and of the message; the multiples must not depend on what is in them, nor differ between coordinates; and what is
    read of another row must be in a sum that is kept up to date. Clipping is not linear, and neither is Adam.

    Args:
        kind: the class; a field that is a `NamedTuple` must be declared, too, as the package's own are.

    Example:
        `examples/heavy_ball.py` has a state `Ball`. After `siag.theory.linear(Ball)`, or with `@siag.theory.linear`
        before the class, `siag.theory.exact_error` takes the method `HeavyBall`.
    """
    _linear.add(kind)
    return kind


class Coefficients(NamedTuple):
    """A method's memory whose vectors are rows of T: (message, the server's vectors, row i), each by coefficients."""

    state: Record
    T: Floats  # (k + 2, k + 2)
    rows: Floats  # (n, k + 2) the state's; (0, 0) if it has none
    read: int  # which row of T workers read
    result: int  # which is the result
    total: int  # which is the sum of the rows; 0 if none is


def coefficients_of(method: Method, w0: Floats, n: int) -> tuple[Coefficients, Floats]:
    """The method on unit vectors, and (k + n, d) its vectors and rows before iteration 0."""
    own = method.init(w0, n)
    unknown = sorted(kind.__name__ for kind in kinds_within((own,)) - _linear)
    if unknown:
        raise Unsuitable(
            f"the exact moments of {method!r} are not known: {unknown[0]} is not linear, or not declared so; use "
            "simulate, or declare it: siag.theory.linear"
        )
    shapes = zip(_arrays(method.init(np.zeros(1), n)), _arrays(method.init(np.zeros(2), n)), strict=True)
    grows = [narrow.shape != wide.shape for narrow, wide in shapes]
    vectors: dict[int, Floats] = {}
    tables: dict[int, Floats] = {}
    for array, longer in zip(_arrays(own), grows, strict=True):
        if longer:
            (vectors if array.ndim == 1 else tables)[id(array)] = array
    if len(tables) > 1:
        raise Unsuitable(f"the exact moments of {method!r} are not known: it has several tables; use simulate")
    k = len(vectors)
    T, rows = np.zeros((k + 2, k + 2)), np.zeros((n, k + 2)) if tables else np.zeros((0, 0))
    place = {key: T[1 + f] for f, key in enumerate(vectors)} | dict.fromkeys(tables, rows)
    state = _replaced(own, place)
    total = next((_row(T, part.total) for part in _tables(state)), 0)
    begin = np.concatenate([*(array[np.newaxis] for array in vectors.values()), *tables.values()])
    return Coefficients(state, T, rows, _row(T, shown(state)), _row(T, answer(state)), total), begin


def check_linear(method: Method, w0: Floats, n: int) -> None:
    """Refuse a method that is declared linear and is not: T must do to other vectors what it does to unit vectors.

    A few reports and steps are tried, so what is not linear only later, or only for larger numbers, is not found.
    """
    on_units, on_others = (coefficients_of(method, w0, n)[0] for _ in range(2))
    if not is_foreign(on_units.state):
        return
    draw, size = np.random.default_rng(0), len(on_units.T)
    for i, scale in ((0, 1.0), (n - 1, 1e-3), (0, 1e3), (n - 1, 1.0)):
        for worker in (i, None):
            given = scale * draw.standard_normal((size, size))
            expected = _after(on_units, np.eye(size), worker) @ given
            if not np.allclose(_after(on_others, given, worker), expected, rtol=1e-9, atol=1e-9 * scale):
                kind = type(on_units.state).__name__
                raise Unsuitable(f"{method!r}: {kind} is declared linear, but its steps are not; use simulate")


def _after(method: Coefficients, given: Floats, i: int | None) -> Floats:
    """What is in place of these vectors after a report of worker i, or after a step."""
    method.T[:] = given
    if i is None:
        advance(method.state, 0.01)
    else:
        if len(method.rows):
            method.rows[i] = given[-1]
        receive(method.state, i, method.T[0], 0)
        if len(method.rows):
            method.T[-1] = method.rows[i]
    return method.T.copy()


def without(method: Coefficients, i: int) -> Floats:
    """The T of worker i's leaving, which drops its row."""
    method.T[:] = np.eye(len(method.T))
    if len(method.rows):
        method.rows[i] = method.T[-1]
    fade(method.state, i, 0.0)
    if len(method.rows):
        method.T[-1] = method.rows[i]
    return method.T.copy()


@compiled
def unroll(method: Coefficients, schedule: Schedule, maps: Floats) -> None:
    """Write the T of all reports and steps of the schedule to `maps`, one after the other: it depends on them alone.

    So what depends on the method is apart from what depends on the problem, and each is compiled by itself.
    """
    T, rows, done = method.T, method.rows, 0
    last, table = T.shape[0] - 1, rows.shape[1] > 0
    for k in range(schedule.eta.size):
        for arrival in range(schedule.start[k], schedule.start[k + 1]):
            i = schedule.worker[arrival]
            unit(T)
            if table:
                copy(T[last], rows[i])
            receive(method.state, i, T[0], 0)
            if table:
                copy(rows[i], T[last])
            for r in range(last + 1):
                copy(T[r], maps[done, r])
            done += 1
        unit(T)
        advance(method.state, schedule.eta[k])
        for r in range(last + 1):
            copy(T[r], maps[done, r])
        done += 1


@compiled
def unit(T: Floats) -> None:
    """T ← I."""
    for r in range(T.shape[0]):
        for q in range(T.shape[0]):
            T[r, q] = 1.0 if r == q else 0.0


@compiled
def copy(given: Floats, to: Floats) -> None:
    """Copy a row."""
    for q in range(to.size):
        to[q] = given[q]


def _arrays(record: Record) -> Iterator[Any]:
    """All arrays in a tuple and the tuples within it, in order; the same one may come twice."""
    for value in record:
        if isinstance(value, tuple):
            yield from _arrays(value)
        elif isinstance(value, np.ndarray):
            yield value


def _tables(record: Record) -> Iterator[Table]:
    """The `Table`s in a tuple, itself included."""
    if isinstance(record, Table):
        yield record
    for value in record:
        if isinstance(value, tuple):
            yield from _tables(value)


def _replaced(record: Record, place: dict[int, Floats]) -> Record:
    """The same with these arrays in place of some.

    A table is not to sum its rows, which hold other things here; and what is weighed is a whole row of T.
    """
    values = [_replaced(value, place) if isinstance(value, tuple) else place.get(id(value), value) for value in record]
    made = type(record)(*values) if hasattr(record, "_fields") else tuple(values)
    if isinstance(made, Weighing):
        return made._replace(numbers=made.weighed.size)
    return made._replace(resum=0) if isinstance(made, Table) else made


def _row(T: Floats, array: Floats) -> int:
    """Which row of T the array is."""
    return next(r for r in range(len(T)) if np.shares_memory(T[r], array))
