"""A method in one file: sIAG with heavy-ball momentum. Run it: python examples/heavy_ball.py."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import siag
from siag.foundations import check
from siag.methods import Method, Table, advance, receive, table, total_weight


@dataclass(frozen=True, kw_only=True)
class HeavyBall(Method):
    """v ← θ v − (η/n) Σ g_i;  w ← w + v, with g_i the latest gradient of worker i."""

    momentum: float = 0.5

    def __post_init__(self):
        check.real("momentum", self.momentum, low=0, high=0.999)

    def init(self, w0, n):
        rows = table(w0, n, resum=64, wait=0.0)
        return Ball(rows.w, rows, np.zeros(w0.size), self.momentum)


class Ball(NamedTuple):
    w: np.ndarray  # (d,) the table's own
    table: Table
    velocity: np.ndarray  # (d,)
    momentum: float


@receive.when(Ball)
def store(state, i, message, age):
    receive(state.table, i, message, age)


@advance.when(Ball)
def roll(state, eta):
    n = total_weight(state.table)  # those of workers that have left are gone
    for j in range(state.w.size):
        state.velocity[j] = state.momentum * state.velocity[j] - eta / n * state.table.total[j]
        state.w[j] += state.velocity[j]


if __name__ == "__main__":
    import siag.checks

    siag.checks.conform(HeavyBall(), skip=["all_active_is_gradient_descent"])
    problem = siag.problems.LeastSquares.random(n=40, d=20, p=10, noise=0.1)
    step = siag.steps.Harmonic(beta=0.1, gamma=200)  # momentum 0.5 doubles a step in the long run
    run = siag.simulate(problem, HeavyBall(), siag.activity.Uniform(15), step, iterations=5000, repeats=4)
    print(f"error {run.mean[0]:.3g} → {run.mean[-1]:.3g}")
