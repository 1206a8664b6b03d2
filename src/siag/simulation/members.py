"""What is minimised while workers come and go: at any time the mean of the members' objectives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from siag.activity import Change
from siag.activity.membership import in_force
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats
from siag.problems import Problem
from siag.simulation.iterate import Track
from siag.simulation.metrics import known_of


@dataclass(frozen=True, eq=False)
class Aims:
    """What those who are members minimise, from one change to the next.

    Args:
        problem: that of all workers.
        changes: who is a member from when on; none if everybody is, always.
    """

    problem: Problem
    changes: tuple[Change, ...]

    def at(self, t: float) -> Problem:
        """The problem of those who are members at t."""
        change = self.changes[in_force(self.changes, t)] if self.changes else None
        stays = change is None or len(change.members) == self.problem.n
        return self.problem if change is None or stays else self.problem.among(change.members)

    @cached_property
    def known(self) -> list[str]:
        """What can be measured of it at any w."""
        return known_of(self.at(0))

    @cached_property
    def _optima(self) -> tuple[Floats | None, ...]:
        """The optimum after each of the changes; refused where there is nothing to measure errors by, but was."""
        if not self.changes:
            return (self.problem.optimum,)
        found = tuple(self.at(change.when).optimum for change in self.changes)
        if self.problem.optimum is not None and any(each is None for each in found) and not self.known:
            name, remedy = type(self.problem).__name__, "give it a method among(workers)"
            raise Unsuitable(f"{name} does not tell the optimum of some of its workers; {remedy}")
        return found

    @cached_property
    def located(self) -> bool:
        """Whether there is an optimum to measure errors from, at any time."""
        return all(optimum is not None for optimum in self._optima)

    def reference(self, t: float) -> Floats:
        """(d,) a copy of the optimum at t; NaN where none is known."""
        optimum = self._optima[in_force(self.changes, t)] if self.located else None
        return np.array(np.full(self.problem.d, np.nan) if optimum is None else optimum, np.float64)

    def enter(self, t: float, track: Track) -> None:
        """From now on measure errors from the optimum at t."""
        if self.changes:
            track.reference[:] = self.reference(t)
