"""A Ray Dataset for many workers: read once, as a stream, and dealt out row by row.

Row r belongs to worker r mod n, whatever the workers' speeds and however the data lie in blocks. An actor reads as far
as the fastest worker has come; what it has read for the others waits for them in Ray's object store, which spills to
disk what does not fit. So nobody waits for a slow worker, and none takes what is another's. `streaming_split` of Ray
gives each row to the first consumer that asks, and one that is started again waits for ever.
"""

from __future__ import annotations

import copy
import secrets
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, SiagError
from siag.streams.rows import Columns, batches_of, is_streamed, rows_in, rows_of, words_of
from siag.streams.stream import Stop, Stream

PIECE = 256  # rows that a worker is given at a time, if they come quickly and are small
LARGEST = 32 << 20  # bytes that are read before they are dealt out
SOON = 0.05  # seconds; what comes more slowly is dealt out as it comes
KEPT = 4  # pieces that are kept for a worker that is started again
LOOK = 0.25  # seconds between two looks at whether a stream is to end


class Piece(NamedTuple):
    """Rows of one part."""

    first: int  # the number of the first one, in its part
    end: int  # that of the first one after them
    columns: Any  # a reference to them


class Share:
    """What is kept of one part."""

    def __init__(self) -> None:
        self.pieces: deque[Piece] = deque()
        self.wanted = 0  # rows that have been asked for, and are not asked for again unless its worker is started again
        self.gone = 0  # rows that are kept no more

    def find(self, after: int) -> Piece | None:
        """The piece with row number `after`, if it is there; older ones go."""
        done = sum(piece.end <= after for piece in self.pieces)
        for _ in range(done - KEPT):
            self.gone = self.pieces.popleft().end
        return next((piece for piece in self.pieces if piece.end > after), None)


class Reading:
    """One pass over a Dataset, for some of its parts.

    Args:
        batches: of its rows, in order.
        workers: in how many parts it is.
        parts: the numbers of those that are kept.
    """

    def __init__(self, batches: Iterable[Columns], workers: int, parts: Iterable[int]) -> None:
        self._chunks = _chunks(batches, workers)
        self._workers, self._start = workers, 0  # rows that were read
        self._shares = {part: Share() for part in parts}
        self._end: BaseException | None = None  # why nothing more is read
        self._reader = threading.Lock()  # held by the one that reads
        self._lock = threading.Lock()  # held for a moment, by the thread that looks at what is there

    def take(self, part: int, after: int) -> Piece | None:
        """The piece of a part with its row number `after`; `None` if there is no such row."""
        share = self._shares[part]
        share.wanted = after
        while True:
            with self._lock:
                if (piece := share.find(after)) is not None:
                    return piece
            with self._reader:
                with self._lock:
                    if self._shares.get(part) is not share:  # who asked is gone
                        return None
                    if share.pieces and share.pieces[-1].end > after:  # another one has read it meanwhile
                        continue
                if self._end is not None:
                    if isinstance(self._end, StopIteration):
                        return None
                    raise self._end
                self._read()

    def lacks(self, part: int, row: int) -> bool:
        """Whether a row of a part was read before, and is kept no more."""
        return row < self._shares[part].gone

    def drop(self, part: int) -> None:
        """Keep nothing of a part from now on."""
        with self._lock:
            del self._shares[part]

    def _read(self) -> None:
        """Read on, and deal out; what was left behind by its worker is not kept."""
        import ray

        try:
            columns, size = next(self._chunks)
        except Exception as error:  # the end, or whatever reading raises, now and for all who ask later
            self._end = error
            return
        with self._lock:
            shares = list(self._shares.items())
        for part, share in shares:
            first, end = (-(-(start - part) // self._workers) for start in (self._start, self._start + size))
            if first == end:
                continue
            if end <= share.wanted:
                share.gone = end
            else:
                mine = slice((part - self._start) % self._workers, None, self._workers)
                own = {name: np.ascontiguousarray(values[mine]) for name, values in columns.items()}
                piece = Piece(first, end, ray.put(own))
                with self._lock:
                    share.pieces.append(piece)
        self._start += size


class Dealer:
    """The actor that reads.

    Args:
        dataset: a `ray.data.Dataset`.
        workers: in how many parts it is.
    """

    def __init__(self, dataset: Any, workers: int) -> None:
        self._dataset, self._workers = dataset, workers
        together = self._begin(range(workers))
        self._readings = [together] * workers
        self._lock = threading.Lock()

    def take(self, part: int, after: int) -> Piece | None:
        """The piece of a part with its row number `after`; `None` if there is no such row.

        A worker that has gone back further than what is kept has the Dataset read for itself from then on.
        """
        with self._lock:
            reading = self._readings[part]
            if reading.lacks(part, after):
                reading.drop(part)
                reading = self._readings[part] = self._begin([part])
        return reading.take(part, after)

    def _begin(self, parts: Iterable[int]) -> Reading:
        return Reading(batches_of(self._dataset), self._workers, parts)


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
        """The same without its first rows."""
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
            try:
                piece: Piece | None = ray.get(asked)
                if piece is None:
                    return
                columns: Columns = ray.get(piece.columns)
            except ray.exceptions.ActorDiedError as error:
                raise SiagError(f"the actor that reads the Dataset is gone: {words_of(error)}") from None
            except (ray.exceptions.ActorUnavailableError, ray.exceptions.ObjectLostError):
                if not stop.wait(LOOK):  # it is started again, and reads once more
                    asked = self._dealer.take.remote(self.number, row)
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, SiagError) else SiagError(words_of(error)) from None
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

    how = {"num_cpus": 0, "max_restarts": -1, "max_concurrency": min(workers, 100) + 1}
    kind = ray.remote(Dealer).options(**how, name=f"siag dataset {secrets.token_hex(3)}")
    dealer = kind.remote(dataset, workers)
    return [Part(number, is_streamed(dataset), dealer) for number in range(workers)]


def dismiss(parts: list[Part]) -> None:
    """End the actor that deals out these parts, of which no more rows are wanted."""
    import ray

    with suppress(Exception):  # it is gone, or the cluster is
        ray.kill(parts[0]._dealer)


def _chunks(batches: Iterable[Columns], workers: int) -> Iterator[tuple[Columns, int]]:
    """Batches of one kind, put together as long as they come quickly and are few; and how many rows they are."""
    waiting: list[Columns] = []
    size = weight = 0
    for batch, took in _timed(batches):
        if isinstance(batch, Exception):
            if waiting:
                yield _joined(waiting), size
            raise batch
        if not rows_of(batch):
            continue
        if waiting and _kind(batch) != _kind(waiting[0]):
            yield _joined(waiting), size
            waiting, size, weight = [], 0, 0
        waiting.append(batch)
        size += rows_of(batch)
        weight += sum(values.nbytes for values in batch.values())
        if took > SOON or size >= PIECE * workers or weight >= LARGEST:
            yield _joined(waiting), size
            waiting, size, weight = [], 0, 0
    if waiting:
        yield _joined(waiting), size


def _timed(batches: Iterable[Columns]) -> Iterator[tuple[Columns | Exception, float]]:
    """Each batch, and how long it took to come; at last the error that ended them, if one did."""
    iterator = iter(batches)
    while True:
        began = time.monotonic()
        try:
            batch: Columns | Exception = next(iterator)
        except StopIteration:
            return
        except Exception as error:  # a user's code may raise anything
            yield error, 0.0
            return
        yield batch, time.monotonic() - began


def _kind(batch: Columns) -> list[tuple[str, Any, tuple[int, ...]]]:
    """What batches must have in common to be put together: names, types and shapes of the columns."""
    return [
        (name, values.dtype.kind if values.dtype.kind in "US" else values.dtype, values.shape[1:])
        for name, values in batch.items()
    ]


def _joined(batches: list[Columns]) -> Columns:
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
