"""`siag demo`: eight worker processes of unequal speed with different data, and what becomes of the model."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from siag.experiments.replay import replay
from siag.foundations import check
from siag.methods import AsyncSGD
from siag.problems import LeastSquares
from siag.runtimes import Until, Watcher, train
from siag.steps import Harmonic

WORKERS, D, P, NOISE = 8, 10, 5, 0.5
FASTEST, SLOWEST = 0.002, 0.2  # seconds that a worker waits before each gradient


@dataclass(frozen=True)
class Demonstration:
    """What eight unequal workers have done, and where two methods have got with their reports.

    Attributes:
        reports: of each worker.
        seconds: how long it took.
        siag: ‖w − w*‖ of `Automatic`, which is sIAG that finds its steps; in w* every worker counts the same.
        sgd: the same for asynchronous SGD, given the very same reports.
        sgd_to_its_own: how far SGD is from the optimum in which workers count by their reports.
        start: ‖w_0 − w*‖.
    """

    reports: tuple[int, ...]
    seconds: float
    siag: float
    sgd: float
    sgd_to_its_own: float
    start: float


def demo(
    seconds: float = 15.0,
    progress: Watcher | bool | None = None,
    seed: int = 1,
    dashboard: bool | int | str | None = None,
) -> Demonstration:
    """Train with eight processes on this machine for some seconds; then give the same reports to asynchronous SGD.

    The k-th worker waits 2 · 100^{k/7} ms before each gradient, so the first reports up to a hundred times as often as
    the last. All have least squares with a solution w_k of their own; the fair optimum is the mean of the w_k.

    Args:
        seconds: how long to train.
        progress: as of `siag.train`.
        seed: of the samples.
        dashboard: as of `siag.train`.
    """
    check.real("seconds", seconds, above=0)
    problem = LeastSquares.random(n=WORKERS, d=D, p=P, noise=NOISE, seed=3)
    pauses = [FASTEST * (SLOWEST / FASTEST) ** (k / (WORKERS - 1)) for k in range(WORKERS)]
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "demo.trace"
        run = train(
            problem=problem,
            pauses=pauses,
            until=Until(seconds=seconds),
            seed=seed,
            trace=trace,
            progress=progress,
            dashboard=dashboard,
        )
        step = Harmonic(beta=2 / problem.constants().mu, gamma=100.0)
        other = replay(trace, problem, AsyncSGD(), step)
    reports = tuple(int(worker["reports"]) for worker in run.workers)
    by_reports = np.asarray(reports) @ problem.centers / sum(reports)
    return Demonstration(
        reports=reports,
        seconds=float(run.time[0, -1]),
        siag=math.sqrt(run.error[0, -1]),
        sgd=math.sqrt(other.error[0, -1]),
        sgd_to_its_own=float(np.linalg.norm(other.w[0] - by_reports)),
        start=math.sqrt(run.error[0, 0]),
    )
