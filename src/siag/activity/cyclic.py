"""One worker after the other: the first selection scheme of Sec. IV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from siag.activity.activity import Activity, Moments, active, same_for_all
from siag.foundations.types import Integers, Record, Rng


@dataclass(frozen=True)
class Cyclic(Activity):
    """A_t = {t mod n}. Ages reach n − 1 and κ = n: nothing is gained by more workers."""

    def start(self, n: int, rng: Rng) -> Record:
        """The number of workers is all there is to know."""
        return Round(n)

    def bound(self, n: int) -> int:
        """A worker's turn comes every n iterations."""
        return n - 1

    def moments(self, n: int) -> Moments:
        """Every gap is n."""
        return same_for_all(n, n, n * n)


class Round(NamedTuple):
    """Cyclic's state."""

    n: int


@active.when(Round)
def next_in_turn(state: Round, rng: Rng, t: int, out: Integers) -> int:
    """Worker t mod n."""
    out[0] = t % state.n
    return 1
