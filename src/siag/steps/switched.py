"""One step until some iteration, another from then on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers
from siag.steps.step import Step


@dataclass(frozen=True)
class Switched(Step):
    """η_t is that of `before` for t < at, and that of `after` from t = at on, where t goes on counting.

    This is what a live run has done that went on with another step than it began with.

    Args:
        before: the first step; neither may look at ages.
        at: the first iteration of the second.
        after: the second.

    Example:
        >>> from siag.steps import Constant
        >>> Switched(Constant(0.5), 2, Constant(0.1)).sizes(np.arange(4)).tolist()
        [0.5, 0.5, 0.1, 0.1]
    """

    before: Step
    at: int
    after: Step

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", check.integer("at", self.at, low=0))
        for name in ("before", "after"):
            step = getattr(self, name)
            if not isinstance(step, Step) or step.rule(1) is not None:
                raise BadInput(name, step, "a step that does not look at ages, such as Constant or Harmonic")

    def sizes(self, t: Integers) -> Floats:
        """Those of the one or the other."""
        return np.where(t < self.at, self.before.sizes(t), self.after.sizes(t))
