"""What an activity is: who reports when. It never looks at w, so it can be unfolded ahead of any run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from siag.activity.membership import Change
from siag.foundations import check
from siag.foundations.dispatch import compiled, verb
from siag.foundations.types import Floats, Integers, Record, Rng


class Moments(NamedTuple):
    """Moments of the gap G_i between two reports of worker i, in iterations."""

    mean: Floats  # (n,) E[G_i]
    square: Floats  # (n,) E[G_i²]


class Activity(ABC):
    """The rule by which the set A_t of active workers is chosen.

    To add one: subclass this, let `start` return a `NamedTuple` of arrays, and give `active` a meaning for it.
    """

    @abstractmethod
    def start(self, n: int, rng: Rng) -> Record:
        """The state before iteration 0, with whatever is drawn once per repeat."""

    @abstractmethod
    def bound(self, n: int) -> int | None:
        """T of Assumption 3: the largest age t − τ_i(t) once every worker has reported; `None` if there is none."""

    @abstractmethod
    def moments(self, n: int) -> Moments:
        """The moments of the gaps."""

    def changes(self, n: int) -> tuple[Change, ...]:
        """Who is a member from when on, the first from the start; none if everybody is, always."""
        return ()

    def paced(self, gradients: int | Integers) -> Activity:
        """The same for reports that take so many gradients, one number or one for each worker: another on a clock."""
        return self

    def reuse(self, n: int, average: int = 1) -> Floats:
        """(n,) E[U_i²]/E[G_i], U_i being the sum of a gradient's weights in row i over all iterations.

        U_i = G_i if a row is the latest gradient, and (1/m) Σ_l (1 − 1/m)^l G_i^{(l)}, over the gaps that follow, if it
        is a moving average of m = `average`. Here gaps are taken as independent, so that Var U_i = Var G_i/(2m − 1).
        """
        mean, square = self.moments(n)
        return reuse_of(mean, square, average)

    def kappa(self, n: int, average: int = 1) -> float:
        """κ = (1/n) Σ E[U_i²]/E[G_i], the factor by which staleness slows sIAG down (see `siag.theory.sharp_law`)."""
        return float(self.reuse(n, average).mean())

    @property
    def length(self) -> int | None:
        """How many iterations it lasts; `None` for as long as one likes."""
        return None


def reuse_of(mean: Floats, square: Floats, average: int) -> Floats:
    """E[U²]/E[G] from E[G] and E[G²], for independent gaps."""
    shrink = 2 * check.integer("average", average, high=2**31) - 1
    return (square + (shrink - 1) * mean * mean) / (shrink * mean)


def same_for_all(n: int, mean: float, square: float) -> Moments:
    """Moments that do not differ between workers."""
    n = check.integer("n", n)
    return Moments(np.full(n, float(mean)), np.full(n, float(square)))


@verb
def active(state: Record, rng: Rng, t: int, out: Integers) -> int:
    """Write the workers active at iteration t to `out`, in ascending order, and return their number.

    Called once for every t = 0, 1, 2, … in turn; `out` has room for all workers.
    """
    return 0


@compiled
def due_now(due: Integers, t: int, out: Integers) -> int:
    """Write the workers with due[i] = t to `out`, in ascending order, and return their number.

    Every worker is written and only those due are kept: a branch that nobody can predict would cost more.
    """
    count = 0
    for i in range(due.size):
        out[count] = i
        count += due[i] == t
    return count
