"""What a live worker does between two versions of w: draw a sample, compute, say whether there is anything to send."""

from __future__ import annotations

import os
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from siag.activity import Everyone
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, SiagError, Unsuitable, shorten
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.foundations.types import Floats, Record, Rng
from siag.methods import SAG, Exact, Method, Streaming, compute
from siag.problems import Problem, sample
from siag.streams.stream import resumed

Gradient = Callable[[Floats, Any], Any]
"""gradient(w, sample): (d,) numbers, the stochastic gradient of the worker's objective at w."""


OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
OTHERS = ("<frozen", *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")))
LONGEST = 300  # characters of an error's text


class StreamEnded(Exception):
    """The stream has no more samples; the worker leaves in order."""


class Task(Protocol):
    """What a worker does; it is sent to the worker's process before it begins."""

    def begin(self, row: int, n: int, d: int, samples: int) -> None:
        """Get ready, `samples` of this worker's samples having been drawn before."""

    def compute(self, w: Floats, out: Floats) -> bool:
        """Draw the next sample, write the message for this w to `out`, and return whether to send it."""

    @property
    def sample(self) -> int:
        """The number of the sample drawn last, the first being 0."""


class Given(NamedTuple):
    """A user's gradient and the sample it is to be computed on, where compiled code has an oracle."""

    gradient: Gradient
    current: list[Any]


@sample.when(Given)
def sample_given(oracle: Given, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """gradient(w, sample), checked."""
    found = oracle.gradient(w, oracle.current[0])
    if type(found) is np.ndarray and found.dtype == np.float64 and found.shape == out.shape:
        out[:] = found
        return
    try:
        array = np.asarray(found)
        if found is None or array.dtype.kind not in "fiubO":  # O: numbers of a user's own kind
            raise TypeError
        out[:] = array.reshape(out.shape)
    except (TypeError, ValueError):
        kind = "" if found is None else f" ({type(found).__name__})"
        raise SiagError(f"gradient returned {shorten(found)}{kind}; it must return {out.size} real numbers") from None


def check_stream(parameter: str, stream: Any) -> None:
    """Refuse what is no stream, or is one only by chance."""
    if isinstance(stream, str | bytes | os.PathLike):
        raise BadInput(parameter, stream, "a stream, not a name", "siag.streams.Follow(path) reads the lines of a file")
    if not callable(stream) and not isinstance(stream, Iterable) and not hasattr(stream, "__getitem__"):
        raise BadInput(parameter, stream, "something to iterate over, or a function that makes it")


def check_method(method: Method, problem: Problem | None, w0: Floats) -> None:
    """Refuse a method whose messages live workers cannot make, of a problem or of streams."""
    name = type(method).__name__
    if isinstance(method, SAG):
        raise Unsuitable(f"{name} draws one sample per iteration, live workers report when they can; use IAG or SIAG")
    if problem is not None:
        method.suit(problem, Everyone())
    elif isinstance(method.recruit(w0, 1), Exact):
        raise Unsuitable(f"{name} needs exact gradients, a stream has none; use SIAG, or give a problem")


class FromStream:
    """A user's gradient on a stream of samples.

    Args:
        gradient: gradient(w, sample).
        stream: the samples, or a function that makes them.
        method: whose worker half runs on it.
        w0: (d,) where the run starts.
        go_on: whether the samples reported before are this stream's; if so, it goes on after them, if it can.
    """

    def __init__(
        self,
        gradient: Gradient,
        stream: Iterable[Any] | Callable[[], Iterable[Any]],
        method: Method,
        w0: Floats,
        *,
        go_on: bool = True,
    ) -> None:
        self._gradient, self._stream, self._method, self._w0 = gradient, stream, method, w0
        self._drawn, self._go_on = 0, go_on
        check_method(method, None, w0)

    @property
    def sample(self) -> int:
        """The number of the last sample."""
        return self._drawn - 1

    def begin(self, row: int, n: int, d: int, samples: int) -> None:
        """Open the stream, after the samples drawn before if it can begin there."""
        self._row, self._drawn = row, samples
        self._memory: Record = self._method.recruit(self._w0, n)
        self._plain = isinstance(self._memory, Streaming)  # which sends the gradient as it is
        made = self._stream() if callable(self._stream) else self._stream
        if isinstance(made, str | bytes | os.PathLike):
            check_stream("stream", made)
        try:
            self._iterator: Iterator[Any] = iter(resumed(made, samples) if self._go_on else made)
        except TypeError:
            raise BadInput("stream", made, "something to iterate over") from None
        self._oracle, self._rng = Given(self._gradient, [None]), blank()

    def compute(self, w: Floats, out: Floats) -> bool:
        """The gradient on the next sample."""
        try:
            self._oracle.current[0] = next(self._iterator)
        except StopIteration:
            raise StreamEnded from None
        self._drawn += 1
        if self._plain:
            sample_given(self._oracle, self._rng, self._row, w, out)
            return True
        return compute(self._memory, self._oracle, self._rng, self._row, w, out)


@compiled
def draw(memory: Record, oracle: Record, rng: Rng, key: Rng, i: int, k: int, w: Floats, out: Floats) -> bool:
    """Worker i's k-th message."""
    rewind(rng, key, i, k)
    return compute(memory, oracle, rng, i, w, out)


class FromProblem:
    """A worker of a problem: its k-th sample is a function of (seed, i, k), as in the simulator.

    Args:
        problem: the problem.
        method: whose worker half runs on it.
        seed: of all samples.
        w0: (d,) where the run starts.
        pause: seconds to wait before each gradient, to make a worker slow.
    """

    def __init__(self, problem: Problem, method: Method, seed: int, w0: Floats, pause: float = 0.0) -> None:
        self._problem, self._method, self._seed, self._w0, self._pause = problem, method, seed, w0, pause
        self._drawn = 0
        check_method(method, problem, w0)

    def warm_up(self) -> None:
        """Have the machine code made here, so that the workers find it on disk."""
        w, memory = np.zeros(self._problem.d), self._method.recruit(self._w0, self._problem.n)
        draw(memory, self._problem.oracle(), blank(), key(self._seed, 0, SAMPLES), 0, 0, w, np.empty_like(w))

    @property
    def sample(self) -> int:
        """The number of the last sample."""
        return self._drawn - 1

    def begin(self, row: int, n: int, d: int, samples: int) -> None:
        """Get the arrays ready, and the machine code."""
        if (n, d) != (self._problem.n, self._problem.d):
            raise BadInput("problem", self._problem, f"one of {n} workers and {d} parameters, as the server's")
        self._row, self._drawn = row, samples
        self._oracle, self._memory = self._problem.oracle(), self._method.recruit(self._w0, n)
        self._rng, self._key = blank(), key(self._seed, 0, SAMPLES)
        if samples == 0 and not self._memory:
            draw(self._memory, self._oracle, self._rng, self._key, row, 0, np.zeros(d), np.empty(d))

    def compute(self, w: Floats, out: Floats) -> bool:
        """The gradient on the next sample."""
        if self._pause > 0.0:
            time.sleep(self._pause)
        self._drawn += 1
        return draw(self._memory, self._oracle, self._rng, self._key, self._row, self._drawn - 1, w, out)


def last_words(error: BaseException) -> str:
    """An error in one line, with the place in the user's code."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # it is a user's class
        text = ""
    if isinstance(error, SiagError):
        return _printable(text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(OURS)]
    theirs = [frame for frame in frames if not frame.filename.startswith(OTHERS)] or frames
    place = f" ({os.path.basename(theirs[-1].filename)}, line {theirs[-1].lineno})" if theirs else ""
    return f"{type(error).__name__}{': ' if text else ''}{_printable(text)}{place}"


def _printable(text: str) -> str:
    """Short enough to be sent, and nothing in it that cannot be."""
    text = text.replace("\0", "?").encode(errors="replace").decode()
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
