"""The same step always."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats, Integers
from siag.steps.step import Step


@dataclass(frozen=True)
class Constant(Step):
    """η_t = η. Exact gradients converge with it; stochastic ones keep an error of the order of η."""

    eta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", check.real("eta", self.eta, above=0))

    def sizes(self, t: Integers) -> Floats:
        """η, as often as asked."""
        return np.full(len(t), self.eta)
