"""`simulate`: a problem, a method, an activity and a step become a run; repeats in parallel, nothing left to chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from siag.activity import Activity, Timed, checked_sizes, unfold, waited
from siag.activity.agenda import STEP, Events
from siag.activity.membership import pieces
from siag.foundations import check
from siag.foundations.callback import callback_of
from siag.foundations.dispatch import is_own, plainly
from siag.foundations.encodings import FLOAT64
from siag.foundations.errors import DivergenceWarning, shorten, warn
from siag.foundations.memory import check_fits, size
from siag.foundations.overflow import LIMIT
from siag.foundations.parallel import Progress, Watch, cores, run_all
from siag.foundations.rng import SAMPLES, blank, key
from siag.foundations.schedule import Schedule, points
from siag.foundations.types import Floats, Integers, Record
from siag.foundations.version import __version__
from siag.methods import Method, answer, check_fit, check_parts, shown, step_of, try_method, try_problem
from siag.methods.rounded import Rounded, check_messages
from siag.methods.weighted import weigh_parts, weighted_for
from siag.problems import Problem, sample
from siag.problems.from_function import why_diverged
from siag.problems.weights import Weights
from siag.simulation.aged import aged_events, aged_schedule
from siag.simulation.in_flight import Flight, follow_events
from siag.simulation.iterate import CURSOR, DRAWN, Draws, Track, Views, cuts, iterate, note, release
from siag.simulation.members import Aims
from siag.simulation.metrics import (
    STATIONARITY,
    WORDS,
    Evaluate,
    check_evaluate,
    evaluated,
    measured_of,
)
from siag.simulation.run import Run
from siag.steps import Step, left, shifted

Parts: TypeAlias = tuple[Record, Record, Record, Views]
"""The oracle, the workers' memory, the server's state and what others see of it, of one repeat."""

EXPLODED = 1e6  # times the error of the start: a run that ends above it has diverged
CALL = 10**4  # numbers that are touched in the time of a call of Python, so that Ctrl-C and progress stay prompt
ROOM = 1 << 22  # numbers of results that are kept until F and ‖∇F‖² are measured there
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
    objective: bool | None = None,
    messages: str = FLOAT64.name,
    weights: Weights = None,
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
        w0: (d,) where to start; the problem's own `start` by default, which is 0 for most.
        threads: how many to use; all cores by default.
        progress: `True` shows a bar; a function is called with the fraction done.
        compiled: `False` runs the very same functions as plain Python: slow, easy to step through, needed for
            a problem or method that Numba cannot compile.
        evaluate: metrics of your own by name, functions of w, measured at the recorded points: `run.metrics`.
        objective: whether to measure F and ‖∇F‖² at the recorded points, as far as the problem knows them:
            `run.objective`, `run.stationarity`. Each costs a look at all data of all workers. By default only where no
            optimum is known.
        messages: in which numbers workers read w and send their messages, as in `siag.train`, to see what rounding
            them costs: `"float64"`, `"float32"`, `"bfloat16"` or `"int8"`. `run.bytes` counts them as they are.
        weights: what workers count for, in place of the problem's own weights: F = Σ p_i F_i. One number of 0 or more
            for each; or `"points"` of a problem whose workers hold points: by how many they hold. `"samples"`: by how
            often they have reported so far, for methods that keep a table; errors are then measured for the shares of
            reports that the activity leads to, which must be known ahead, as they are of `Bernoulli` or `Recorded`.

    Returns:
        The run; its error is ‖w − w*‖², where no optimum is known ‖∇F(w)‖², or else F(w); `run.measure` says which.
        F and w* are those of the members at the time, where workers come and go (`siag.activity.Members`). If a repeat
        diverges a `DivergenceWarning` says when, and the run keeps what there is.

    Example:
        >>> import siag
        >>> problem = siag.problems.LeastSquares.random(n=10, d=5, p=4, noise=0.1)
        >>> activity, step = siag.activity.Uniform(5), siag.steps.Harmonic(beta=1.0, gamma=200)
        >>> run = simulate(problem, siag.methods.SIAG(), activity, step, iterations=2000)
        >>> bool(run.error[0, -1] < 0.01 * run.error[0, 0])
        True
    """
    iterations, repeats = check.integer("iterations", iterations), check.integer("repeats", repeats, high=MOST)
    problem, method = weigh_parts(problem, method, activity, weights, iterations)
    step = step_of(method, step)
    check_fit(problem, method, activity, step, iterations)
    start = start_of(problem) if w0 is None else check.floats("w0", w0, (problem.d,))
    fast, metrics = check.truth("compiled", compiled), check_evaluate(evaluate)
    measured = None if objective is None else check.truth("objective", objective)
    kind = check_messages(messages, method, problem.d)
    job = Job(problem, method, activity, step, iterations, check.seed(seed), start, fast, metrics, measured, kind)
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
        apart=job.calls_python,
    )
    run = assemble(job, t, results)
    _warn(run, job)
    return run


def start_of(problem: Problem) -> Floats:
    """(d,) where runs on a problem begin."""
    return check.floats("problem.start", problem.start, (problem.d,))


class Outcome(NamedTuple):
    """What one repeat has shown."""

    track: Track
    w: Floats  # (d,) the result
    diverged: int  # at which iteration, or −1
    cause: str  # of that, if it is known, and what to do
    measured: dict[str, Floats]  # (points,) of F and ‖∇F‖², as far as they were measured


def assemble(job: Job, t: Integers, results: Sequence[Outcome]) -> Run:
    """The repeats of a job as one run."""
    own = [evaluated(job.evaluate, each.track.kept) | each.measured for each in results]
    metrics = {name: np.stack([found[name] for found in own]) for name in own[0]}
    tracks = [each.track for each in results]
    first = min((each for each in results if each.diverged >= 0), key=lambda each: each.diverged, default=None)
    judge, cause = job.judge, {} if first is None or not first.cause else {"cause": first.cause}
    about = job.about() | {"repeats": len(results)} | cause
    return Run(
        t,
        metrics[judge] if judge else np.stack([track.error for track in tracks]),
        np.stack([track.counts[0] for track in tracks]),
        np.stack([track.time for track in tracks]),
        np.stack([each.w for each in results]),
        np.array([each.diverged for each in results], np.int64),
        about | ({"measure": WORDS[judge]} if judge else {}),
        np.stack([track.counts[1] for track in tracks]),
        np.stack([track.counts[2] for track in tracks]),
        metrics,
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
    objective: bool | None = None
    messages: str = FLOAT64.name

    @cached_property
    def server(self) -> Method:
        """The method as it runs: with the problem's weights, if it has any."""
        return weighted_for(self.problem, self.method)

    @cached_property
    def aims(self) -> Aims:
        """What those who are members minimise."""
        return Aims(self.problem, self.activity.changes(self.problem.n))

    @cached_property
    def measured(self) -> list[str]:
        """What is measured at the recorded points: ‖∇F‖² and F, both, one, or none."""
        wanted = not self.aims.located if self.objective is None else self.objective
        return self.aims.known if wanted else []

    @property
    def judge(self) -> str:
        """Which of these the error is, where no optimum is known."""
        return "" if self.aims.located or not self.measured else self.measured[0]

    @property
    def calls_python(self) -> bool:
        """Whether compiled code calls functions of the user's, which takes a thread of its own."""
        return self.compiled and callback_of(self.problem.oracle()) is not None

    def check(self, threads: int = 1) -> None:
        """Refuse what would not fit into memory, and parts of the user's own that compiled code could not bear.

        What is not the package's own runs for a few iterations as plain Python first, once per class and process.
        """
        problem = self.problem
        remedy = "use rows='float32' if the method has a table, fewer workers, or fewer threads"
        try:
            state, memory = self.server.init(self.w0, problem.n), self._recruit()
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
        if problem.optimum is not None:
            check.floats("problem.optimum", problem.optimum, (problem.d,))
        sample.meaning(type(problem.oracle()))
        check_parts(self.server, self.w0, state, memory)
        if self.compiled:
            try_problem(problem, memory, STATIONARITY in self.measured)
            n, iterations = problem.n, self.iterations
            try_method(self.server, self.w0, n, state, memory, problem=problem, iterations=iterations)

    def _recruit(self) -> Record:
        """The workers' memory; where messages are short, they round what they read and send."""
        method = self.method if self.messages == FLOAT64.name else Rounded(self.method, self.messages)
        return method.recruit(self.w0, self.problem.n)

    @property
    def _length(self) -> int:
        """How many numbers a report has."""
        return self.method.message(self.problem.d, self.problem.n)

    @property
    def _cost(self) -> int:
        """How many numbers an arrival touches, or would in the time that a call of Python takes."""
        return max(self.problem.d, self._length, CALL if self.calls_python else 0)

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
        } | ({} if self.messages == FLOAT64.name else {"messages": self.messages})

    def repeat(self, repeat: int, t: Integers, watch: Watch) -> Outcome:
        """Run one repeat."""
        n, track = self.problem.n, self._track(t)
        parts = (self.problem.oracle(), self._recruit(), self.server.init(self.w0, n))
        draws = Draws(key(self.seed, repeat, SAMPLES), blank(), np.zeros(n, np.int64))
        oracle, _, state = parts
        called = callback_of(oracle)
        if called is not None:
            called.prepare(parts[1:], watch.stopped)
        note(track, state.w, 0.0)
        found = {name: np.full(len(t), np.nan) for name in self.measured}
        since = self._measure(track, 0, found, 0.0)
        along = self._events if isinstance(self.activity, Timed) else self._schedule
        diverged = -1
        for done, lost, now in along(repeat, (*parts, Views(shown(state), answer(state))), draws, track):
            if called is not None and called.error is not None:
                raise called.error
            since = self._measure(track, since, found, now)
            watch.did(done)
            diverged = lost
        error = found[self.judge] if self.judge else track.error
        if diverged >= 0:
            track.counts[:, track.tally[CURSOR] :] = track.tally[DRAWN:, None]
        elif error[-1] > EXPLODED * (track.limit / LIMIT + abs(error[0])):
            diverged = self.iterations - 1  # not beyond the limit yet, but nobody would call this a result
        cause = self._cause(oracle, state) if diverged >= 0 else ""
        return Outcome(track, np.array(answer(state)), int(diverged), cause, found)

    def _cause(self, oracle: Record, state: Record) -> str:
        """What a divergence comes from and what to do, where it is not the step."""
        if is_own(type(self.problem)) or not np.isnan(state.w).any():
            return why_diverged(oracle)
        what = "w was in range one iteration before and is NaN now"
        return f"{what}, so a gradient of {shorten(self.problem)} may be NaN; mend it, or use a smaller step"

    def _track(self, t: Integers) -> Track:
        """Room for what is recorded at these times."""
        points, reference = len(t), self.aims.reference(0.0)
        t = np.array(t)  # both copied: to Numba, arrays that may be read-only would be another type to compile for
        limit = LIMIT * (1.0 + float(np.fmax(np.abs(self.w0).max(), np.abs(reference).max())))
        error, time = np.full((2, points), np.nan)
        counts, tally = np.zeros((3, points), np.int64), np.zeros(4, np.int64)
        kept = np.full((self._room(points), self.problem.d), np.nan)
        return Track(reference, t, error, counts, time, tally, limit, kept)

    def _room(self, points: int) -> int:
        """How many results to keep: all for metrics of the user's own, else as many as are measured at a time."""
        if self.evaluate or not self.measured:
            return points if self.evaluate else 0
        return min(points, max(1, ROOM // self.problem.d))

    def _measure(self, track: Track, since: int, found: dict[str, Floats], now: float) -> int:
        """Measure F and ‖∇F‖² of those who are there now at the points from `since` on; return how many there are."""
        until = int(track.tally[CURSOR])
        problem = self.aims.at(now) if found and until > since else self.problem
        for point in range(since, until if found else since):
            w = track.kept[point % len(track.kept)].copy()
            w.setflags(write=False)
            if np.isfinite(w).all():
                with nullcontext() if self.compiled else plainly():
                    for name, curve in found.items():
                        curve[point] = measured_of(problem, name, w)
        return until

    @property
    def _paced(self) -> Activity:
        """Who reports when, where reports take as many gradients as the method's do."""
        return self.activity.paced(self.method.work(self.problem.n))

    def _waited(self, repeat: int) -> int:
        """How many iterations the method waits for workers, which its schedule of steps leaves out."""
        n = self.problem.n
        return waited(self._paced, n, self.method.quorum(n), self.iterations, self.seed, repeat)

    def _schedule(self, repeat: int, parts: Parts, draws: Draws, track: Track) -> Iterator[tuple[int, int, float]]:
        """Run along a schedule; yield iterations done, that of a divergence, or −1, and whose members it was."""
        loop = iterate if self.compiled else iterate.plain
        message, cost = np.empty(self._length), self._cost
        n, rule = self.problem.n, self.step.rule(self.problem.n)
        sizes = shifted(self.step, self._waited(repeat)) if rule is None else None
        for first, chunk in unfold(self.activity, n, self.iterations, self.seed, repeat, sizes, cost):
            for begin, end in pieces(self.aims.changes, first, chunk.iterations, cuts(track, first, chunk.iterations)):
                t = first + begin
                piece = Schedule(chunk.start[begin : end + 1], chunk.worker, chunk.eta[begin:end])
                self.aims.enter(t + 1, track)
                self._release(t, parts, rule)
                if rule is not None:
                    aged_schedule(rule, piece, t, self.compiled)
                diverged = loop(*parts, draws, piece, t, track, message)
                if diverged >= 0:
                    yield self.iterations - t, diverged, t + 1
                    return
                yield end - begin, -1, t + 1

    def _release(self, t: int, parts: Parts, rule: Record | None) -> None:
        """Let go of those who leave before iteration t."""
        _, memory, state, _ = parts
        for change in self.aims.changes:
            if change.when == t and len(change.left):
                (release if self.compiled else release.plain)(state, memory, change.left)
                for i in change.left.tolist() if rule is not None else ():
                    left(rule, i)

    def _events(self, repeat: int, parts: Parts, draws: Draws, track: Track) -> Iterator[tuple[int, int, float]]:
        """Run along a virtual clock; yield what `_schedule` does."""
        loop = follow_events if self.compiled else follow_events.plain
        n, first, rule = self.problem.n, 0, self.step.rule(self.problem.n)
        flight = Flight(np.empty((n, self._length)), np.zeros(n, np.bool_))
        cost = self._cost
        sizes = shifted(self.step, self._waited(repeat))
        for chunk in cast(Timed, self._paced).events(n, self.iterations, self.seed, repeat, cost):
            after = np.flatnonzero(chunk.code == STEP) + 1
            steps = len(after)
            if rule is None:
                eta = checked_sizes(sizes, first, steps)
            else:
                eta = aged_events(rule, chunk, first, steps, self.compiled)
            places = {int(after[k - 1]) for k in cuts(track, first, steps)}
            places |= {int(np.searchsorted(chunk.time, change.when)) for change in self.aims.changes}
            whole = len(chunk.code)
            for a, b in pairwise([0, *sorted(place for place in places if 0 < place < whole), whole]):
                begin, end = np.searchsorted(after, (a, b), side="right")
                self.aims.enter(chunk.time[a], track)
                piece = Events(chunk.code[a:b], chunk.age[a:b], chunk.time[a:b], chunk.factor[a:b])
                diverged = loop(*parts, draws, piece, eta[begin:end], first + begin, track, flight)
                if diverged >= 0:
                    yield self.iterations - first - begin, diverged, chunk.time[a]
                    return
                yield end - begin, -1, chunk.time[a]
            first += steps


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
    remedy = run.about.get("cause", "use a smaller step")
    warn(f"{len(wrong)} of {run.repeats} repeats diverged, {where}; {remedy}", DivergenceWarning)
