"""What one gradient and one normal number cost, all sides in one run: writes benchmarks/RESULTS.md."""

from __future__ import annotations

import platform
import statistics
import time
from pathlib import Path

import numpy as np

import siag
from benchmarks.plain_numpy import siag_numpy
from siag.foundations.files import write_text
from siag.foundations.rng import fresh, normals

N, D, P, NOISE, T, BETA, GAMMA = 100, 20, 10, 0.1, 15, 0.2, 200.0
ROUNDS = 5
BLOCK, BLOCKS = 1_000, 5_000

problem = siag.problems.LeastSquares.random(n=N, d=D, p=P, noise=NOISE, seed=0)
activity, step = siag.activity.Uniform(T), siag.steps.Harmonic(BETA, GAMMA)


def ours(sampler: str, seed: int) -> tuple[float, int]:
    """Seconds and gradients of a run on one thread."""
    same = siag.problems.LeastSquares(problem.centers, P, NOISE, sampler)
    began = time.perf_counter()
    run = siag.simulate(same, siag.methods.SIAG(), activity, step, iterations=10_000, seed=seed, threads=1)
    return time.perf_counter() - began, int(run.samples[0, -1])


def numpys(seed: int) -> tuple[float, int]:
    """Seconds and gradients of a shorter run of the same thing."""
    began = time.perf_counter()
    _, drawn = siag_numpy(problem.centers, P, NOISE, T, BETA, GAMMA, 2_000, seed)
    return time.perf_counter() - began, drawn


@siag.compiled
def own_normals(rng, out, blocks):
    """Fill `out` again and again."""
    for _ in range(blocks):
        normals(rng, out)


@siag.compiled
def numpy_normals(generator, out, blocks):
    """The same with NumPy's generator, from compiled code."""
    for _ in range(blocks):
        for j in range(out.size):
            out[j] = generator.standard_normal()


def per_normal(fill, source) -> tuple[float, int]:
    """Seconds and normals."""
    out = np.empty(BLOCK)
    began = time.perf_counter()
    fill(source, out, BLOCKS)
    return time.perf_counter() - began, BLOCK * BLOCKS


def check_same_thing() -> str:
    """Both must have the error that the exact moments predict."""
    iterations, runs = 1_000, 60
    exact = siag.theory.exact_error(problem, siag.methods.SIAG(), activity, step, iterations=iterations, repeats=40)
    ends = [siag_numpy(problem.centers, P, NOISE, T, BETA, GAMMA, iterations, seed)[0] for seed in range(runs)]
    peer = ((np.array(ends) - problem.optimum) ** 2).sum(axis=1)
    run = siag.simulate(problem, siag.methods.SIAG(), activity, step, iterations=iterations, repeats=runs)
    lines = []
    for name, errors in (("plain NumPy", peer), ("siag", run.error[:, -1])):
        z = (errors.mean() - exact.error[-1]) / (errors.std(ddof=1) / np.sqrt(runs))
        if abs(z) > 4:
            raise SystemExit(f"{name} does not compute the same thing: {z:.1f} standard errors from the exact error")
        lines.append(f"{name} {z:+.1f}")
    return " and ".join(lines)


def main() -> None:
    """Measure, interleaved, and write down the medians."""
    sides = {
        "siag, exact sampler": lambda k: ours("exact", k),
        "siag, literal sampler": lambda k: ours("literal", k),
        "plain NumPy": numpys,
        "normal number, siag": lambda k: per_normal(own_normals, fresh(k, 0, 0)),
        "normal number, NumPy's generator in compiled code": lambda k: per_normal(
            numpy_normals, np.random.default_rng(k)
        ),
    }
    agreement = check_same_thing()
    for side in sides.values():
        side(0)
    costs: dict[str, list[float]] = {name: [] for name in sides}
    for k in range(1, ROUNDS + 1):
        for name, side in sides.items():
            seconds, count = side(k)
            costs[name].append(1e9 * seconds / count)
    median = {name: statistics.median(values) for name, values in costs.items()}
    base = {name: median["normal number, siag" if "normal" in name else "siag, exact sampler"] for name in sides}
    rows = "\n".join(f"| {name} | {median[name]:,.1f} | {median[name] / base[name]:.2f} |" for name in sides)
    text = f"""# Benchmarks

Written by `make bench`; not edited by hand. Medians of {ROUNDS}, all sides interleaved in one run, one thread, on
Python {platform.python_version()} ({platform.machine()}).

sIAG on least squares, n = {N}, d = {D}, p = {P}, uniform selection with T = {T}. Both sides were checked to compute the
same thing: distance of the mean error from the exact one, in standard errors: {agreement}.

| what | ns per gradient, or per normal number | ratio |
|---|---|---|
{rows}
"""
    write_text(Path(__file__).with_name("RESULTS.md"), text)
    print(text)


if __name__ == "__main__":
    main()
