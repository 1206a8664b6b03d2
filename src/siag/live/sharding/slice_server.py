"""A follower's slice of the state, and what orders do to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from siag.foundations.overflow import limit_of
from siag.foundations.types import Booleans, Floats, Record
from siag.live.wire import BadFrame
from siag.methods import Method, answer, shown
from siag.server.guard import square_norm
from siag.server.state import arrays_of, fade_away, move, take


class Pending(NamedTuple):
    """A slice of a report that waits for the lead's word."""

    sample: int
    message: Floats


class SliceServer:
    """Keeps a slice of w and of whatever the method keeps, and does what it is told.

    Args:
        method: what to do with reports.
        w0: (d,) where to start, all of it.
        n: how many workers there are.
        first: its first coordinate.
        last: the first that is no more its own.

    Attributes:
        changed: (n,) which rows have changed since they were last saved.
        pending: slices of reports by row.
    """

    def __init__(self, method: Method, w0: Floats, n: int, first: int, last: int) -> None:
        self.state: Record = method.init(w0[first:last], n)
        self.shown: Floats = shown(self.state)
        self.changed: Booleans = np.zeros(n, np.bool_)
        self.pending: dict[int, Pending] = {}
        self._limit, self._moves = limit_of(w0), 0
        self._look = max(64, (last - first) // 1000)  # whether w is still finite is looked at after so many moves

    @staticmethod
    def warm_up(method: Method) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        small, one = method.init(np.zeros(1), 1), np.zeros(1)
        take(small, 0, one, 0, 1, 0.0)
        move(small, 0.0)
        fade_away(small, 0, 0.0)
        square_norm(one)

    @property
    def result(self) -> Floats:
        """Its slice of the result so far."""
        whole: Floats = answer(self.state)
        return whole

    @property
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that must be kept."""
        return arrays_of(self.state)

    def take(self, row: int, sample: int, age: int, go: int, eta: float) -> None:
        """Receive the report that waits, and step if the lead did."""
        pending = self.pending.pop(row, None)
        if pending is None or pending.sample != sample:
            raise BadFrame(f"an order to take sample {sample} of row {row}, which is not here")
        take(self.state, row, pending.message, age, go, eta)
        self.changed[row] = True
        self._moves += go

    def move(self, eta: float) -> None:
        """Step, nobody having reported."""
        move(self.state, eta)
        self._moves += 1

    def fade(self, row: int, factor: float) -> None:
        """Let a departed worker's row count for less."""
        fade_away(self.state, row, factor)
        self.changed[row] = True

    def beyond(self) -> bool:
        """Whether w has left the range of numbers; looked at every now and then."""
        if self._moves < self._look:
            return False
        self._moves = 0
        return not self.sound()

    def sound(self) -> bool:
        """Whether w is of any use."""
        return bool((np.abs(self.state.w) <= self._limit).all())
