"""A bounded queue between data and a worker that is slower than they are."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.streams.remarks import Tally
from siag.streams.stream import Source, Stop, Stream, acceptor, check_stream, opened, resumed

T = TypeVar("T")


@dataclass(eq=False)
class Buffered(Stream[T]):
    """A stream read ahead by a thread, so that data are taken in while the worker computes.

    The thread starts with the loop over this object. It ends with the stream, or when the loop is left: when its
    iterator is closed or garbage collected. A stream that is not a `Stream` cannot be woken up while it waits for
    data; then the thread ends at the next sample. An exception of the stream is raised to the worker, after the samples
    that were read before it.

    A worker that is started again goes on after as many samples as it has reported, if the stream can. With "block"
    these are all that were read before, so none is used twice. With "drop oldest" more were read than reported: as many
    as were dropped come again, the last ones reported among them; none is lost by it.

    Args:
        stream: where the samples come from, or a function that makes it, called when it is read.
        capacity: how many are kept at most.
        full: what happens to a further one: "drop oldest" forgets the sample that has waited longest, so that those
            the worker gets are recent, and says on standard error how many it forgot, a line now and then; "block" lets
            the stream wait, so that none is lost.

    Attributes:
        dropped: how many samples were forgotten, in all loops over this object.

    Example:
        >>> list(Buffered(range(5), capacity=2, full="block"))
        [0, 1, 2, 3, 4]
    """

    stream: Source[T]
    capacity: int = 1000
    full: str = "drop oldest"
    dropped: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        check_stream(self.stream)
        self.capacity = check.integer("capacity", self.capacity)
        check.choice("full", self.full, ("drop oldest", "block"))
        _ = self.accepted  # refuses

    def after(self, samples: int) -> Buffered[T]:
        """The same queue, with the stream after its first samples, if it can begin there."""
        return Buffered(resumed(self.stream, samples), self.capacity, self.full)

    @property
    def accepted(self) -> Callable[[int], None] | None:
        """Acknowledges samples of the stream, if it can be told."""
        accepted = acceptor(self.stream)
        if accepted is not None and self.full != "block":
            raise BadInput("full", self.full, '"block" around a stream that is acknowledged', "what is dropped is not")
        return accepted

    def samples(self, stop: Stop) -> Generator[T, None, None]:
        """The samples of the stream that were not dropped, until `stop` is set."""
        with reading_ahead(self, stop) as queue:
            while sample := queue.take():
                yield sample[0]


@contextmanager
def reading_ahead(buffered: Buffered[T], stop: Stop) -> Iterator[Queue[T]]:
    """Have a thread read the stream, until this is left or `stop` is set; what it reads is in the queue."""
    with Tally("{} samples were dropped in all") as tally:
        queue: Queue[T] = Queue(buffered, Stop(stop), tally)
        fill = contextvars.copy_context().run  # what the stream says is heard by those who hear this one
        arguments = _fill, buffered.stream, queue
        threading.Thread(target=fill, args=arguments, name="siag-buffered", daemon=True).start()
        try:
            yield queue
        finally:
            queue.stop.set()


class Queue(Generic[T]):
    """Samples on their way from the one thread that reads them to the one that asks for them.

    Each of the two sleeps only at an empty or a full queue, or until it is full, so only the first sample, the last
    that there is room for and the first gap are news.
    """

    def __init__(self, buffered: Buffered[T], stop: Stop, tally: Tally) -> None:
        self.buffered, self.stop, self.changed, self.tally = buffered, stop, stop.changed, tally
        self.samples: deque[T] = deque()
        self.since = 0.0  # when the first sample came into the empty queue
        self.ended = False
        self.failure: BaseException | None = None

    def put(self, sample: T) -> bool:
        """Add a sample as the policy says; false if nobody wants it any more."""
        with self.changed:
            if self._is_full() and self.buffered.full == "block":
                self.changed.wait_for(lambda: not self._is_full() or self.stop.is_set())
            if self.stop.is_set():
                return False
            full = self._is_full()
            if full:
                self.samples.popleft()
                self.buffered.dropped += 1
            self.samples.append(sample)
            if len(self.samples) == 1:
                self.since = time.monotonic()
            if len(self.samples) == 1 or (self._is_full() and not full):
                self.changed.notify_all()
        if full and self.tally.add():
            count = f"{self.tally.count:,} samples were" if self.tally.count > 1 else "a sample was"
            self.tally.say(f"{count} dropped: they come faster than the worker takes them, {self._room()}")
        return True

    def end(self, failure: BaseException | None) -> None:
        """No more samples will come, because of `failure` if there was one."""
        with self.changed:
            self.ended, self.failure = True, failure
            self.changed.notify_all()

    def take(self) -> tuple[T] | tuple[()]:
        """The oldest sample; none at the end, unless the end was a failure: then that is raised."""
        with self.changed:
            self.changed.wait_for(lambda: self.samples or self.ended or self.stop.is_set())
            if self.stop.is_set():
                return ()
            if self.samples:
                if self._is_full():
                    self.changed.notify_all()
                return (self.samples.popleft(),)
        self._raise_failure()
        return ()

    def take_all(self, seconds: float) -> list[T]:
        """All samples, `seconds` after the first of them came, or when the queue is full; at the end as by `take`."""
        with self.changed:
            self.changed.wait_for(lambda: self.samples or self.ended or self.stop.is_set())
            rest = min(self.since + seconds - time.monotonic(), threading.TIMEOUT_MAX)
            self.changed.wait_for(lambda: self._is_full() or self.ended or self.stop.is_set(), max(0.0, rest))
            if self.stop.is_set():
                return []
            samples = list(self.samples)
            if samples:
                self.samples.clear()
                self.changed.notify_all()
                return samples
        self._raise_failure()
        return []

    def _raise_failure(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback refers to this frame

    def _room(self) -> str:
        return f"and {self.buffered.capacity:,} are kept"

    def _is_full(self) -> bool:
        return len(self.samples) >= self.buffered.capacity


def _fill(stream: Source[T], queue: Queue[T]) -> None:
    """What the thread does. It must not hold the loop's iterator, which is to be collected when the loop is left."""
    try:
        with opened(stream, queue.stop) as source:
            for sample in source:
                if not queue.put(sample):
                    break
    except BaseException as error:  # whatever it was, the worker must hear of it
        queue.end(error)
    else:
        queue.end(None)
