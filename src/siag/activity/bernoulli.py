"""Workers that toss a coin at every iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.activity.activity import Activity, Moments, active, due_now
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.rng import uniform
from siag.foundations.types import Floats, Integers, Record, Rng

LONGEST = 2.0**61  # a gap no run outlasts; keeps tiny rates within 64 bits


@dataclass(frozen=True)
class Bernoulli(Activity):
    """Worker i is active at any iteration with probability r_i, independent of everything else.

    Args:
        rates: one r in (0, 1] for all workers, or one for each. Gaps are geometric: no bound on the age
            unless r = 1, and κ is the mean of (2 − r_i)/r_i.
    """

    rates: float | Sequence[float]

    def __post_init__(self) -> None:
        if isinstance(self.rates, list | tuple | np.ndarray):
            rates = check.floats("rates", self.rates, (None,))
            if rates.min() <= 0.0 or rates.max() > 1.0:
                remedy = "a worker that never reports is no worker, leave it out"
                raise BadInput("rates", self.rates, "numbers above 0 and at most 1", remedy)
            object.__setattr__(self, "rates", tuple(map(float, rates)))
        else:
            object.__setattr__(self, "rates", check.real("rates", self.rates, above=0, high=1))

    def _rates(self, n: int) -> Floats:
        if isinstance(self.rates, float):
            return np.full(n, self.rates)
        if len(self.rates) != n:
            raise BadInput("rates", self.rates, f"one number, or {n} numbers for {n} workers")
        return np.array(self.rates)

    def start(self, n: int, rng: Rng) -> Record:
        """Draw the first reports."""
        rates = self._rates(n)
        with np.errstate(divide="ignore"):
            state = Coins(np.log1p(-rates), np.full(n, -1, np.int64))
        first_successes(state, rng)
        return state

    def bound(self, n: int) -> int | None:
        """None, unless every worker is always active."""
        return 0 if self._rates(n).min() == 1.0 else None

    def moments(self, n: int) -> Moments:
        """1/r and (2 − r)/r²."""
        rates = self._rates(n)
        return Moments(1.0 / rates, (2.0 - rates) / rates**2)


class Coins(NamedTuple):
    """Who reports next when; tossing ahead to the next success costs one number instead of one per iteration."""

    silence: Floats  # (n,) log(1 − r_i)
    due: Integers  # (n,)


@compiled
def gap(rng: Rng, silence: float) -> int:
    """A geometric number: tosses until the first success, with log(1 − r) = `silence`."""
    return 1 + int(min(math.log(1.0 - uniform(rng)) / silence, LONGEST))


@compiled
def first_successes(state: Coins, rng: Rng) -> None:
    """Toss every coin until it first falls."""
    for i in range(state.due.size):
        state.due[i] = gap(rng, state.silence[i]) - 1


@active.when(Coins)
def successes(state: Coins, rng: Rng, t: int, out: Integers) -> int:
    """Those whose coin falls now."""
    count = due_now(state.due, t, out)
    for k in range(count):
        state.due[out[k]] = t + gap(rng, state.silence[out[k]])
    return count
