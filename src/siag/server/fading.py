"""The rows of workers that have left for good, which count for less and less."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from siag.server.members import Departed


class Fading:
    """Lets rows fade, a little at a time.

    Args:
        departed: what becomes of the row of a worker that has left for good.

    Attributes:
        rows: those that fade, and how often each was faded.
    """

    def __init__(self, departed: Departed) -> None:
        self.departed = departed
        self.rows: dict[int, int] = {}

    def begin(self, row: int) -> bool:
        """A worker has left; whether its row is to be dropped at once."""
        if 0 < self.departed.half_life < math.inf:
            self.rows[row] = 0
        return self.departed.half_life == 0

    def end(self, row: int) -> None:
        """A worker that had left has reported."""
        self.rows.pop(row, None)

    def due(self, version: int) -> Iterator[tuple[int, float]]:
        """The rows to be faded at this version, and by how much each; the last time nothing is left."""
        due = version % self.departed.every == 0
        for row in sorted(self.rows) if due else ():  # sums depend on the order
            self.rows[row] += 1
            last = self.rows[row] >= self.departed.times
            if last:
                del self.rows[row]
            yield row, 0.0 if last else self.departed.factor

    def saved(self) -> list[tuple[int, int]]:
        """What outlives the server."""
        return sorted(self.rows.items())

    def restore(self, saved: Iterable[tuple[int, int]]) -> None:
        """Take over what an earlier server knew, as far as rows fade on this one."""
        self.rows = {int(row): int(times) for row, times in saved} if self.departed.times > 0 else {}
