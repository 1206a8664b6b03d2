"""The batches of torch's loaders and datasets, and of pairs (X, y) of tensors."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from multiprocessing import process
from typing import Any

import numpy as np

from siag.adapters.batches import Rows, arrays, in_batches
from siag.foundations.errors import BadInput
from siag.foundations.extras import needed
from siag.streams import Batched
from siag.streams.finite import is_pair
from siag.streams.stream import Stop

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
    return in_batches(stream, batch, _samples, Collated)


def _samples(source: Any) -> Any:
    """What can be read sample by sample; `None` if it gives batches."""
    if isinstance(source, data.DataLoader) and source.num_workers and process.current_process().daemon:
        allowed = "0 for a loader that is a stream: each worker has a process of its own"
        raise BadInput("num_workers", source.num_workers, allowed)
    if isinstance(source, data.IterableDataset):
        return Again(source)
    rows = arrays(source, (torch.Tensor, np.ndarray))
    if rows is None and type(source) is data.TensorDataset:
        rows = Rows(*source.tensors)
    return rows or (source if isinstance(source, data.Dataset) or is_pair(source) else None)
