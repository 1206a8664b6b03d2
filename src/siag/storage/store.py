"""The state of a live server on disk: saved while training goes on, found again after a crash, never half of it.

A folder holds generations, plain files state-000001.siag, state-000002.siag, …: a header, then records. The first is
the whole state; those after it are rows that changed since, and logged entries. Every record has checksums, which cover
its head, its content and which file it belongs to. A file that has grown to a few times the state is followed by a new
generation; the previous one is kept.
`siag.storage.records` says what is in a file, `siag.storage.generations` reads it and `siag.storage.writer` writes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile, BadInput, SiagError, reason_of
from siag.foundations.files import writable_folder
from siag.foundations.types import Integers
from siag.storage.generations import Scan, compare, fill_arrays, generations_in, good_scans, join_entries, remarks_on
from siag.storage.log import Log
from siag.storage.records import (
    CHANGE,
    FULL,
    Arrays,
    Layout,
    Part,
    force_folder,
    layout_of,
    make_content,
    make_entries,
    make_record,
    saved_by_rows,
)
from siag.storage.writer import Writer

if sys.platform != "win32":
    import fcntl


@dataclass(frozen=True)
class Recovery:
    """What was found on disk, beside the arrays.

    Attributes:
        meta: what was saved with the arrays.
        entries: what was logged after that, in order, without a gap.
        remarks: what was damaged, and what was used instead, one line each.
    """

    meta: dict[str, Any]
    entries: list[bytes]
    remarks: tuple[str, ...]


@dataclass
class _Job:
    """One save on its way to disk."""

    kind: int
    covers: int  # the last entry that is part of the state
    rows: Integers  # to be saved once more if this fails
    parts: list[Part]
    layout: Layout
    done: bool = False


class Store:
    """Keeps the state of one server in one folder.

    One thread calls it, and never waits for the disk but in `sync` and with `wait`; a thread of its own writes. A write
    that fails is told by `problem` and made good by the next save.

    Args:
        folder: where; made if need be. It belongs to one server at a time.
        identity: what the state is of (method, n, d and so on), ready for JSON; the state of another is refused. Arrays
            of two or more dimensions and n rows are saved by rows, all others whole.
        durable: whether entries are to be logged between saves.
        spare: a new generation begins when the file exceeds twice the state and so many bytes.
        publish: called by the thread that writes, after each save, which counts as done when this returns.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        identity: dict[str, Any],
        *,
        durable: bool = False,
        spare: int = 4 << 20,
        publish: Callable[[], None] | None = None,
    ) -> None:
        try:
            self._identity: dict[str, Any] = json.loads(json.dumps(identity))
        except (TypeError, ValueError):
            raise BadInput("identity", identity, "numbers and text that JSON can hold") from None
        made = [path for path in (Path(folder), *Path(folder).parents) if not path.exists()]
        self._folder = writable_folder("folder", folder)
        try:
            for path in made:
                force_folder(path.parent)
        except OSError as error:
            raise BadFile(f"{folder}: cannot be made sure of on disk: {reason_of(error)}") from None
        self._durable, self._publish = durable, publish
        self._guard: int | None = _lock(self._folder)  # the lock of the folder
        self._disk = threading.Lock()  # the file: writing and forcing to disk, one at a time
        self._writer, self._log = Writer(self._folder, self._identity, spare), Log()
        self._idle = threading.Event()
        self._idle.set()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._layout: Layout | None = None
        self._owed: Integers = np.empty(0, np.int64)  # rows of saves that failed
        self._error: Exception | None = None
        self._recovered = not generations_in(self._folder)
        self._keep: int | None = None  # a generation not to be deleted, nor any after it

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def problem(self) -> str | None:
        """What goes wrong with saving, None if the last save succeeded."""
        return None if self._error is None else reason_of(self._error)

    @property
    def busy(self) -> bool:
        """Whether a save is under way."""
        return not self._idle.is_set()

    def recover(self, arrays: Arrays) -> Recovery | None:
        """Fill the arrays from the newest good save; None if nothing was ever saved here.

        Raises `BadFile`, having touched no array, if what is there is of another server or damaged throughout.
        """
        self._check_open()
        if self._thread is not None:
            raise SiagError(f"{self._folder}: recover comes before the first save")
        generations = generations_in(self._folder)
        if not generations:
            return None
        layout = layout_of(arrays)
        scans, refused = good_scans(
            generations,
            lambda scan: compare(scan.path, scan.header, self._identity, layout),
            "put back a copy, or move what is there away to start afresh",
        )
        scan = scans[-1]
        entries, unused = join_entries(scans)
        remarks = remarks_on(scan, refused)
        if unused:
            remarks.append(f"{unused} logged entries were not used: one before them is missing")
        meta = self._go_on(scan, len(entries), arrays)
        if self._durable and not remarks:
            try:
                self._writer.go_on(scan)
            except OSError as error:
                self._error = error
        return Recovery(meta, entries, tuple(remarks))

    def _go_on(self, scan: Scan, entries: int, arrays: Arrays) -> dict[str, Any]:
        """Fill the arrays, and write on after what they were filled from; what was saved with them."""
        meta = fill_arrays(scan, arrays, self._rowwise(arrays))
        self._log.go_on(scan.covers, entries)
        self._writer.follow(scan)
        self._recovered = True
        return meta

    def save(
        self, arrays: Arrays, changed: np.ndarray[Any, Any], meta: Mapping[str, Any], *, wait: bool = False
    ) -> bool:
        """Copy what is to be saved and have it written; False if the previous save is still under way.

        Args:
            arrays: the state, the same names, types and shapes each time.
            changed: numbers of the rows that changed since `save` last returned True.
            meta: what else there is to save, ready for JSON.
            wait: wait for the disk, then say whether it is there.
        """
        self._check_open()
        if not self._recovered:
            raise BadFile(f"{self._folder}: holds a saved state; recover it, or choose another folder")
        if wait:
            self._idle.wait()
        elif not self._idle.is_set():
            return False
        layout = layout_of(arrays)
        if self._layout not in (None, layout):
            raise BadInput("arrays", layout, f"as in the saves before: {self._layout}")
        full = self._writer.full
        covers = self._log.sequence  # this thread logs, too
        rows = np.union1d(self._owed, np.asarray(changed, dtype=np.int64))
        parts = make_content(arrays, self._rowwise(arrays), None if full else rows, meta)
        job = _Job(FULL if full else CHANGE, covers, rows, parts, layout)
        self._layout = layout
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_jobs, name="siag-store", daemon=True)
            self._thread.start()
        self._log.carry(full)
        self._idle.clear()
        self._jobs.put(job)
        if wait:
            self._idle.wait()
            return job.done
        return True

    def log(self, *parts: bytes | memoryview) -> None:
        """Add an entry, made of some parts; it is on disk after the next `sync`."""
        self._check_open()
        if not self._durable:
            raise BadInput("durable", False, "True to log entries")
        self._log.add(b"".join(parts))

    def sync(self) -> None:
        """Return when all that was logged is on disk.

        Raises `OSError` if it cannot be. The entries are then given up: this fails until a save has succeeded, which
        has them in it, so what they report must not be acknowledged before.
        """
        self._check_open()
        if self._flushed():
            return
        self._idle.wait()  # a save under way may mend it
        if self._flushed():
            return
        self._log.give_up()
        if isinstance(self._error, OSError):
            raise OSError(self._error.errno or errno.EIO, self.problem)
        raise OSError(errno.EIO, self.problem or "there is no save yet that entries could follow; save first")

    def close(self) -> None:
        """Wait for what is being written and release the folder; what was logged is written too, if possible."""
        if self._guard is None:
            return
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        with contextlib.suppress(OSError):
            self._flushed()
        self._writer.close()
        os.close(self._guard)
        self._guard = None

    def _check_open(self) -> None:
        if self._guard is None:
            raise SiagError(f"{self._folder}: this store is closed")

    def _rowwise(self, arrays: Arrays) -> set[str]:
        """The names of the arrays that are saved by rows."""
        return saved_by_rows({name: array.shape for name, array in arrays.items()}, self._identity.get("n"))

    def _flushed(self) -> bool:
        """Force all entries to disk; False if the file is in no state to take them."""
        with self._disk:
            if not self._writer.ready or self._log.broken:
                return False
            batch = self._log.take()
            if not batch:
                return True
            try:
                self._writer.extend(make_entries(batch, self._writer.salt))
            except OSError as error:
                self._error, self._log.lost = error, batch[-1][0]
                raise
            return True

    def _write_jobs(self) -> None:
        """The thread that writes."""
        while (job := self._jobs.get()) is not None:
            try:
                if job.kind == FULL:
                    self._begin(job)
                else:
                    self._append(job)
                if self._publish is not None:
                    self._publish()
                job.done, self._error = True, None
                self._owed = np.empty(0, np.int64)
            except Exception as error:
                self._error, self._owed = error, job.rows
            self._log.carry(False)
            job.parts.clear()
            self._idle.set()

    def _append(self, job: _Job) -> None:
        """Add a save to the generation in use."""
        with self._disk:
            if not self._writer.ready:
                raise self._error or OSError(errno.EIO, os.strerror(errno.EIO))
            self._writer.extend(make_record(CHANGE, job.covers, job.parts, self._writer.salt))
            self._log.covered = job.covers

    def _begin(self, job: _Job) -> None:
        """Write a new generation beside the old one, then go over to it."""
        draft = self._writer.draft(job.layout, job.covers, job.parts)
        with self._disk:  # entries logged meanwhile went to the old file, which may be gone one day
            self._writer.adopt(draft, make_entries(self._log.carried, draft.salt))
            self._log.covered = job.covers
            self._log.carry(False)
        self._writer.tidy(self._keep)


def _lock(folder: Path) -> int:
    """Take the folder, or say that another has it."""
    try:
        guard = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise BadFile(f"{folder / 'lock'}: cannot be opened: {reason_of(error)}") from None
    if sys.platform != "win32":
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(guard)
            raise BadFile(f"{folder}: in use by another server; stop that one, or choose another folder") from None
        except OSError:
            pass  # a file system without locks
    return guard
