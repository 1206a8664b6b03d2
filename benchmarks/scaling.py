"""How the cost of a gradient changes with p, d, n, repeats and threads; memory and start-up, in fresh processes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

from benchmarks.rounds import rounds
from benchmarks.sides import ACTIVITY, ours, problem
from siag.activity import Sequential

ROUNDS = 9

AXES = {
    "p": (1, 10, 100, 1000),
    "d": (5, 20, 100, 1000, 10_000, 100_000, 1_000_000),
    "n": (10, 100, 1000, 10_000, 100_000, 1_000_000),
    "repeats": (1, 2, 4, 16, 64),
}

MEMORY = """
import json, re, siag, sys
n, d = int(sys.argv[1]), int(sys.argv[2])
def resident(what):
    return 1024 * int(re.search(what + r":\\s+(\\d+)", open("/proc/self/status").read()).group(1))
small = siag.problems.LeastSquares.random(n=10, d=20, p=10, noise=0.1)
step, activity = siag.steps.Harmonic(0.2, 200), siag.activity.Uniform(15)
siag.simulate(small, siag.methods.SIAG(), activity, step, iterations=2, threads=1)
problem = siag.problems.LeastSquares.random(n=n, d=d, p=10, noise=0.1)
problem.optimum
open("/proc/self/clear_refs", "w").write("5")  # forget the peak of drawing the problem
before = resident("VmRSS")
siag.simulate(problem, siag.methods.SIAG(), activity, step, iterations=20, threads=1)
print(json.dumps({"times": (resident("VmHWM") - before) / (8 * n * d)}))
"""

START = """
import json, time
began = time.perf_counter()
import siag
siag.problems, siag.methods, siag.activity, siag.steps, siag.theory, siag.simulate
imported = time.perf_counter() - began
problem = siag.problems.LeastSquares.random(n=10, d=20, p=10, noise=0.1)
step = siag.steps.Harmonic(0.2, 200)
siag.simulate(problem, siag.methods.SIAG(), siag.activity.Uniform(15), step, iterations=2, threads=1)
print(json.dumps({"import": imported, "first result": time.perf_counter() - began}))
"""


def along(axis: str) -> dict[int, list[float]]:
    """Nanoseconds per gradient for every value of one of n, d, p, repeats, round by round; the others as in the paper.

    Repeats run on all cores, everything else on one.
    """
    costs: dict[int, list[float]] = {value: [] for value in AXES[axis]}
    parallel = axis == "repeats"
    for k in rounds(ROUNDS + 1):
        for value in AXES[axis]:
            job = problem() if parallel else _problems(axis, value)
            work = 200_000 * 20 // max(job.d, 20)
            iterations = max(24, int(work / (job.n / 8)))  # a new table is not in memory until it is first written
            repeats, threads = (value, None) if parallel else (1, 1)
            result = ours(job, ACTIVITY, max(24, iterations // repeats), seed=k, repeats=repeats, threads=threads)
            if k:
                costs[value].append(result.cost)
    _made.clear()
    return costs


_made: dict[tuple[str, int], object] = {}


def _problems(axis: str, value: int):
    """A problem of another size, drawn once."""
    if (axis, value) not in _made:
        _made[axis, value] = problem(**{axis: value})
    return _made[axis, value]


def medians(costs: dict[int, list[float]]) -> dict[int, float]:
    """The median of the rounds."""
    return {value: statistics.median(found) for value, found in costs.items()}


def ratio(costs: dict[int, list[float]], value: int, base: int) -> float:
    """How many times the cost at `base` that at `value` is: the median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(costs[value], costs[base], strict=True))


def one_at_a_time() -> tuple[float, float]:
    """Nanoseconds per gradient with one random worker per iteration, at n = 100 and n = 10⁶."""
    found = []
    for n in (100, 10**6):
        job = problem(n=n)
        ours(job, Sequential(), 10, seed=0)
        found.append(statistics.median(ours(job, Sequential(), 100_000, seed=k).cost for k in range(ROUNDS)))
    return found[0], found[1]


def two_threads() -> float:
    """How many times faster two threads are than one, on eight repeats."""
    ratios = []
    for k in range(ROUNDS):
        one, two = (ours(problem(), ACTIVITY, 20_000, seed=k, repeats=8, threads=threads) for threads in (1, 2))
        ratios.append(one.seconds / two.seconds)
    return statistics.median(ratios)


def environment() -> dict[str, str]:
    """That of this process, but Python keeps what it has compiled of its modules, as it does unless told not to."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def fresh(program: str, *arguments: object, times: int = 3) -> dict[str, float]:
    """Run a program in a new process; medians of what it prints.

    Before several runs there is one that does not count: it may have to make machine code and byte code.
    """
    command = [sys.executable, "-c", program, *map(str, arguments)]

    def run() -> dict[str, float]:
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout)

    if times > 1:
        run()
    rows = [run() for _ in range(times)]
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}
