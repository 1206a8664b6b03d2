"""The exact error curve: E‖w^t − w*‖² along a given activity, computed instead of sampled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.activity import Activity, unfold, waited
from siag.activity.membership import in_force, pieces
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import Unsuitable
from siag.foundations.memory import size
from siag.foundations.parallel import Progress, Watch, run_all
from siag.foundations.schedule import Schedule, points
from siag.foundations.types import Floats, Integers, Record
from siag.methods import Exact, Fresh, MeanRows, Method, Streaming, Table, check_fit, try_out
from siag.methods.weighted import Weighing, weigh_parts, weighted_for
from siag.problems import LeastSquares, Problem, optimum_of
from siag.problems.weights import Weights
from siag.steps import Step, shifted
from siag.theory.blocks import Linear, blocks_at_start, carry_blocks, drop_from_blocks, quadratic
from siag.theory.linear import check_linear
from siag.theory.moments import Source, drop, fresh_moments, mean_row_moments, move, renew, table_moments
from siag.theory.trail import Trail, mark


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """An exact error curve.

    Attributes:
        t: (points,) iterations, first 0.
        error: (points,) E‖w^t − w*‖² = bias + variance.
        bias: (points,) ‖E w^t − w*‖².
        variance: (points,) E‖w^t − E w^t‖².
    """

    t: Integers
    bias: Floats
    variance: Floats

    @property
    def error(self) -> Floats:
        """E‖w^t − w*‖²."""
        return self.bias + self.variance

    def __repr__(self) -> str:
        """Where it begins and ends."""
        error = self.error
        return f"Curve(<{len(self.t)} points to t = {self.t[-1]:,}: error {error[0]:.4g} → {error[-1]:.4g}>)"


def exact_error(
    problem: Problem,
    method: Method,
    activity: Activity,
    step: Step,
    *,
    iterations: int,
    seed: int = 0,
    record: int = 200,
    repeats: int = 1,
    w0: Floats | None = None,
    threads: int | None = None,
    progress: Progress = False,
    weights: Weights = None,
) -> Curve:
    """E‖w^t − w*‖² of a quadratic problem, given who is active when; the expectation is over the samples only.

    Where workers come and go (`siag.activity.Members`), w* is the optimum of those who are members at t.

    With the same seed it sees the activity pattern that `simulate` sees. Works for methods that are linear in w and
    gradients: those that keep a table of gradients (sIAG, IAG, SAG, SAGA) or of moving averages of them (sIAG with
    `average`), non-aggregated SGD, `Averaged` and `Weighted` around any of them, and what `linear` declares. Weights of
    the problem are those of F = Σ p_i F_i, and the method has them, as in `simulate`. On
    `LeastSquares` an iteration costs O(n) for every earlier one in which an active worker reported last, and O(n |A_t|)
    with `average`; on others it takes covariances of all vectors and rows, O(n d³ |A_t|).

    Args:
        problem: a `LeastSquares`, whose sampler does not matter; a `Ridge`, with mini-batches or not; or a quadratic of
            your own, for whose oracle `exact` and `siag.theory.noise` have a meaning.
        method: one of the above.
        activity: who reports when.
        step: the sizes of the server's moves.
        iterations: how many moves.
        seed: of the activity.
        record: how many points to keep, as in `siag.simulate`.
        repeats: how many repeats' patterns to average over.
        w0: (d,) where to start; 0 by default.
        threads: how many to use; all cores by default.
        progress: as in `simulate`.
        weights: as in `simulate`.

    Example:
        >>> from siag.activity import Uniform
        >>> from siag.methods import SIAG
        >>> from siag.problems import Ridge
        >>> from siag.steps import Harmonic
        >>> problem = Ridge.random(n=4, d=2, m=8, seed=1)
        >>> curve = exact_error(problem, SIAG(), Uniform(3), Harmonic(4.0, 40.0), iterations=1000)
        >>> bool(curve.error[-1] < 0.01 * curve.error[0])
        True
    """
    iterations, seed = check.integer("iterations", iterations), check.seed(seed)
    repeats = check.integer("repeats", repeats)
    problem, method = weigh_parts(problem, method, activity, weights, iterations)
    check_fit(problem, method, activity, step, iterations)
    t = points(iterations, check.integer("record", record))
    moments_at_start(problem, method, w0)
    changes = activity.changes(problem.n)
    optima = [optimum_of(problem.among(change.members)) for change in changes] or [optimum_of(problem)]

    def one(repeat: int, watch: Watch) -> Trail:
        moments = moments_at_start(problem, method, w0)
        trail = Trail(t, np.array(optima[0]), np.empty((2, len(t))), np.zeros(1, np.int64))
        mark(trail, moments.m, moments.V)
        sizes = shifted(step, waited(activity, problem.n, method.quorum(problem.n), iterations, seed, repeat))
        cost = size([moments]) // (8 * problem.n)
        for first, chunk in unfold(activity, problem.n, iterations, seed, repeat, sizes, cost):
            for begin, end in pieces(changes, first, chunk.iterations):
                now = first + begin
                trail.optimum[:] = optima[in_force(changes, now + 1)]
                for i in (i for change in changes if change.when == now for i in change.left):
                    lose(moments, int(i))
                piece = Schedule(chunk.start[begin : end + 1], chunk.worker, chunk.eta[begin:end])
                carry(moments, piece, now, trail)
            watch.did(chunk.iterations)
        return trail

    trails = run_all(one, repeats, work=iterations, threads=threads, progress=progress, title="exact error")
    bias, variance = np.mean([trail.parts for trail in trails], axis=0)
    return Curve(t, bias, variance)


def least_squares(what: str, problem: Problem) -> LeastSquares:
    """The problem, if it is the one for which `what` is known."""
    if not isinstance(problem, LeastSquares):
        raise Unsuitable(f"{what}: known for LeastSquares, not for {type(problem).__name__}; use simulate")
    return problem


def moments_at_start(problem: Problem, method: Method, w0: Floats | None) -> Record:
    """The moments before iteration 0, for a problem and a method of which they are known."""
    start = np.zeros(problem.d) if w0 is None else check.floats("w0", w0, (problem.d,))
    method = weighted_for(problem, method)
    memory = method.recruit(start, problem.n)
    if not isinstance(memory, Streaming | Exact):
        raise Unsuitable(f"the exact moments of {method!r} are not known: its workers remember; use simulate")
    noisy, n = isinstance(memory, Streaming), problem.n
    if isinstance(problem, LeastSquares):
        known = traces_at_start(problem, noisy, method.init(start, n), start)
        if known is not None:
            return known
        moments = blocks_at_start(alike(problem, noisy), method, start, n)
    else:
        moments = blocks_at_start(quadratic(problem, noisy), method, start, n)
    try_out(method, start, n, problem)
    check_linear(method, start, n)
    return moments


def traces_at_start(problem: LeastSquares, noisy: bool, state: Record, w0: Floats) -> Record | None:
    """The moments of a table, or of what keeps nothing, also one whose messages are weighed; `None` for others."""
    source, n = alike(problem, noisy), problem.n
    if isinstance(state, Weighing) and not state.counted:
        source, state = source._replace(weights=state.weights), state.inner
    if isinstance(state, Table):
        return table_moments(source, w0, n, state.quorum)
    if isinstance(state, MeanRows):
        return mean_row_moments(source, w0, n, state.table.quorum, state.most)
    return fresh_moments(source, w0, state.divisor) if isinstance(state, Fresh) else None


def alike(problem: LeastSquares, noisy: bool) -> Source:
    """The law of gradients whose Hessians are p·I, before they are weighed."""
    p, d = problem.p, problem.d
    spread, floor = (float(p * (d + 1)), problem.noise**2 * p * d) if noisy else (0.0, 0.0)
    return Source(problem.centers, float(p), spread, floor, np.ones(problem.n))


def lose(moments: Record, i: int) -> None:
    """Worker i has left."""
    if isinstance(moments, Linear):
        drop_from_blocks(moments, i)
    else:
        drop(moments, i)


def carry(moments: Record, schedule: Schedule, first: int, trail: Trail) -> None:
    """Carry the moments along the schedule."""
    if isinstance(moments, Linear):
        carry_blocks(moments, schedule, first, trail)
    else:
        carry_traces(moments, schedule, first, trail)


@compiled
def carry_traces(moments: Record, schedule: Schedule, first: int, trail: Trail) -> None:
    """Carry the moments along the schedule."""
    for k in range(schedule.eta.size):
        renew(moments, schedule.worker[schedule.start[k] : schedule.start[k + 1]])
        move(moments, schedule.eta[k])
        if first + k + 1 == trail.t[trail.cursor[0]]:
            mark(trail, moments.m, moments.V)
