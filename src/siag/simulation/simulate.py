"""`simulate`: a problem, a method, an activity and a step become a run; repeats in parallel, nothing left to chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from siag.activity import Activity, Timed, checked_sizes, unfold, waited
from siag.activity.agenda import STEP
from siag.foundations import check
from siag.foundations.errors import DivergenceWarning, shorten, warn
from siag.foundations.memory import check_fits, size
from siag.foundations.overflow import LIMIT
from siag.foundations.parallel import Progress, Watch, cores, run_all
from siag.foundations.rng import SAMPLES, blank, key
from siag.foundations.schedule import points
from siag.foundations.types import Floats, Integers, Record
from siag.foundations.version import __version__
from siag.methods import Method, answer, check_fit, check_parts, shown, step_of, try_method, try_problem
from siag.problems import Problem, sample
from siag.simulation.aged import aged_events, aged_schedule
from siag.simulation.in_flight import Flight, follow_events
from siag.simulation.iterate import CURSOR, DRAWN, Draws, Track, Views, iterate, note
from siag.simulation.metrics import Evaluate, check_evaluate, evaluated
from siag.simulation.run import Run
from siag.steps import Step, shifted

Parts: TypeAlias = tuple[Record, Record, Record, Views]
"""The oracle, the workers' memory, the server's state and what others see of it, of one repeat."""

EXPLODED = 1e6  # times the error of the start: a run that ends above it has diverged
MOST = 10**6  # repeats, and points of a curve: beyond this the result itself is too large to hold


def simulate(
    problem: Problem,
    method: Method,
    activity: Activity,
    step: Step | None = None,
    *,
    iterations: int,
    repeats: int = 1,
    seed: int = 0,
    record: int = 200,
    w0: Floats | None = None,
    threads: int | None = None,
    progress: Progress = False,
    compiled: bool = True,
    evaluate: Evaluate | None = None,
) -> Run:
    """Run a method on a problem along an activity, `repeats` times.

    Worker i's k-th sample is a function of (seed, repeat, i, k) alone, and the activity of (seed, repeat) alone. So
    the result does not depend on the number of threads, and two methods with the same seed see the same samples.

    Args:
        problem: what to minimise.
        method: what workers send and the server does with it.
        activity: who reports when.
        step: the sizes of the server's moves; left out for a method that finds them itself, as `Automatic` does.
        iterations: how many moves.
        repeats: independent runs; they run in parallel.
        seed: of all randomness of the runs (a problem drawn at random has a seed of its own).
        record: how many points of the error curve to keep, spaced evenly on a logarithmic axis; of 50 or more, half of
            them over the last nine tenths.
        w0: (d,) where to start; 0 by default.
        threads: how many to use; all cores by default.
        progress: `True` shows a bar; a function is called with the fraction done.
        compiled: `False` runs the very same functions as plain Python: slow, easy to step through, needed for
            a problem or method that Numba cannot compile.
        evaluate: metrics of your own by name, functions of w, measured at the recorded points: `run.metrics`.

    Returns:
        The run. If a repeat diverges a `DivergenceWarning` says when, and the run keeps what there is.

    Example:
        >>> import siag
        >>> problem = siag.problems.LeastSquares.random(n=10, d=5, p=4, noise=0.1)
        >>> activity, step = siag.activity.Uniform(5), siag.steps.Harmonic(beta=1.0, gamma=200)
        >>> run = simulate(problem, siag.methods.SIAG(), activity, step, iterations=2000)
        >>> bool(run.error[0, -1] < 0.01 * run.error[0, 0])
        True
    """
    iterations, repeats = check.integer("iterations", iterations), check.integer("repeats", repeats, high=MOST)
    step = step_of(method, step)
    check_fit(problem, method, activity, step, iterations)
    start = np.zeros(problem.d) if w0 is None else check.floats("w0", w0, (problem.d,))
    fast, metrics = check.truth("compiled", compiled), check_evaluate(evaluate)
    job = Job(problem, method, activity, step, iterations, check.seed(seed), start, fast, metrics)
    threads = min(cores(), repeats) if threads is None else check.integer("threads", threads)
    job.check(min(threads, repeats))
    t = points(iterations, check.integer("record", record, high=MOST))
    results = run_all(
        lambda repeat, watch: job.repeat(repeat, t, watch),
        repeats,
        work=iterations,
        threads=threads,
        progress=progress,
        title="simulating",
    )
    run = assemble(job, t, results)
    _warn(run, job)
    return run


def assemble(job: Job, t: Integers, results: Sequence[tuple[Track, Floats, int]]) -> Run:
    """The repeats of a job as one run."""
    metrics = [evaluated(job.evaluate, track.kept) for track, _, _ in results]
    return Run(
        t,
        np.stack([track.error for track, _, _ in results]),
        np.stack([track.counts[0] for track, _, _ in results]),
        np.stack([track.time for track, _, _ in results]),
        np.stack([w for _, w, _ in results]),
        np.array([when for _, _, when in results], np.int64),
        job.about() | {"repeats": len(results)},
        np.stack([track.counts[1] for track, _, _ in results]),
        np.stack([track.counts[2] for track, _, _ in results]),
        {name: np.stack([found[name] for found in metrics]) for name in job.evaluate},
    )


@dataclass(frozen=True)
class Job:
    """One configuration; each of its repeats can run on its own."""

    problem: Problem
    method: Method
    activity: Activity
    step: Step
    iterations: int
    seed: int
    w0: Floats
    compiled: bool
    evaluate: Evaluate = field(default_factory=dict)

    def check(self, threads: int = 1) -> None:
        """Refuse what would not fit into memory, and parts of the user's own that compiled code could not bear.

        What is not the package's own runs for a few iterations as plain Python first, once per class and process.
        """
        problem = self.problem
        remedy = "use rows='float32' if the method has a table, fewer workers, or fewer threads"
        try:
            state, memory = self.method.init(self.w0, problem.n), self.method.recruit(self.w0, problem.n)
        except MemoryError:
            numbers = problem.n * problem.d
            check_fits(8 * numbers, f"a table of {problem.n} × {problem.d} numbers", remedy)
            raise
        flying = 8 * problem.n * self._length if isinstance(self.activity, Timed) else 0
        each = size((state, memory)) + flying
        check_fits(
            threads * each,
            f"{self.method!r} with {problem.n} workers and d = {problem.d}, {threads} at a time,",
            remedy,
        )
        check.floats("problem.optimum", problem.optimum, (problem.d,))
        sample.meaning(type(problem.oracle()))
        check_parts(self.method, self.w0, state, memory)
        if self.compiled:
            try_problem(problem, memory)
            n, iterations = problem.n, self.iterations
            try_method(self.method, self.w0, n, state, memory, problem=problem, iterations=iterations)

    @property
    def _length(self) -> int:
        """How many numbers a report has."""
        return self.method.message(self.problem.d, self.problem.n)

    def about(self) -> dict[str, Any]:
        """What was run, in words and numbers."""
        upload, download = self.method.traffic(self.problem.d, self.problem.n)
        return {
            "siag": __version__,
            "problem": repr(self.problem),
            "method": repr(self.method),
            "activity": repr(self.activity),
            "step": repr(self.step),
            "w0": shorten(self.w0.tolist()) if self.w0.any() else "0",
            "iterations": self.iterations,
            "seed": self.seed,
            "upload": upload,
            "download": download,
        }

    def repeat(self, repeat: int, t: Integers, watch: Watch) -> tuple[Track, Floats, int]:
        """Run one repeat; return what was recorded, the final w, and the iteration of a divergence or −1."""
        n = self.problem.n
        parts = (self.problem.oracle(), self.method.recruit(self.w0, n), self.method.init(self.w0, n))
        draws = Draws(key(self.seed, repeat, SAMPLES), blank(), np.zeros(n, np.int64))
        reference = np.array(self.problem.optimum, np.float64)
        t = np.array(t)  # both copied: to Numba, arrays that may be read-only would be another type to compile for
        scale = 1.0 + float(max(np.abs(self.w0).max(), np.abs(reference).max()))
        error, time = np.full((2, len(t)), np.nan)
        counts, tally = np.zeros((3, len(t)), np.int64), np.zeros(4, np.int64)
        kept = np.full((len(t) if self.evaluate else 0, self.problem.d), np.nan)
        track = Track(reference, t, error, counts, time, tally, LIMIT * scale, kept)
        state = parts[2]
        views = Views(shown(state), answer(state))
        note(track, state.w, 0.0)
        along = self._events if isinstance(self.activity, Timed) else self._schedule
        diverged = -1
        for done, left in along(repeat, (*parts, views), draws, track):
            watch.did(done)
            diverged = left
        if diverged >= 0:
            track.counts[:, tally[CURSOR] :] = tally[DRAWN:, None]
        elif error[-1] > EXPLODED * (scale + error[0]):
            diverged = self.iterations - 1  # not beyond the limit yet, but nobody would call this a result
        return track, np.array(answer(state)), int(diverged)

    @property
    def _paced(self) -> Activity:
        """Who reports when, where reports take as many gradients as the method's do."""
        return self.activity.paced(self.method.work(self.problem.n))

    def _waited(self, repeat: int) -> int:
        """How many iterations the method waits for workers, which its schedule of steps leaves out."""
        n = self.problem.n
        return waited(self._paced, n, self.method.quorum(n), self.iterations, self.seed, repeat)

    def _schedule(self, repeat: int, parts: Parts, draws: Draws, track: Track) -> Iterator[tuple[int, int]]:
        """Run along a schedule; yield iterations done and that of a divergence, or −1."""
        loop = iterate if self.compiled else iterate.plain
        message, cost = np.empty(self._length), max(self.problem.d, self._length)
        n, rule = self.problem.n, self.step.rule(self.problem.n)
        sizes = shifted(self.step, self._waited(repeat)) if rule is None else None
        for first, chunk in unfold(self.activity, n, self.iterations, self.seed, repeat, sizes, cost):
            if rule is not None:
                aged_schedule(rule, chunk, first, self.compiled)
            diverged = loop(*parts, draws, chunk, first, track, message)
            if diverged >= 0:
                yield self.iterations - first, diverged
                return
            yield chunk.iterations, -1

    def _events(self, repeat: int, parts: Parts, draws: Draws, track: Track) -> Iterator[tuple[int, int]]:
        """Run along a virtual clock; yield iterations done and that of a divergence, or −1."""
        loop = follow_events if self.compiled else follow_events.plain
        n, first, rule = self.problem.n, 0, self.step.rule(self.problem.n)
        flight = Flight(np.empty((n, self._length)), np.zeros(n, np.bool_))
        cost = max(self.problem.d, self._length)
        sizes = shifted(self.step, self._waited(repeat))
        for chunk in cast(Timed, self._paced).events(n, self.iterations, self.seed, repeat, cost):
            steps = int((chunk.code == STEP).sum())
            if rule is None:
                eta = checked_sizes(sizes, first, steps)
            else:
                eta = aged_events(rule, chunk, first, steps, self.compiled)
            diverged = loop(*parts, draws, chunk, eta, first, track, flight)
            if diverged >= 0:
                yield self.iterations - first, diverged
                return
            first += steps
            yield steps, -1


def _warn(run: Run, job: Job) -> None:
    """Say what diverged, when, and with which step."""
    wrong = np.flatnonzero(run.diverged >= 0)
    if len(wrong) == 0:
        return
    first = wrong[np.argmin(run.diverged[wrong])]
    t = int(run.diverged[first])
    aged = job.step.rule(job.problem.n) is not None
    used = repr(job.step) if aged else f"step {float(job.step.sizes(np.array([t]))[0]):.4g}"
    where = f"the first (repeat {first}) at iteration {t} with {used}"
    warn(f"{len(wrong)} of {run.repeats} repeats diverged, {where}; use a smaller step", DivergenceWarning)
