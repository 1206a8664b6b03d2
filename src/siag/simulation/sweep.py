"""`sweep`: a grid of problems, methods, activities and steps as one job, which goes on where it was interrupted."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from siag.activity import Activity
from siag.foundations import check
from siag.foundations.encodings import FLOAT64, encoding_of
from siag.foundations.errors import BadFile, BadInput, SiagError, Unsuitable, reason_of
from siag.foundations.files import writable_folder, write_text
from siag.foundations.parallel import Cancelled, Progress, Watch, cores, run_all
from siag.foundations.schedule import points
from siag.foundations.types import Integers
from siag.methods import Method, check_fit, step_of, weigh_parts, weighting_of
from siag.methods.rounded import check_messages
from siag.problems import Problem
from siag.problems.weights import Weights
from siag.simulation.metrics import Evaluate, check_evaluate
from siag.simulation.parameters import Scalar, labels_of, parameters_of
from siag.simulation.run import Run, load
from siag.simulation.simulate import MOST, Job, Outcome, assemble, start_of
from siag.simulation.swept import ROLES, Incomplete, Sweep
from siag.simulation.tuning import WANE, Found, Tuned, find_step, quiet, unit_of
from siag.steps import Step

OWN = "its own"  # the step of a method that finds its steps itself
SEARCH = 0.7  # of the progress shown: the share of the search for steps, if there is one
Combination: TypeAlias = tuple[Any, Any, Any, Any]
"""A problem, a method, an activity and a step; `Tuned` for one to be found, `None` for the method's own."""


def sweep(
    problem: Problem | Sequence[Problem],
    method: Method | Sequence[Method],
    activity: Activity | Sequence[Activity],
    step: Step | Tuned | Sequence[Step | Tuned | None] | None = None,
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
    messages: str = FLOAT64.name,
    weights: Weights = None,
) -> Sweep:
    """Run every combination of the given problems, methods, activities and steps; all their repeats run in parallel.

    With the same seed all methods see the same samples and all problems the same activity, so that differences are
    those of the combinations. Each result is the one `simulate` gives.

    A method that finds its steps itself, such as `Automatic`, runs once, with its own steps: the steps given are for
    the other methods. If there is no other, they are for it, as in `simulate`. `siag.Tuned()` in place of a step is
    the best one that a search finds for each problem, method and activity.

    A combination that fails while it runs, in code of the user's, costs no other: those finish, and then `Incomplete`
    names the ones that failed, each with its reason, and has the others as `sweep`.

    Args:
        problem: one, or several.
        method: one, or several.
        activity: one, or several.
        step: one, or several; left out for methods that find their own.
        iterations: as in `simulate`.
        repeats: as in `simulate`.
        seed: as in `simulate`.
        record: as in `simulate`.
        folder: where each finished combination, and each step found, is kept. A sweep that is started again finds them
            there and goes on with the rest; what was changed since is run anew.
        threads: as in `simulate`.
        progress: as in `simulate`; one bar for all.
        evaluate: as in `simulate`. Functions of the same name count as the same when a sweep goes on.
        objective: as in `simulate`.
        messages: as in `simulate`; a search for steps is made with doubles.
        weights: as in `simulate`, for every problem.

    Example:
        >>> import siag
        >>> problems = [siag.problems.LeastSquares.random(n=n, d=3, p=2, noise=0.1) for n in (5, 10)]
        >>> methods, activity = [siag.methods.SIAG(), siag.methods.SGD()], siag.activity.Uniform(3)
        >>> result = sweep(problems, methods, activity, siag.steps.Harmonic(1.0, 100), iterations=200, record=5)
        >>> table = result.table()
        >>> len(result.runs), len(table["error"]), sorted(set(table["problem.n"].tolist()))
        (4, 20, [5, 10])
    """
    iterations, seed = check.integer("iterations", iterations), check.seed(seed)
    repeats, record = check.integer("repeats", repeats, high=MOST), check.integer("record", record, high=MOST)
    axes = [_axis(*axis) for axis in (("problem", problem), ("method", method), ("activity", activity), ("step", step))]
    combinations = _combinations(*axes)
    count = len(combinations) * repeats
    threads = min(cores() if threads is None else check.integer("threads", threads), count)
    metrics = check_evaluate(evaluate)
    failed: dict[int, Exception] = {}
    measured = None if objective is None else check.truth("objective", objective)
    given = iterations, seed, metrics, measured, encoding_of(messages).name, weights
    jobs = [_job(combination, *given) for combination in combinations]
    for k, job in enumerate(jobs):
        _check(job, threads, combinations[k], failed, k)
    place = None if folder is None else writable_folder("folder", folder)
    wanted = {k: step for k, (*_, step) in enumerate(combinations) if isinstance(step, Tuned)}
    share = SEARCH if wanted else 0.0
    found = _search(jobs, wanted, failed, place, threads, _part(progress, 0.0, share))
    jobs = [_with(job, found[k].eta) if k in found else job for k, job in enumerate(jobs)]
    runs = _run(jobs, points(iterations, record), repeats, record, place, threads, _part(progress, share, 1.0), failed)
    done = [k for k in range(len(jobs)) if k in runs]
    labels = _labels(axes, combinations)
    whole = Sweep(
        [runs[k] for k in done],
        [OWN if combinations[k][-1] is None else repr(jobs[k].step) for k in done],
        [_parameters(jobs[k], found.get(k), combinations[k][-1] is None) for k in done],
        [labels[k] for k in done],
    )
    if failed:
        where = "" if place is None else f" and kept in {place}"
        reasons = {_name_of(combinations[k]): _reason(error) for k, error in sorted(failed.items())}
        raise Incomplete(reasons, whole, where) from next(iter(failed.values()))
    return whole


def _part(progress: Progress, low: float, high: float) -> Progress:
    """The progress of a part of the work, from `low` to `high` of the whole."""
    if not callable(progress):
        return progress
    return lambda fraction: progress(low + (high - low) * fraction)


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
) -> list[Combination]:
    """The grid; methods that find their steps themselves, among others that do not, take none of those given.

    Nor is there anything to search for.
    """
    alone = all(map(_finds_steps, methods)) and not any(isinstance(step, Tuned) for step in steps)
    return [
        (problem, method, activity, step)
        for problem, method, activity in itertools.product(problems, methods, activities)
        for step in ([None] if _finds_steps(method) and not alone else steps)
    ]


def _finds_steps(method: object) -> bool:
    return isinstance(method, Method) and method.default_step is not None


def _job(
    combination: Combination,
    iterations: int,
    seed: int,
    evaluate: Evaluate,
    objective: bool | None,
    messages: str,
    weights: Weights,
) -> Job:
    """One combination, if its parts fit together; where the step is to be found, with what the search begins from."""
    problem, method, activity, step = combination
    try:
        problem, method = weigh_parts(problem, method, activity, weights, iterations)
        if isinstance(step, Tuned) and isinstance(method, Method) and isinstance(problem, Problem):
            method, step = method.tuned(unit_of(problem, step.eta), iterations / WANE)
        step = step_of(method, step)
        check_fit(problem, method, activity, step, iterations)
        check_messages(messages, method, problem.d)
        start = start_of(problem)
        return Job(problem, method, activity, step, iterations, seed, start, True, evaluate, objective, messages)
    except (BadInput, Unsuitable) as error:
        raise Unsuitable(f"{_name_of(combination)}: {error}") from None


def _check(job: Job, threads: int, combination: Combination, failed: dict[int, Exception], k: int) -> None:
    """Refuse what does not fit into memory as often as there are threads; code of the user's that fails is noted."""
    try:
        job.check(threads)
    except (BadInput, Unsuitable) as error:
        raise Unsuitable(f"{_name_of(combination)}: {error}") from None
    except SiagError as error:
        failed[k] = error


def _name_of(combination: Combination) -> str:
    """A combination in one line."""
    problem, method, activity, step = combination
    return " × ".join(map(repr, (problem, method, activity, OWN if step is None else step)))


def _reason(error: Exception) -> str:
    """Why a combination failed, in one line; what the user's code raised is named."""
    said = reason_of(error)
    return said if isinstance(error, SiagError) or said == type(error).__name__ else f"{type(error).__name__}: {said}"


def _with(job: Job, eta: float) -> Job:
    """The same with the η that was found."""
    method, step = job.method.tuned(eta, job.iterations / WANE)
    return replace(job, method=method, step=step)


def _parameters(job: Job, found: Found | None, own: bool) -> dict[str, Scalar]:
    """The parameters of a combination as it ran, each after the part it is of."""
    parts = {role: getattr(job, role) for role in ROLES if role != "step" or not own}
    rows = {f"{role}.{name}": value for role, part in parts.items() for name, value in parameters_of(part).items()}
    return rows if found is None else rows | {"tuned.eta": found.eta, "tuned.edge": found.edge}


def _labels(axes: Sequence[list[Any]], combinations: Sequence[Combination]) -> list[dict[str, str]]:
    """Short names for the parts that were asked for."""
    names = [
        {id(part): label for part, label in zip(axis, labels_of(axis), strict=True) if part is not None}
        for axis in axes
    ]
    return [
        {role: named.get(id(part), OWN) for role, named, part in zip(ROLES, names, combination, strict=True)}
        for combination in combinations
    ]


def _search(
    jobs: Sequence[Job],
    wanted: dict[int, Tuned],
    failed: dict[int, Exception],
    place: Path | None,
    threads: int,
    progress: Progress,
) -> dict[int, Found]:
    """The steps that are to be found, each for its combination; those in the folder are not searched for again."""
    found = {k: kept for k in wanted if (kept := _kept_step(place, _step_name(jobs[k], wanted[k]))) is not None}
    missing = [k for k in wanted if k not in found and k not in failed]

    def one(index: int, watch: Watch) -> None:
        k = missing[index]
        job = jobs[k]
        try:
            found[k] = find_step(
                job.method.tuned,
                job.problem,
                job.activity,
                job.iterations,
                unit=unit_of(job.problem, wanted[k].eta),
                seed=job.seed,
                progress=lambda _: watch.did(0),
            )
        except (Cancelled, OSError, MemoryError):
            raise
        except Exception as error:  # whatever the user's code raises: the other combinations are worth their time
            failed[k] = error
        else:
            if place is not None:
                write_text(place / _step_name(job, wanted[k]), json.dumps([found[k].eta, found[k].tries]))
        watch.did(1)

    if missing:
        with quiet():
            title, apart = f"{len(missing)} searches", any(job.calls_python for job in jobs)
            run_all(one, len(missing), work=1, threads=threads, progress=progress, title=title, apart=apart)
    return found


def _step_name(job: Job, step: Tuned) -> str:
    """The name under which a step that was found is kept: another for anything that could change it."""
    marks = [_mark(part) for part in (job.problem, job.method, job.activity, step)]
    text = json.dumps([job.about(), marks])
    return hashlib.sha256(text.encode()).hexdigest()[:20] + ".json"


def _kept_step(place: Path | None, name: str) -> Found | None:
    """A step that an earlier sweep has found; a damaged file counts as not there."""
    try:
        eta, tries = json.loads(b"null" if place is None else (place / name).read_bytes())
        return Found(float(eta), tuple((float(one), float(error)) for one, error in tries))
    except (OSError, ValueError, TypeError):
        return None


def _run(
    jobs: Sequence[Job],
    t: Integers,
    repeats: int,
    record: int,
    place: Path | None,
    threads: int,
    progress: Progress,
    failed: dict[int, Exception],
) -> dict[int, Run]:
    """The runs of all jobs but those that fail, which are added to `failed`."""
    paths = [] if place is None else [place / name for name in _names(jobs, repeats, record)]
    runs = _kept(paths)
    missing = [k for k in range(len(jobs)) if k not in runs and k not in failed]
    shelf = _Shelf(jobs, t, repeats, paths)

    def one(index: int, watch: Watch) -> None:
        which, repeat = missing[index // repeats], index % repeats
        if which in failed:
            watch.did(jobs[which].iterations)
            return
        try:
            shelf.put(which, repeat, jobs[which].repeat(repeat, t, watch))
        except (Cancelled, OSError, MemoryError, BadFile):  # not the combination's own fault
            raise
        except Exception as error:  # whatever the user's code raises
            failed.setdefault(which, error)

    if missing:
        count, title, apart = len(missing) * repeats, f"{len(missing)} runs", any(job.calls_python for job in jobs)
        run_all(one, count, work=jobs[0].iterations, threads=threads, progress=progress, title=title, apart=apart)
    return runs | shelf.done


def _mark(part: Any) -> str:
    """What tells one part from another: how it prints, and its arrays, which do not print in full."""
    digest = hashlib.sha256(repr(part).encode())
    arrays = part.oracle() if isinstance(part, Problem) else getattr(part, "trace", ())
    # Scratch space is writable, data is not; a problem whose data are writable is only known as itself.
    data = [value for value in arrays if isinstance(value, np.ndarray) and not value.flags.writeable]
    for value in data:
        digest.update(value.tobytes())
    weights = getattr(part if isinstance(part, Problem) else weighting_of(part), "weights", None)
    if weights is not None and not isinstance(weights, str):
        digest.update(np.asarray(weights, np.float64).tobytes())
    if isinstance(part, Problem) and not data:
        digest.update(str(id(part)).encode())
    return digest.hexdigest()


def _names(jobs: Sequence[Job], repeats: int, record: int) -> list[str]:
    """The names under which the combinations' runs are kept: others for anything that could change them."""
    marks: dict[int, str] = {}  # of every part but once: it may hold much data
    names = []
    for job in jobs:
        parts = (job.problem, job.method, job.activity, job.step)
        for part in parts:
            if id(part) not in marks:
                marks[id(part)] = _mark(part)
        own = [marks[id(part)] for part in parts]
        text = json.dumps([job.about(), repeats, record, own, *sorted(job.evaluate), *job.measured])
        names.append(hashlib.sha256(text.encode()).hexdigest()[:20] + ".npz")
    return names


def _kept(paths: Sequence[Path]) -> dict[int, Run]:
    """What an earlier sweep has finished; a damaged file counts as not there."""
    runs: dict[int, Run] = {}
    for k, path in enumerate(paths):
        with suppress(BadFile):
            runs[k] = load(path)
    return runs


class _Shelf:
    """Collects the repeats of every combination; one that is complete becomes a run, and is kept at once."""

    def __init__(self, jobs: Sequence[Job], t: Integers, repeats: int, paths: Sequence[Path]) -> None:
        self._jobs, self._t, self._repeats, self._paths = jobs, t, repeats, paths
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
        if self._paths:
            run.save(self._paths[which])
        self.done[which] = run
