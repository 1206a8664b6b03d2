"""An activity in one file: shops that open and close at hours of their own. Run it: python examples/own_activity.py."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import siag
from siag.activity import Activity, Moments, active
from siag.foundations import check


@dataclass(frozen=True)
class Shifts(Activity):
    """Worker i is active during `open` of every `day` iterations, starting at i mod day."""

    day: int
    open: int

    def __post_init__(self):
        check.integer("day", self.day)
        check.integer("open", self.open, high=self.day)

    def start(self, n, rng):
        return Hours(n, self.day, self.open)

    def bound(self, n):
        return self.day - self.open

    def moments(self, n):
        night = self.day - self.open + 1  # one gap spans the night, the others are 1
        ones = np.ones(n)
        return Moments(ones * self.day / self.open, ones * (night**2 + self.open - 1) / self.open)


class Hours(NamedTuple):
    n: int
    day: int
    open: int


@active.when(Hours)
def those_open(state, rng, t, out):
    count = 0
    for i in range(state.n):
        if (t - i) % state.day < state.open:
            out[count] = i
            count += 1
    return count


if __name__ == "__main__":
    problem = siag.problems.LeastSquares.random(n=40, d=20, p=10, noise=0.1)
    shifts, step = Shifts(day=24, open=8), siag.steps.Harmonic(beta=0.2, gamma=200)
    curve = siag.theory.exact_error(problem, siag.methods.SIAG(), shifts, step, iterations=60_000)
    law = siag.theory.sharp_law(problem, shifts, step)(60_000)
    print(f"κ = {shifts.kappa(40):.2f}, exact error {curve.error[-1]:.3e}, sharp law {law:.3e}")
