"""One rule by which the step of any method is found: in sweeps, where `Tuned` stands for a step, and in comparisons."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from siag.activity import Activity
from siag.foundations import check
from siag.foundations.errors import DivergenceWarning, Missing, Unsuitable
from siag.foundations.parallel import Progress
from siag.methods import Method
from siag.problems import Problem
from siag.simulation.simulate import simulate
from siag.steps import Step

COARSE, FINE = 4.0, 2.0  # factors between two tries
FIRST = (2, 3, 4)  # how many coarse factors below the unit the first tries are
BEYOND, BESIDE = 6, 2  # more coarse and fine ones at most, as long as the best is the largest or the smallest
RUNS = 2  # of a fine try; a coarse one is a single run
WILD, POINTS = 100.0, 20  # times the error of the start that a try may have in between, and where that is looked at
WANE = 10.0  # steps fall as 1/t after this fraction of the iterations
SEEDS = 1_000_003  # the tries' seed is so far from that of the runs that are shown

Maker = Callable[[float, float], tuple[Method, Step]]
"""A method and its step from η and γ, as `Method.tuned`: the step begins with η and falls as 1/t after γ iterations."""


@dataclass(frozen=True)
class Tuned:
    """In place of a step of a sweep: the best that one rule finds, for every problem, method and activity on its own.

    Steps are η_t = η·γ/(γ + t) with γ a tenth of the iterations; of methods with local steps the local ones are η_t/K.
    η is tried at a 16th, a 64th and a 256th of `eta`, then further on the side of the best; at last, with two runs
    each, between these. A try is judged by the mean error at the end, on other samples than those of the runs; one
    whose distance from w* was 10 times that of the start on the way has failed. So the same sweep finds the same steps,
    whatever else is in it. `siag.compare` finds its steps by this rule, too.

    Args:
        eta: what the first tries are fractions of; 1/L by default, where the problem knows its L.

    Example:
        >>> import siag
        >>> problem = siag.problems.LeastSquares.random(n=5, d=3, p=2, noise=0.1)
        >>> methods = [siag.methods.SIAG(), siag.methods.SGD()]
        >>> result = siag.sweep(problem, methods, siag.activity.Uniform(3), siag.Tuned(), iterations=200, record=3)
        >>> result.parameters[0]["tuned.eta"], result.steps[0]
        (0.0625, 'Harmonic(beta=1.25, gamma=20.0)')
    """

    eta: float | None = None

    def __post_init__(self) -> None:
        if self.eta is not None:
            object.__setattr__(self, "eta", check.real("eta", self.eta, above=0))


@dataclass(frozen=True)
class Found:
    """What a search has found.

    Attributes:
        eta: the best η.
        tries: every η that was tried, and its mean error at the end; infinite if a run diverged or went astray.
    """

    eta: float
    tries: tuple[tuple[float, float], ...]

    @property
    def edge(self) -> bool:
        """Whether the best was the largest or smallest tried, so that a wider search might find a better one."""
        if not self.tries:
            return False
        etas = [eta for eta, _ in self.tries]
        return self.eta in (min(etas), max(etas))


def rule(iterations: int, unit: float) -> str:
    """The rule in words."""
    first = ", ".join(f"{unit / COARSE**k:.3g}" for k in FIRST[:-1])
    return (
        f"Steps are η_t = η·γ/(γ + t) with γ a {WANE:g}th of the iterations of a method, {iterations:,} at most. "
        "Methods with K local steps have local steps of η_t/K, FedAsync of η/K and shares of new models that fall from "
        "1; delay-adaptive ones have γ′ = η. With momentum steps are (1 − β) η_t, which comes to η_t; around FedAvg "
        "Adam's steps are η_t, as the K local ones together. For every method and activity, η is tried at "
        f"{first} and {unit / COARSE ** FIRST[-1]:.3g}, and at "
        f"most {BEYOND} times further by a factor of {COARSE:g}, as long as the largest or the smallest is the best; "
        f"then, with {RUNS} runs each, at the best of these, {FINE:g} times it and as many times less, and at most "
        f"{BESIDE} times further. A try is judged by the mean error at the end, on other samples than those shown; one "
        f"whose error was {WILD:g} times that of the start on the way has failed."
    )


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of runs that diverge: they say so in `Run.diverged`. Not for threads: filters belong to all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        yield


def unit_of(problem: Problem, eta: float | None) -> float:
    """The η of which tries are fractions: the one given, or 1/L."""
    if eta is not None:
        return check.real("eta", eta, above=0)
    with suppress(Unsuitable):
        return 1.0 / float(problem.constants().L)
    with suppress(Unsuitable):
        return 1.0 / float(problem.smoothness.max())
    raise Missing("eta", f"{type(problem).__name__} does not know its L; give a step to begin from")


def find_step(
    make: Maker,
    problem: Problem,
    activity: Activity,
    iterations: int,
    *,
    unit: float,
    seed: int,
    progress: Progress = False,
) -> Found:
    """Search for the best η, each try on one thread.

    Args:
        make: method and step of a try.
        problem: what to minimise.
        activity: who reports when.
        iterations: of every try, and those by which the steps fall.
        unit: what the first tries are fractions of.
        seed: of the runs that are to be shown; those of the search have another.
        progress: as of `simulate`; what it raises ends the search.
    """

    def attempt(eta: float, repeats: int) -> float:
        method, step = make(eta, iterations / WANE)
        run = simulate(
            problem,
            method,
            activity,
            step,
            iterations=iterations,
            repeats=repeats,
            seed=(seed + SEEDS) % 2**64,
            record=1 if problem.optimum is None else POINTS,
            threads=1,
            progress=progress,
        )
        error = float(run.mean[-1])
        tame = bool(run.error.max() <= WILD * (run.error[0, 0] + error))
        return error if (run.diverged < 0).all() and tame else math.inf

    def search(first: Iterable[float], factor: float, repeats: int, more: int) -> dict[float, float]:
        tries = {eta: attempt(eta, repeats) for eta in first}
        for _ in range(more):
            best = _best(tries)
            if min(tries) < best < max(tries):
                break
            eta = best / factor if best == min(tries) else best * factor
            tries[eta] = attempt(eta, repeats)
        return tries

    coarse = search((unit / COARSE**k for k in FIRST), COARSE, 1, BEYOND)
    best = _best(coarse)
    fine = search((best / FINE, best, best * FINE), FINE, RUNS, BESIDE)
    return Found(_best(fine), tuple(sorted((coarse | fine).items())))


def _best(tries: dict[float, float]) -> float:
    """The η of the smallest error; of equal ones, all infinite perhaps, the smallest η."""
    return min(tries, key=lambda eta: (tries[eta], eta))
