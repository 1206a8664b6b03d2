"""The sizes of a server's steps: worked out ahead of time, or asked one by one of a step that looks at ages."""

from __future__ import annotations

import math

import numpy as np

from siag.activity import checked_sizes
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Record
from siag.steps import Step, heard, left, size

AHEAD = 4096  # sizes worked out at a time


@compiled
def hear(rule: Record, i: int, stamp: int) -> None:
    """Let a step that looks at ages know of a report."""
    heard(rule, i, stamp)


@compiled
def miss(rule: Record, i: int) -> None:
    """Let it know that nothing is left of a worker's."""
    left(rule, i)


@compiled
def aged_size(rule: Record, t: int) -> float:
    """Its η_t, asked once."""
    return size(rule, t)


class Sizes:
    """η of each version."""

    def __init__(self, step: Step, n: int) -> None:
        self.step = step
        self.rule = step.rule(n)  # what a step that looks at the n workers' ages remembers; `None` for any other step
        self._ahead: Floats = np.empty(0)
        self._from = 0

    def at(self, version: int) -> float:
        """η of this version; with a rule to be asked once only, when all that has come is heard."""
        if self.rule is None:
            k = version - self._from
            return float(self._ahead[k] if 0 <= k < len(self._ahead) else self.ahead(version)[0][0])
        eta = float(aged_size(self.rule, version))
        if not 0.0 <= eta < math.inf:
            raise BadInput("step", eta, "finite and not negative", "mend what `size` means for it")
        return eta

    def ahead(self, version: int) -> tuple[Floats, int]:
        """η of this version and some more, without a rule: an array, and where in it this version is."""
        k = version - self._from
        if not 0 <= k < len(self._ahead):
            self._from, k = version, 0
            self._ahead = np.ascontiguousarray(checked_sizes(self.step.sizes, version, AHEAD), np.float64)
        return self._ahead, k

    def warm_up(self) -> None:
        """Have the machine code made, or found on disk."""
        rule = self.step.rule(1)
        if rule is not None:
            hear(rule, 0, 0)
            aged_size(rule, 0)
