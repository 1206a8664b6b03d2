"""Every method compiled, and as plain Python: the same iterates, how many times faster."""

from __future__ import annotations

import statistics
import time

import numpy as np

import siag
from benchmarks.rounds import rounds
from benchmarks.targets import Target, table
from siag.activity import Activity, Clock, Cyclic, EveryArrivals, Everyone, Exponential, Sequential, Uniform
from siag.experiments.comparison import CONTENDERS, Contender

ROUNDS, SLOW, FAST = 5, 40, 100  # rounds; iterations as plain Python; how many times more of them compiled
OWN: dict[str, Activity] = {
    "Scaffnew": Everyone(),
    "incremental gradient": Cyclic(),
    "SAG": Sequential(),
    "SAGA": Sequential(),
}
CLOCK = Clock(compute=Exponential(1.0), server=EveryArrivals(5))


def seconds(contender: Contender, activity: Activity, iterations: int, compiled: bool) -> tuple[float, np.ndarray]:
    """Per iteration, one run on one thread, and the last w."""
    problem: siag.problems.Problem = siag.problems.LeastSquares.random(n=20, d=20, p=10, noise=0.1)
    if contender.name in ("SAG", "SAGA"):  # of finite data
        problem = siag.problems.Ridge.random(n=20, d=20, m=1)
    method, step = contender.tuned(1e-3, 100.0)
    began = time.perf_counter()
    run = siag.simulate(problem, method, activity, step, iterations=iterations, threads=1, record=1, compiled=compiled)
    return (time.perf_counter() - began) / iterations, run.w


def chapter() -> tuple[str, list[Target]]:
    """Measure everything; the text and the targets."""
    rows, slowest = [], (np.inf, "")
    for contender in CONTENDERS:
        for activity in [OWN[contender.name]] if contender.name in OWN else [Uniform(15), CLOCK]:
            ends = [seconds(contender, activity, SLOW, compiled)[1] for compiled in (True, False)]
            if not np.array_equal(*ends):
                raise SystemExit(f"{contender.name}: compiled and plain runs differ")
            ratios, costs = [], []
            for _ in rounds(ROUNDS):
                plain, _ = seconds(contender, activity, SLOW, False)
                fast, _ = seconds(contender, activity, SLOW * FAST, True)
                ratios.append(plain / fast)
                costs.append(fast)
            ratio, where = statistics.median(ratios), "clock" if activity is CLOCK else type(activity).__name__
            slowest = min(slowest, (ratio, f"{contender.name}, {where}"))
            rows.append(f"| {contender.name} | {where} | {1e6 * statistics.median(costs):,.2f} | {ratio:,.0f} |")
    targets = [Target(slowest[0], f"× as fast as plain Python, the slowest of all ({slowest[1]})", least=20)]
    text = f"""## The methods

n = 20, d = 20, one thread; set-up of a run counts, compiling does not. Random numbers and a gradient's long sums are
compiled on both sides. Compiled and plain runs end at the same w, bit for bit, or this would not have been written.

| method | activity | µs per iteration | times plain Python |
|---|---|---:|---:|
{chr(10).join(rows)}

{table(targets)}
"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
