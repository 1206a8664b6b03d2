"""What a step is: the size η_t of the server's move at iteration t."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from siag.foundations.dispatch import optional_verb, verb
from siag.foundations.types import Floats, Integers, Record

Sizes: TypeAlias = Callable[[Integers], Floats]
"""η at every iteration number given."""


class Step(ABC):
    """A rule for η_t ≥ 0. It never looks at w, so it can be unfolded ahead of any run.

    Most see t alone, and have `sizes`. One that looks at how old the reports are has a `rule` as well, a `NamedTuple`
    that `heard`, `left` and `size` have a meaning for, and its `sizes` refuses.
    """

    @abstractmethod
    def sizes(self, t: Integers) -> Floats:
        """η at every iteration number in `t`."""

    def rule(self, n: int) -> Record | None:
        """What is remembered of the ages of n workers' reports before iteration 0; `None` if they do not matter."""
        return None


def shifted(step: Step, waited: int) -> Sizes:
    """η at every iteration number, where the first `waited` do not count: w has not moved yet, and η_0 comes next."""
    return step.sizes if waited == 0 else lambda t: step.sizes(np.maximum(t - waited, 0))


@verb
def heard(rule: Record, i: int, stamp: int) -> None:
    """Worker i's report, computed from w of iteration `stamp`, has arrived."""


@optional_verb
def left(rule: Record, i: int) -> None:
    """Worker i has left for good, and what was kept of it counts for nothing."""


@verb
def size(rule: Record, t: int) -> float:
    """η_t, after all that arrived before it was heard; asked once for every t = 0, 1, 2, … in turn."""
    return 0.0
