"""A thousand workers with a Python gradient in virtual time: seconds that 10⁵ reports take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

import siag

WORKERS, REPORTS, D = 1000, 100_000, 20


def gradient(w: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """That of ‖w − sample‖²/2."""
    return w - sample


def stream(i: int) -> Iterator[np.ndarray]:
    """Worker i's samples, about a point of its own."""
    rng = np.random.default_rng(i)
    center = rng.normal(size=D)
    while True:
        yield center + 0.1 * rng.normal(size=D)


def seconds() -> float:
    """Until the run is over, everything counted."""
    began = time.perf_counter()
    streams = [partial(stream, i) for i in range(WORKERS)]
    until, step = siag.Until(reports=REPORTS), siag.steps.Constant(5e-4)
    run = siag.train(gradient, streams, np.zeros(D), step=step, until=until, runtime=siag.Simulated(seed=1))
    taken = time.perf_counter() - began
    optimum = np.mean([np.random.default_rng(i).normal(size=D) for i in range(WORKERS)], axis=0)
    if np.abs(run.w[0] - optimum).max() > 0.05 or run.reads[0, -1] != REPORTS:
        raise SystemExit(f"the rehearsal is {np.abs(run.w[0] - optimum).max():.2g} from the optimum")
    return taken


if __name__ == "__main__":
    print(f"{seconds():.1f} s for {REPORTS:,} reports of {WORKERS:,} simulated workers")
