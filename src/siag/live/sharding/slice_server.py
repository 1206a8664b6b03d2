"""A follower's slice of the state, and what orders do to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from siag.foundations.overflow import limit_of
from siag.foundations.types import Booleans, Floats, Record
from siag.live.sharding.orders import Change, Fade, Move, Take
from siag.live.sharding.slices import Shard
from siag.live.wire import BadFrame
from siag.methods import Method, shown
from siag.server.guard import square_norm
from siag.server.state import arrays_of, fade_away, move, take


class SliceServer:
    """Keeps a slice of w and of whatever the method keeps, and does what it is told.

    Args:
        shard: whose slice.

    Attributes:
        changed: (n,) which rows have changed since they were last saved.
        pending: slices of reports that wait for the lead's word, by row: the sample, and the numbers.
    """

    def __init__(self, shard: Shard) -> None:
        n = shard.spec.n
        self.state: Record = shard.spec.method.init(shard.w0, n)
        self.shown: Floats = shown(self.state)
        self.changed: Booleans = np.zeros(n, np.bool_)
        self.pending: dict[int, tuple[int, Floats]] = {}
        self._limit, self._moves = limit_of(shard.spec.w0), 0
        self._look = max(64, shard.w0.size // 1000)  # w is looked at after so many moves

    @staticmethod
    def warm_up(method: Method) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        small, one = method.init(np.zeros(1), 1), np.zeros(1)
        take(small, 0, one, 0, 1, 0.0)
        move(small, 0.0)
        fade_away(small, 0, 0.0)
        square_norm(one)

    @property
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that must be kept."""
        return arrays_of(self.state)

    def follow(self, change: Change) -> None:
        """Do what the lead has done."""
        match change:
            case Take(row, age, sample, eta, step):
                number, message = self.pending.pop(row, (None, None))
                if message is None or number != sample:
                    raise BadFrame(f"an order to take sample {sample} of row {row}, which is not here")
                take(self.state, row, message, age, step, eta)
                self.changed[row] = True
                self._moves += step
            case Move(eta):
                move(self.state, eta)
                self._moves += 1
            case Fade(row, factor):
                fade_away(self.state, row, factor)
                self.changed[row] = True

    def diverged(self) -> bool:
        """True if w has overflowed or become NaN; it is looked at after every so many moves."""
        if self._moves < self._look:
            return False
        self._moves = 0
        return not self.in_range()

    def in_range(self) -> bool:
        """Whether w is within the range of numbers."""
        return bool((np.abs(self.state.w) <= self._limit).all())
