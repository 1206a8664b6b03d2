"""What the machine can do at best: normal numbers, memory; and instructions, which do not depend on its noise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

import siag
from benchmarks.sides import ACTIVITY, D, ours, problem
from siag.foundations.rng import fresh, normals, whole_blocks
from siag.problems import LeastSquares, sample

AVX2 = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma,+bmi,+bmi2,+popcnt,+lzcnt"}

NORMALS = D + 1  # that a gradient of the exact sampler needs
DRAWN = whole_blocks(D)  # that it draws at a time
LONG = 100_000

COUNTED = """
import sys
from benchmarks.limits import fill_many
from benchmarks.sides import ACTIVITY, ours, problem
what, times = sys.argv[1], int(sys.argv[2])
print(fill_many(times) if what == "normals" else ours(problem(), ACTIVITY, times, seed=1).gradients)
"""


@siag.compiled
def fill(rng, out, times):
    """Fill `out` again and again."""
    for _ in range(times):
        normals(rng, out)


def fill_many(times: int) -> int:
    """Fill as many normals as a gradient draws at a time so many times; return how many times."""
    fill(fresh(1, 0, 0), np.empty(DRAWN), times)
    return times


def normals_cost(seed: int, count: int = DRAWN) -> float:
    """Nanoseconds to fill `count` normals."""
    out, times = np.empty(count), max(1, 2_300_000 // count)
    began = time.perf_counter()
    fill(fresh(seed, 0, 0), out, times)
    return 1e9 * (time.perf_counter() - began) / times


class Copy(NamedTuple):
    """What it takes to copy w in place of a gradient: nothing."""


@sample.when(Copy)
def copy(oracle, rng, i, w, out):
    """Write w."""
    for j in range(w.size):
        out[j] = w[j]


class Copying(LeastSquares):
    """The job without what is drawn and computed: the hash of a sample, the row, the sum, the step remain."""

    def oracle(self):
        """Copy w."""
        return Copy()


def bare_cost(seed: int) -> float:
    """Nanoseconds per gradient that is only a copy of w."""
    job = problem()
    return ours(Copying(job.centers, job.p, job.noise), ACTIVITY, 60_000, seed=seed).cost


def two_threads_at_best() -> float:
    """How many times faster two threads fill normals than one: what two cores give to work that shares nothing."""

    def one(_: int) -> None:
        fill(fresh(1, 0, 0), np.empty(DRAWN), 500_000)

    one(0)
    with ThreadPoolExecutor(2) as pool:
        times = []
        for several in (map, pool.map):
            began = time.perf_counter()
            list(several(one, range(2)))
            times.append(time.perf_counter() - began)
    return times[0] / times[1]


def numpy_normals_cost(seed: int, count: int) -> float:
    """The same with NumPy's generator."""
    rng, out = np.random.default_rng(seed), np.empty(count)
    times = max(1, 2_300_000 // count)
    began = time.perf_counter()
    for _ in range(times):
        rng.standard_normal(out=out)
    return 1e9 * (time.perf_counter() - began) / times


def copy_cost(size: int) -> float:
    """Nanoseconds per byte to copy `size` bytes."""
    source, target = np.ones(size // 8), np.zeros(size // 8)
    began = time.perf_counter()
    np.copyto(target, source)
    return 1e9 * (time.perf_counter() - began) / size


def instructions() -> tuple[float, float] | None:
    """Instructions per gradient and per block of normals, counted by callgrind; `None` where there is no valgrind.

    Valgrind does not know AVX-512, so the code is compiled for AVX2 first, outside of it. Two runs of different lengths
    are subtracted: what they differ by is the work, not the start.
    """
    if shutil.which("valgrind") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        jobs = [("gradient", 2_000), ("gradient", 100_000), ("normals", 2_000), ("normals", 1_000_000)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda job: _count(folder, *job), jobs))
    (i0, w0), (i1, w1), (j0, v0), (j1, v1) = found
    return (i1 - i0) / (w1 - w0), (j1 - j0) / (v1 - v0)


def _count(folder: str, what: str, times: int) -> tuple[int, int]:
    """Instructions of a whole process, and how much work it did."""
    environment = {**os.environ, **AVX2, "NUMBA_CACHE_DIR": f"{folder}/{what}{times}", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-c", COUNTED, what, str(times)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/{what}{times}.out"]
    answer = subprocess.run([*valgrind, *command], env=environment, check=True, capture_output=True, text=True)
    return int(re.search(r"Collected : (\d+)", answer.stderr).group(1)), int(answer.stdout.split()[-1])
