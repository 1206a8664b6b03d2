"""One worker at random: what sequential SGD sees, the yardstick of linear speedup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from siag.activity.activity import Activity, Moments, active, same_for_all
from siag.foundations.rng import below
from siag.foundations.types import Integers, Record, Rng


@dataclass(frozen=True)
class Sequential(Activity):
    """A_t is one worker, uniform and independent of the past. Ages have no bound, κ = 2n − 1."""

    def start(self, n: int, rng: Rng) -> Record:
        """The number of workers is all there is to know."""
        return Lottery(n)

    def bound(self, n: int) -> int | None:
        """None, unless there is only one worker."""
        return 0 if n == 1 else None

    def moments(self, n: int) -> Moments:
        """Gaps are geometric with rate 1/n."""
        return same_for_all(n, n, n * (2 * n - 1))


class Lottery(NamedTuple):
    """Sequential's state."""

    n: int


@active.when(Lottery)
def one_at_random(state: Lottery, rng: Rng, t: int, out: Integers) -> int:
    """A worker drawn uniformly."""
    out[0] = below(rng, state.n)
    return 1
