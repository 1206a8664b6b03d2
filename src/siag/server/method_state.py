"""A method's state in the hands of a server: what is done to it, its arrays by name, what workers read of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.errors import Unsuitable, shorten
from siag.foundations.types import Floats, Record
from siag.methods import Method, advance, fade, receive, shown
from siag.methods.method import arrive_and_round

HOLD, GO, SILENT = 0, 1, 2  # after a report the server waits for more, or steps; or it has nothing in it
NOWHERE: Floats = np.empty(0, np.float32)  # to be given to `take` if what workers read is not to be rounded


@compiled
def take(state: Record, i: int, message: Floats, age: int, go: int, eta: float, short: Floats) -> None:
    """Receive a report and, if it is time, step; there is nothing to receive of one that is silent.

    After a step what workers read is rounded to `short`, unless that is empty, as `NOWHERE` is.
    """
    if go == GO:
        arrive_and_round(state, i, message, age, eta, short)
    elif go == HOLD:
        receive(state, i, message, age)


@compiled
def move(state: Record, eta: float) -> None:
    """Step."""
    advance(state, eta)


@compiled
def fade_away(state: Record, i: int, factor: float) -> None:
    """Let the row of a departed worker count for less."""
    fade(state, i, factor)


def shown_by(method: Method, state: Record) -> Floats:
    """What workers read, if it can be sent as it is."""
    whole: Floats = shown(state)
    right = isinstance(whole, np.ndarray) and whole.dtype == np.float64 and whole.ndim == 1
    if not right or not whole.flags.c_contiguous or not np.shares_memory(whole, state.w):
        what = "an array of float64 that begins with the state's own w"
        raise Unsuitable(f"{method!r}: what is shown to workers must be {what}, not {shorten(whole)}")
    return whole


def arrays_of(state: Record) -> dict[str, np.ndarray[Any, Any]]:
    """A method's arrays by name, each once."""
    found = {id(array): (name, array) for name, array in reversed([*arrays_within(state)])}
    return dict(reversed(found.values()))


def arrays_within(record: Record, place: str = "") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The arrays of a `NamedTuple` by name, those of tuples within it too."""
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            yield place + name, value
        elif hasattr(value, "_fields"):
            yield from arrays_within(value, f"{place}{name}.")
