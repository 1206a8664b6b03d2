"""How the cost of a gradient changes with p, d, n, repeats and threads; memory and start-up, in fresh processes."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from benchmarks.sides import ACTIVITY, ours, problem
from siag.activity import Sequential

ROUNDS = 5

AXES = {
    "p": (1, 10, 100, 1000),
    "d": (5, 20, 100, 1000, 10_000, 100_000),
    "n": (10, 100, 1000, 10_000, 100_000, 1_000_000),
}

MEMORY = """
import json, re, siag
def resident(what):
    return 1024 * int(re.search(what + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))
small = siag.problems.LeastSquares.random(n=10, d=20, p=10, noise=0.1)
step, activity = siag.steps.Harmonic(0.2, 200), siag.activity.Uniform(15)
siag.simulate(small, siag.methods.SIAG(), activity, step, iterations=2, threads=1)
problem = siag.problems.LeastSquares.random(n=10**6, d=20, p=10, noise=0.1)
problem.optimum
open("/proc/self/clear_refs", "w").write("5")  # forget the peak of drawing the problem
before = resident("VmRSS")
siag.simulate(problem, siag.methods.SIAG(), activity, step, iterations=20, threads=1)
print(json.dumps({"used": resident("VmHWM") - before, "table": 8 * 20 * 10**6}))
"""

START = """
import json, time
began = time.perf_counter()
import siag
imported = time.perf_counter() - began
problem = siag.problems.LeastSquares.random(n=10, d=20, p=10, noise=0.1)
step = siag.steps.Harmonic(0.2, 200)
siag.simulate(problem, siag.methods.SIAG(), siag.activity.Uniform(15), step, iterations=2, threads=1)
print(json.dumps({"import": imported, "first result": time.perf_counter() - began}))
"""


def along(axis: str) -> dict[int, float]:
    """Nanoseconds per gradient for every value of one of n, d, p; the others as in the paper."""
    costs: dict[int, list[float]] = {value: [] for value in AXES[axis]}
    jobs = {value: problem(**{axis: value}) for value in AXES[axis]}
    for k in range(ROUNDS + 1):
        for value, job in jobs.items():
            work = 200_000 * 20 // max(job.d, 20)
            iterations = max(24, int(work / (job.n / 8)))  # a new table is not in memory until it is first written
            result = ours(job, ACTIVITY, iterations, seed=k)
            if k:
                costs[value].append(result.cost)
    return {value: statistics.median(found) for value, found in costs.items()}


def one_at_a_time() -> tuple[float, float]:
    """Nanoseconds per gradient with one random worker per iteration, at n = 100 and n = 10⁶."""
    found = []
    for n in (100, 10**6):
        job = problem(n=n)
        ours(job, Sequential(), 10, seed=0)
        found.append(statistics.median(ours(job, Sequential(), 100_000, seed=k).cost for k in range(ROUNDS)))
    return found[0], found[1]


def threads() -> float:
    """How many times faster two threads are than one, on eight repeats."""
    ratios = []
    for k in range(ROUNDS):
        one, two = (ours(problem(), ACTIVITY, 20_000, seed=k, repeats=8, threads=threads) for threads in (1, 2))
        ratios.append(one.seconds / two.seconds)
    return statistics.median(ratios)


def fresh(program: str) -> dict[str, float]:
    """Run a program in a new process; medians of what it prints."""
    rows = [
        json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}
