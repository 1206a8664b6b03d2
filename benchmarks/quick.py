"""`make bench QUICK=1`: siag alone, in two minutes, beside the last figures of a machine like this one."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks import history, limits, scaling
from benchmarks.live import LARGE, MANY, OURS, SMALL, our_side, words
from benchmarks.rounds import beat, noise, ratio
from benchmarks.sides import ACTIVITY, ours, problem
from benchmarks.simulator import LONG_NORMALS

ROUNDS, ITERATIONS, SECONDS = 5, 60_000, 0.6
NOTABLE = 1.1  # times the last figure, beyond which a difference is pointed out
KEEP = "--keep"  # in the history, too
RATES = [(name, (d, MANY)) for name in OURS for d in (SMALL, LARGE)]


def simulator() -> dict[str, float]:
    """Nanoseconds a gradient on the paper's job, one thread; what that is beside its normals; two threads."""
    costs, fills = [], []
    for k in range(ROUNDS + 1):
        beat()
        cost = ours(problem(), ACTIVITY, ITERATIONS, seed=k).cost
        fill = limits.normals_cost(k, limits.LONG) * limits.NORMALS / limits.LONG
        if k:
            costs.append(cost)
            fills.append(fill)
    return {
        "ns a gradient": statistics.median(costs),
        LONG_NORMALS: ratio(costs, fills),
        "× faster on two threads than on one": scaling.two_threads(),
    }


def starting() -> dict[str, float]:
    """Seconds to begin, in new processes, and of a small report."""
    start = scaling.fresh(scaling.START)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [sys.executable, "-m", "siag", "reproduce", "--quick", "--out", folder]
        subprocess.run(command, check=True, capture_output=True, env=scaling.environment())
        whole = time.perf_counter() - began
    return {
        "s to import siag and what a simulation needs": start["import"],
        "s to the first result in a new process": start["first result"],
        "s for `siag reproduce --quick`": whole,
    }


def live() -> dict[str, float]:
    """Updates per second, all transports taking turns."""
    sides = {name: our_side(name, job) for name, job in OURS.items()}
    rates: dict[str, list[float]] = {f"updates a second, {name}, {words(size)}": [] for name, size in RATES}
    try:
        for side in sides.values():
            side(SMALL, MANY, 0.1)
        for _ in range(ROUNDS):
            for what, (name, size) in zip(rates, RATES, strict=True):
                beat()
                rates[what].append(sides[name](*size, SECONDS))
    finally:
        for side in sides.values():
            side.close()
    return {what: statistics.median(found) for what, found in rates.items()}


def main() -> None:
    """Measure, and print."""
    began = time.perf_counter()
    known = [entry for entry in history.entries() if entry.processor == history.processor()]
    for part in (simulator, starting, live):
        found = part()
        for what, figure in found.items():
            before = next((entry for entry in reversed(known) if entry.what == what), None)
            print(f"{figure:>12,.4g} {what}{'' if before is None else compared(figure, before)}", flush=True)
        if KEEP in sys.argv:
            history.add("quick", found)
    print(f"{noise()}\nMeasured in {time.perf_counter() - began:.0f} s.")


def compared(figure: float, before: history.Entry) -> str:
    """The last figure, and whether it differs."""
    lower, higher = sorted((figure, before.measured))
    mark = ", differs" if higher > NOTABLE * lower else ""
    return f" (at {before.commit}: {before.measured:,.4g}{mark})"


if __name__ == "__main__":
    main()
