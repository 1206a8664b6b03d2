"""The sides that are compared: peers in processes of their own, and siag in this one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import siag
from benchmarks.network import alone

HERE = Path(__file__).parent
PYTHON = HERE / ".venv" / "bin" / "python"  # of the peers
CORE = {max(os.sched_getaffinity(0))}

N, D, P, NOISE, T, BETA, GAMMA = 100, 20, 10, 0.1, 15, 0.2, 200.0
STEP, ACTIVITY = siag.steps.Harmonic(BETA, GAMMA), siag.activity.Uniform(T)


def problem(n: int = N, d: int = D, p: int = P, sampler: str = "exact") -> siag.problems.LeastSquares:
    """The job's problem, or one of another size."""
    return siag.problems.LeastSquares.random(n=n, d=d, p=p, noise=NOISE, seed=0, sampler=sampler)


@dataclass(frozen=True)
class Result:
    """What one measurement gives."""

    seconds: float
    gradients: int
    w: np.ndarray  # (repeats, d)

    @property
    def cost(self) -> float:
        """Nanoseconds per gradient."""
        return 1e9 * self.seconds / self.gradients


class Peer:
    """A peer's process, on one core unless it is said otherwise."""

    def __init__(self, name: str, iterations: int, one_core: bool = True) -> None:
        self._iterations = iterations
        self._log = open(HERE / "peers" / f"{name}.log", "w")  # noqa: SIM115  # it lives as long as the process
        self._process = subprocess.Popen(
            alone([PYTHON, f"{name}.py"]) if name.startswith("flower") else [PYTHON, f"{name}.py"],
            cwd=HERE / "peers",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        if one_core:
            os.sched_setaffinity(self._process.pid, CORE)

    def __call__(self, seed: int, iterations: int | None = None) -> Result:
        """Let it run once."""
        self._process.stdin.write(f"{seed} {iterations or self._iterations}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a peer ended unexpectedly; see {self._log.name}")
        answer = json.loads(line)
        return Result(answer["seconds"], answer["gradients"], np.array(answer["w"]))

    def close(self) -> None:
        """Let it end."""
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()


def ours(
    job: siag.problems.Problem,
    activity: siag.activity.Activity,
    iterations: int,
    seed: int,
    repeats: int = 1,
    threads: int = 1,
) -> Result:
    """The same with siag."""
    began = time.perf_counter()
    run = siag.simulate(
        job,
        siag.methods.SIAG(),
        activity,
        STEP,
        iterations=iterations,
        seed=seed,
        repeats=repeats,
        threads=threads,
        record=2,
    )
    return Result(time.perf_counter() - began, int(run.samples[:, -1].sum()), run.w)
