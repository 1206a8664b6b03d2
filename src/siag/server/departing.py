"""Rows that nobody keeps up to date any longer: what becomes of them, how far each has faded, which are gone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from siag.foundations import check

FORGOTTEN = 64  # half-lives after which nothing is left of a row


@dataclass(frozen=True)
class Departed:
    """What becomes of the row of a worker that has left for good: its stream ended, or it was away for too long.

    `Departed(half_life=0)`, `DROP`, drops it at once, which is the default of all runs: the model minimises the average
    over the workers that are left, with steps as large as before, since the average is over their rows alone. The last
    row that is there stays.
    `Departed()`, `KEEP`, keeps it as it is: the model goes on to minimise the average over all workers, with the
    departed one's gradient frozen where it last was, a constant pull that is right only near the w it was computed at.
    `Departed(half_life=h)` leads from the second to the first: the row counts for half after h iterations, and for
    nothing after 64 h; only then is the average over fewer. A worker that returns ends this with its next report, and
    counts as before.

    Args:
        half_life: in iterations; 0 for none, infinity for ever.
    """

    half_life: float = math.inf

    def __post_init__(self) -> None:
        if self.half_life != math.inf:
            object.__setattr__(self, "half_life", check.real("half_life", self.half_life, low=0))

    @property
    def every(self) -> int:
        """The number of iterations after which the row is faded again."""
        return max(1, math.ceil(self.half_life / 8)) if 0 < self.half_life < math.inf else 1

    @property
    def factor(self) -> float:
        """By how much, each time."""
        return 0.0 if self.half_life == 0 else 0.5 ** (self.every / self.half_life)

    @property
    def times(self) -> int:
        """How often; the last time nothing is left."""
        return max(1, math.ceil(FORGOTTEN * self.half_life / self.every)) if self.half_life < math.inf else 0


KEEP, DROP = Departed(), Departed(half_life=0)


class Fading:
    """Which rows fade, and when; a server does it.

    Args:
        rule: what becomes of the row of a worker that has left.
        n: how many rows there are.
    """

    def __init__(self, rule: Departed, n: int) -> None:
        self.rule, self._n = rule, n
        self.times: dict[int, int] = {}  # how often each row that fades was faded
        self.gone: set[int] = set()  # the rows of which nothing is left

    def let_go(self, row: int) -> bool:
        """Nobody keeps this row up to date any longer; return whether it fades at once.

        One that is to be dropped, and is the last one there, waits for the next step: nobody is left to fit.
        """
        if self.rule.times == 0 or row in self.times or row in self.gone:
            return False
        self.times[row] = 0
        return self.rule.half_life == 0 and len(self.gone) + len(self.times) < self._n

    def due(self, version: int) -> list[int]:
        """The rows that fade with the step to this version, in order, since sums depend on it."""
        return sorted(self.times) if self.times and version % self.rule.every == 0 else []

    def factor(self, row: int) -> float:
        """By how much it fades now; the last time nothing is left."""
        self.times[row] += 1
        if self.times[row] < self.rule.times:
            return self.rule.factor
        del self.times[row]
        return 0.0

    def back(self, *rows: int) -> None:
        """Their workers have reported again."""
        for row in rows if self.times or self.gone else ():
            self.times.pop(row, None)
            self.gone.discard(row)

    def left_of(self, row: int) -> float:
        """What part of the row there is."""
        return 0.0 if row in self.gone else self.rule.factor ** self.times.get(row, 0)

    def saved(self) -> dict[str, Any]:
        """What outlives the server."""
        return {"fading": sorted(self.times.items()), "gone": sorted(self.gone)}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what an earlier server knew."""
        fading: Collection[tuple[int, int]] = saved["fading"] if self.rule.times > 0 else ()
        self.times = {int(row): int(times) for row, times in fading}
        self.gone = set(map(int, saved["gone"]))
