"""The simulator against its peers, the limits of the machine, and itself at other sizes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import siag
from benchmarks import limits, scale, scaling
from benchmarks.rounds import ratio, ratios, rounds, undecided
from benchmarks.sides import ACTIVITY, CORE, HERE, STEP, D, N, P, Peer, T, ours, problem
from benchmarks.targets import Target, table
from siag.report import BLUE, figure, styled, write_figure

ROUNDS = 9
OVER_LOOP, OVER_BATCHED, OVER_NORMALS = 150, 60, 1.8  # asked: times faster than NumPy; times the time of normals
LOOP, JAX = "NumPy, a loop over arrivals", "JAX, a scan vmapped over 8 repeats"
LONG_NORMALS = "× the time of d + 1 normals in long arrays, per gradient"
AT_ONCE = "NumPy, an iteration at once"


def check(name: str, w: np.ndarray, exact: float, reference: np.ndarray) -> str:
    """Refuse to compare with a side that computes something else."""
    errors = ((w - reference) ** 2).sum(axis=1)
    z = (errors.mean() - exact) / (errors.std(ddof=1) / np.sqrt(len(errors)))
    if abs(z) > 4:
        raise SystemExit(f"{name} does not compute the same thing: {z:.1f} standard errors from the exact error")
    return f"{name} {z:+.1f}"


def side_by_side() -> tuple[list[str], dict[str, list[float]], list[float]]:
    """How all sides agree; nanoseconds per gradient on one core, round by round; those of d + 1 normals."""
    os.sched_setaffinity(0, CORE)
    sides = {
        "siag": lambda k, i=60_000: ours(problem(), ACTIVITY, i, seed=k),
        "siag, drawing A literally": lambda k, i=4_000: ours(problem(sampler="literal"), ACTIVITY, i, seed=k),
        LOOP: Peer("numpy_loop", 1_000),
        AT_ONCE: Peer("numpy_batched", 2_000),
        "PyTorch, an iteration at once": Peer("torch_loop", 1_000),
        JAX: Peer("jax_scan", 300),
    }
    job, iterations = problem(), 300
    exact = siag.theory.exact_error(job, siag.methods.SIAG(), ACTIVITY, STEP, iterations=iterations, repeats=40)
    agreement = []
    for name, side in sides.items():
        seeds = range(100, 105 if name == JAX else 140)
        found = np.concatenate([side(seed, iterations).w for seed in seeds])
        agreement.append(check(name, found, exact.error[-1], job.optimum))
    costs: dict[str, list[float]] = {name: [] for name in sides}
    fills = []
    for k in rounds(ROUNDS + 1, lambda: unclear(costs, fills)):
        fill = limits.normals_cost(k, limits.LONG) * limits.NORMALS / limits.LONG
        for name, side in sides.items():
            cost = side(k).cost
            if k:
                costs[name].append(cost)
        if k:
            fills.append(fill)
    for side in sides.values():
        if isinstance(side, Peer):
            side.close()
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return agreement, costs, fills


def unclear(costs: dict[str, list[float]], fills: list[float]) -> bool:
    """Whether a target may or may not be reached."""
    mine = costs["siag"]
    over = ((costs[LOOP], mine, OVER_LOOP), (costs[AT_ONCE], mine, OVER_BATCHED), (mine, fills, OVER_NORMALS))
    return any(undecided(ratios(above, below), asked) for above, below, asked in over)


def flower() -> tuple[str, float, float]:
    """Client updates per second of Flower's engine and of siag, on its job: ten workers, all of them active."""
    job, rounds = problem(n=10), 20
    peer = Peer("flower_rounds", rounds, one_core=False)
    results = [peer(seed) for seed in range(5)]
    peer.close()
    exact = siag.theory.exact_error(job, siag.methods.SIAG(), siag.activity.Everyone(), STEP, iterations=rounds)
    agreement = check("Flower", np.concatenate([result.w for result in results]), exact.error[-1], job.optimum)
    ours(job, siag.activity.Everyone(), 10, seed=0)
    mine = [ours(job, siag.activity.Everyone(), 50_000, seed=k, repeats=2, threads=2) for k in range(5)]
    rate = [statistics.median(result.gradients / result.seconds for result in found) for found in (results, mine)]
    return agreement, rate[0], rate[1]


def reproduce() -> tuple[float, float]:
    """Seconds of `siag reproduce` from an empty cache, and then from a warm one.

    Which claim fails, if one does, it says on standard error.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "siag", "reproduce", "--out", folder]
        for _ in range(2):
            began = time.perf_counter()
            environment = scaling.environment() | {"NUMBA_CACHE_DIR": cache}
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            found.append(time.perf_counter() - began)
    return found[0], found[1]


def draw(curves: dict[str, dict[int, float]]) -> None:
    """Cost against p, d, n and repeats."""
    with styled():
        picture, axes = figure(4, width=13.0, height=3.4, same_scale=False)
        for ax, (axis, costs) in zip(axes, curves.items(), strict=True):
            ax.plot(list(costs), list(costs.values()), "o-", color=BLUE)
            ax.set_xscale("log")
            ax.set_xlabel(axis if axis != "repeats" else "repeats, on two cores")
            if axis == "d":
                ax.set_yscale("log")
            else:
                ax.set_ylim(0, 1.1 * max(costs.values()))
        axes[0].set_ylabel("ns per gradient")
        write_figure(HERE, "scaling", picture)


def chapter() -> tuple[str, list[Target]]:
    """Measure everything; the text and the targets."""
    agreement, costs, fills = side_by_side()
    flower_agreement, flower_rate, our_rate = flower()
    rounds = {axis: scaling.along(axis) for axis in scaling.AXES}
    curves = {axis: scaling.medians(found) for axis, found in rounds.items()}
    draw(curves)
    memory = {size: scaling.fresh(scaling.MEMORY, *size, times=1)["times"] for size in ((10**6, 20), (100, 10**6))}
    start = scaling.fresh(scaling.START)
    single, spread = scaling.one_at_a_time()
    speedup, counted = scaling.two_threads(), limits.instructions()
    cold, whole = reproduce()
    at_best = statistics.median(limits.two_threads_at_best() for _ in range(5))
    ratios = {name: ratio(found, costs["siag"]) for name, found in costs.items()}
    over_normals = ratio(costs["siag"], fills)
    flat = [scaling.ratio(rounds["p"], p, 10) for p in (10, 100, 1000)]
    per_coordinate = scaling.ratio(rounds["d"], 10**6, 20) * 20 / 10**6
    bare = statistics.median(limits.bare_cost(k) for k in range(ROUNDS))
    rest = (
        f"a gradient that is a copy of w takes {bare:.0f} ns, and {limits.DRAWN} normals, drawn at a time, "
        f"{statistics.median(map(limits.normals_cost, range(ROUNDS))):.0f} ns"
    )
    loop = f"the loop takes {statistics.median(costs[LOOP]) / 1000:.1f} µs per gradient here; {rest}"
    noise = "the other load on this machine; the ratio is of wall-clock times"
    targets = [
        Target(
            over_normals, "× the time of d + 1 normals in long arrays, per gradient", most=OVER_NORMALS, because=rest
        ),
        Target(ratios[LOOP], "× faster than a plain NumPy loop", least=OVER_LOOP, because=loop),
        Target(ratios[AT_ONCE], "× faster than NumPy, an iteration at once", least=OVER_BATCHED, because=rest),
        Target(ratios[JAX], "× faster than a JAX scan", least=50, because=noise),
        Target(our_rate / flower_rate, "× Flower's client updates per second", least=10_000, because=noise),
        Target(max(flat) / min(flat), "× largest over smallest cost, p = 10, 100, 1000", most=1.15, because=noise),
        Target(
            speedup,
            "× faster on two threads than on one",
            least=1.8,
            because=f"two threads that only draw normals are {at_best:.2f} × faster than one here",
        ),
        Target(memory[10**6, 20], "× the table's memory at n = 10⁶, d = 20", most=1.3),
        Target(memory[100, 10**6], "× the table's memory at n = 100, d = 10⁶", most=1.3),
        Target(
            scaling.ratio(rounds["n"], 10**6, 100),
            "× the cost per gradient at n = 10² for n = 10⁶",
            most=3,
            because="the rows are fetched from memory instead of the cache",
        ),
        Target(
            per_coordinate,
            "× the cost per coordinate at d = 20 for d = 10⁶",
            most=3,
            because="the rows are fetched from memory instead of the cache",
        ),
        Target(
            start["import"],
            "s to import siag and what a simulation needs",
            most=0.2,
            because="reading the modules from disk",
        ),
        Target(start["first result"], "s to the first result in a new process", most=0.6, because="importing Numba"),
        Target(whole, "s for `siag reproduce` from a warm cache", most=40, because=noise),
        Target(cold, "s for `siag reproduce` from an empty cache", most=75, because=noise),
        *scale.targets(),
    ]
    base = statistics.median(costs["siag"])
    rows = "\n".join(f"| {n} | {statistics.median(c):,.0f} | {ratios[n]:,.1f} |" for n, c in costs.items())
    text = f"""## The simulator

sIAG on the paper's problem (n = {N}, d = {D}, p = {P}), uniform selection with T = {T}, one core. Compiling is not
counted.

| side | ns per gradient | times siag's |
|---|---|---|
{rows}

All sides compute the same thing: distance of their mean error from the exact one, in standard errors:
{", ".join(agreement)}.

Flower's simulation engine, ten workers, all active, two cores: {flower_rate:,.0f} client updates per second; siag on
the same job: {our_rate:,.0f}. ({flower_agreement} standard errors from the exact error.)

{table(targets)}

### The limits of the machine

{_limits(base, fills, curves, counted)}
With one random worker per iteration, where every gradient touches two rows somewhere in memory, the cost grows from
{single:,.0f} ns at n = 10² to {spread:,.0f} ns at n = 10⁶: that is what fetching them takes.

### Scaling

![cost of a gradient against p, d, n and repeats](scaling.png)

| p | ns | | d | ns | ns per coordinate | | n | ns | | repeats | ns |
|---|---|---|---|---|---|---|---|---|---|---|---|
{_columns(curves)}

All per gradient; repeats on two cores, everything else on one.
"""
    return text, targets


def _limits(base: float, fills: list[float], curves: dict[str, dict[int, float]], counted) -> str:
    """The share of the physical limit, and what was counted."""
    sizes = (limits.DRAWN, 1000, limits.LONG)
    drawn = {
        size: [
            statistics.median(cost(k, size) / size for k in range(5))
            for cost in (limits.normals_cost, limits.numpy_normals_cost)
        ]
        for size in sizes
    }
    copied = statistics.median(limits.copy_cost(2**28) for _ in range(5))
    moved = 8 * 10**6 * 1.5  # w_i* and the row come from memory, the row goes back; a copy of 8 MB moves two of three
    lines = [
        "To draw its d + 1 normals in long arrays takes "
        f"{statistics.median(fills) / base:.0%} of a gradient's time at the paper's size, "
        f"{drawn[1000][0] * 1000 / curves['d'][1000]:.0%} at d = 10³, "
        f"{drawn[limits.LONG][0] * 10**6 / curves['d'][10**6]:.0%} at d = 10⁶.",
        "There w_i* and the row must come from memory, and the row go back: to copy as many bytes takes "
        f"{copied * moved / curves['d'][10**6]:.0%} of a gradient's time.",
        "A normal number costs, filling arrays of the given length:\n",
        "| length | siag, ns | NumPy, ns |\n|---|---|---|",
        *[f"| {size:,} | {ours_:.2f} | {theirs:.2f} |" for size, (ours_, theirs) in drawn.items()],
        "",
    ]
    if counted is not None:
        gradient, normals = counted
        lines.append(
            "Instructions, counted by callgrind in code for AVX2 (valgrind does not know AVX-512): "
            f"{gradient:,.0f} per gradient, {normals:,.0f} per block of {limits.DRAWN} normals, "
            f"a ratio of {gradient / normals:.2f}.\n"
        )
    return "\n".join(lines)


def _columns(curves: dict[str, dict[int, float]]) -> str:
    """The curves side by side, as lines of a table."""
    lines = []
    for k in range(max(map(len, curves.values()))):
        cells = []
        for axis, costs in curves.items():
            value, cost = list(costs.items())[k] if k < len(costs) else (None, None)
            cells += ["", ""] if value is None else [f"{value:,}", f"{cost:,.0f}"]
            if axis == "d":
                cells.append("" if value is None else f"{cost / value:.1f}")
            cells.append("")
        lines.append("| " + " | ".join(cells[:-1]) + " |")
    return "\n".join(lines)
