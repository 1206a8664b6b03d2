"""Finite data as a stream: read again and again, in a new order each time."""

from __future__ import annotations

import copy
import sys
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, cycle, islice, repeat
from operator import length_hint
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.streams.batched import Batched
from siag.streams.buffered import Buffered
from siag.streams.finite import check_finite, is_finite, is_indexed, samples_of, size_if_ordered
from siag.streams.lines import LineStream
from siag.streams.paced import Paced
from siag.streams.stream import Stop, Stream, acceptor, made, opened

WINDOW, MEMORY = 50_000, 64 << 20  # samples of a file that are in memory to be mixed, and bytes of them, at most
HOLDERS = np.ndarray, tuple, list, dict  # of numbers that a gradient could change


@dataclass(eq=False)
class Repeated(Stream[Any]):
    """Data that can be read again, pass after pass, shuffled anew for each.

    Workers read lists, arrays, DataFrames, pairs (X, y) of these and datasets this way by themselves; this is for
    another order, for a given number of passes, or for a `Stream` that is to be read again.

    The order of a pass follows from the seed, the worker and the number of the pass. Of a file up to 50 000
    samples, or 64 MB of them, are in memory at a time, and one of them at random is the next. Other data without
    numbers for their samples, such as a torch `DataLoader` or another `Stream`, are read in the order they have.
    Arrays are given read-only, those within tuples, lists and dicts, too: a gradient that writes to its sample fails,
    instead of changing the data.

    Args:
        data: a list, an array, a DataFrame, a pair of arrays, a dataset, or anything a `for` loop can go through twice.
        shuffle: whether to.
        passes: how many; by default until the run ends.
        seed: of the order; by default the run's.

    Attributes:
        done: how many passes have been completed.

    Example:
        >>> list(Repeated([1, 2, 3], shuffle=False, passes=2))
        [1, 2, 3, 1, 2, 3]
        >>> sorted(Repeated([1, 2, 3], passes=1, seed=7))
        [1, 2, 3]
    """

    data: Any
    shuffle: bool = True
    passes: int | None = None
    seed: int | None = None
    _worker: int = field(default=0, init=False, repr=False)
    _first: int = field(default=0, init=False, repr=False)  # the number of the first sample to give
    _done: list[int] = field(default_factory=lambda: [0], init=False, repr=False)  # one for all copies

    def __post_init__(self) -> None:
        if not is_finite(self.data) and not isinstance(self.data, Stream):
            remedy = "put what it gives into a list, or give it as it is, to be read once"
            raise BadInput("data", self.data, "data that can be read again", remedy)
        if acceptor(self.data) is not None:
            raise BadInput("data", self.data, "data that can be read again; what is acknowledged is read once")
        self.shuffle = check.truth("shuffle", self.shuffle)
        if self.passes is not None:
            self.passes = check.integer("passes", self.passes)
        if self.seed is not None:
            self.seed = check.seed(self.seed)

    @property
    def done(self) -> int:
        """How many passes have been completed."""
        return self._done[0]

    def after(self, samples: int) -> Repeated:
        """The same without its first samples."""
        later = copy.copy(self)
        later._first += check.integer("samples", samples, low=0)
        return later

    def read_by(self, worker: int, seed: int) -> Repeated:
        """The same in the order of this worker, and of this seed if it has none of its own."""
        own = copy.copy(self)
        own._worker, own.seed, own._done = worker, seed if self.seed is None else self.seed, [0]
        return own

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The samples, pass after pass, until `stop` is set."""
        if isinstance(self.data, Stream):
            data: Any = self.data
        else:
            check_finite("stream", self.data)
            data = samples_of(self.data)
        kept = not isinstance(data, Stream)
        ordered = size_if_ordered(data)
        size = len(data) if is_indexed(data) else ordered
        number, skipped = divmod(self._first, size) if size else (0, self._first)
        while self.passes is None or number < self.passes:
            self._done[0] = number
            read = begin = 0 if ordered is None else skipped  # what is in order leaves out by itself what is skipped
            with opened(self._ordered(data, number, None if ordered is None else begin), stop) as source:
                mix = self.shuffle and isinstance(data, LineStream) and not data.wait
                for read, sample in enumerate(mixed(source, self._rng(number)) if mix else source, begin + 1):
                    if read > skipped:
                        yield read_only(sample) if kept else sample
                    if stop.is_set():
                        return
            if read == 0:
                raise BadInput("stream", self.data, "data with at least one sample", "or leave this worker out")
            skipped = max(0, skipped - read)
            number += 1
        self._done[0] = number

    def _ordered(self, data: Any, number: int, skip: int | None) -> Iterable[Any]:
        """The data in the order of a pass; if they can be asked for it, without the first `skip`."""
        if skip is not None:
            return data.ordered(self._rng(number) if self.shuffle else None, skip)  # type: ignore[no-any-return]
        if not is_indexed(data):
            return data  # type: ignore[no-any-return]
        if not self.shuffle:
            return (data[k] for k in range(len(data)))
        return (data[k] for k in self._rng(number).permutation(len(data)).tolist())

    def _rng(self, number: int) -> np.random.Generator:
        """What the order of a pass follows from."""
        return np.random.default_rng([self.seed or 0, self._worker, number])


def mixed(samples: Iterable[Any], rng: np.random.Generator, window: int = WINDOW) -> Iterator[Any]:
    """The samples in another order: at each turn one of the next `window` that are left, or fewer if they are large.

    Example:
        >>> sorted(mixed(range(5), np.random.default_rng(0), window=2))
        [0, 1, 2, 3, 4]
    """
    source = iter(samples)
    held = list(islice(source, 1))
    if held:
        held += islice(source, min(window, 1 + MEMORY // _size(held[0])) - 1)
    for sample in source:
        k = int(rng.integers(len(held)))
        yield held[k]
        held[k] = sample
    for k in rng.permutation(len(held)).tolist():
        yield held[k]


def read_only(sample: Any) -> Any:
    """A sample that will be read again: its arrays as views that cannot be written to, else later passes read other.

    Those within tuples, lists and dicts, too, which are copied where they can be changed.

    Example:
        >>> sample = read_only({"x": np.zeros(2), "y": 1.0})
        >>> sample["x"].flags.writeable, sample["y"]
        (False, 1.0)
    """
    kind = type(sample)
    if kind is tuple or kind is list:
        holds = any(issubclass(part, HOLDERS) for part in set(map(type, sample)))
        return kind(map(read_only, sample) if holds else sample)
    if kind is dict:
        return {name: read_only(part) for name, part in sample.items()}
    return check.read_only(sample) if isinstance(sample, np.ndarray) else sample


def _size(sample: Any) -> int:
    """About how many bytes a sample takes."""
    parts = sample if isinstance(sample, tuple) else (sample,)
    return sum(sys.getsizeof(part) for part in parts)


def read_again(stream: Any, worker: int, seed: int) -> Any:
    """The stream as a worker reads it: finite data are repeated, within `Batched`, `Buffered` and `Paced`, too.

    Functions have made theirs then.
    """
    stream = made(stream)
    if isinstance(stream, Repeated):
        return stream.read_by(worker, seed)
    if isinstance(stream, Batched | Buffered | Paced):
        around = copy.copy(stream)
        around.stream = read_again(stream.stream, worker, seed)
        return around
    return Repeated(stream).read_by(worker, seed) if is_finite(stream) else stream


def never_ends(stream: Any) -> bool:
    """Whether it is known to have no end: a file that is waited for, `count`, `cycle` or `repeat` of `itertools`."""
    stream = data_within(stream)
    if isinstance(stream, LineStream):
        return stream.wait
    return isinstance(stream, count | cycle) or (isinstance(stream, repeat) and length_hint(stream, -1) < 0)


def data_within(stream: Any) -> Any:
    """What is read, without the streams around it; a function has not made its stream yet."""
    while isinstance(stream, Batched | Buffered | Paced | Repeated):
        stream = stream.data if isinstance(stream, Repeated) else stream.stream
    return stream


def repeated_within(stream: Any) -> Repeated | None:
    """The data that are repeated in a stream, if there are any."""
    while isinstance(stream, Batched | Buffered | Paced):
        stream = stream.stream
    return stream if isinstance(stream, Repeated) else None
