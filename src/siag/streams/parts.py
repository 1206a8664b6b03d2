"""A Ray Dataset for many workers: read once, as a stream, and dealt out row by row.

Row r belongs to worker r mod n, whatever the workers' speeds and however the data lie in blocks. An actor reads as far
as the fastest worker has come; what it has read for the others waits for them in Ray's object store, which spills to
disk what does not fit. So nobody waits for a slow worker, and none takes what is another's. `streaming_split` of Ray
gives each row to whoever is there first, and a consumer of its that is started again waits for ever.
"""

from __future__ import annotations

import copy
import secrets
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.streams.rows import Columns, batches_of, rows_in, rows_of
from siag.streams.stream import Stop, Stream

PIECE = 256  # rows that a worker is given at a time, if they are small
LARGEST = 32 << 20  # bytes that are read before they are dealt out
KEPT = 4  # pieces that are kept for a worker that is started again
LOOK = 0.25  # seconds between two looks at whether a stream is to end


class Piece(NamedTuple):
    """Rows of one part."""

    first: int  # the number of the first one, in its part
    end: int  # that of the first one after them
    columns: Any  # a reference to them


class Reading:
    """One pass over a Dataset, for some of its parts.

    Args:
        dataset: a `ray.data.Dataset`.
        workers: in how many parts it is.
        parts: the numbers of those that are kept.
    """

    def __init__(self, dataset: Any, workers: int, parts: Iterable[int]) -> None:
        self._chunks = _chunks(batches_of(dataset), workers)
        self._workers, self._start = workers, 0  # rows that were read
        self._pieces: dict[int, deque[Piece]] = {part: deque() for part in parts}
        self._gone = dict.fromkeys(self._pieces, 0)  # how many rows of each are kept no more
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def take(self, part: int, after: int) -> Piece | None:
        """The piece of a part with the row that comes after so many; `None` if there is no such row."""
        with self._lock:
            pieces = self._pieces[part]
            while not pieces or pieces[-1].end <= after:
                if not self._deal(part, after):
                    return None
            done = sum(piece.end <= after for piece in pieces)
            for _ in range(done - KEPT):
                self._gone[part] = pieces.popleft().end
            return next(piece for piece in pieces if piece.end > after)

    def lacks(self, part: int, row: int) -> bool:
        """Whether a row of a part was read before, and is kept no more; nobody who reads is waited for."""
        return row < self._gone[part]

    def drop(self, part: int) -> None:
        """Keep nothing of a part from now on; nobody who reads is waited for."""
        self._pieces.pop(part, None)

    def _deal(self, asking: int, after: int) -> bool:
        """Read on; False at the end. What the part that asks has left behind is not kept."""
        import ray

        if self._error is not None:
            raise self._error
        try:
            columns, size = next(self._chunks, (None, 0))
        except Exception as error:  # whatever reading raises, now and for all who ask later
            self._error = error
            raise
        if columns is None:
            return False
        for part, pieces in list(self._pieces.items()):
            first, end = (-(-(start - part) // self._workers) for start in (self._start, self._start + size))
            if part == asking and end <= after:
                self._gone[part] = end
            elif first < end:
                mine = slice((part - self._start) % self._workers, None, self._workers)
                own = {name: np.ascontiguousarray(values[mine]) for name, values in columns.items()}
                pieces.append(Piece(first, end, ray.put(own)))
        self._start += size
        return True


class Dealer:
    """The actor that reads.

    Args:
        dataset: a `ray.data.Dataset`.
        workers: in how many parts it is.
    """

    def __init__(self, dataset: Any, workers: int) -> None:
        self._dataset, self._workers = dataset, workers
        together = Reading(dataset, workers, range(workers))
        self._readings = [together] * workers
        self._lock = threading.Lock()

    def take(self, part: int, after: int) -> Piece | None:
        """The piece of a part with the row that comes after so many; `None` if there is no such row.

        A worker that has gone back further than what is kept has the Dataset read for itself from then on.
        """
        with self._lock:
            reading = self._readings[part]
            if reading.lacks(part, after):
                reading.drop(part)
                reading = self._readings[part] = Reading(self._dataset, self._workers, [part])
        return reading.take(part, after)


@dataclass(eq=False)
class Part(Stream[dict[str, Any]]):
    """One worker's rows of a Ray Dataset, each a dict by column; `split` makes them.

    A worker that is started again goes on after the rows it has reported. If the actor that deals them out is started
    again, or a worker goes back far, the Dataset is read once more, for which it must give the same rows in the same
    order each time. Its blocks are kept in order here; a random shuffle or a file that has changed is not the same
    again.

    Attributes:
        number: which part it is, from 0.
        streamed: whether the Dataset is executed meanwhile, by tasks that need a CPU that no worker holds.
    """

    number: int
    streamed: bool
    _dealer: Any = field(repr=False)
    _first: int = field(default=0, repr=False)  # the number of the first row to give

    def after(self, samples: int) -> Part:
        """The rows after so many."""
        later = copy.copy(self)
        later._first += check.integer("samples", samples, low=0)
        return later

    def samples(self, stop: Stop) -> Generator[dict[str, Any], None, None]:
        """The rows, until `stop` is set."""
        import ray

        row = self._first
        asked = self._dealer.take.remote(self.number, row)
        while not stop.is_set():
            if not ray.wait([asked], timeout=LOOK)[0]:
                continue
            piece: Piece | None = ray.get(asked)
            if piece is None:
                return
            try:
                columns: Columns = ray.get(piece.columns)
            except ray.exceptions.ObjectLostError:  # it went with the actor, or its node
                asked = self._dealer.take.remote(self.number, row)
                continue
            asked = self._dealer.take.remote(self.number, piece.end)  # while these are computed on
            yield from rows_in(columns, row - piece.first, stop)
            row = piece.end


def split(dataset: Any, workers: int) -> list[Part]:
    """A Ray Dataset in as many parts as there are workers, of as many rows each, give or take one.

    It is read while the workers compute, by tasks that need a CPU that no worker holds, unless it is materialized. A
    slow worker's rows wait for it in Ray's object store, on disk if need be. If they are too many for that, make a
    Dataset for each worker, from files of its own, and give the list of them.

    Args:
        dataset: a `ray.data.Dataset`.
        workers: how many.
    """
    workers = check.integer("workers", workers)
    if not callable(getattr(dataset, "streaming_split", None)):
        raise BadInput("dataset", dataset, "a Ray Dataset")
    import ray

    how = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": min(workers, 100) + 1}
    kind = ray.remote(Dealer).options(**how, name=f"siag dataset {secrets.token_hex(3)}")
    dealer = kind.remote(_Sealed(dataset), workers)
    streamed = type(dataset).__name__ != "MaterializedDataset"
    return [Part(number, streamed, dealer) for number in range(workers)]


def dismiss(parts: list[Part]) -> None:
    """End the actor that deals out these parts, of which no more rows are wanted."""
    import ray

    with suppress(Exception):  # it is gone, or the cluster is
        ray.kill(parts[0]._dealer)


class _Sealed:
    """A Dataset to be unpacked where it arrives; it keeps its blocks, so that an actor can be started with it again."""

    def __init__(self, dataset: Any) -> None:
        from ray import cloudpickle

        self._content: bytes = cloudpickle.dumps(dataset)

    def __reduce__(self) -> tuple[Any, ...]:
        from ray import cloudpickle

        return cloudpickle.loads, (self._content,)


def _chunks(batches: Iterable[Columns], workers: int) -> Iterator[tuple[Columns, int]]:
    """Batches put together until each worker has its piece of them, or they are large; and how many rows they are."""
    waiting: list[Columns] = []
    size = weight = 0
    for batch in batches:
        waiting.append(batch)
        size += rows_of(batch)
        weight += sum(values.nbytes for values in batch.values())
        if size >= PIECE * workers or weight >= LARGEST:
            yield _joined(waiting), size
            waiting, size, weight = [], 0, 0
    if size:
        yield _joined(waiting), size


def _joined(batches: list[Columns]) -> Columns:
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
