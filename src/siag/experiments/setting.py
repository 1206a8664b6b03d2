"""The setting of Sec. IV, with what the paper leaves open fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from siag.activity import Nonuniform, Uniform
from siag.foundations.parallel import run_all
from siag.problems import LeastSquares
from siag.steps import Harmonic

T = TypeVar("T")

D, P, NOISE = 20, 10, 0.1
STEP = Harmonic(beta=0.2, gamma=200.0)
UNIFORM, NONUNIFORM = Uniform(15), Nonuniform(10, 20)
FLAT = 1.10  # the largest ratio between values called equal

Tick: TypeAlias = Callable[[], None]
"""Called after every piece of work, for the progress bar."""


@dataclass(frozen=True)
class Scale:
    """How much work to put into the reproduction."""

    sizes: tuple[int, ...] = (10, 20, 40, 80, 160)  # n
    iterations: int = 20_000
    repeats: int = 40  # runs per curve
    draws: int = 16  # problems over which exact values are averaged
    checks: int = 200  # runs compared with the exact curve
    horizon: int = 60_000  # where the sharp law is judged
    gammas: float = 10.0  # how many γ the theorem is followed for
    live: int = 10_000  # reports of each run with real processes
    methods: tuple[str, ...] = ("sIAG", "MIFA", "SGD", "AD-PSGD", "FedAvg", "SCAFFOLD", "IAG")  # to be compared
    contest: int = 5000  # iterations of each of them
    choosing: int = 4000  # reports of an asynchronous server, where methods are compared as workers differ
    crowds: tuple[int, ...] = (8, 32)  # n, there
    leave_out: tuple[str, ...] = ()  # chapters, by the names that the progress bar has for them
    seed: int = 1


PAPER = Scale()
QUICK = Scale(
    sizes=(10, 20, 40),
    iterations=10_000,
    repeats=10,
    draws=4,
    checks=50,
    horizon=30_000,
    gammas=1.0,
    leave_out=(
        "speedup",
        "exact gradients",
        "virtual clock",
        "other methods",
        "when not to use it",
        "agreement",
        "real processes",
    ),
)


def each(task: Callable[[int], T], count: int) -> list[T]:
    """`[task(0), …, task(count − 1)]`, side by side."""
    return run_all(lambda k, _: task(k), count, work=1, threads=None, progress=False, title="")


def draw(n: int, index: int) -> LeastSquares:
    """The index-th problem with n workers."""
    return LeastSquares.random(n=n, d=D, p=P, noise=NOISE, seed=1000 * index + n)
