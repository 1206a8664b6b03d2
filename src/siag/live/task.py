"""What a live worker does between two versions of w: draw a sample, compute, say whether there is anything to send."""

from __future__ import annotations

import math
import os
import pickle
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from siag.activity import Everyone
from siag.foundations import check
from siag.foundations.callback import callback_of
from siag.foundations.dispatch import compiled, interpreted
from siag.foundations.encodings import FLOAT64, Encoding, Packed, put
from siag.foundations.errors import BadInput, Missing, SiagError, Unsuitable
from siag.foundations.returned import write_checked
from siag.foundations.rng import SAMPLES, blank, hashed, key, rewind
from siag.foundations.types import Floats, Message, Record, Rng
from siag.live.model import Model
from siag.live.rounding import Doubles, Packer
from siag.methods import Exact, Method, Streaming, compute, forget, needs, told, try_out
from siag.problems import Problem, again, sample
from siag.streams.finite import check_finite, is_finite
from siag.streams.remarks import Tally
from siag.streams.repeated import read_again, repeated_within
from siag.streams.stream import Stop, Stream, acceptor, resumed

Gradient = Callable[[Floats, Any], Any]
"""gradient(w, sample): (d,) numbers, the stochastic gradient of the worker's objective at w; or (loss, gradient)."""


UNKNOWN = math.nan  # a loss that was not told
RARER = 5  # one in so many of all samples before it is the next of which the loss at w_0 is told, too
DATA, LAYERS = 0, 1  # what random numbers of a model are for: its samples, or its gradient
FLOAT = np.dtype(np.float64)
FLOATS = FLOAT, np.dtype(np.float32)
FILES = "siag.streams.labelled(paths, label) reads rows of features and labels, siag.streams.Follow(path) lines"
EMPTY = "its stream ended without a sample; give it some, or leave this worker out"


class StreamEnded(Exception):
    """The stream has no more samples; the worker leaves in order."""


class Task:
    """What a worker does; it is sent to the worker's process before it begins.

    Args:
        method: whose worker half runs.
        w0: (d,) where the run starts.
        seed: of the run.
    """

    counts = False  # whether it matters which version w is of
    tied = False  # whether its samples are those of its row, and of no other
    modules: Sequence[str] = ()  # what to import before a process is made for it
    settle: Callable[[bool], None] | None = None  # to be told of each answer, before what follows: was the report taken

    def __init__(self, method: Method, w0: Floats, seed: int) -> None:
        self._method, self._w0, self._seed = method, w0, seed
        self._drawn = 0
        self.version = 0  # of the w that was read last
        self.loss = UNKNOWN  # of the sample of the last message, at the w that was read
        self.first = UNKNOWN  # the same at w_0, told of some samples
        self._doubles: Doubles | None = None  # where messages are of short numbers
        self._packer: Packer | None = None  # where they are packed
        self.passes = 0  # how often it has been through its data, if these are finite and read again

    @property
    def sample(self) -> int:
        """The number of the sample drawn last, the first being 0."""
        return self._drawn - 1

    def begin(self, row: int, n: int, d: int, samples: int, encoding: Encoding = FLOAT64) -> None:
        """Get ready to go on after the first `samples` samples of this worker, with messages of this encoding."""
        self._row, self._drawn = row, samples
        self.loss = self.first = UNKNOWN  # a copy that was sent has numbers of its own, and `is` tells them apart
        if isinstance(encoding, Packed):
            self._packer = Packer(encoding, self._seed, row, self._method.message(d, n))
        self._memory: Record = self._method.recruit(self._w0, n)
        self.counts = told.reaches(self._memory)
        self._rng = blank()

    def compute(self, w: Floats, out: Floats) -> bool:
        """Draw the next sample, write the message for this w to `out`, and return whether to send it.

        Both are as they travel. A user's gradient on a stream gets w in these numbers; a method or a problem computes
        in doubles, and what it has made is rounded once.
        """
        raise NotImplementedError

    def _in_doubles(self, w: Floats, out: Floats) -> Doubles:
        """This w in doubles, and room for a message, in memory that is used again."""
        if self._doubles is None:
            self._doubles = Doubles(w.size, out.size if self._packer is None else self._packer.numbers.size)
        self._doubles.read(w)
        return self._doubles

    def _round(self, numbers: Floats, out: Floats) -> None:
        """Write a message that was made in doubles as it travels."""
        if self._packer is None:
            put(numbers, out)
        else:
            self._packer.pack(numbers, out, self.sample)

    def forget(self) -> bool:
        """What was sent was refused, or may never have arrived: remember nothing of it; whether there was anything."""
        forget(self._memory, self._row)
        return forget.reaches(self._memory)

    def again(self, samples: int) -> bool:
        """Where `settle` is there: the server says how many samples it has; whether what was drawn after is void."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop waiting for a sample, if it can be stopped; called from any thread."""


@interpreted
class Given(NamedTuple):
    """A user's gradient and where its samples come from, where compiled code has an oracle."""

    gradient: Gradient
    pull: Callable[[], Any]  # the next sample; raises `StreamEnded`
    last: Callable[[], Any]  # the one before it
    losses: list[float]  # of the samples since it was last emptied


@sample.when(Given)
def sample_given(oracle: Given, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """gradient(w, sample) on the next sample, checked."""
    loss = write_checked(oracle.gradient(w, oracle.pull()), out)
    if loss is not None:
        oracle.losses.append(loss)


@again.when(Given)
def last_given(oracle: Given, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """gradient(w, sample) on the last sample, checked."""
    write_checked(oracle.gradient(check.read_only(w), oracle.last()), out)


def check_stream(parameter: str, stream: Any) -> None:
    """Refuse what is no stream, or is one only by chance."""
    if isinstance(stream, str | bytes | os.PathLike):
        raise BadInput(parameter, stream, "a stream, not a name", FILES)
    if is_finite(stream):
        check_finite(parameter, stream)
    elif not callable(stream) and not isinstance(stream, Iterable):
        raise BadInput(parameter, stream, "something to iterate over, or a function that makes it")


def check_method(method: Method, problem: Problem | None, w0: Floats, n: int) -> None:
    """Refuse a method that no live server runs, or whose messages live workers cannot make of a problem or streams."""
    method.serve()
    if problem is not None:
        method.suit(problem, Everyone())
    else:
        memory = method.recruit(np.zeros(method.least), n)
        if needs(memory, Exact):
            sampled = 'gradients="sample", ' if hasattr(method, "gradients") else ""
            what = f"{type(method).__name__} needs exact gradients, a stream has none"
            raise Unsuitable(f"{what}; use {sampled}SIAG, or give a problem")
    try_out(method, w0, n, problem)


class FromStream(Task):
    """A user's gradient on a stream of samples.

    Args:
        gradient: gradient(w, sample), or a model.
        stream: the samples, or a function that makes them.
        method: whose worker half runs on it.
        w0: (d,) where the run starts.
        go_on: whether the samples reported before are this stream's; if so, it goes on after them, if it can.
        seed: of the order in which finite data are read.
    """

    def __init__(
        self,
        gradient: Gradient | Model,
        stream: Iterable[Any] | Callable[[], Iterable[Any]],
        method: Method,
        w0: Floats,
        *,
        go_on: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(method, w0, seed)
        self._gradient, self._stream, self._go_on = gradient, stream, go_on
        self.modules = gradient.preload if isinstance(gradient, Model) else ()

    def begin(self, row: int, n: int, d: int, samples: int, encoding: Encoding = FLOAT64) -> None:
        """Open the stream, after the samples drawn before if it can begin there."""
        check_method(self._method, None, self._w0, n)
        super().begin(row, n, d, samples, encoding)
        self._plain = isinstance(self._memory, Streaming)  # which sends the gradient as it is
        made = self._stream() if callable(self._stream) else self._stream
        check_stream("stream", made)
        if isinstance(self._gradient, Model):
            made = self._gradient.read(made, row, self._seed)
        made = read_again(made, row, self._seed)
        self._data, self._began_at, self._next, self._made = repeated_within(made), samples, samples + 1, made
        self._open(samples)
        self._item: Any = None
        self._start = self._w0
        self._odd = Tally()
        function = self._function()
        self._oracle = Given(function, self._pull, lambda: self._item, [])
        self._short = self._oracle._replace(gradient=lambda w, sample: function(w.astype(np.float32), sample))
        if self._accept is not None:
            if not self._go_on:
                raise Missing("name", "a stream that is acknowledged is one worker's; give it a name or a token")
            self.settle = self._settle
            self._accept(samples)

    def _open(self, samples: int) -> None:
        """Go on after the first samples, if the stream can."""
        made = resumed(self._made, samples) if self._go_on else self._made
        self._stop = Stop()
        try:
            self._iterator: Iterator[Any] = made.samples(self._stop) if isinstance(made, Stream) else iter(made)
        except TypeError:
            raise BadInput("stream", made, "something to iterate over") from None
        if isinstance(self._gradient, Model):
            self._iterator = self._seeded(self._gradient, self._iterator)
        self._accept = acceptor(made)
        self._drawn = self._settled = samples  # settled: up to here each sample was reported, and taken or refused

    def _seeded(self, model: Model, samples: Iterator[Any]) -> Iterator[Any]:
        """The samples of a stream that may draw random numbers where the model's library does."""
        while True:
            model.seed(hashed(self._seed, self._row, self._drawn, DATA))
            try:
                sample = next(samples)
            except StopIteration:
                return
            yield sample

    def _function(self) -> Gradient:
        """The gradient as a function of w and the sample drawn last."""
        model = self._gradient
        if not isinstance(model, Model):
            return getattr(model, "value_and_gradient", model)  # siag.losses have both
        return lambda w, sample: model.value_and_gradient(w, sample, hashed(self._seed, self._row, self.sample, LAYERS))

    def _settle(self, taken: bool) -> None:
        """The last report was answered: if it was taken, the server has all samples so far, save those it refused."""
        if self._drawn != self._settled:
            self._settled = self._drawn
            if taken and self._accept is not None:
                self._accept(self._drawn)

    def again(self, samples: int) -> bool:
        """Go back to the first sample that the server has neither taken nor refused."""
        place = max(samples, self._settled)
        anew = place != self._drawn
        if anew:
            if isinstance(self._iterator, Generator):
                self._iterator.close()
            self._open(place)
        self._settled = place
        if self._accept is not None:
            self._accept(samples)
        return anew

    def _pull(self) -> Any:
        """The next sample."""
        try:
            self._item = next(self._iterator)
        except StopIteration:
            if self._drawn == self._began_at == 0:
                raise SiagError(EMPTY) from None
            raise StreamEnded from None
        self._drawn += 1
        if self._data is not None:
            self.passes = self._data.done
        return self._item

    def stop(self) -> None:
        """One of `siag.streams` ends."""
        self._stop.set()

    def compute(self, w: Floats, out: Floats) -> bool:
        """The message on the next sample, or as many as the method takes; if the stream ends before, there is none."""
        oracle = self._oracle
        if self._plain:  # as fast as can be
            found = oracle.gradient(w, self._pull())
            if self._packer is not None:
                self._tell(self._pack(self._packer, found, out), w)
            elif type(found) is np.ndarray and found.dtype == out.dtype and found.shape == out.shape:
                out[:], self.loss = found, UNKNOWN
            else:
                self._tell(write_checked(found, out), w)
            return True
        told(self._memory, self.version)
        if out.dtype == FLOAT:
            send = compute(self._memory, oracle, self._rng, self._row, w, out)
        else:
            doubles = self._in_doubles(w, out)
            send = compute(self._memory, self._short, self._rng, self._row, doubles.w, doubles.out)
            self._round(doubles.out, out)
        loss = oracle.losses[0] if oracle.losses else None  # of local steps, that at the w read
        oracle.losses.clear()
        self._tell(loss, w)
        return send

    def _pack(self, packer: Packer, found: Any, out: Message) -> float | None:
        """Pack the gradient that the user's function has returned, from where it is if it is an array of numbers."""
        numbers, loss = packer.numbers, None
        if type(found) is np.ndarray and found.dtype in FLOATS and found.shape == numbers.shape and found.flags.carray:
            numbers = found
        else:
            loss = write_checked(found, numbers)
        packer.pack(numbers, out, self.sample)
        return loss

    def _tell(self, loss: float | None, w: Floats) -> None:
        """Note a loss at w, and that at w_0 of the first samples, then of ever fewer; say it if it is no number."""
        self.loss, self.first = UNKNOWN if loss is None else loss, UNKNOWN
        if loss is None:
            return
        if not math.isfinite(loss):
            if self._odd.add():
                self._odd.say(f"the loss of a sample is {loss}; it is left out of the mean loss, its gradient is not")
        elif self._drawn >= self._next:
            self._next = self._drawn + 1 + (self._drawn - self._began_at) // RARER
            with suppress(Exception):  # whatever a user's code raises: the gradient that was asked for is there
                start = self._start_as(w.dtype)
                told = write_checked(self._oracle.gradient(start, self._item), np.empty_like(start))
                self.first = UNKNOWN if told is None or not math.isfinite(told) else told

    def _start_as(self, dtype: Any) -> Floats:
        """w_0, to be read only, in the numbers that the user's code computes with."""
        if self._start.dtype != dtype or self._start.flags.writeable:
            self._start = check.read_only(self._w0.astype(dtype))
        return self._start


@compiled
def draw(memory: Record, oracle: Record, rng: Rng, key: Rng, i: int, k: int, t: int, w: Floats, out: Floats) -> bool:
    """Worker i's k-th message, from w of version t."""
    rewind(rng, key, i, k)
    told(memory, t)
    return compute(memory, oracle, rng, i, w, out)


class FromProblem(Task):
    """A worker of a problem: its k-th sample is a function of (seed, i, k), as in the simulator.

    Args:
        problem: the problem.
        method: whose worker half runs on it.
        seed: of all samples.
        w0: (d,) where the run starts.
        pause: seconds to wait before each gradient, to make a worker slow.
    """

    tied = True

    def __init__(self, problem: Problem, method: Method, seed: int, w0: Floats, pause: float = 0.0) -> None:
        super().__init__(method, w0, seed)
        self._problem, self._pause = problem, pause

    def begin(self, row: int, n: int, d: int, samples: int, encoding: Encoding = FLOAT64) -> None:
        """Get the arrays ready, and the machine code."""
        if (n, d) != (self._problem.n, self._problem.d):
            raise BadInput("problem", self._problem, f"one of {n} workers and {d} parameters, as the server's")
        check_method(self._method, self._problem, self._w0, n)
        super().begin(row, n, d, samples, encoding)
        self._oracle, self._key = self._problem.oracle(), key(self._seed, 0, SAMPLES)
        called = callback_of(self._oracle) is not None  # by Python alone, since Ctrl-C comes to this thread
        self._draw = draw.plain if called else draw
        if samples == 0 and not self._memory and not called:  # have the machine code before w is read
            draw(self._memory, self._oracle, self._rng, self._key, row, 0, 0, _read_only(d), np.empty(d))

    def compute(self, w: Floats, out: Floats) -> bool:
        """The message of the next sample."""
        if self._pause > 0.0:
            time.sleep(self._pause)
        self._drawn += 1
        which = self._row, self._drawn - 1, self.version
        if out.dtype == FLOAT:
            return self._draw(self._memory, self._oracle, self._rng, self._key, *which, w, out)
        doubles = self._in_doubles(w, out)
        send = self._draw(self._memory, self._oracle, self._rng, self._key, *which, doubles.w, doubles.out)
        self._round(doubles.out, out)
        return send


@dataclass(frozen=True)
class Source:
    """What all workers of a run have in common: what they compute, on what, with which method."""

    gradient: Gradient | Model | None
    problem: Problem | None
    method: Method
    seed: int
    w0: Floats
    go_on: bool = True  # as for `FromStream`

    def task(self, own: Any) -> Task:
        """The task of a worker, given what is its own: a stream; of a problem, the seconds it pauses."""
        if self.problem is not None:
            return FromProblem(self.problem, self.method, self.seed, self.w0, own)
        gradient: Any = self.gradient  # one of the two is there
        return FromStream(gradient, own, self.method, self.w0, go_on=self.go_on, seed=self.seed)

    def warm_up(self, encoding: Encoding = FLOAT64) -> None:
        """Have the machine code of a problem's workers made, before they start, so that they find it on disk.

        It depends on which arrays are read-only, and those of a copy that was sent are not: so a copy begins.
        That which packs messages is needed on streams, too.
        """
        if isinstance(encoding, Packed):
            Packer(encoding, self.seed, 0, 1)
        if self.problem is not None:
            n, d = self.problem.n, self.problem.d
            upload, download = self.method.traffic(d, n)
            task = pickle.loads(pickle.dumps(self.task(0.0)))
            task.begin(0, n, d, 0)
            task.compute(_read_only(download), np.empty(upload))


def _read_only(size: int) -> Floats:
    """Zeros that are read-only, as the w of workers is."""
    return check.read_only(np.zeros(size))
