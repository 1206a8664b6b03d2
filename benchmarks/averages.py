"""Rows that average: the exact error of `SIAG(average=m)` over that of m = 1, by activity and step.

`python -m benchmarks.averages` prints the table of docs/explanation/theory.md. Nothing is sampled but who reports when.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

from siag.activity import Activity, Bernoulli, Cyclic, Nonuniform, Recorded
from siag.methods import SIAG
from siag.problems import LeastSquares
from siag.steps import Constant, Harmonic, Step
from siag.theory import exact_error

ITERATIONS = 30_000
AVERAGES = (1, 2, 4, 8, 16, 64)
SLOPE = 10  # p, which is μ and L of the problem


def bursts(n: int, on: int, day: int) -> Recorded:
    """Worker i is active in `on` iterations out of every `day`, the workers one after the other."""
    return Recorded([[i for i in range(n) if (t - i * day // n) % day < on] for t in range(ITERATIONS)])


def cases() -> list[tuple[str, int, Activity]]:
    """Name, n, activity."""
    return [
        ("`Nonuniform(10, 20)`, n = 20", 20, Nonuniform(10, 20)),
        ("`Nonuniform(2, 200)`, n = 20", 20, Nonuniform(2, 200)),
        ("one always, 19 with probability 0.01", 20, Bernoulli([1.0] + [0.01] * 19)),
        ("bursts of 10 in 500, n = 20", 20, bursts(20, 10, 500)),
        ("bursts of 100 in 5000, n = 20", 20, bursts(20, 100, 5000)),
        ("`Cyclic`, n = 20", 20, Cyclic()),
        ("`Cyclic`, n = 200", 200, Cyclic()),
        ("`Cyclic`, n = 2000", 2000, Cyclic()),
    ]


def error(problem: LeastSquares, activity: Activity, average: int, step: Step) -> float:
    """E‖w − w*‖² at the end; infinite if it has diverged."""
    with np.errstate(all="ignore"):
        curve = exact_error(problem, SIAG(average=average), activity, step, iterations=ITERATIONS, record=1, threads=1)
    last = float(curve.error[-1])
    return last if 0.0 < last < math.inf else math.inf


def constant(sizes: Sequence[float]) -> Step:
    """From its logarithm."""
    return Constant(math.exp(sizes[0]))


def harmonic(sizes: Sequence[float]) -> Step:
    """From the logarithms of β and γ."""
    return Harmonic(math.exp(sizes[0]), math.exp(sizes[1]))


def best(score: Callable[[Sequence[float]], float], grid: list[tuple[float, ...]], tries: int) -> tuple[float, ...]:
    """The best point of a grid, then of a downhill search from there."""

    def bounded(point: Sequence[float]) -> float:
        return math.log(min(score(point), 1e30))

    start = min(grid, key=bounded)
    simplex = np.array([start, *(np.array(start) + 0.35 * np.eye(len(start))[k] for k in range(len(start)))])
    found = minimize(bounded, start, method="Nelder-Mead", options={"maxfev": tries, "initial_simplex": simplex})
    return tuple(found.x)


def line(name: str, n: int, activity: Activity) -> list[str]:
    """Three lines of the table: tuned constant steps, tuned harmonic steps, and those that are best for m = 1."""
    problem = LeastSquares.random(n=n, d=20, p=SLOPE, noise=0.1, seed=1)
    pattern = activity if isinstance(activity, Cyclic | Recorded) else Recorded.of(activity, n, ITERATIONS, seed=1)
    etas: list[tuple[float, ...]] = [(math.log(2.0**-k),) for k in range(4, 18, 2)]
    pairs: list[tuple[float, ...]] = [
        (math.log(beta / SLOPE), math.log(gamma)) for beta in (0.5, 1, 2, 6) for gamma in np.geomspace(10, 1e5, 6)
    ]
    lines, usual = [], pairs[0]
    for what, make, grid, tries in (("constant", constant, etas, 20), ("harmonic", harmonic, pairs, 40)):
        errors = []
        for average in AVERAGES:

            def score(point: Sequence[float], average: int = average, make: Callable[..., Step] = make) -> float:
                return error(problem, pattern, average, make(point))

            point = best(score, grid, tries)
            errors.append(score(point))
            if average == 1:
                usual = point
        lines.append(written(name, f"{what}, tuned for each m", errors))
    errors = [error(problem, pattern, average, harmonic(usual)) for average in AVERAGES]
    lines.append(written(name, "harmonic, tuned for m = 1", errors))
    return lines


def written(name: str, step: str, errors: list[float]) -> str:
    """A line of the table."""
    ratios = " | ".join(f"{each / errors[0]:.3g}" for each in errors[1:])
    return f"| {name} | {step} | {errors[0]:.2e} | {ratios} |"


def main() -> None:
    """Print the table, line by line."""
    print(f"| activity | step | m = 1 | {' | '.join(f'm = {m}' for m in AVERAGES[1:])} |")
    print(f"|---|---|{'---:|' * len(AVERAGES)}", flush=True)
    for case in cases():
        print("\n".join(line(*case)), flush=True)


if __name__ == "__main__":
    main()
