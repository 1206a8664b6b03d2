"""A problem made from any Python function that computes gradients: NumPy, torch, JAX; methods stay compiled."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from siag.foundations import check
from siag.foundations.callback import INFINITE, RAISED, Callback, call
from siag.foundations.dispatch import compiled, part
from siag.foundations.errors import BadInput, SiagError, Unsuitable, shorten
from siag.foundations.last_words import last_words
from siag.foundations.returned import write_checked
from siag.foundations.rng import bits
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.problems.problem import Problem, exact, sample
from siag.problems.weights import Weights, check_numbers, unequal, with_weights_printed

Gradient: TypeAlias = Callable[..., Any]
"""gradient(i, w) or gradient(i, w, rng): (d,) numbers."""

SAMPLE, EXACT = 0, 1  # what is asked of a function
FAILED, WORKER, CALL = range(3)  # the entries of `notes`
FLOAT = np.dtype(np.float64)
LARGEST = float(np.finfo(np.float64).max)
READ_ONLY = "read-only"  # in what NumPy says of an array that must not be written to
GLANCED = 512  # numbers of w that are looked at again after a call: torch writes to arrays that are read-only


class FromFunction(Problem):
    """F_i is whatever `gradient` is the stochastic gradient of.

    The function is called for every gradient that a worker computes; all else of a simulation is compiled, as it is for
    the problems of the package. Calls come from other threads than the main one, by default one at a time.

    Args:
        gradient: gradient(i, w), or gradient(i, w, rng), returns the d numbers of a stochastic gradient of F_i at w: an
            array, a tensor, a list. It must not write to w. `rng` is a NumPy generator that depends on (seed, repeat,
            i, k) alone, k being the number of the sample: a function that draws all its random numbers from it gives
            the same run each time. It is good for this one call.
        n: the number of workers.
        d: the dimension of w.
        exact: exact(i, w) returns ∇F_i(w), for the methods that need it, and so that runs record ‖∇F‖².
        objective: objective(w) returns F(w), so that runs record it.
        optimum: (d,) w*, if it is known.
        start: (d,) where runs begin; 0 by default.
        parallel: whether functions may be called by several threads at the same time.
        weights: what workers count for, one number of 0 or more for each; by default all the same. `objective` and
            `optimum` are those of F = Σ p_i F_i, then.

    Example:
        >>> import siag
        >>> means = np.array([1.0, 2.0, 6.0])
        >>> def gradient(i, w, rng):
        ...     return w - means[i] + 0.1 * rng.standard_normal(1)
        >>> problem = FromFunction(gradient, n=3, d=1, optimum=[3.0])
        >>> step, activity = siag.steps.Harmonic(1.0, 10.0), siag.activity.Nonuniform(2, 5)
        >>> siag.simulate(problem, siag.methods.SIAG(), activity, step, iterations=2000).w.round(1)
        array([[3.]])
    """

    no_exact = "give it exact=…, a function of (i, w)"

    def __init__(
        self,
        gradient: Gradient,
        *,
        n: int,
        d: int,
        exact: Gradient | None = None,
        objective: Callable[[Floats], Any] | None = None,
        optimum: Any = None,
        start: Any = None,
        parallel: bool = False,
        weights: Weights = None,
    ) -> None:
        self._n, self._d = check.integer("n", n), check.integer("d", d)
        self._gradient, self._exact = gradient, exact
        self.draws = _takes_rng("gradient", gradient)
        if exact is not None and _takes_rng("exact", exact):
            raise BadInput("exact", exact, "a function of (i, w)", "an exact gradient draws nothing")
        if objective is not None and not callable(objective):
            raise BadInput("objective", objective, "a function of w")
        self._objective = objective
        self._optimum = None if optimum is None else check.floats("optimum", optimum, (self._d,))
        self._start = None if start is None else check.floats("start", start, (self._d,))
        self._parallel = check.truth("parallel", parallel)
        self._weights = unequal(check_numbers(weights, "FromFunction"), self._n)
        self._lock = self._make_lock()

    @property
    def n(self) -> int:
        """The number of workers."""
        return self._n

    @property
    def d(self) -> int:
        """The dimension of w."""
        return self._d

    @property
    def optimum(self) -> Floats | None:
        """(d,) w*, if it was given."""
        return self._optimum

    @property
    def weights(self) -> Floats | None:
        """(n,) n p_i, if they differ."""
        return self._weights

    def weighted(self, weights: Weights) -> Self:
        """The same functions with other weights of the workers; refused where F or w* was given for those it has."""
        new = unequal(check_numbers(weights, "FromFunction"), self.n)
        given = " and ".join(name for name in ("objective", "optimum") if getattr(self, f"_{name}") is not None)
        before, after = (np.ones(self.n) if each is None else each for each in (self._weights, new))
        if given and not np.array_equal(before, after):
            remedy = "make it anew with weights=…, and with what is true for them"
            raise Unsuitable(f"FromFunction was given its {given} for other weights; {remedy}")
        made = copy(self)
        made._weights = new
        return made

    @property
    def start(self) -> Floats:
        """(d,) where runs begin."""
        return super().start if self._start is None else self._start

    @property
    def has_objective(self) -> bool:
        """Whether F was given."""
        return self._objective is not None

    def objective(self, w: Floats) -> float:
        """F(w)."""
        if self._objective is None:
            raise Unsuitable("FromFunction does not know F; give it objective=…, a function of w")
        with self._lock:
            found = self._objective(w)
        try:
            return float(np.asarray(found, np.float64).reshape(()))
        except (TypeError, ValueError):
            raise SiagError(f"objective returned {shorten(found)}; it must return a number") from None

    def gradient(self, i: int, w: Floats) -> Floats:
        """(d,) ∇F_i(w), if `exact` was given."""
        self._check_exact()
        return super().gradient(i, w)

    def full_gradient(self, w: Floats) -> Floats:
        """(d,) ∇F(w), the mean of the exact gradients, or Σ p_i ∇F_i(w)."""
        self._check_exact()
        w, each, total = check.floats("w", w, (self.d,)), np.empty(self.d), np.zeros(self.d)
        asked = Asked(self, np.ones(self.n, np.int64))
        for i in range(self.n):
            asked(EXACT, i, 0, 0, w, each)
            total += each if self._weights is None else self._weights[i] * each
        return total / self.n

    def _check_exact(self) -> None:
        if self._exact is None:
            raise Unsuitable(f"FromFunction does not know ∇F_i; {self.no_exact}")

    def __repr__(self) -> str:
        """The function's name, n and d."""
        name = getattr(self._gradient, "__qualname__", type(self._gradient).__name__)
        return with_weights_printed(f"FromFunction({name}, n={self.n}, d={self.d})", self._weights)

    def __getstate__(self) -> dict[str, Any]:
        """All but the lock, which is of this process."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = self._make_lock()

    def _make_lock(self) -> AbstractContextManager[Any]:
        """Held while a function of the user's is called: by default by one thread at a time."""
        return nullcontext() if self._parallel else threading.RLock()

    @property
    def functions(self) -> tuple[Any, Any, AbstractContextManager[Any]]:
        """The user's gradient and exact gradient, and what to hold while they are called."""
        return self._gradient, self._exact, self._lock

    def oracle(self) -> Record:
        """The address of the functions."""
        notes, calls = np.zeros(3, np.int64), np.zeros(self.n, np.int64)
        kind = Sampled if self._exact is None else Differentiated
        return kind(Callback(Asked(self, calls), self.d, notes).address, notes, calls, np.zeros(1))


def _takes_rng(name: str, function: Any) -> bool:
    """Whether a function is one of (i, w, rng), and not of (i, w)."""
    allowed = "a function of (i, w)" + (" or (i, w, rng)" if name == "gradient" else "")
    if not callable(function):
        raise BadInput(name, function, allowed)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return False
    parameters = list(signature.parameters.values())
    third = parameters[2] if len(parameters) > 2 else None
    wanted = third is not None and (third.name == "rng" or third.default is inspect.Parameter.empty)
    try:
        signature.bind(*range(3 if wanted else 2))
    except TypeError:
        raise BadInput(name, function, allowed, f"it takes {signature}") from None
    return wanted


class Asked:
    """What a call from compiled code, or from plain Python, does: ask the user's function, check what it returns."""

    def __init__(self, problem: FromFunction, calls: Integers) -> None:
        self._sample, self._exact, self._lock = problem.functions
        self._calls, self._draws = calls, problem.draws
        self._bits = np.random.PCG64DXSM(0)
        self._rng = np.random.Generator(self._bits)
        self._state: Any = self._bits.state

    def __call__(self, what: int, i: int, a: int, b: int, w: Floats, out: Floats) -> bool:
        """Write the gradient of worker i to `out`, and return whether it is finite; a and b set the generator."""
        before = glance(w)
        try:
            with self._lock:  # until it is copied, too: the function may return the same array each time
                if what == EXACT:
                    found = self._exact(i, w)
                elif self._draws:
                    self._state["state"] = {"state": (a << 64) | b, "inc": (b << 64) | a | 1}
                    self._bits.state = self._state
                    found = self._sample(i, w, self._rng)
                else:
                    found = self._sample(i, w)
                if glance(w) != before:
                    raise ValueError(f"it has changed w, which is {READ_ONLY}")
                return write_finite(found, out)
        except Exception as error:
            remedy = "; copy w before you change it" if READ_ONLY in str(error) else ""
            where = f"{'exact ' if what == EXACT else ''}gradient of worker {i}, call {self._calls[i]}"
            raise SiagError(f"{where}: {last_words(error)}{remedy}") from error


def glance(w: Floats) -> bytes:
    """All numbers of w, or some of them, evenly spaced, where there are many."""
    return w[:: max(1, w.size // GLANCED)].tobytes()


def write_finite(found: Any, out: Floats) -> bool:
    """Write to `out` what a function has returned, if it is a gradient, and return whether it is finite."""
    if type(found) is np.ndarray and found.dtype == FLOAT and found.shape == out.shape and found.flags.c_contiguous:
        return copy_finite(found, out)
    write_checked(found, out)
    return bool(np.isfinite(out).all())


@compiled
def copy_finite(found: Floats, out: Floats) -> bool:
    """Both in one pass, since a large array is not in the cache for a second."""
    fine = True
    for j in range(out.size):
        out[j] = found[j]
        fine &= abs(found[j]) <= LARGEST
    return fine


class Sampled(NamedTuple):
    """Where compiled code reaches a function that draws gradients."""

    address: int
    notes: Integers  # (3,) whether a call has failed; 1 + the worker and the call of the first gradient with NaN or ∞
    calls: Integers  # (n,) of each worker
    far: Floats  # (1,) the largest number of w, at that first gradient


class Differentiated(NamedTuple):
    """The same where exact gradients are known, too."""

    address: int
    notes: Integers
    calls: Integers
    far: Floats


@part
def ask(oracle: Record, what: int, i: int, a: np.uint64, b: np.uint64, w: Floats, out: Floats) -> None:
    """Have the function write to `out`; once it has failed, NaN is all there is, and it is not called again."""
    notes = oracle.notes
    if notes[FAILED] == 0:
        oracle.calls[i] += 1
        how = call(oracle.address, what, i, a, b, w, out)
        if how == RAISED:
            notes[FAILED] = 1
        elif how == INFINITE and notes[WORKER] == 0:
            notes[WORKER] = i + 1
            notes[CALL] = oracle.calls[i]
            for j in range(w.size):
                oracle.far[0] = max(oracle.far[0], abs(w[j]))
    if notes[FAILED] == 1:
        for j in range(w.size):
            out[j] = np.nan


@sample.when(Sampled)
def sample_called(oracle: Sampled, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """gradient(i, w, rng)."""
    a, b = bits(rng), bits(rng)
    ask(oracle, SAMPLE, i, a, b, w, out)


@sample.when(Differentiated)
def sample_called_too(oracle: Differentiated, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """gradient(i, w, rng)."""
    a, b = bits(rng), bits(rng)
    ask(oracle, SAMPLE, i, a, b, w, out)


@exact.when(Differentiated)
def exact_called(oracle: Differentiated, i: int, w: Floats, out: Floats) -> None:
    """exact(i, w)."""
    ask(oracle, EXACT, i, np.uint64(0), np.uint64(0), w, out)


def why_diverged(oracle: Record) -> str:
    """What a function has to do with a divergence, and what to do, in words."""
    if not isinstance(oracle, Sampled | Differentiated) or oracle.notes[WORKER] == 0:
        return ""
    i, k = int(oracle.notes[WORKER]) - 1, int(oracle.notes[CALL])
    where = f"at a w whose largest number is {float(oracle.far[0]):.3g}"
    remedy = "mend it, or use a smaller step if that w is far off already"
    return f"the gradient of worker {i}, call {k}, has NaN or infinity {where}; {remedy}"
