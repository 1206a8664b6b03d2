"""The diminishing step of Sec. III."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats, Integers
from siag.steps.step import Step


@dataclass(frozen=True)
class Harmonic(Step):
    """η_t = β / (t + γ)."""

    beta: float
    gamma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", check.real("beta", self.beta, above=0))
        object.__setattr__(self, "gamma", check.real("gamma", self.gamma, above=0))

    def sizes(self, t: Integers) -> Floats:
        """β / (t + γ)."""
        return np.asarray(self.beta / (t + self.gamma), np.float64)
