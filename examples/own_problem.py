"""A problem in one file: every worker streams readings of its own sensor. Run it: python examples/own_problem.py."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import siag
from siag.problems import Constants, Problem, exact, sample


@dataclass(frozen=True, eq=False)
class Sensors(Problem):
    """F_i(w) = ½ E‖w − x‖², x ~ N(level_i, spread² I): w* is the mean level, however often each reports."""

    levels: np.ndarray  # (n, d)
    spread: float

    n = property(lambda self: len(self.levels))
    d = property(lambda self: self.levels.shape[1])
    optimum = property(lambda self: self.levels.mean(axis=0))

    def constants(self):
        return Constants(mu=1.0, L=1.0, sigma2=self.spread**2 * self.d)

    def oracle(self):
        return Reading(self.levels, self.spread)


class Reading(NamedTuple):
    levels: np.ndarray
    spread: float


@sample.when(Reading)
def draw(oracle, rng, i, w, out):
    siag.rng.normals(rng, out)
    for j in range(w.size):
        out[j] = w[j] - (oracle.levels[i, j] + oracle.spread * out[j])


@exact.when(Reading)
def mean(oracle, i, w, out):
    for j in range(w.size):
        out[j] = w[j] - oracle.levels[i, j]


if __name__ == "__main__":
    problem = Sensors(np.arange(12.0).reshape(6, 2), spread=0.5)
    step = siag.steps.Harmonic(beta=2.0, gamma=50)
    run = siag.simulate(problem, siag.methods.SIAG(), siag.activity.Nonuniform(2, 9), step, iterations=20_000)
    print(f"mean level {problem.optimum}, found {run.w[0].round(2)}")
