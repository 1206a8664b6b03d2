"""All workers, always: the synchronous ideal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from siag.activity.activity import Activity, Moments, active, same_for_all
from siag.foundations.types import Integers, Record, Rng


@dataclass(frozen=True)
class Everyone(Activity):
    """A_t = {1, …, n}. Ages are 0 and κ = 1."""

    def start(self, n: int, rng: Rng) -> Record:
        """The number of workers is all there is to know."""
        return All(n)

    def bound(self, n: int) -> int:
        """No gradient is ever stale."""
        return 0

    def moments(self, n: int) -> Moments:
        """Every gap is 1."""
        return same_for_all(n, 1, 1)


class All(NamedTuple):
    """Everyone's state."""

    n: int


@active.when(All)
def everyone(state: All, rng: Rng, t: int, out: Integers) -> int:
    """1, …, n."""
    for i in range(state.n):
        out[i] = i
    return state.n
