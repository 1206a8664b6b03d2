"""A problem for claims about noise: the same bowl for all workers, and gradients off by one of a few vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations.rng import below
from siag.foundations.types import Floats, Record, Rng
from siag.problems import Constants, Problem, exact, sample


@dataclass(frozen=True, eq=False)
class Atoms(Problem):
    """F_i(w) = ½ ‖w‖², f_i(w; ξ) = ½ ‖w‖² + z·w, z one of some vectors whose mean is 0, each as likely.

    So ∇F(w) = w, and an error ‖w − w*‖² is ‖∇F(w)‖².
    """

    workers: int
    vectors: Floats  # (m, d)

    @property
    def n(self) -> int:
        """The number of workers."""
        return self.workers

    @property
    def d(self) -> int:
        """The dimension of w."""
        return int(self.vectors.shape[1])

    @property
    def optimum(self) -> Floats:
        """(d,) 0."""
        return np.zeros(self.d)

    def constants(self) -> Constants:
        """σ² is the mean of ‖z‖²."""
        return Constants(1.0, 1.0, float((self.vectors**2).sum(axis=1).mean()))

    def oracle(self) -> Record:
        """The vectors."""
        return Vectors(self.vectors)


class Vectors(NamedTuple):
    """What the noise is drawn from."""

    vectors: Floats  # (m, d)


@sample.when(Vectors)
def off_by_one(oracle: Vectors, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """w + z."""
    z = oracle.vectors[below(rng, oracle.vectors.shape[0])]
    for j in range(w.size):
        out[j] = w[j] + z[j]


@exact.when(Vectors)
def on_the_mean(oracle: Vectors, i: int, w: Floats, out: Floats) -> None:
    """w."""
    for j in range(w.size):
        out[j] = w[j]
