"""New processes: machine code that several need is made by one of them, and nothing is imported without need."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from siag.foundations.made_once import made_once

fcntl = pytest.importorskip("fcntl")

MAKER = """
import sys
import numpy as np
from siag.simulation.iterate import lost
print("ready", flush=True)
sys.stdin.readline()
lost(np.zeros(2), 1.0)
(made,) = lost._for.values()
print(sum(made.stats.cache_misses.values()), sum(made.stats.cache_hits.values()))
"""
FIRST_RESULT = """
import sys
import siag
problem = siag.problems.LeastSquares.random(n=3, d=2, p=2, noise=0.1)
siag.simulate(problem, siag.methods.SIAG(), siag.activity.Everyone(), siag.steps.Constant(0.01), iterations=10)
print([name for name in ("scipy.linalg", "matplotlib", "rich", "asyncio") if name in sys.modules])
from numba.np import arraymath, linalg
print(linalg.ensure_blas is arraymath.ensure_blas, linalg.ensure_blas.__module__, arraymath._HAVE_BLAS)
"""


def function_of_numba(folder, make):
    """What `made_once` needs of one."""

    def function():
        """Does nothing."""

    return SimpleNamespace(compile=make, py_func=function, stats=SimpleNamespace(cache_path=folder))


def lock(folder):
    """Try to hold the only lock in a folder, without waiting for it."""
    (path,) = folder.glob(".*.lock")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("fails", [False, True])
def test_others_wait_while_one_makes_it_and_only_then(tmp_path, fails):
    folder, held = tmp_path / "made when needed", []

    def make(signature):
        with pytest.raises(BlockingIOError):
            lock(folder)
        held.append(signature)
        if fails:
            raise ValueError("cannot be compiled")

    made = made_once(function_of_numba(folder, make))
    for k in range(2):
        if fails:
            with pytest.raises(ValueError, match="cannot be compiled"):
                made.compile(k)
        else:
            made.compile(k)
    assert held == [0, 1]
    assert not list(folder.iterdir())


def test_a_file_that_was_removed_while_it_was_waited_for_is_no_lock(tmp_path, monkeypatch):
    held, lock_file = [], fcntl.flock

    def late(handle, how):
        lock_file(handle, how)
        held.append(handle)
        if len(held) == 1:  # who had it has removed it, and another has made a new one
            (path,) = tmp_path.iterdir()
            path.unlink()
            path.touch()

    monkeypatch.setattr(fcntl, "flock", late)
    made_once(function_of_numba(tmp_path, lambda signature: None)).compile("x")
    assert len(held) == 2


def test_where_nothing_can_be_written_it_is_made_all_the_same(tmp_path):
    (tmp_path / "file").touch()
    made = made_once(function_of_numba(tmp_path / "file", lambda signature: f"made for {signature}"))
    assert made.compile("x") == "made for x"


@pytest.mark.thorough
def test_of_three_processes_that_need_the_same_one_makes_it(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    started = [subprocess.Popen([sys.executable, "-c", MAKER], env=environment, **pipes) for _ in range(3)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    found = sorted(process.communicate(timeout=300)[0].split() for process in started)
    assert found == [["0", "1"], ["0", "1"], ["1", "0"]]  # made, found on disk


def test_a_first_result_imports_neither_scipys_algebra_nor_what_draws():
    said = subprocess.run([sys.executable, "-c", FIRST_RESULT], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["[]", "True numba.np.linalg True"]
