"""A problem of which nothing is known but samples."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.problems import Problem, sample


@dataclass(frozen=True, eq=False)
class SamplesOnly(Problem):
    """A problem without exact gradients; its samples are w."""

    n = 2
    d = 1
    optimum = np.zeros(1)

    def oracle(self):
        return Tap(np.zeros(1))


class Tap(NamedTuple):
    nothing: np.ndarray


@sample.when(Tap)
def drip(oracle, rng, i, w, out):
    out[:] = w
