"""The first run of code that is not the package's own: as plain Python, which checks every index.

Compiled code checks none. There a method that writes beyond an array corrupts memory, and the process ends later, at
some other place, without a word. So what compiled code has not met before runs for a few iterations as Python first,
once per class and process. That finds most such mistakes and proves nothing: an index may go wrong much later.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.dispatch import is_foreign, is_interpreted, is_own, meanings_for, plainly
from siag.foundations.errors import SiagError, Unsuitable, shorten
from siag.foundations.memory import size
from siag.foundations.rng import SAMPLES, key, rewind
from siag.foundations.shape import kinds_within, structure_of
from siag.foundations.types import Floats, Record
from siag.methods.method import (
    Exact,
    Method,
    advance,
    answer,
    arrive,
    compute,
    cost,
    fade,
    forget,
    needs,
    ready,
    receive,
    shown,
)
from siag.problems import Problem, exact, hessian, sample

MANY = 10**6  # a state of more numbers is tried in a smaller size: Python needs about 0.1 µs for each
ROUNDS = 40  # how many iterations to try …
WORK = 50_000  # … or fewer, down to 3, so that they touch about this many numbers
SMALL = 3, 4  # n and d of the smaller size
LARGEST_HESSIAN = 64  # d of those that are tried
PACKAGE = str(Path(__file__).parents[1])

_tried: set[object] = set()


def try_out(method: Method, w0: Floats, n: int, problem: Problem | None = None) -> None:
    """Check and try what is not the package's own, before a run that goes on for who knows how long."""
    classes = _classes(method) if problem is None else (*_classes(method), type(problem))
    if all(map(is_own, classes)):
        return
    state, memory = method.init(w0, n), method.recruit(w0, n)
    check_parts(method, w0, state, memory)
    if problem is not None:
        try_problem(problem, memory)
    try_method(method, w0, n, state, memory, problem=problem)


def check_parts(method: Method, w0: Floats, state: Record, memory: Record) -> None:
    """Refuse what `init` and `recruit` have returned where no run could bear it."""
    w, d = getattr(state, "w", None), w0.size
    if not isinstance(w, np.ndarray) or w.shape != (d,) or w.dtype != np.float64:
        raise Unsuitable(f"{method!r}: init must return a state with a field w, a copy of w0, not {shorten(w)}")
    if np.shares_memory(w, w0):
        raise Unsuitable(f"{method!r}: init must copy w0: all repeats start from that array; write w0.copy()")
    for optional in (fade, ready, shown, answer):
        optional.meaning_for(state)  # raises where two of its fields could answer
    for of_workers in (cost, forget):
        of_workers.meaning_for(memory)
    if not np.shares_memory(shown(state), w):
        raise Unsuitable(f"{method!r}: what is shown to workers must begin with the state's own w")
    compute.meaning(type(memory))
    receive.meaning(type(state))
    advance.meaning(type(state))


def try_problem(problem: Problem, memory: Record, measured: bool = False) -> None:
    """Draw a few gradients of a problem that is not the package's own as plain Python, unless that was done before.

    Args:
        problem: the problem.
        memory: the workers', which says whether exact gradients are needed.
        measured: whether they are needed anyway, for ‖∇F‖².

    Raises:
        SiagError: one of its functions reads or writes beyond an array; the message names it, the file and the line.
    """
    if is_own(type(problem)):
        return
    oracle, n, d = problem.oracle(), problem.n, problem.d
    if is_interpreted(oracle):
        return
    precise = exact.knows(type(oracle)) and (measured or needs(memory, Exact))
    mark = (type(problem), structure_of((oracle,)), precise)
    if mark in _tried:
        return
    rng, w = generator(), np.array(problem.start, np.float64)

    def draw() -> None:
        for i in sorted({0, n - 1}):
            for _ in range(2):
                sample(oracle, rng, i, w, np.empty(d))
            if precise:
                exact(oracle, i, w, np.empty(d))
            if hessian.knows(type(oracle)) and d <= LARGEST_HESSIAN:
                hessian(oracle, i, w, np.empty((d, d)))

    _went_through(draw, problem, oracle)
    _tried.add(mark)


def try_method(
    method: Method,
    w0: Floats,
    n: int,
    state: Record,
    memory: Record,
    *,
    problem: Problem | None = None,
    iterations: int = ROUNDS,
) -> None:
    """Run a method that is not the package's own for a few iterations as plain Python, unless that was done before.

    It runs in its own size on a problem made for this, where that takes Python less than about a second, else smaller.

    Args:
        method: the method.
        w0: (d,) where the run is to start.
        n: the number of workers.
        state: what its `init` has returned for them.
        memory: what its `recruit` has.
        problem: to run on instead, if the workers need more than gradients and Hessians.
        iterations: of the run. No more are tried, since the method may have room for no more.

    Raises:
        SiagError: one of its functions reads or writes beyond an array; the message names it, the file and the line.
    """
    classes = _classes(method)
    if is_interpreted(state, memory) or (all(map(is_own, classes)) and not is_foreign(state, memory)):
        return
    rounds = min(ROUNDS, iterations)
    mark = (classes, structure_of((state, memory)), rounds)
    if mark in _tried:
        return
    small = size((state, memory)) > 8 * MANY and _fine_when_small(method, w0, n, rounds)
    if not small and not _iterate(method, w0, n, Probe(n), rounds) and problem is not None:
        _iterate(method, w0, n, problem.oracle(), rounds)
    _tried.add(mark)


def _fine_when_small(method: Method, w0: Floats, n: int, rounds: int) -> bool:
    """Whether it runs in a smaller size; what is made for n workers or d parameters need not."""
    n = min(n, SMALL[0])
    try:
        return _iterate(method, w0[: SMALL[1]], n, Probe(n), rounds)
    except Exception:
        return False


def _iterate(method: Method, w0: Floats, n: int, oracle: Record, rounds: int) -> bool:
    """Ask of a method all that a run may ask, a few workers reporting in turn; return whether that went through."""
    w0 = np.array(w0)
    state, memory = method.init(w0, n), method.recruit(w0, n)
    rounds = min(rounds, max(3, WORK // max(1, size((state, memory)) // 8)))
    message, rng, some = np.zeros(method.message(w0.size, n)), generator(), (n - 1, 0, n // 2)

    def ask() -> None:
        for t in range(rounds):
            i = some[t % len(some)]
            sent = compute(memory, oracle, rng, i, shown(state), message)
            cost(memory)
            if sent and t == rounds - 1:
                arrive(state, i, message, t, 1e-3)
                break
            if sent:
                receive(state, i, message, t)
            ready(state)
            advance(state, 1e-3)
        fade(state, n - 1, 0.5)
        forget(memory, n - 1)
        answer(state)

    return _went_through(ask, method, state, memory)


class Probe(NamedTuple):
    """A problem to try methods on: F_i(w) = ½‖w − i/n‖²."""

    n: int


@exact.when(Probe)
def toward_share(oracle: Probe, i: int, w: Floats, out: Floats) -> None:
    """∇F_i(w) = w − i/n."""
    for j in range(out.size):
        out[j] = w[j] - i / oracle.n


@sample.when(Probe)
def toward_share_exactly(oracle: Probe, rng: Any, i: int, w: Floats, out: Floats) -> None:
    """The same: there is nothing to draw."""
    exact(oracle, i, w, out)


@hessian.when(Probe)
def identity(oracle: Probe, i: int, w: Floats, out: Floats) -> None:
    """∇²F_i(w) = I."""
    out[:] = np.eye(w.size)


def generator() -> Any:
    """Random numbers that no run draws from."""
    rng = np.zeros(2, np.uint64)
    with np.errstate(over="ignore"), plainly():
        rewind(rng, key(0, 0, SAMPLES), 0, 0)
    return rng


def _classes(method: Method) -> tuple[type, ...]:
    """The classes of the method and of those it is around."""
    inner = (value for value in getattr(method, "__dict__", {}).values() if isinstance(value, Method))
    return (type(method), *(kind for each in inner for kind in _classes(each)))


def _went_through(run: Callable[[], None], part: object, *values: Record) -> bool:
    """Run as plain Python; raise if it reaches beyond an array, and return whether it met no other error.

    Others are left to the run itself: compiled code may bear them, and if not says so.
    """
    try:
        with np.errstate(all="ignore"), plainly():
            run()
    except IndexError as error:
        raise SiagError(_blame(error, part, values)) from error
    except Exception:
        return False
    return True


def _blame(error: IndexError, part: object, values: tuple[Record, ...]) -> str:
    """The verb, the function, the file and the line in which an index went wrong."""
    frames = list(traceback.walk_tb(error.__traceback__))
    theirs = [frame for frame in frames if not frame[0].f_code.co_filename.startswith(PACKAGE)]
    frame, line = (theirs or frames)[-1]
    codes = [each.f_code for each, _ in reversed(theirs or frames)]
    meanings = meanings_for(kinds_within(values))
    named = (what for code in codes for what, function in meanings if getattr(function, "__code__", None) is code)
    code = frame.f_code
    return (
        f"{next(named, shorten(part))} reaches beyond an array: {code.co_filename}, line {line}, in {code.co_name}: "
        f"{error}; compiled code would corrupt memory there"
    )
