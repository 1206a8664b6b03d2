"""`sweep`: a grid of problems, methods, activities and steps as one job, which goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from siag.activity import Activity
from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, FailureWarning, SiagError, Unsuitable, warn
from siag.foundations.files import writable_folder
from siag.foundations.parallel import Progress, Watch, cores, run_all
from siag.foundations.schedule import points
from siag.foundations.types import Floats, Integers
from siag.methods import Method, check_fit, step_of
from siag.problems import Problem
from siag.simulation.metrics import Evaluate, check_evaluate
from siag.simulation.run import Run, load
from siag.simulation.simulate import MOST, Job, Outcome, assemble, start_of
from siag.steps import Step

OWN = "its own"  # the step of a method that finds its steps itself


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep has shown: a run for every combination, in the order of the grid.

    Attributes:
        runs: the runs.
        steps: the step of each, as it prints; "its own" of a method that found its steps itself.
        failed: the combinations that have no run, because a function of the user's failed, each with the error.
    """

    runs: Sequence[Run]
    steps: Sequence[str]
    failed: Sequence[str] = ()

    def table(self) -> dict[str, np.ndarray[Any, Any]]:
        """One tidy table: a row for every combination and recorded point."""
        columns: dict[str, list[Any]] = {}
        curves: list[Mapping[str, Floats | Integers]] = [run.table() for run in self.runs]
        measured = list(dict.fromkeys(name for curve in curves for name in curve))  # not all of them of every run
        for run, step, curve in zip(self.runs, self.steps, curves, strict=True):
            for name in ("problem", "method", "activity"):
                columns.setdefault(name, []).extend([run.about[name]] * len(run.t))
            columns.setdefault("step", []).extend([step] * len(run.t))
            for name in ("repeats", "seed"):
                columns.setdefault(name, []).extend([run.about[name]] * len(run.t))
            columns.setdefault("diverged", []).extend([int((run.diverged >= 0).sum())] * len(run.t))
            for name in measured:
                columns.setdefault(name, []).extend(curve[name].tolist() if name in curve else [np.nan] * len(run.t))
        return {name: np.array(values) for name, values in columns.items()}


def sweep(
    problem: Problem | Sequence[Problem],
    method: Method | Sequence[Method],
    activity: Activity | Sequence[Activity],
    step: Step | Sequence[Step | None] | None = None,
    *,
    iterations: int,
    repeats: int = 1,
    seed: int = 0,
    record: int = 200,
    folder: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress = False,
    evaluate: Evaluate | None = None,
    objective: bool | None = None,
) -> Sweep:
    """Run every combination of the given problems, methods, activities and steps; all their repeats run in parallel.

    With the same seed all methods see the same samples and all problems the same activity, so that differences are
    those of the combinations. Each result is the one `simulate` gives.

    A method that finds its steps itself, such as `Automatic`, runs once, with its own steps: the steps given are for
    the other methods. If there is no other, they are for it, as in `simulate`.

    Args:
        problem: one, or several.
        method: one, or several.
        activity: one, or several.
        step: one, or several; left out for methods that find their own.
        iterations: as in `simulate`.
        repeats: as in `simulate`.
        seed: as in `simulate`.
        record: as in `simulate`.
        folder: where each finished combination is kept. A sweep that is started again finds them there and
            goes on with the rest; what was changed since is run anew.
        threads: as in `simulate`.
        progress: as in `simulate`; one bar for all.
        evaluate: as in `simulate`. Functions of the same name count as the same when a sweep goes on.
        objective: as in `simulate`.

    Returns:
        The runs. If a function of the user's fails in one combination, a `FailureWarning` says which, and the others go
        on; `failed` has the words. If all fail, the first error is raised.

    Example:
        >>> import siag
        >>> problems = [siag.problems.LeastSquares.random(n=n, d=3, p=2, noise=0.1) for n in (5, 10)]
        >>> methods, activity = [siag.methods.SIAG(), siag.methods.SGD()], siag.activity.Uniform(3)
        >>> result = sweep(problems, methods, activity, siag.steps.Harmonic(1.0, 100), iterations=200, record=5)
        >>> len(result.runs), len(result.table()["error"])
        (4, 20)
    """
    iterations, seed = check.integer("iterations", iterations), check.seed(seed)
    repeats, record = check.integer("repeats", repeats, high=MOST), check.integer("record", record, high=MOST)
    axes = [_axis(*axis) for axis in (("problem", problem), ("method", method), ("activity", activity), ("step", step))]
    combinations = _combinations(*axes)
    count = len(combinations) * repeats
    threads = min(cores() if threads is None else check.integer("threads", threads), count)
    metrics = check_evaluate(evaluate)
    measured = None if objective is None else check.truth("objective", objective)
    jobs = [_job(combination, iterations, seed, threads, metrics, measured) for combination in combinations]
    place = None if folder is None else writable_folder("folder", folder)
    runs = _kept(jobs, repeats, record, place)
    missing = [index for index, run in enumerate(runs) if run is None]
    t = points(iterations, record)
    shelf = _Shelf(jobs, t, repeats, record, place)

    failed: dict[int, SiagError] = {}

    def one(index: int, watch: Watch) -> None:
        which, repeat = missing[index // repeats], index % repeats
        try:
            if which not in failed:
                shelf.put(which, repeat, jobs[which].repeat(repeat, t, watch))
        except SiagError as error:
            failed.setdefault(which, error)

    if missing:
        run_all(
            one,
            len(missing) * repeats,
            work=iterations,
            threads=threads,
            progress=progress,
            title=f"{len(missing)} runs",
            apart=any(job.calls_python for job in jobs),
        )
    if len(failed) == len(jobs):
        raise failed[min(failed)]
    words = [f"{_words(combinations[which])}: {failed[which]}" for which in sorted(failed)]
    for each in words:
        warn(each, FailureWarning)
    there = [which for which in range(len(jobs)) if which not in failed]
    whole = [runs[which] or shelf.done[which] for which in there]
    return Sweep(whole, [_step_words(combinations[which]) for which in there], words)


def _words(combination: tuple[Any, ...]) -> str:
    """A combination as it prints."""
    return " × ".join([*map(repr, combination[:3]), _step_words(combination)])


def _step_words(combination: tuple[Any, ...]) -> str:
    step = combination[3]
    return OWN if step is None else repr(step)


def _axis(name: str, values: Any) -> list[Any]:
    """The values along one axis of the grid: at least one, and none twice."""
    kept = list(values) if isinstance(values, list | tuple) else [values]
    if not kept:
        raise BadInput(name, values, "at least one", "leave no axis of a sweep empty")
    seen: dict[str, Any] = {}
    for value in kept:
        mark = _mark(value)
        if mark in seen:
            raise BadInput(name, value, "different from the others along its axis", "name it once")
        seen[mark] = value
    return kept


def _combinations(
    problems: list[Any], methods: list[Any], activities: list[Any], steps: list[Any]
) -> list[tuple[Any, ...]]:
    """The grid; methods that find their steps themselves, among others that do not, take none of those given."""
    alone = all(map(_finds_steps, methods))
    return [
        (problem, method, activity, step)
        for problem, method, activity in itertools.product(problems, methods, activities)
        for step in ([None] if _finds_steps(method) and not alone else steps)
    ]


def _finds_steps(method: object) -> bool:
    return isinstance(method, Method) and method.default_step is not None


def _job(
    combination: tuple[Any, ...],
    iterations: int,
    seed: int,
    threads: int,
    evaluate: Evaluate,
    objective: bool | None,
) -> Job:
    """One combination, if its parts fit together, and into memory as often as there are threads."""
    problem, method, activity, step = combination
    step = step_of(method, step)
    try:
        check_fit(problem, method, activity, step, iterations)
        start = start_of(problem)
        job = Job(problem, method, activity, step, iterations, seed, start, True, evaluate, objective)
        job.check(threads)
    except (BadInput, Unsuitable) as error:
        raise Unsuitable(f"{problem!r} × {method!r} × {activity!r} × {step!r}: {error}") from None
    return job


def _mark(part: Any) -> str:
    """What tells one part from another: how it prints, and its arrays, which do not print in full."""
    digest = hashlib.sha256(repr(part).encode())
    arrays = part.oracle() if isinstance(part, Problem) else getattr(part, "trace", ())
    # Scratch space is writable, data is not; a problem whose data are writable is only known as itself.
    data = [value for value in arrays if isinstance(value, np.ndarray) and not value.flags.writeable]
    for value in data:
        digest.update(value.tobytes())
    if isinstance(part, Problem) and not data:
        digest.update(str(id(part)).encode())
    return digest.hexdigest()


def _name(job: Job, repeats: int, record: int) -> str:
    """The name under which a combination's run is kept: another for anything that could change it."""
    marks = [_mark(part) for part in (job.problem, job.method, job.activity, job.step)]
    text = json.dumps([job.about(), repeats, record, marks, *sorted(job.evaluate), *job.measured])
    return hashlib.sha256(text.encode()).hexdigest()[:20] + ".npz"


def _kept(jobs: Sequence[Job], repeats: int, record: int, place: Path | None) -> list[Run | None]:
    """What an earlier sweep has finished; a damaged file counts as not there."""
    runs: list[Run | None] = []
    for job in jobs:
        try:
            runs.append(None if place is None else load(place / _name(job, repeats, record)))
        except BadFile:
            runs.append(None)
    return runs


class _Shelf:
    """Collects the repeats of every combination; one that is complete becomes a run, and is kept at once."""

    def __init__(self, jobs: Sequence[Job], t: Integers, repeats: int, record: int, place: Path | None) -> None:
        self._jobs, self._t, self._repeats, self._record, self._place = jobs, t, repeats, record, place
        self._parts: dict[int, dict[int, Outcome]] = {}
        self._lock = threading.Lock()
        self.done: dict[int, Run] = {}

    def put(self, which: int, repeat: int, result: Outcome) -> None:
        """Take in one repeat."""
        with self._lock:
            parts = self._parts.setdefault(which, {})
            parts[repeat] = result
            if len(parts) < self._repeats:
                return
            del self._parts[which]
        run = assemble(self._jobs[which], self._t, [parts[index] for index in range(self._repeats)])
        if self._place is not None:
            run.save(self._place / _name(self._jobs[which], self._repeats, self._record))
        self.done[which] = run
