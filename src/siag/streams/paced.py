"""A stream slowed down."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from siag.foundations import check
from siag.streams.stream import Source, Stop, Stream, acceptor, check_stream, opened, resumed

T = TypeVar("T")


@dataclass(eq=False)
class Paced(Stream[T]):
    """At most one sample of a stream in a given time, to try out unequal workers.

    The first sample comes at once. A sample is taken from the stream only when it is due, so it is not older than the
    stream makes it.

    Args:
        stream: where the samples come from, or a function that makes it, called when it is read.
        seconds: how long after a sample the next one may come.

    Example:
        >>> list(Paced("abc", seconds=0.001))
        ['a', 'b', 'c']
    """

    stream: Source[T]
    seconds: float

    def __post_init__(self) -> None:
        check_stream(self.stream)
        self.seconds = check.real("seconds", self.seconds, above=0)

    def after(self, samples: int) -> Paced[T]:
        """The same pace, with the stream after its first samples, if it can begin there."""
        return Paced(resumed(self.stream, samples), self.seconds)

    @property
    def accepted(self) -> Callable[[int], None] | None:
        """Acknowledges samples of the stream, if it can be told."""
        return acceptor(self.stream)

    def samples(self, stop: Stop) -> Generator[T, None, None]:
        """The samples of the stream, in time, until `stop` is set."""
        with opened(self.stream, stop) as source:
            for sample in source:
                due = time.monotonic() + self.seconds
                yield sample
                if stop.wait(max(0.0, due - time.monotonic())):
                    return
