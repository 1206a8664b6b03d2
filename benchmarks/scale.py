"""Large jobs: ten million workers in one process, a sweep of ten thousand combinations, exact errors of long runs."""

from __future__ import annotations

import statistics
import time

import siag
from benchmarks import scaling
from benchmarks.rounds import rounds
from benchmarks.sides import ACTIVITY, STEP, D, ours, problem
from benchmarks.targets import Target
from siag.activity import Activity, Nonuniform, Sequential

ROUNDS = 3
WORKERS = 10**7
COMBINATIONS = 10**4
MANY, LONG = 1000, 100_000  # workers and iterations of an exact error
PATTERNS: dict[str, Activity] = {
    "Sequential()": Sequential(),
    repr(ACTIVITY): ACTIVITY,
    "Nonuniform(10, 20)": Nonuniform(10, 20),
}


def crowd() -> tuple[float, float]:
    """Memory beyond the problem's own, in tables of all workers, and nanoseconds a gradient."""
    memory = scaling.fresh(scaling.MEMORY, WORKERS, D, times=1)["times"]
    job = problem(n=WORKERS)
    costs = [ours(job, ACTIVITY, 24, seed=k).cost for k in rounds(ROUNDS)]
    return memory, statistics.median(costs)


def sweeping() -> float:
    """Seconds of a hundred combinations of a large sweep, none of which has much to do."""
    job = problem(n=10)
    steps = [siag.steps.Harmonic(0.2, 200.0 + k) for k in range(COMBINATIONS)]
    found = []
    for k in rounds(ROUNDS + 1):
        asked = steps if k else steps[:10]
        began = time.perf_counter()
        siag.sweep(job, siag.methods.SIAG(), ACTIVITY, asked, iterations=10, record=10, threads=1)
        found.append(100 * (time.perf_counter() - began) / len(asked))
    return statistics.median(found[1:])


def exact() -> dict[str, float]:
    """Seconds of an exact error curve, by activity."""
    job, method = problem(n=MANY), siag.methods.SIAG()
    found: dict[str, list[float]] = {name: [] for name in PATTERNS}
    for k in rounds(ROUNDS + 1):
        for name, activity in PATTERNS.items():
            began = time.perf_counter()
            siag.theory.exact_error(job, method, activity, STEP, iterations=LONG if k else 10)
            found[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds[1:]) for name, seconds in found.items()}


def targets() -> list[Target]:
    """Measure all of it."""
    memory, cost = crowd()
    table = "the rows, and w_i* of every worker, are fetched from memory, and no cache holds a part of them"
    size = f"n = {MANY:,}, {LONG:,} iterations"
    return [
        Target(memory, f"× the table's memory at n = 10⁷, d = {D}", most=1.3),
        Target(cost, f"ns a gradient at n = 10⁷, d = {D}", most=1000, because=table),
        Target(sweeping(), "s for a hundred combinations of a sweep of 10⁴, of hardly any work", most=1.0),
        *(
            Target(seconds, f"s for `exact_error`, {name}, {size}", most=1.0, because="every iteration costs O(n)")
            for name, seconds in exact().items()
        ),
    ]
