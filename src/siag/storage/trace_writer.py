"""Writing a trace while its run goes on, and going on with one; `siag.activity.trace` says what is in it.

Training never waits for the disk: what was written is forced to it in the background. What the disk has not confirmed
is kept here, so that a full disk costs nothing once there is room again; what is too much to keep is given up.
"""

from __future__ import annotations

import errno
import gzip
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager, suppress
from typing import Any

import numpy as np

from siag.activity.trace import BLOCK, COLUMNS, FORGOTTEN, FORMAT, GZIP, WEIGHED
from siag.foundations.errors import BadFile, BadInput, reason_of, shorten
from siag.storage.background import OneThread
from siag.storage.disk import DRAFT, LOCAL, Disk, File, Place
from siag.storage.records import put
from siag.storage.trace_file import check_new, kept_lines


class TraceLines:
    """The lines of a trace, kept as `lines`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def report(self, version: int, worker: int, stamp: int, sample: int, seconds: float, loss: float) -> None:
        """Worker's `sample`-th sample, computed from w of version `stamp`, arrived at `version`; its loss, or NaN."""
        told = "" if math.isnan(loss) else f"{loss:.6g}"
        self.lines.append(f"{version},{worker},{stamp},{sample},{seconds:.6f},,{told}\n")

    def fade(self, version: int, worker: int, factor: float, seconds: float) -> None:
        """The row of a worker that has left counts for `factor` as much from now on."""
        self.lines.append(f"{version},{worker},,,{seconds:.6f},{factor!r},\n")

    def memory_lost(self, version: int, worker: int, seconds: float) -> None:
        """A worker has lost what it remembered: it was started anew, or one of its reports was refused."""
        self.lines.append(f"{version},{worker},,,{seconds:.6f},{FORGOTTEN!r},\n")

    def weigh(self, version: int, worker: int, weight: float, seconds: float) -> None:
        """What a worker sends from now on is `weight` times a message: it is a relay."""
        self.lines.append(f"{version},{worker},,,{seconds:.6f},{WEIGHED!r},{weight!r}\n")


class TraceWriter(TraceLines):
    """Writes a trace while the run goes on; `lines` are those since the last flush.

    Args:
        path: of the file; one that exists is not overwritten, unless it is the trace of the run that goes on, or one
            without a report that nobody writes to.
        about: what was run, kept in the first line; its "run" is the id of the run, by which it knows its trace.
        keep: how many lines belong to the run that goes on, be it from its very start: an existing file may be its own,
            and what comes after these lines was lost. `None` for a new run.
        tail: the last lines of the run that goes on, as far as they are known; the file may lack them.
        disk: where the file is.
        background: who forces it to disk; by default a thread.
        room: bytes kept for a disk that does not take them; with more, the trace is given up.
        carried: bytes that a save of the state may carry for a trace.
    """

    def __init__(
        self,
        path: Place,
        about: Mapping[str, Any],
        keep: int | None = None,
        tail: Sequence[str] = (),
        *,
        disk: Disk = LOCAL,
        background: Executor | None = None,
        room: int = 64 << 20,
        carried: int = 16 << 20,
    ) -> None:
        super().__init__()
        self._path, self._disk, self.room, self._carried = os.fspath(path), disk, room, carried
        facts = json.dumps(dict(about), default=_plain)
        packed = self._path.endswith(".gz")
        self._pack = zlib.compressobj(wbits=GZIP) if packed else None
        self._text = bytearray()  # flushed, and not yet known to be on disk
        self._doubtful = bytearray()  # the same as it is in the file, after what is on disk for certain
        self._written = 0  # how much of it the system has taken
        self._forcing: tuple[Future[None], int, int] | None = None  # how much of text and file is on its way to disk
        self._trouble: OSError | None = None  # what the disk did not take or keep; lasts until it has kept all
        self._given_up = False
        self._background = background or OneThread("siag-trace")
        self._file: File | None
        try:
            with _held(self._path, disk):
                if keep is None:
                    check_new(self._path, disk)
                kept = [] if keep is None else kept_lines(self._path, disk, json.loads(facts), keep, tail)
                content = "".join([f"# {FORMAT} {facts}\n{COLUMNS}\n", *kept]).encode()
                self._file, self._safe = self._replaced(gzip.compress(content, mtime=0) if packed else content)
        except OSError as error:
            raise BadFile(f"{self._path}: cannot be written: {reason_of(error)}") from None

    @property
    def tail(self) -> str | None:
        """The lines that may not be on disk yet; none if they are too many, `None` if the trace is given up."""
        if self._given_up:
            return None
        text = self._text.decode() + "".join(self.lines)
        return text if len(text) <= self._carried else ""

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way to disk."""
        return self._forcing is None or self._forcing[0].done()

    def flush(self) -> None:
        """Hand what there is to the operating system; what a full disk does not take is kept for the next time.

        Raises `OSError` as long as something is wrong with the disk.
        """
        self._hand_over()
        self._complain()

    def sync(self, wait: bool = False) -> None:
        """Flush, and have it forced to disk in the background; with `wait`, return when it is there."""
        self._hand_over(wait)
        if wait or self._disk.rested:
            self._force()
        if wait:
            self._settle(wait)
        self._complain()

    def close(self, version: int) -> None:
        """End the file, the server being at `version`; one that was given up is left without an end."""
        if self._file is None:
            return
        try:
            if not self._given_up:
                self.lines.append(f"# end {version}\n")
                self._hand_over()
                if self._pack is not None:
                    self._doubtful += self._pack.flush()
                self.sync(wait=True)
        finally:
            self._close()

    def discard(self) -> None:
        """Remove the file of a run that was refused before it began, unless it has been closed."""
        if self._file is not None:
            self._background.shutdown()
            with suppress(OSError):
                if self._file.is_at(self._path):
                    self._disk.remove(self._path)
            self._close()

    def _close(self) -> None:
        self._background.shutdown()
        if self._file is not None:
            self._file.close()
        self._file = None

    def _replaced(self, content: bytes) -> tuple[File, int]:
        """Put a file with this content in its place: a trace is never without a head. The file, and its size."""
        part = f"{self._path}{DRAFT}"
        file = self._disk.append(part)
        try:
            if not file.lock() or not file.is_at(part):
                raise _taken(self._path)
            try:
                file.truncate(0)
                size = put(file, content)
                file.force()
                self._disk.replace(part, self._path)
                self._disk.force_folder(os.path.dirname(self._path) or os.curdir)
            except BaseException:
                with suppress(OSError):
                    self._disk.remove(part)
                raise
        except BaseException:
            file.close()
            raise
        return file, size

    def _hand_over(self, wait: bool = False) -> None:
        """Write what there is; with `wait`, when nothing is on its way to disk any more."""
        self._settle(wait)
        content = "".join(self.lines).encode()
        self.lines.clear()
        if self._file is None or self._given_up:
            return
        if content:
            self._text += content
            if self._pack is not None:
                content = self._pack.compress(content) + self._pack.flush(zlib.Z_SYNC_FLUSH)
            self._doubtful += content
        if len(self._text) > self.room:
            self._abandon(f"with {self.room >> 20} MB waiting for the disk")
        try:
            while self._written < len(self._doubtful):
                self._written += self._file.write(self._doubtful[self._written : self._written + BLOCK])
        except OSError as error:
            self._trouble = error
        if len(self._text) > self._carried:
            self._force()

    def _force(self) -> None:
        """Have forced to disk what was written, unless some of it is on its way."""
        if self._forcing is None and self._file is not None and self._written == len(self._doubtful) > 0:
            self._forcing = self._background.submit(self._file.force), len(self._text), self._written

    def _settle(self, wait: bool) -> None:
        """What came of forcing it to disk; if that failed, the system may have dropped all, so it is written anew."""
        if self._forcing is None or self._file is None or self._given_up or not (wait or self.settled):
            return
        (forced, text, size), self._forcing = self._forcing, None
        try:
            forced.result()
        except OSError as error:
            self._trouble, self._written = error, 0
            try:
                self._file.truncate(self._safe)
            except OSError:
                self._abandon("what the disk has of it is uncertain")
        else:
            self._trouble = None
            del self._text[:text], self._doubtful[:size]
            self._written -= size
            self._safe += size

    def _complain(self) -> None:
        if self._trouble is not None:
            raise OSError(self._trouble.errno, self._trouble.strerror)

    def _abandon(self, why: str) -> None:
        """Give the trace up: what is on disk stays, nothing is added to it."""
        cause = self._trouble or OSError(errno.EIO, "")
        self._trouble = OSError(cause.errno, "; ".join(filter(None, (cause.strerror, f"given up, {why}"))))
        self._given_up = True
        self._text, self._doubtful, self._written = bytearray(), bytearray(), 0


@contextmanager
def _held(path: str, disk: Disk) -> Iterator[None]:
    """Keep others away from a trace that is there; it is refused if another run writes to it."""
    found = disk.stat(path)
    if found is None or not found.regular:
        yield
        return
    with closing(disk.append(path, create=False)) as file:
        if not file.lock():
            raise _taken(path)
        yield


def _taken(path: str) -> BadInput:
    return BadInput("trace", path, "a file that no other run writes to", "give another path")


def _plain(value: Any) -> Any:
    """What JSON does not know, as something it does: NumPy's numbers as numbers, all else in words."""
    return value.item() if isinstance(value, np.generic) else shorten(value)
