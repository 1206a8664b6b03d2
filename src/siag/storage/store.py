"""The state of a live server on disk: saved while training goes on, found again after a crash, never half of it.

A folder holds generations, plain files state-000001.siag, state-000002.siag, …: a header, then records. The first
record is a checkpoint of the whole state. Those after it are checkpoints of what changed, and the write-ahead log: the
entries since the last of them. Checksums cover a record's head, its content and which file it belongs to. A file that
has grown to a few times the state is followed by a new generation; the previous one is kept.
`siag.storage.records` says what is in a file, `generations` reads it and `checkpoint_writer` writes it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile, BadInput, reason_of
from siag.foundations.types import Integers
from siag.storage.background import Background, Thread
from siag.storage.checkpoint_writer import CheckpointWriter
from siag.storage.disk import LOCAL, Disk, File, Place
from siag.storage.generations import Scan, compare, fill_arrays, generations_in, good_scans, join_entries
from siag.storage.records import (
    CHANGE,
    ENTRY,
    Arrays,
    Layout,
    Part,
    by_rows,
    layout_of,
    make_content,
    make_record,
)

LOCK = "lock"  # the name of the file that is locked while a server has the folder
NONE: Integers = np.empty(0, np.int64)
NO_SAVE = "there is no save yet that entries could follow; save first"


@dataclass(frozen=True)
class Recovery:
    """What was found on disk, beside the arrays."""

    meta: dict[str, Any]  # what was saved with them
    entries: list[bytes]  # what was logged after that, in order, without a gap
    remarks: tuple[str, ...]  # what was damaged, and what was used instead, one line each


@dataclass
class _Save:
    """One save on its way to disk."""

    full: bool
    covers: int  # the last entry that is part of the state
    rows: Integers  # to be saved once more if this fails
    parts: list[Part]
    layout: Layout
    done: bool = False


class Store:
    """Keeps the state of one server in one folder.

    One thread calls it, and never waits for the disk but in `sync` and with `wait`; saves are written in the
    background. A write that fails is told by `problem` and made good by the next save.

    Args:
        folder: where; made if need be. It belongs to one server at a time.
        identity: what the state is of (method, n, d and so on), ready for JSON; the state of another is refused. Arrays
            of two or more dimensions and n rows are saved by rows, all others whole.
        durable: whether entries are to be logged between saves.
        spare: a new generation begins when the file exceeds twice the state and so many bytes.
        disk: where the folder is.
        background: who writes; by default a thread.
        entropy: random bytes, so many; they tell a file from any other.

    Attributes:
        logged: how many entries were logged since the state was first saved.
    """

    def __init__(
        self,
        folder: Place,
        identity: dict[str, Any],
        *,
        durable: bool = False,
        spare: int = 4 << 20,
        disk: Disk = LOCAL,
        background: Background | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._identity: dict[str, Any] = json.loads(json.dumps(identity))
        self._folder, self._disk, self._durable = os.fspath(folder), disk, durable
        self._guard: File | None = None
        try:
            self._guard = _take(self._folder, disk)
            self._writer = CheckpointWriter(disk, self._folder, self._identity, spare, entropy)
            self._recovered = not generations_in(self._folder, disk)
        except OSError as error:
            if self._guard is not None:
                self._guard.close()
            raise BadInput("folder", self._folder, "a folder that can be written", reason_of(error)) from None
        self._background = Thread("siag-store") if background is None else background
        self._layout: Layout | None = None
        self._ever = False
        self._owed = NONE  # rows of saves that failed
        self._error: Exception | None = None
        self._keep: int | None = None  # a generation not to be deleted
        self.logged = self._covered = self._lost = 0  # the last entry: at all, in a save on disk, that could not be
        self._pending: list[tuple[int, bytes]] = []  # entries that are not on disk
        self._carried: list[tuple[int, bytes]] | None = None  # those that a new generation needs, too

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
        return self._background.busy

    @property
    def rested(self) -> bool:
        """Whether it is time for another save that nobody waits for."""
        return self._disk.rested

    @property
    def ever(self) -> bool:
        """Whether a save is on disk, one that was recovered or a later one."""
        return self._ever

    def recover(self, arrays: Arrays) -> Recovery | None:
        """Fill the arrays from the newest good save; None if nothing was ever saved here.

        Raises `BadFile`, having touched no array, if what is there is of another server or damaged throughout.
        """
        generations = generations_in(self._folder, self._disk)
        if not generations:
            return None
        layout = layout_of(arrays)
        scans, remarks = good_scans(
            generations,
            self._disk,
            lambda scan: compare(scan.path, scan.header, self._identity, layout),
            "put back a copy, or move what is there away to start afresh",
        )
        scan = scans[-1]
        entries, unused = join_entries(scans)
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
        self.logged, self._covered = scan.covers + entries, scan.covers
        self._writer.current = scan.number
        self._recovered = self._ever = True
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
        if not self._recovered:
            raise BadFile(f"{self._folder}: holds a saved state; recover it, or choose another folder")
        if wait:
            self._background.wait()
        elif self.busy:
            return False
        layout = layout_of(arrays)
        if self._layout not in (None, layout):
            raise BadInput("arrays", layout, f"as in the saves before: {self._layout}")
        full = self._writer.full
        rows = np.union1d(self._owed, np.asarray(changed, dtype=np.int64))
        parts = make_content(arrays, self._rowwise(arrays), None if full else rows, meta)
        save = _Save(full, self.logged, rows, parts, layout)
        self._layout = layout
        self._carried = [] if full else None
        self._background.submit(partial(self._write, save))
        if wait:
            self._background.wait()
            return save.done
        return True

    def log(self, *parts: bytes | memoryview) -> None:
        """Add an entry, made of some parts; it is on disk after the next `sync`."""
        if not self._durable:
            raise BadInput("durable", False, "True to log entries")
        self.logged += 1
        self._pending.append((self.logged, b"".join(parts)))

    def sync(self) -> None:
        """Return when all that was logged is on disk.

        Raises `OSError` if it cannot be. The entries are then given up: this fails until a save has succeeded, which
        has them in it, so what they report must not be acknowledged before.
        """
        if self._flushed():
            return
        self._background.wait()  # a save under way may mend it
        if self._flushed():
            return
        self._pending.clear()
        self._lost = self.logged
        raise OSError(getattr(self._error, "errno", None) or errno.EIO, self.problem or NO_SAVE)

    def close(self) -> None:
        """Wait for what is being written and release the folder; what was logged is written too, if possible."""
        if self._guard is None:
            return
        self._background.close()
        with suppress(OSError):
            self._flushed()
        self._writer.close()
        self._guard.close()
        self._guard = None

    def _rowwise(self, arrays: Arrays) -> set[str]:
        """The names of the arrays that are saved by rows."""
        return by_rows({name: array.shape for name, array in arrays.items()}, self._identity.get("n"))

    def _flushed(self) -> bool:
        """Force all entries to disk; False if the file is in no state to take them, or lacks one before them."""
        with self._background.turn:
            if not self._writer.ready or self._lost > self._covered:
                return False
            batch, self._pending = self._pending, []
            if not batch:
                return True
            if self._carried is not None:
                self._carried += batch
            try:
                self._writer.extend(_records(batch, self._writer.salt))
            except OSError as error:
                self._error, self._lost = error, batch[-1][0]
                raise
            return True

    def _write(self, save: _Save) -> None:
        """In the background: write a save."""
        try:
            if save.full:
                self._begin(save)
            else:
                self._append(save)
            save.done, self._ever, self._error, self._owed = True, True, None, NONE
        except Exception as error:
            self._error, self._owed = error, save.rows
        with self._background.turn:
            self._carried = None
        save.parts.clear()

    def _append(self, save: _Save) -> None:
        """Add a save to the generation in use."""
        with self._background.turn:
            if not self._writer.ready:
                raise self._error or OSError(errno.EIO, os.strerror(errno.EIO))
            self._writer.extend(make_record(CHANGE, save.covers, save.parts, self._writer.salt))
            self._covered = save.covers

    def _begin(self, save: _Save) -> None:
        """Write a new generation beside the old one, then go over to it."""
        draft = self._writer.draft(save.layout, save.covers, save.parts)
        with self._background.turn:  # entries logged meanwhile went to the old file, which may be gone one day
            self._writer.adopt(draft, _records(self._carried or [], draft.salt))
            self._covered, self._carried = save.covers, None
        self._writer.tidy(self._keep)


def _records(entries: list[tuple[int, bytes]], salt: int) -> list[Part]:
    """Entries as records."""
    return [part for sequence, entry in entries for part in make_record(ENTRY, sequence, [entry], salt)]


def _take(folder: str, disk: Disk) -> File:
    """Make and lock the folder, or say that another has it."""
    disk.make_folder(folder)
    guard = disk.append(f"{folder}/{LOCK}")
    with ExitStack() as stack:
        stack.callback(guard.close)
        if not guard.lock():
            raise BadFile(f"{folder}: in use by another server; stop that one, or choose another folder")
        stack.pop_all()
    return guard
