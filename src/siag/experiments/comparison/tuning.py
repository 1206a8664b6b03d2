"""A contender on a problem under an activity: with a given η, or with the best that the rule of sweeps finds."""

from __future__ import annotations

from dataclasses import dataclass, field

from siag.activity import Activity
from siag.experiments.comparison.contenders import Contender
from siag.foundations.encodings import FLOAT64
from siag.foundations.parallel import Progress
from siag.problems import Problem
from siag.simulation import Run, simulate
from siag.simulation.metrics import Evaluate
from siag.simulation.tuning import WANE, Found, find_step


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
        messages: the same.
    """

    contender: Contender
    problem: Problem
    activity: Activity
    iterations: int
    seed: int = 0
    progress: Progress = False
    evaluate: Evaluate = field(default_factory=dict)
    objective: bool | None = None
    messages: str = FLOAT64.name

    def run(self, eta: float, repeats: int, record: int = 1, *, longer: int = 1, threads: int | None = None) -> Run:
        """A run with η; on request for a multiple of the iterations, with the same steps."""
        method, step = self.contender.tuned(eta, self.iterations / WANE)
        return simulate(
            self.problem,
            method,
            self.activity,
            step,
            iterations=longer * self.iterations,
            repeats=repeats,
            seed=self.seed,
            record=record,
            threads=threads,
            progress=self.progress,
            evaluate=self.evaluate,
            objective=self.objective,
            messages=self.messages,
        )

    def tune(self, unit: float) -> Found:
        """Search for the best η; a method that finds its steps itself has nothing to search for."""
        if self.contender.method.default_step is not None:
            return Found(1.0, ())
        return find_step(
            self.contender.tuned,
            self.problem,
            self.activity,
            self.iterations,
            unit=unit,
            seed=self.seed,
            progress=self.progress,
        )
