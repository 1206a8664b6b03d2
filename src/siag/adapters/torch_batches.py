"""The batches of torch's loaders and datasets, and of pairs (X, y) of tensors."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from multiprocessing import process
from typing import Any

from siag.foundations.errors import BadInput
from siag.foundations.extras import needed
from siag.streams import Batched, Buffered, Paced, Repeated
from siag.streams.finite import is_pair
from siag.streams.stream import Stop, made

torch = needed("torch", "torch")
data = needed("torch.utils.data", "torch")


class Collated(Batched):
    """Samples in batches, put together as a `DataLoader` does."""

    def samples(self, stop: Stop) -> Generator[Any, None, None]:
        """The batches: arrays of pairs of numbers or arrays, whatever else as `default_collate` makes it."""
        for batch in super().samples(stop):
            yield data.default_collate(batch) if isinstance(batch, list) else batch


class Again:
    """An `IterableDataset` as what it is, something to iterate over; it has the methods of a sequence, too."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __iter__(self) -> Iterator[Any]:
        return iter(self._source)


def read(stream: Any, batch: int) -> Any:
    """A stream of batches: those of a loader, or of `batch` samples of a dataset; others are taken for batches."""
    stream = made(stream)
    if isinstance(stream, Batched):
        return _around(stream)
    if isinstance(stream, Buffered | Paced):
        other = copy.copy(stream)
        other.stream = read(stream.stream, batch)
        return other
    found = _samples(stream.data if isinstance(stream, Repeated) else stream)
    if found is None:
        _check_loader(stream.data if isinstance(stream, Repeated) else stream)
        return stream
    if isinstance(stream, Repeated):
        other = copy.copy(stream)
        other.data = found
        found = other
    return Collated(found, batch)


def _samples(source: Any) -> Any:
    """What can be read sample by sample; `None` if it gives batches."""
    if isinstance(source, data.IterableDataset):
        return Again(source)
    if isinstance(source, tuple) and len(source) == 2 and all(isinstance(part, torch.Tensor) for part in source):
        if len(source[0]) != len(source[1]):
            both = f"a pair of {len(source[0])} and {len(source[1])} rows"
            raise BadInput("stream", both, "a pair (X, y) of equal length")
        return data.TensorDataset(*source)
    return source if isinstance(source, data.Dataset) or is_pair(source) else None


def _around(stream: Batched) -> Any:
    """The user's own batches, put together as a loader does."""
    other = Collated(stream.stream, stream.size, stream.seconds)
    inner = _samples(made(stream.stream))
    other.stream = stream.stream if inner is None else inner
    return other


def _check_loader(source: Any) -> None:
    """Refuse a loader that would start processes in a process that may not."""
    if isinstance(source, data.DataLoader) and source.num_workers and process.current_process().daemon:
        allowed = "0 for a loader that is a stream: each worker has a process of its own"
        raise BadInput("num_workers", source.num_workers, allowed)
