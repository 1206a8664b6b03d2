"""What a stream is, and how one that waits for data is made to end."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeAlias, TypeVar

from siag.foundations.errors import BadInput

T = TypeVar("T")
Source: TypeAlias = Iterable[T] | Callable[[], Iterable[T]]
"""Where samples come from: something to iterate over, or a function that makes it."""


class Stop:
    """A wish that a stream end; it wakes up a thread that sleeps in `wait`.

    Args:
        parent: another one, whose being set sets this one too.

    Example:
        >>> stop = Stop()
        >>> stop.wait(0.001)
        False
        >>> stop.set()
        >>> stop.wait(1000)
        True
    """

    def __init__(self, parent: Stop | None = None) -> None:
        self.changed: threading.Condition = parent.changed if parent else threading.Condition()
        self._parent = parent
        self._wished = False

    def set(self) -> None:
        """End the stream, from any thread."""
        self._wished = True
        if sys.is_finalizing():  # daemon threads are frozen by now, perhaps with the lock in their hands
            return
        with self.changed:
            self.changed.notify_all()

    def is_set(self) -> bool:
        """Whether the stream is to end."""
        return self._wished or (self._parent is not None and self._parent.is_set())

    def wait(self, seconds: float) -> bool:
        """Sleep for so long, or until the stream is to end; whether it is."""
        with self.changed:
            return self.changed.wait_for(self.is_set, min(seconds, threading.TIMEOUT_MAX))


class Stream(ABC, Generic[T]):
    """Samples that arrive one after the other.

    Any iterable will do as a stream. One derived from this class can also be ended while it waits for data, so it
    should sleep by `stop.wait`. Constructors open nothing and start nothing; `samples`, a generator, does.

    A stream may also have a method `after(samples)`, which returns the stream without its first samples.
    A worker that is started again goes on with those not reported yet, then. Without it the stream begins anew.

    One that can may have a method `accepted(samples)`, too: the server has the first `samples` samples, so they may be
    acknowledged to where they came from. It is called when the worker begins, and with each answer to a report that was
    taken; from another thread, if a `Buffered` is around the stream. A durable server answers when the report is on
    disk. What was refused is not taken, and the next sample follows; it counts as accepted with the next that is taken,
    and comes again if the worker is started again before that. After a lost connection the worker goes back to the
    first sample that the server does not have, by `after`.

    Example:
        >>> class Countdown(Stream[int]):
        ...     def samples(self, stop):
        ...         for count in (3, 2, 1):
        ...             yield count
        ...             if stop.wait(0.001):
        ...                 return
        >>> list(Countdown())
        [3, 2, 1]
    """

    @abstractmethod
    def samples(self, stop: Stop) -> Generator[T, None, None]:
        """The samples from the beginning, until they end or `stop` is set."""

    def __iter__(self) -> Generator[T, None, None]:
        return self.samples(Stop())


@contextmanager
def opened(stream: Source[T], stop: Stop) -> Iterator[Iterator[T]]:
    """Go through `stream`, ended by `stop` if it can be; what was begun here is closed at the end."""
    source: Iterable[T] = made(stream)
    iterator = source.samples(stop) if isinstance(source, Stream) else iter(source)
    try:
        yield iterator
    finally:
        if iterator is not stream and isinstance(iterator, Generator):
            iterator.close()


def resumed(stream: T, samples: int) -> T:
    """The stream after its first samples, if it can begin there; else the stream as it is.

    Example:
        >>> resumed([1, 2, 3], 2)
        [1, 2, 3]
    """
    after = getattr(stream, "after", None) if samples > 0 else None
    return after(samples) if callable(after) else stream


def acceptor(stream: Any) -> Callable[[int], None] | None:
    """The method `accepted` of a stream; `None` if it has none, or is around a stream that has none.

    Example:
        >>> acceptor([1, 2, 3]) is None
        True
    """
    accepted: Callable[[int], None] | None = getattr(stream, "accepted", None)
    if not callable(accepted):
        return None
    if not callable(getattr(stream, "after", None)):
        raise BadInput("stream", stream, "able to go on after some samples", "accepted(samples) needs after(samples)")
    return accepted


def made(stream: Any) -> Any:
    """What a function makes; anything else as it is.

    Example:
        >>> made(lambda: [1, 2]), made([3])
        ([1, 2], [3])
    """
    if not _makes_one(stream):
        return stream
    found = stream()
    if not _can_be_read(found):
        raise BadInput("stream", found, "something a for loop can go through; a function has made it")
    return found


def check_stream(stream: object) -> None:
    """Refuse what a `for` loop cannot go through, unless it makes something of the kind."""
    if not _can_be_read(stream) and not _makes_one(stream):
        allowed = "a stream, a function that makes one, or anything else a for loop can go through"
        raise BadInput("stream", stream, allowed)


def _makes_one(stream: object) -> bool:
    return callable(stream) and not _can_be_read(stream)


def _can_be_read(stream: object) -> bool:
    return isinstance(stream, Iterable) or hasattr(stream, "__getitem__")
