"""Rows of a Ray Dataset that one worker has for itself."""

from __future__ import annotations

import copy
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError
from siag.streams.stream import Stop, Stream

Columns: TypeAlias = dict[str, np.ndarray[Any, Any]]

COLOURS = re.compile("\x1b\\[[0-9;]*m")
RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception|Interrupt|Exit)\b")  # how the last line of a traceback begins


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

    @property
    def streamed(self) -> bool:
        """Whether the Dataset is executed meanwhile, by tasks that need a CPU that no worker holds."""
        return is_streamed(self.source)

    def after(self, samples: int) -> Rows:
        """The same without its first rows."""
        later = copy.copy(self)
        later._first += check.integer("samples", samples, low=0)
        return later

    def samples(self, stop: Stop) -> Generator[dict[str, Any], None, None]:
        """The rows, until `stop` is set."""
        skip = self._first
        for batch in batches_of(self.source):
            yield from rows_in(batch, skip, stop)
            skip = max(0, skip - rows_of(batch))
            if stop.is_set():
                return


def is_streamed(dataset: Any) -> bool:
    """Whether reading a Dataset means to execute it."""
    return type(dataset).__name__ != "MaterializedDataset"


def batches_of(source: Any) -> Iterator[Columns]:
    """The blocks of a Dataset, in order; a `SiagError` says why it cannot be read."""
    from ray.exceptions import RayError

    context = source.context if hasattr(source, "context") else source.get_context()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    try:
        yield from source.iter_batches(batch_size=None, batch_format="numpy")
    except RayError as error:
        raise SiagError(f"the Dataset cannot be read: {words_of(error)}") from None


def rows_of(batch: Columns) -> int:
    """How many rows there are."""
    return len(next(iter(batch.values()), ()))


def rows_in(batch: Columns, skip: int, stop: Stop) -> Iterator[dict[str, Any]]:
    """The rows after the first `skip`, each a dict by column, until `stop` is set."""
    names = list(batch)
    for values in zip(*(column[skip:] for column in batch.values()), strict=True):
        if stop.is_set():
            return
        yield dict(zip(names, values, strict=True))


def words_of(error: Exception) -> str:
    """What went wrong in another process, in a line: the last error in what Ray shows that is not Ray's own."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines() if line.strip()]
    raised = [line for line in lines if RAISED.match(line)]
    found = [line for line in raised if not line.startswith("ray.")] or raised or lines[:1] or [type(error).__name__]
    return found[-1]
