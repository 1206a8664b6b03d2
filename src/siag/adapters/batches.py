"""Streams of samples read in batches, for models whose gradients are of batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput
from siag.streams import Batched, Buffered, Paced, Repeated
from siag.streams.stream import Stop, made


class Rows:
    """Arrays of equal length whose rows belong together, such as X and y.

    Args:
        parts: the arrays, of NumPy or another library; those of NumPy may be read-only.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        sizes = {len(part) for part in parts}
        if len(sizes) > 1:
            both = " and ".join(f"{len(part)} rows" for part in parts)
            raise BadInput("stream", f"a pair of {both}", "a pair (X, y) of equal length")
        self.size = sizes.pop()


@dataclass(eq=False)
class Gathered(Batched):
    """Batches of rows, by their numbers, which are the stream: all of a batch at once, not one by one."""

    parts: tuple[Any, ...] = ()

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The batches, a tuple with an array for each part."""
        for numbers in super().samples(stop):
            yield tuple(part[numbers] for part in self.parts)


def in_batches(stream: Any, batch: int, samples: Callable[[Any], Any], batched: type[Batched] = Batched) -> Any:
    """A stream of batches: of `batch` samples where it gives samples; the user's own `Batched` keeps its size.

    Args:
        stream: the stream, or a function that makes it.
        batch: how many samples a batch has.
        samples: of data that give samples: the data in a form in which they can be read, or `Rows`; `None` if they give
            batches.
        batched: what puts samples together.

    Example:
        >>> [len(batch) for batch in in_batches(range(5), 2, lambda data: data)]
        [2, 2, 1]
        >>> in_batches([[1, 2], [3, 4]], 2, lambda data: None)
        [[1, 2], [3, 4]]
    """
    stream = made(stream)
    if isinstance(stream, Buffered | Paced):
        other = copy.copy(stream)
        other.stream = in_batches(stream.stream, batch, samples, batched)
        return other
    size, seconds, source, own = batch, None, stream, isinstance(stream, Batched)
    if own:
        size, seconds, source = stream.size, stream.seconds, made(stream.stream)
    found = samples(source.data if isinstance(source, Repeated) else source)
    if found is None:
        return batched(source, size, seconds) if own else stream
    rows = range(found.size) if isinstance(found, Rows) else found
    if isinstance(source, Repeated):
        source = copy.copy(source)
        source.data = rows
    else:
        source = rows
    return Gathered(source, size, seconds, found.parts) if isinstance(found, Rows) else batched(source, size, seconds)


def arrays(source: Any, kinds: type | tuple[type, ...]) -> Rows | None:
    """The rows of a pair of arrays of these kinds, or of NumPy's numbers."""
    if type(source) is not tuple or len(source) != 2 or not all(isinstance(part, kinds) for part in source):
        return None
    masked = any(isinstance(part, np.ma.MaskedArray) for part in source)  # the streams' own check looks at these
    return None if masked or any(not part.shape for part in source) else Rows(*source)
