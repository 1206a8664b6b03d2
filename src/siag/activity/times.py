"""How long a worker takes: distributions of compute, travel and waiting times, in simulated seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.rng import normal, uniform
from siag.foundations.types import Floats, Integers, Rng

FIXED, EXPONENTIAL, LOG_NORMAL, PARETO = range(4)


class Law(NamedTuple):
    """A distribution as compiled code sees it."""

    kind: int
    scale: float
    shape: float


@dataclass(frozen=True)
class Fixed:
    """Always the same."""

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", check.real("mean", self.mean, low=0))

    def law(self) -> Law:
        """The mean itself."""
        return Law(FIXED, self.mean, 0.0)


@dataclass(frozen=True)
class Exponential:
    """Memoryless."""

    mean: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", check.real("mean", self.mean, above=0))

    def law(self) -> Law:
        """−mean · log u."""
        return Law(EXPONENTIAL, self.mean, 0.0)


@dataclass(frozen=True)
class LogNormal:
    """exp of a normal number with standard deviation `sigma`, scaled to the given mean."""

    mean: float
    sigma: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", check.real("mean", self.mean, above=0))
        object.__setattr__(self, "sigma", check.real("sigma", self.sigma, low=0))

    def law(self) -> Law:
        """The median is mean · exp(−σ²/2)."""
        return Law(LOG_NORMAL, self.mean * math.exp(-0.5 * self.sigma**2), self.sigma)


@dataclass(frozen=True)
class Pareto:
    """Stragglers: P(time > x) falls as x^−alpha. With alpha ≤ 2 the variance is infinite; the mean needs alpha > 1."""

    mean: float
    alpha: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", check.real("mean", self.mean, above=0))
        alpha = check.real("alpha", self.alpha, above=1, remedy="for alpha ≤ 1 there is no mean")
        object.__setattr__(self, "alpha", alpha)

    def law(self) -> Law:
        """The shortest time is mean · (alpha − 1)/alpha."""
        return Law(PARETO, self.mean * (self.alpha - 1.0) / self.alpha, self.alpha)


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Times that were recorded: who reported when. A worker reads w at time 0 and right after each report.

    Args:
        trace: rows (time, worker), in order of time.
    """

    trace: Sequence[tuple[float, int]] = field(repr=False)

    def __post_init__(self) -> None:
        last = 0.0
        for line, row in enumerate(self.trace):
            try:
                when, worker = row
            except (TypeError, ValueError):
                raise BadInput(f"trace[{line}]", row, "a pair (time, worker)") from None
            check.integer(f"trace[{line}], worker", worker, low=0)
            remedy = "time never goes back; sort the rows"
            last = check.real(f"trace[{line}], time", when, low=last, remedy=remedy if last > 0 else "")
        if len(self.trace) == 0:
            raise BadInput("trace", self.trace, "at least one row")

    def __repr__(self) -> str:
        """How many there are; they may be millions."""
        return f"Arrivals(<{len(self.trace)} rows>)"

    def law(self) -> Law:
        """Nothing is drawn."""
        return Law(FIXED, 0.0, 0.0)

    def by_worker(self, n: int) -> tuple[Floats, Integers]:
        """The times sorted by worker, and where each worker's begin."""
        times, workers = np.array([row[0] for row in self.trace], float), np.array([row[1] for row in self.trace])
        if workers.max() >= n:
            line = int(np.argmax(workers >= n))
            raise BadInput(f"trace[{line}], worker", int(workers[line]), f"from 0 to {n - 1}", f"there are {n} workers")
        order = np.argsort(workers, kind="stable")
        return times[order], np.searchsorted(workers[order], np.arange(n + 1)).astype(np.int64)


Times: TypeAlias = Fixed | Exponential | LogNormal | Pareto | Arrivals
"""How long a worker is away: a distribution of times, or recorded ones."""


@compiled
def duration(rng: Rng, law: Law) -> float:
    """Draw a time."""
    if law.kind == EXPONENTIAL:
        return -law.scale * math.log(1.0 - uniform(rng))
    if law.kind == LOG_NORMAL:
        return law.scale * math.exp(law.shape * normal(rng))
    if law.kind == PARETO:
        return float(law.scale * (1.0 - uniform(rng)) ** (-1.0 / law.shape))
    return law.scale
