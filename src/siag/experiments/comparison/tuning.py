"""One rule by which every method's step is found, with the same number of tries for all."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from siag.activity import Activity
from siag.experiments.comparison.contenders import Contender
from siag.foundations import check
from siag.foundations.errors import DivergenceWarning, Missing, Unsuitable
from siag.problems import Problem
from siag.simulation import Run, simulate

COARSE, FINE = 4.0, 2.0  # factors between two tries
TRIES = 6  # coarse ones; two fine ones follow
BEYOND = 3  # more coarse ones at most, as long as the best is the first or the last
RUNS = 2  # repeats of each try
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
        etas = [eta for eta, _ in self.tries]
        return self.eta in (min(etas), max(etas))


def rule(iterations: int, unit: float) -> str:
    """The rule in words."""
    return (
        f"Steps are η_t = η·γ/(γ + t) with γ = {iterations / WANE:g}, a {WANE:g}th of the iterations. Methods with K "
        "local steps have steps of size η/K, and the server's fall from 1 in the same way; delay-adaptive ones have "
        f"γ′ = η. For every method and activity η is the best of {TRIES} tries, from {unit:.3g} down by factors of "
        f"{COARSE:g}, of at most {BEYOND} more beyond as long as the first or the last is the best, and of two more, "
        f"{FINE:g} times the best of them and as many times less. A try is the mean error of {RUNS} runs at the end, "
        "on other samples than those shown."
    )


def run_with(
    contender: Contender,
    problem: Problem,
    activity: Activity,
    eta: float,
    iterations: int,
    repeats: int,
    seed: int,
    record: int,
) -> Run:
    """A run with η; one that diverges says so in `diverged`, not by a warning."""
    method, step = contender.tuned(eta, iterations / WANE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        return simulate(
            problem, method, activity, step, iterations=iterations, repeats=repeats, seed=seed, record=record
        )


def tune(contender: Contender, problem: Problem, activity: Activity, iterations: int, seed: int, unit: float) -> Tuned:
    """Search for the best η."""
    seed = (seed + SEEDS) % 2**64

    def attempt(eta: float) -> tuple[float, float]:
        run = run_with(contender, problem, activity, eta, iterations, RUNS, seed, 1)
        error = float(run.mean[-1])
        return eta, error if (run.diverged < 0).all() and math.isfinite(error) else math.inf

    tries = [attempt(unit / COARSE**k) for k in range(TRIES)]
    for _ in range(BEYOND):
        best, error = min(tries, key=lambda each: each[1])
        first, last = tries[0][0], tries[-1][0]
        if best not in (first, last) or error == math.inf:
            break
        more = attempt(best * COARSE if best == first else best / COARSE)
        tries = [more, *tries] if best == first else [*tries, more]
    best, _ = min(tries, key=lambda each: each[1])
    tries += [attempt(best * FINE), attempt(best / FINE)]
    eta, _ = min(tries, key=lambda each: each[1])
    return Tuned(eta, tuple(sorted(tries)))


def unit_of(problem: Problem, eta: float | None) -> float:
    """The first η to try: the one given, or 1/L."""
    if eta is not None:
        return check.real("eta", eta, above=0)
    try:
        return 1.0 / float(problem.constants().L)
    except Unsuitable:
        raise Missing("eta", f"{type(problem).__name__} does not know its L; give the largest step to try") from None
