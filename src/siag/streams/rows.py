"""Rows of a Ray Dataset, one part of it for each worker."""

from __future__ import annotations

import copy
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.streams.stream import Stop, Stream


@dataclass(eq=False)
class Rows(Stream[dict[str, Any]]):
    """The rows of a Ray Dataset, each a dict by column, read block by block while earlier ones are computed on.

    A worker that is started again goes on after the rows it has reported: those are read once more and left out, for
    which the Dataset must give the same rows in the same order each time. Its blocks are kept in order here; a random
    shuffle or a file that has changed is not the same again.

    A Dataset that is not materialized is executed by tasks of its own, which need a CPU that no worker holds.

    Args:
        source: a `ray.data.Dataset`, or its `iterator()`. Not one of `streaming_split`: all of these wait for each
            other when one is begun again, so that a restarted worker would wait for ever. `split` is for that.
    """

    source: Any
    _first: int = field(default=0, init=False, repr=False)  # the number of the first row to give

    def __post_init__(self) -> None:
        if not callable(getattr(self.source, "iter_batches", None)):
            raise BadInput("source", self.source, "a Ray Dataset, or its iterator")
        if type(self.source).__name__ == "StreamSplitDataIterator":
            remedy = "give the Dataset itself, or siag.streams.split(dataset, workers)"
            raise BadInput("source", self.source, "an iterator that can be begun again by a restarted worker", remedy)

    def after(self, samples: int) -> Rows:
        """The rows after so many."""
        later = copy.copy(self)
        later._first += check.integer("samples", samples, low=0)
        return later

    def samples(self, stop: Stop) -> Generator[dict[str, Any], None, None]:
        """The rows, until `stop` is set."""
        context = _context(self.source)
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        skip = self._first
        for batch in self.source.iter_batches(batch_size=None, batch_format="numpy"):
            names, columns = list(batch), list(batch.values())
            size = len(columns[0]) if columns else 0
            if skip >= size:
                skip -= size
                continue
            for values in zip(*(column[skip:] for column in columns), strict=True):
                if stop.is_set():
                    return
                yield dict(zip(names, values, strict=True))
            skip = 0


def split(dataset: Any, workers: int) -> list[Rows]:
    """A Ray Dataset in as many parts as there are workers, of as many rows each, give or take one.

    Each worker has its own part, whatever the speeds: a fast one does not take what is a slow one's, nor wait for it,
    and one that is started again goes on in its part. `streaming_split` has none of this. So the Dataset is executed
    first, into Ray's object store, which spills to disk what does not fit. For data that are too many for the disks,
    make a Dataset for each worker, from files of its own, and give the list of them: these are streamed.

    Args:
        dataset: a `ray.data.Dataset`.
        workers: how many.
    """
    workers = check.integer("workers", workers)
    if not callable(getattr(dataset, "split_at_indices", None)):
        raise BadInput("dataset", dataset, "a Ray Dataset")
    options = _context(dataset).execution_options
    before, options.preserve_order = options.preserve_order, True  # so that a run that goes on finds the same parts
    try:
        whole = dataset.materialize()
    finally:
        options.preserve_order = before
    rows = whole.count()
    if rows < workers:
        raise BadInput("dataset", dataset, f"of at least {workers} rows, one for each worker", f"it has {rows}")
    if workers == 1:
        return [Rows(whole)]
    return [Rows(part) for part in whole.split_at_indices([rows * k // workers for k in range(1, workers)])]


def _context(source: Any) -> Any:
    """What says how a Dataset is executed, from it or its iterator."""
    return source.context if hasattr(source, "context") else source.get_context()
