"""What a gradient written in Python costs beyond itself, under a compiled method."""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

import numpy as np

import siag
from benchmarks.rounds import rounds
from benchmarks.targets import Target, table
from siag.problems import FromFunction, Problem, sample

N, ROUNDS = 4, 9
REPORTS = {10**3: 20_000, 10**6: 100}
PARTS = siag.methods.SGD(), siag.activity.Cyclic(), siag.steps.Constant(0.1)


class Nothing(NamedTuple):
    """A worker whose gradient takes no time: zeros that are there already."""

    begun: np.ndarray  # (1,)


@sample.when(Nothing)
def leave_as_it_is(oracle: Nothing, rng: np.ndarray, i: int, w: np.ndarray, out: np.ndarray) -> None:
    """Write zeros, once."""
    if not oracle.begun[0]:
        out[:] = 0.0
        oracle.begun[0] = True


class Ready(Problem):
    """The compiled side: the same loop without any gradient."""

    n = N

    def __init__(self, d: int) -> None:
        self._d = d

    @property
    def d(self) -> int:
        """The dimension of w."""
        return self._d

    def oracle(self) -> Nothing:
        """There is nothing to compute."""
        return Nothing(np.zeros(1, np.bool_))


def overhead(d: int) -> tuple[float, float]:
    """Microseconds a report beyond those of the same loop without a gradient, and how many copies of d numbers.

    The function returns an array that is there already. A copy reads d numbers and writes them once.
    """
    ready = np.zeros(d)
    python, compiled = FromFunction(lambda i, w: ready, n=N, d=d), Ready(d)
    found, ratios = [], []
    for k in rounds(ROUNDS + 1):
        beyond = _cost(python, k) - _cost(compiled, k)
        copy = _copy(d)
        if k:
            found.append(beyond)
            ratios.append(beyond / copy)
    return statistics.median(found), statistics.median(ratios)


def _cost(problem: Problem, seed: int) -> float:
    """Microseconds a report."""
    reports = REPORTS[problem.d]
    began = time.perf_counter()
    siag.simulate(problem, *PARTS, iterations=reports, seed=seed, record=1, threads=1)
    return 1e6 * (time.perf_counter() - began) / reports


def _copy(d: int) -> float:
    """Microseconds to copy d numbers between arrays that are in memory already."""
    source, target, times = np.ones(d), np.ones(d), REPORTS[d] // 4
    began = time.perf_counter()
    for _ in range(times):
        np.copyto(target, source)
    return 1e6 * (time.perf_counter() - began) / times


def chapter() -> tuple[str, list[Target]]:
    """Measure everything; the text and the targets."""
    found = {d: overhead(d) for d in REPORTS}
    small, large = REPORTS
    noise = "the other load on this machine; it is a difference of wall-clock times"
    targets = [
        Target(found[small][0], f"µs a report beyond the gradient itself, d = {small:,}", most=10, because=noise),
        Target(found[large][1], f"× a copy of d numbers, the same at d = {large:,}", most=2, because=noise),
    ]
    rows = [f"| {d:,} | {microseconds:,.1f} | {copies:.2f} |" for d, (microseconds, copies) in found.items()]
    text = f"""## Gradients in Python

What a function that `FromFunction` makes a problem of costs beyond itself, the method ({type(PARTS[0]).__name__}) being
compiled: it returns an array that is there already. What it returns is copied and seen to be finite, and w seen to be
unchanged; a copy reads d numbers and writes them once. Medians of {ROUNDS} rounds, one thread.

| d | µs a report | copies of d numbers |
|---:|---:|---:|
{chr(10).join(rows)}

{table(targets)}
"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
