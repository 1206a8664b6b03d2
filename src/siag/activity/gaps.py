"""Workers that report after gaps uniform on {1, …, T_i}: the second and third selection schemes of Sec. IV."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.activity.activity import Activity, Moments, active, due_now, reuse_of, same_for_all
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.rng import below
from siag.foundations.types import Floats, Integers, Record, Rng


@dataclass(frozen=True)
class Uniform(Activity):
    """Equally fast workers: every gap is uniform on {1, …, T}, the first report on the first T iterations.

    Ages stay below T, and κ = (2T + 1)/3.
    """

    T: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "T", check.integer("T", self.T))

    def start(self, n: int, rng: Rng) -> Record:
        """Draw the first reports."""
        return _start(n, rng, self.T, self.T)

    def bound(self, n: int) -> int:
        """A gap of T leaves an age of at most T − 1."""
        return self.T - 1

    def moments(self, n: int) -> Moments:
        """(T + 1)/2 and (T + 1)(2T + 1)/6."""
        mean, square = _moments(np.array([self.T]))
        return same_for_all(n, mean[0], square[0])


@dataclass(frozen=True)
class Nonuniform(Activity):
    """Unequal workers: T_i is uniform on {low, …, high}, drawn anew for each repeat; gaps as in `Uniform(T_i)`."""

    low: int
    high: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", check.integer("low", self.low))
        object.__setattr__(self, "high", check.integer("high", self.high))
        if self.low > self.high:
            raise BadInput("low", self.low, f"at most high = {self.high}", "swap low and high")

    def start(self, n: int, rng: Rng) -> Record:
        """Draw the T_i, then the first reports."""
        return _start(n, rng, self.low, self.high)

    def bound(self, n: int) -> int:
        """That of the slowest worker there can be."""
        return self.high - 1

    def moments(self, n: int) -> Moments:
        """Those of a worker whose T_i is still to be drawn."""
        mean, square = _moments(np.arange(self.low, self.high + 1))
        return same_for_all(n, mean.mean(), square.mean())

    def reuse(self, n: int, average: int = 1) -> Floats:
        """The mean over T_i of that of `Uniform(T_i)`; not from the mean moments, since T_i stays the same in a run."""
        mean, square = _moments(np.arange(self.low, self.high + 1))
        return np.full(n, reuse_of(mean, square, average).mean())


def _moments(longest: Integers) -> tuple[Floats, Floats]:
    """E[G] and E[G²] for G uniform on {1, …, longest}."""
    return (longest + 1) / 2, (longest + 1) * (2 * longest + 1) / 6


class Gaps(NamedTuple):
    """Who reports next when."""

    longest: Integers  # (n,) T_i
    due: Integers  # (n,) the iteration of worker i's next report


def _start(n: int, rng: Rng, low: int, high: int) -> Gaps:
    state = Gaps(np.empty(n, np.int64), np.empty(n, np.int64))
    draw_gaps(state, rng, low, high)
    return state


@compiled
def draw_gaps(state: Gaps, rng: Rng, low: int, high: int) -> None:
    """Draw every T_i from {low, …, high}, and the first report from the first T_i iterations."""
    for i in range(state.due.size):
        state.longest[i] = low + below(rng, high - low + 1)
        state.due[i] = below(rng, state.longest[i])


@active.when(Gaps)
def those_due(state: Gaps, rng: Rng, t: int, out: Integers) -> int:
    """A look at every worker costs less than a queue, since a fair share of them is due at any time."""
    count = due_now(state.due, t, out)
    for k in range(count):
        state.due[out[k]] = t + 1 + below(rng, state.longest[out[k]])
    return count
