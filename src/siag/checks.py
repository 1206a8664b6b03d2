"""Conformance: what every method must do. Run it on a method of your own.

    >>> import siag.checks
    >>> siag.checks.conform(siag.methods.SIAG())

In pytest, `@pytest.mark.parametrize("check", siag.checks.CHECKS)` and `check(method)` give one test each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from siag.activity import Activity, Everyone, Recorded, Uniform
from siag.foundations.errors import SiagError
from siag.foundations.parallel import Watch
from siag.foundations.rng import SAMPLES, fresh
from siag.foundations.schedule import points
from siag.foundations.types import Floats, Record, Rng
from siag.methods import Method, advance, answer, compute, fade, forget, ready, receive, shown
from siag.problems import LeastSquares, Problem, Ridge, exact, hessian, sample
from siag.simulation.simulate import Job
from siag.steps import Constant, Harmonic, Step

N, D = 4, 3
LEAVER, STAYER = 1, 2  # the worker that departs, and one of those that do not
ITERATIONS = 40


class CheckFailed(SiagError, AssertionError):
    """A method does not do what every method must."""


def conform(method: Method, skip: Iterable[str] = ()) -> None:
    """Run all checks, except those named in `skip`; raise `CheckFailed` at the first that fails.

    A method may have good reason to skip one: a proximal step is not equivariant to shifts, local steps are not
    gradient descent, and where rounds need everybody nobody can depart.
    """
    names = {check.__name__ for check in CHECKS}
    if unknown := set(skip) - names:
        raise SiagError(f"no such checks: {sorted(unknown)}; there are {sorted(names)}")
    for check in CHECKS:
        if check.__name__ not in set(skip):
            check(method)


def memory_is_plain(method: Method) -> None:
    """The server's memory is a NamedTuple of arrays and numbers, and its w a copy of w0."""
    w0 = np.arange(1.0, D + 1)
    for state in (method.init(w0, N), method.recruit(w0, N)):
        fields = getattr(state, "_fields", None)
        _require(method, fields is not None, f"{state!r} is not a NamedTuple")
        for name, value in zip(fields or (), state, strict=True):
            plain = isinstance(value, np.ndarray | int | float | tuple)
            _require(method, plain, f"{name} = {value!r} is neither an array nor a number")
    state = method.init(w0, N)
    w = getattr(state, "w", None)
    result = None if w is None else answer(state)
    _require(
        method, result is not None and np.array_equal(result, w0), "init must return a state whose field w equals w0"
    )
    _require(method, not np.shares_memory(w, w0), "init must copy w0: the caller's array would be overwritten")


def same_seed_same_run(method: Method) -> None:
    """Two runs with the same seed are the same, bit for bit."""
    first, second = (_final(method, _points(), Uniform(3), compiled=True) for _ in range(2))
    _require(method, np.array_equal(first, second), "two runs with one seed differ: it keeps state between runs")


def silence_is_safe(method: Method) -> None:
    """Iterations in which nobody reports move nothing before the first report, and break nothing after it."""
    w0 = np.arange(1.0, D + 1)
    still = _final(method, _streaming(), Recorded([[]] * ITERATIONS), w0=w0)
    _require(method, np.array_equal(still, w0), "w moved although nobody has ever reported")
    bursts = Recorded([[0, 1, 2, 3] if t % 7 == 3 else [] for t in range(ITERATIONS)])
    final = _final(method, _streaming(), bursts, step=Constant(1e-3))
    _require(method, bool(np.isfinite(final).all()), "silent iterations led to NaN or infinity")


def workers_only_read(method: Method) -> None:
    """Neither `compute` nor `receive` writes to the w that workers are reading."""
    problem, w0 = _streaming(), np.arange(1.0, D + 1)
    state, memory, oracle = method.init(w0, N), method.recruit(w0, N), problem.oracle()
    rng, message = fresh(1, 0, SAMPLES), np.empty(method.message(D, N))
    for t in range(3):
        for i in range(N):
            before = shown(state).copy()
            sent = compute(memory, oracle, rng, i, shown(state), message)
            _require(method, np.array_equal(shown(state), before), "compute wrote to what workers read")
            if sent:
                receive(state, i, message, t)
                same = np.array_equal(shown(state), before)
                _require(method, same, "receive wrote to w, or what else workers read; only advance may")
        advance(state, 1e-3)


def messages_are_complete(method: Method) -> None:
    """What is sent is finite in all its numbers: none is left from before."""
    problem, w0 = _streaming(), np.arange(1.0, D + 1)
    state, memory, oracle = method.init(w0, N), method.recruit(w0, N), problem.oracle()
    rng, message = fresh(1, 0, SAMPLES), np.empty(method.message(D, N))
    for i in range(N):
        message[:] = np.nan
        if compute(memory, oracle, rng, i, shown(state), message):
            _require(method, bool(np.isfinite(message).all()), f"sends {message}: not all of it was written")
            receive(state, i, message, 0)


def forgetting_is_beginning_anew(method: Method) -> None:
    """A worker that has lost its memory is as if just recruited."""
    problem, w0 = _streaming(), np.arange(1.0, D + 1)
    state, memory, oracle = method.init(w0, N), method.recruit(w0, N), problem.oracle()
    rng, message = fresh(1, 0, SAMPLES), np.empty(method.message(D, N))
    for _ in range(3):
        for i in range(N):
            if compute(memory, oracle, rng, i, shown(state), message):
                receive(state, i, message, 0)
        advance(state, 1e-2)
    forget(memory, 1)
    for name, now, new in zip(memory._fields, memory, method.recruit(w0, N), strict=True):
        if isinstance(now, np.ndarray) and now.ndim > 0 and len(now) == N:
            _require(method, np.array_equal(now[1], new[1]), f"a worker that forgot has {name} = {now[1]}")


def departures_are_obeyed(method: Method) -> None:
    """Once a worker's part has faded to 0, nothing depends on what it sent; what the others sent counts as before."""
    kept, gone = (_after_departure(method, factor) for factor in (1.0, 0.0))
    same = np.allclose(kept, _after_departure(method, None), rtol=1e-9, atol=1e-12)
    _require(method, same, "fade(state, i, 1.0) changed something: 1 is all of it")
    other = _after_departure(method, 0.0, moved=LEAVER)
    _require(
        method,
        np.allclose(gone, other, rtol=1e-9, atol=1e-12),
        f"worker {LEAVER} is gone, but what it sent still counts: w is {gone} or {other}, depending on that; "
        "its fade must let go of all that is kept of a worker",
    )
    for factor, w in ((1.0, kept), (0.0, gone)):
        counts = not np.allclose(w, _after_departure(method, factor, moved=STAYER), rtol=1e-9, atol=1e-12)
        if factor == 1.0 and not counts:
            return  # it keeps nothing of anybody
        _require(method, counts, f"with worker {LEAVER} gone, what worker {STAYER} sent no longer counts")


def readiness_is_true(method: Method) -> None:
    """Where `ready` says that `advance` will not step, w stays; with `wait=1` that is until everybody has reported."""
    patient = _waiting_for_all(method)
    for tried in (method,) if patient is None else (method, patient):
        problem, w0 = _bowl(), np.arange(1.0, D + 1)
        state, memory, oracle = tried.init(w0, N), tried.recruit(w0, N), problem.oracle()
        rng, message = fresh(1, 0, SAMPLES), np.empty(tried.message(D, N))
        for reported, i in enumerate((None, 2, 0, None, 3, 1)):
            if i is not None and compute(memory, oracle, rng, i, shown(state), message):
                receive(state, i, message, 0)
            before, steps = state.w.copy(), ready(state)
            advance(state, 1e-2)
            moved = not np.array_equal(state.w, before)
            _require(tried, steps or not moved, "ready says that advance will not step, but w moved")
            early = tried is patient and reported < 5
            _require(tried, not (early and moved), "w moved before all workers had reported")
            _require(tried, not (early and steps), "ready says that advance will step before all workers have reported")


def relabelling_changes_nothing(method: Method) -> None:
    """Numbering the workers differently gives the same iterates, up to rounding."""
    order = np.array([2, 0, 3, 1])
    problem, trace = _bowl(), Recorded.of(Uniform(3), N, ITERATIONS, seed=5)
    renamed = Recorded([np.argsort(order)[workers].tolist() for workers in _sets(trace)])
    one = _final(method, problem, trace)
    two = _final(method, Bowl(problem.centers[order], problem.curvature), renamed)
    _require(method, np.allclose(one, two, rtol=1e-9, atol=1e-12), f"relabelled workers lead to {two}, not {one}")


def shifting_shifts(method: Method) -> None:
    """Moving the problem and the start by a vector moves the iterates by it, up to rounding."""
    problem, shift = _streaming(), np.array([3.0, -1.0, 0.5])
    moved = LeastSquares(problem.centers + shift, problem.p, problem.noise)
    one = _final(method, problem, Uniform(3))
    two = _final(method, moved, Uniform(3), w0=shift) - shift
    _require(method, np.allclose(one, two, rtol=1e-7, atol=1e-9), f"the shifted problem leads to {two}, not {one}")


def all_active_is_gradient_descent(method: Method) -> None:
    """With everyone active and no noise the iterates are those of gradient descent on F."""
    problem, w = _bowl(), np.zeros(D)
    for _ in range(ITERATIONS):
        w = w - 0.1 * np.mean([problem.gradient(i, w) for i in range(N)], axis=0)
    final = _final(method, problem, Everyone(), step=Constant(0.1))
    _require(method, np.allclose(final, w, rtol=1e-10, atol=1e-12), f"reached {final}, gradient descent {w}")


def bad_parameters_are_refused(method: Method) -> None:
    """Every hyper-parameter refuses, with a `ValueError`, a value of no meaning."""
    _require(method, hasattr(method, "__dataclass_fields__"), "is not a dataclass of its hyper-parameters")
    values = _values(method)
    for name in values:
        for nonsense in (float("nan"), "no such thing"):
            try:
                type(method)(**(values | {name: nonsense}))
            except ValueError:
                continue
            except Exception as error:
                raise CheckFailed(f"{method!r}: {name} = {nonsense!r} leads to {error!r}, not a ValueError") from error
            raise CheckFailed(f"{method!r}: accepts {name} = {nonsense!r}")


def compiled_is_plain(method: Method) -> None:
    """The compiled loop and plain Python give the same iterates, bit for bit."""
    fast, slow = (_final(method, _points(), Uniform(3), compiled=compiled) for compiled in (True, False))
    _require(method, np.array_equal(fast, slow), f"compiled code leads to {fast}, plain Python to {slow}")


CHECKS: tuple[Callable[[Method], None], ...] = (
    memory_is_plain,
    same_seed_same_run,
    silence_is_safe,
    workers_only_read,
    messages_are_complete,
    forgetting_is_beginning_anew,
    departures_are_obeyed,
    readiness_is_true,
    relabelling_changes_nothing,
    shifting_shifts,
    all_active_is_gradient_descent,
    bad_parameters_are_refused,
    compiled_is_plain,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Bowl(Problem):
    """F_i(w) = ½ Σ_j a_j (w_j − c_ij)²: no noise at all, so that methods can be compared to rounding."""

    centers: Floats  # (n, d)
    curvature: Floats  # (d,)

    @property
    def n(self) -> int:
        """The number of workers."""
        return len(self.centers)

    @property
    def d(self) -> int:
        """The dimension of w."""
        return len(self.curvature)

    @property
    def optimum(self) -> Floats:
        """(d,) the mean of the centres."""
        return np.asarray(self.centers.mean(axis=0))

    def oracle(self) -> Record:
        """The arrays themselves."""
        return Sides(self.centers, self.curvature)


class Sides(NamedTuple):
    """What gradients of a bowl are made from."""

    centers: Floats  # (n, d)
    curvature: Floats  # (d,)


@exact.when(Sides)
def slope(oracle: Sides, i: int, w: Floats, out: Floats) -> None:
    """a ∘ (w − c_i)."""
    for j in range(w.size):
        out[j] = oracle.curvature[j] * (w[j] - oracle.centers[i, j])


@hessian.when(Sides)
def sides(oracle: Sides, i: int, w: Floats, out: Floats) -> None:
    """diag(a)."""
    for j in range(w.size):
        for k in range(w.size):
            out[j, k] = oracle.curvature[j] if j == k else 0.0


@sample.when(Sides)
def noiseless(oracle: Sides, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """The same: there is nothing to draw."""
    exact(oracle, i, w, out)


def _streaming() -> LeastSquares:
    return LeastSquares.random(n=N, d=D, p=2, noise=0.1, seed=3)


def _points() -> Ridge:
    return Ridge.random(n=N, d=D, m=4, tilt=0.5, regularization=0.1, seed=3)  # drawing a point takes little to compile


def _bowl() -> Bowl:
    return Bowl(np.random.default_rng(4).random((N, D)), np.array([0.5, 1.0, 2.0]))


def _final(
    method: Method,
    problem: Problem,
    activity: Activity,
    *,
    step: Step | None = None,
    w0: Floats | None = None,
    seed: int = 1,
    compiled: bool = False,
) -> Floats:
    """The last iterate of one repeat; any activity will do, even one that `suit` would refuse.

    Most checks are quicker as plain Python than compiling is; `compiled_is_plain` shows that it makes no difference.
    """
    start = np.zeros(D) if w0 is None else w0
    job = Job(problem, method, activity, step or Harmonic(0.5, 20), ITERATIONS, seed, start, compiled)
    return job.repeat(0, points(ITERATIONS, 2), Watch(ITERATIONS, lambda _: None)).w


def _after_departure(method: Method, factor: float | None, moved: int | None = None) -> Floats:
    """Where w gets to if all report, worker `LEAVER` departs, and then only worker 0 goes on.

    What all report moves w by nothing, so that w tells what is kept of the reports.

    Args:
        method: the method.
        factor: for how much the departed worker still counts; `None`: it has not departed.
        moved: whose objective is another, and so its reports.
    """
    centers = _bowl().centers.copy()
    if moved is not None:
        centers[moved] += 1.0
    oracle, w0 = Sides(centers, _bowl().curvature), np.arange(1.0, D + 1)
    state, memory = method.init(w0, N), method.recruit(w0, N)
    rng, message = fresh(1, 0, SAMPLES), np.empty(method.message(D, N))
    for i in range(N):
        if compute(memory, oracle, rng, i, shown(state), message):
            receive(state, i, message, 0)
    advance(state, 0.0)
    if factor is not None:
        fade(state, LEAVER, factor)
    for eta in (0.0, 0.1, 0.1):  # the first so that what is shown along with w is worked out anew
        advance(state, eta)
    for _ in range(2):
        if compute(memory, oracle, rng, 0, shown(state), message):
            receive(state, 0, message, 0)
        advance(state, 0.1)
    return np.array(state.w)


def _waiting_for_all(method: Method) -> Method | None:
    """The method with wait=1, its own or that of the one it is around; `None` if neither has the parameter."""
    values = _values(method)
    if "wait" in values:
        return dataclasses.replace(method, wait=1.0)  # type: ignore[type-var]  # it has fields, as `_values` has seen
    for name, value in values.items():
        if isinstance(value, Method) and (inner := _waiting_for_all(value)) is not None:
            return dataclasses.replace(method, **{name: inner})  # type: ignore[type-var]  # as above
    return None


def _values(method: Method) -> dict[str, object]:
    """The hyper-parameters by name."""
    fields: dict[str, dataclasses.Field[object]] = getattr(method, "__dataclass_fields__", {})
    return {name: getattr(method, name) for name, field in fields.items() if field.init}


def _sets(trace: Recorded) -> list[list[int]]:
    """The active workers of every iteration."""
    return [workers.tolist() for workers in np.split(trace.tape.worker, trace.tape.start[1:-1])]


def _require(method: Method, condition: bool, otherwise: str) -> None:
    if not condition:
        raise CheckFailed(f"{method!r}: {otherwise}")
