"""Samples put together, so that a fast stream sends averages rather than noise."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.streams.buffered import Buffered, reading_ahead
from siag.streams.paced import Paced
from siag.streams.remarks import say
from siag.streams.stream import Source, Stop, Stream, acceptor, check_stream, opened, resumed

LEFT_OUT: Any = None  # refused
STACKED = (bool, int, float, str, list, np.generic, np.ndarray)  # parts of pairs that become arrays


@dataclass(eq=False)
class Batched(Stream[Any]):
    """Samples in batches: a worker's gradient is called with `size` of them at once, or with those that have come.

    A batch of pairs `(x, y)` is a pair of arrays `(X, y)`, with a row of X and an entry of y for each, as
    `siag.losses` take them. A batch of anything else is a list. The last batch of a stream that ends may be smaller.

    Without `seconds` a batch is complete when it has `size` samples. With `seconds` it is given that long after its
    first sample came, however few there are, or as soon as it has `size`. With `seconds=0` it is all that has come
    since the last batch was taken: the backlog. For this a thread reads up to `size` samples ahead; then the stream
    waits. Around a `Buffered` that drops the oldest, a source that cannot wait need not.

    A batch counts as one sample. A worker that is started again goes on after the batches it has reported, if the
    stream can. Without `seconds` that is exact: no sample is lost or used twice. (If a file has grown after a last,
    smaller batch, what would have completed that batch is passed over.) With `seconds` it cannot be: how many samples
    were in k batches is not known, only that they were at least k. So the stream goes on after its first k samples:
    none is lost, the later ones that were reported come again, and this is told.

    Args:
        stream: where the samples come from, or a function that makes it, called when it is read.
        size: how many samples a batch has, at most.
        seconds: how long a batch that is not full waits for more; by default for ever.

    Example:
        >>> list(Batched(range(5), 2))
        [[0, 1], [2, 3], [4]]
        >>> X, y = next(iter(Batched([([1.0, 2.0], 0), ([3.0, 4.0], 1)], 2)))
        >>> X.shape, y.tolist()
        ((2, 2), [0, 1])
    """

    stream: Source[Any]
    size: int = LEFT_OUT
    seconds: float | None = None
    _first: int = field(default=0, init=False, repr=False)  # the number of the first batch to give

    def __post_init__(self) -> None:
        check_stream(self.stream)
        if self.size is None:
            raise Missing("size", "say how many samples a batch has, at most: Batched(stream, 100, seconds=2.0)")
        self.size = check.integer("size", self.size)
        if self.seconds is not None:
            self.seconds = check.real("seconds", self.seconds, low=0, remedy="or leave it out")
        _ = self.accepted  # refuses

    def after(self, samples: int) -> Batched:
        """The same without its first batches, if the stream can begin there."""
        later = copy.copy(self)
        samples = check.integer("samples", samples, low=0)
        if acceptor(self.stream) is None:
            later._first += samples
        else:  # its batches are whole, as it has no end
            later.stream = resumed(self.stream, self.size * samples)
        return later

    @property
    def accepted(self) -> Callable[[int], None] | None:
        """Acknowledges batches, as the samples they are of, if the stream can be told."""
        accepted = acceptor(self.stream)
        if accepted is None:
            return None
        if self.seconds is not None:
            remedy = "leave it out: how many samples were in batches by time nobody knows after a crash"
            raise BadInput("seconds", self.seconds, "None around a stream that is acknowledged", remedy)
        return lambda batches: accepted(batches * self.size)

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The batches, until the stream ends or `stop` is set; a batch that is begun then is not given."""
        with closing(self._whole(stop) if self.seconds is None else self._come(stop, self.seconds)) as batches:
            for batch in batches:
                yield stack(batch)

    def _whole(self, stop: Stop) -> Generator[list[Any], None, None]:
        """Batches of `size`, the last perhaps smaller.

        If k were reported, the last may have been that one, of one sample at least: up to size − 1 are passed over.
        """
        reported = self._first if goes_on(self.stream) else 0
        surely, perhaps = (self.size * (reported - 1) + 1, self.size - 1) if reported else (0, 0)
        with opened(resumed(self.stream, surely), stop) as source:
            for _ in islice(source, perhaps):
                pass
            while batch := list(takewhile(lambda _: not stop.is_set(), islice(source, self.size))):
                if stop.is_set():
                    return
                yield batch

    def _come(self, stop: Stop, seconds: float) -> Generator[list[Any], None, None]:
        """Batches of what has come."""
        if self._first and goes_on(self.stream):
            where = f"after its first {self._first:,} samples, as many as batches were reported before"
            say(f"a stream in batches by time goes on {where}; samples reported after those come again")
        stream: Buffered[Any] = Buffered(resumed(self.stream, self._first), capacity=self.size, full="block")
        with reading_ahead(stream, stop) as queue:
            while batch := queue.take_all(seconds):
                yield batch


def stack(samples: list[Any]) -> Any:
    """A batch: pairs of numbers, labels or arrays as a pair of arrays, whatever else as the list it is.

    Example:
        >>> stack([(1.0, "a"), (2.0, "b")])
        (array([1., 2.]), array(['a', 'b'], dtype='<U1'))
    """
    if not all(type(each) is tuple and len(each) == 2 for each in samples):
        return samples
    columns = tuple(zip(*samples, strict=True))
    if not all(isinstance(part, STACKED) for column in columns for part in column):
        return samples
    return tuple(_array(name, column) for name, column in zip("xy", columns, strict=True))


def _array(name: str, parts: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """One row for each part."""
    remedy = "pairs that are lists [x, y] stay as they are"
    if len({isinstance(part, str) for part in parts}) > 1:  # NumPy would make texts of the numbers
        raise BadInput(name, parts, "numbers or texts, not both, in a batch", remedy)
    try:
        return np.array(parts)
    except ValueError:
        raise BadInput(name, parts, "of one shape in all samples of a batch", remedy) from None


def goes_on(stream: object) -> bool:
    """Whether a stream can begin after some samples; those around others can if these can."""
    if isinstance(stream, Batched | Buffered | Paced):
        return goes_on(stream.stream)
    return callable(getattr(stream, "after", None))
