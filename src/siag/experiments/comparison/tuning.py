"""One rule by which every method's step is found."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from siag.activity import Activity
from siag.experiments.comparison.contenders import Contender
from siag.foundations import check
from siag.foundations.errors import DivergenceWarning, Missing, Unsuitable
from siag.foundations.parallel import Progress
from siag.problems import Problem
from siag.simulation import Run, simulate
from siag.simulation.metrics import Evaluate

COARSE, FINE = 4.0, 2.0  # factors between two tries
FIRST = (2, 3, 4)  # how many coarse factors below the unit the first tries are
BEYOND, BESIDE = 6, 2  # more coarse and fine ones at most, as long as the best is the largest or the smallest
RUNS = 2  # of a fine try; a coarse one is a single run
WANE = 10.0  # steps fall as 1/t after this fraction of the iterations
SEEDS = 1_000_003  # the tries' seed is so far from that of the comparison


@dataclass(frozen=True)
class Tuned:
    """What a search has found.

    Attributes:
        eta: the best η.
        tries: every η that was tried, and its mean error at the end; infinite if a run diverged.
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
        "1; delay-adaptive ones have γ′ = η. For every method and activity, η is tried at "
        f"{first} and {unit / COARSE ** FIRST[-1]:.3g}, and at "
        f"most {BEYOND} times further by a factor of {COARSE:g}, as long as the largest or the smallest is the best; "
        f"then, with {RUNS} runs each, at the best of these, {FINE:g} times it and as many times less, and at most "
        f"{BESIDE} times further. A try is judged by the mean error at the end, on other samples than those shown."
    )


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings of runs that diverge: they say so in `Run.diverged`. Not for threads: filters belong to all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        yield


@dataclass(frozen=True)
class Trial:
    """A contender on a problem under an activity.

    Attributes:
        contender: the method.
        problem: the problem.
        activity: who reports when.
        iterations: of every run, and those by which the steps fall.
        seed: of the runs that are shown.
        progress: as of `simulate`; what it raises ends the run.
        evaluate: as of `simulate`, for the runs that are shown.
        objective: the same.
    """

    contender: Contender
    problem: Problem
    activity: Activity
    iterations: int
    seed: int = 0
    progress: Progress = False
    evaluate: Evaluate = field(default_factory=dict)
    objective: bool | None = None

    def run(self, eta: float, repeats: int, record: int = 1, *, longer: int = 1, threads: int | None = None) -> Run:
        """A run with η; on request for a multiple of the iterations, with the same steps."""
        return self._run(eta, repeats, self.seed, record, longer, threads, self.evaluate, self.objective)

    def tune(self, unit: float) -> Tuned:
        """Search for the best η; a method that finds its steps itself has nothing to search for."""
        if self.contender.method.default_step is not None:
            return Tuned(1.0, ())

        def attempt(eta: float, repeats: int) -> float:
            run = self._run(eta, repeats, (self.seed + SEEDS) % 2**64, 1, 1, 1)
            error = float(run.mean[-1])
            return error if (run.diverged < 0).all() and math.isfinite(error) else math.inf

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
        return Tuned(_best(fine), tuple(sorted((coarse | fine).items())))

    def _run(
        self,
        eta: float,
        repeats: int,
        seed: int,
        record: int,
        longer: int,
        threads: int | None,
        evaluate: Evaluate | None = None,
        objective: bool | None = None,
    ) -> Run:
        method, step = self.contender.tuned(eta, self.iterations / WANE)
        return simulate(
            self.problem,
            method,
            self.activity,
            step,
            iterations=longer * self.iterations,
            repeats=repeats,
            seed=seed,
            record=record,
            threads=threads,
            progress=self.progress,
            evaluate=evaluate,
            objective=objective,
        )


def _best(tries: dict[float, float]) -> float:
    """The η of the smallest error; of equal ones, all infinite perhaps, the smallest η."""
    return min(tries, key=lambda eta: (tries[eta], eta))


def unit_of(problem: Problem, eta: float | None) -> float:
    """The η of which tries are fractions: the one given, or 1/L."""
    if eta is not None:
        return check.real("eta", eta, above=0)
    with suppress(Unsuitable):
        return 1.0 / float(problem.constants().L)
    with suppress(Unsuitable):
        return 1.0 / float(problem.smoothness.max())
    raise Missing("eta", f"{type(problem).__name__} does not know its L; give a step to begin from")
