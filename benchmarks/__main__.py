"""All sides in one run, interleaved, medians, as ratios: writes benchmarks/RESULTS.md and scaling.png."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import siag
from benchmarks import scaling
from benchmarks.sides import ACTIVITY, CORE, HERE, STEP, D, N, P, Peer, T, ours, problem
from siag.foundations.files import write_text
from siag.foundations.rng import fresh, normals
from siag.report import BLUE, figure, styled, write_figure

ROUNDS = 5
PYTHON = HERE / ".venv" / "bin" / "python"


@siag.compiled
def fill(rng, out, times):
    """Fill `out` again and again."""
    for _ in range(times):
        normals(rng, out)


def normals_cost(seed: int) -> float:
    """Nanoseconds to fill d + 3 normals."""
    out, times = np.empty(D + 3), 100_000
    began = time.perf_counter()
    fill(fresh(seed, 0, 0), out, times)
    return 1e9 * (time.perf_counter() - began) / times


def check(name: str, w: np.ndarray, exact: float, reference: np.ndarray) -> str:
    """Refuse to compare with a side that computes something else."""
    errors = ((w - reference) ** 2).sum(axis=1)
    z = (errors.mean() - exact) / (errors.std(ddof=1) / np.sqrt(len(errors)))
    if abs(z) > 4:
        raise SystemExit(f"{name} does not compute the same thing: {z:.1f} standard errors from the exact error")
    return f"{name} {z:+.1f}"


def side_by_side() -> tuple[list[str], dict[str, float], float]:
    """Cost per gradient on one core, and how many times siag's each is; and siag over d + 3 normals."""
    os.sched_setaffinity(0, CORE)
    sides = {
        "siag": lambda k, i=20_000: ours(problem(), ACTIVITY, i, seed=k),
        "siag, drawing A literally": lambda k, i=4_000: ours(problem(sampler="literal"), ACTIVITY, i, seed=k),
        "NumPy, a loop over arrivals": Peer(PYTHON, "numpy_loop", 1_000),
        "NumPy, an iteration at once": Peer(PYTHON, "numpy_batched", 2_000),
        "PyTorch, an iteration at once": Peer(PYTHON, "torch_loop", 1_000),
        "JAX, a scan vmapped over 8 repeats": Peer(PYTHON, "jax_scan", 300),
    }
    job, iterations = problem(), 300
    exact = siag.theory.exact_error(job, siag.methods.SIAG(), ACTIVITY, STEP, iterations=iterations, repeats=40)
    agreement = []
    for name, side in sides.items():
        seeds = range(100, 105 if name.startswith("JAX") else 140)
        found = np.concatenate([side(seed, iterations).w for seed in seeds])
        agreement.append(check(name, found, exact.error[-1], job.optimum))
    costs: dict[str, list[float]] = {name: [] for name in sides}
    limit = []
    for k in range(ROUNDS + 1):
        limit.append(normals_cost(k))
        for name, side in sides.items():
            costs[name].append(side(k).cost)
    for side in sides.values():
        if isinstance(side, Peer):
            side.close()
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    ratio = statistics.median(ours_ / fill_ for ours_, fill_ in zip(costs["siag"][1:], limit[1:], strict=True))
    return agreement, {name: statistics.median(found[1:]) for name, found in costs.items()}, ratio


def flower() -> tuple[str, float, float]:
    """Client updates per second of Flower's engine and of siag, on its job: ten workers, all of them active."""
    job, rounds = problem(n=10), 20
    peer = Peer(PYTHON, "flower_rounds", rounds, one_core=False)
    results = [peer(seed) for seed in range(ROUNDS)]
    peer.close()
    exact = siag.theory.exact_error(job, siag.methods.SIAG(), siag.activity.Everyone(), STEP, iterations=rounds)
    agreement = check("Flower", np.concatenate([result.w for result in results]), exact.error[-1], job.optimum)
    ours(job, siag.activity.Everyone(), 10, seed=0)
    mine = [ours(job, siag.activity.Everyone(), 50_000, seed=k, repeats=2, threads=2) for k in range(ROUNDS)]
    rate = [statistics.median(result.gradients / result.seconds for result in found) for found in (results, mine)]
    return agreement, rate[0], rate[1]


def reproduce() -> float:
    """Seconds of `siag reproduce` from a warm cache."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "siag", "reproduce", "--out", folder], check=True, capture_output=True)
        return time.perf_counter() - began


def draw(curves: dict[str, dict[int, float]]) -> None:
    """Cost against p, d and n."""
    with styled():
        picture, axes = figure(3, width=10.5, height=3.6, same_scale=False)
        for ax, (axis, costs) in zip(axes, curves.items(), strict=True):
            ax.plot(list(costs), list(costs.values()), "o-", color=BLUE)
            ax.set_xscale("log")
            ax.set_xlabel(axis)
            if axis == "d":
                ax.set_yscale("log")
            else:
                ax.set_ylim(bottom=0)
        axes[0].set_ylabel("ns per gradient")
        write_figure(HERE, "scaling", picture)


def main() -> None:
    """Measure everything and write it down."""
    if not PYTHON.exists():
        raise SystemExit("no environment for the peers; run: make bench")
    agreement, costs, over_normals = side_by_side()
    flower_agreement, flower_rate, our_rate = flower()
    curves = {axis: scaling.along(axis) for axis in scaling.AXES}
    draw(curves)
    base = costs["siag"]
    memory, start = scaling.fresh(scaling.MEMORY), scaling.fresh(scaling.START)
    single, spread = scaling.one_at_a_time()
    speedup, whole = scaling.threads(), reproduce()
    flat = max(curves["p"][p] for p in (10, 100, 1000)) / min(curves["p"][p] for p in (10, 100, 1000))
    rows = "\n".join(f"| {name} | {cost:,.0f} | {cost / base:,.1f} |" for name, cost in costs.items())
    jax, loop = (costs[name] / base for name in ("JAX, a scan vmapped over 8 repeats", "NumPy, a loop over arrivals"))
    targets = [
        ("× the time to fill d + 3 normals, per gradient", over_normals, "at most 2.5", over_normals <= 2.5),
        ("× faster than a plain NumPy loop", loop, "at least 100", loop >= 100),
        ("× faster than a JAX scan", jax, "at least 50", jax >= 50),
        (
            "× Flower's client updates per second",
            our_rate / flower_rate,
            "at least 10 000",
            our_rate / flower_rate >= 1e4,
        ),
        ("× largest over smallest cost for p = 10, 100, 1000", flat, "flat: at most 1.15", flat <= 1.15),
        ("× faster on two threads than on one", speedup, "at least 1.8", speedup >= 1.8),
        (
            "× the table's memory at n = 10⁶, d = 20",
            memory["used"] / memory["table"],
            "at most 1.3",
            memory["used"] <= 1.3 * memory["table"],
        ),
        (
            "× the cost at n = 10² for n = 10⁶",
            curves["n"][10**6] / curves["n"][100],
            "at most 3",
            curves["n"][10**6] <= 3 * curves["n"][100],
        ),
        ("s to import siag", start["import"], "at most 0.25", start["import"] <= 0.25),
        ("s to the first result in a new process", start["first result"], "at most 1", start["first result"] <= 1),
        ("s for `siag reproduce`", whole, "at most 60", whole <= 60),
    ]
    verdicts = "\n".join(
        f"| {value:,.2f} {what} | {wanted} | {'reached' if held else '**missed**'} |"
        for what, value, wanted, held in targets
    )
    text = f"""# Benchmarks

Written by `make bench`; no figure is typed by hand. Medians of {ROUNDS}, all sides interleaved in one run, on Python
{platform.python_version()} ({platform.machine()}, {os.cpu_count()} cores).

## Side by side

sIAG on the paper's problem (n = {N}, d = {D}, p = {P}), uniform selection with T = {T}, one core. Compiling is not
counted.

| side | ns per gradient | times siag's |
|---|---|---|
{rows}

All sides compute the same thing: distance of their mean error from the exact one, in standard errors:
{", ".join(agreement)}.

Flower's simulation engine, ten workers, all active, two cores: {flower_rate:,.0f} client updates per second; siag on
the same job: {our_rate:,.0f}. ({flower_agreement} standard errors from the exact error.)

## Targets

| measured | target | |
|---|---|---|
{verdicts}

What holds back the first: a gradient is a chain (draw, norm, square root, scale) that cannot overlap with the next
one's draws; filling normals has no such chain. With one random worker per iteration, where every gradient touches two
rows somewhere in memory, the cost grows from {single:,.0f} ns at n = 10² to {spread:,.0f} ns at n = 10⁶: that
is what fetching them takes.

## Scaling

![cost of a gradient against p, d and n](scaling.png)

| p | ns per gradient | | d | ns per gradient | ns per coordinate | | n | ns per gradient |
|---|---|---|---|---|---|---|---|---|
{_columns(curves)}
"""
    write_text(Path(HERE) / "RESULTS.md", text)
    print(text)


def _columns(curves: dict[str, dict[int, float]]) -> str:
    """The curves side by side, as lines of a table."""
    longest = max(map(len, curves.values()))
    lines = []
    for k in range(longest):
        cells = []
        for axis in ("p", "d", "n"):
            items = list(curves[axis].items())
            value, cost = items[k] if k < len(items) else (None, None)
            cells += ["", ""] if value is None else [f"{value:,}", f"{cost:,.0f}"]
            if axis == "d":
                cells.append("" if value is None else f"{cost / value:.1f}")
            cells.append("")
        lines.append("| " + " | ".join(cells[:-1]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
