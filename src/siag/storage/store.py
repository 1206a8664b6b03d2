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
from concurrent.futures import Executor, Future
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile, BadInput, reason_of
from siag.foundations.types import Integers
from siag.storage.background import OneThread
from siag.storage.checkpoint_writer import CheckpointWriter
from siag.storage.disk import LOCAL, Disk, File, Place
from siag.storage.generations import Scan, compare, fill_arrays, generations_in, good_scans, join_entries
from siag.storage.records import Arrays, Layout, Part, all_rows, layout_of, make_content

LOCK = "lock"  # the name of the file that is locked while a server has the folder
NONE: Integers = np.empty(0, np.int64)
NO_SAVE = "there is no save yet that entries could follow; save first"


@dataclass(frozen=True)
class Recovery:
    """What was found on disk, beside the arrays."""

    meta: dict[str, Any]  # what was saved with them
    entries: list[bytes]  # what was logged after that, in order, without a gap
    remarks: tuple[str, ...]  # what was damaged, and what was used instead, one line each


class Store:
    """Keeps the state of one server in one folder.

    One thread calls it, and never waits for the disk but in `sync` and with `wait`; saves are written in the
    background. A write that fails is told by `problem` and made good by the next save.

    Args:
        folder: where; made if need be. It belongs to one server at a time.
        identity: what the state is of (method, n, d and so on), ready for JSON; the state of another is refused. Arrays
            of two or more dimensions and n rows are saved by rows, all others whole.
        durable: whether entries are to be logged between saves.
        spare: a new generation begins when the file exceeds twice the state and this many bytes.
        disk: where the folder is.
        background: who writes, one save after the other; by default a thread.
        entropy: given a number, that many random bytes; they tell a file from any other.

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
        background: Executor | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._identity: dict[str, Any] = json.loads(json.dumps(identity))
        self._folder, self._disk, self._durable = os.fspath(folder), disk, durable
        with ExitStack() as stack:
            try:
                disk.make_folder(self._folder)
                guard = stack.enter_context(closing(disk.append(f"{self._folder}/{LOCK}")))
                if not guard.lock():
                    raise BadFile(f"{self._folder}: in use by another server; stop that one, or choose another folder")
                self._writer = CheckpointWriter(disk, self._folder, self._identity, spare, entropy)
                self._recovered = not generations_in(self._folder, disk)
            except OSError as error:
                raise BadInput("folder", self._folder, "a folder that can be written", reason_of(error)) from None
            stack.pop_all()
        self._guard: File | None = guard
        self._background = background or OneThread("siag-store")
        self._writing: Future[bool] | None = None  # the last save
        self._layout: Layout | None = None
        self._owed = NONE  # rows of saves that failed
        self.logged = 0

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def problem(self) -> str | None:
        """What goes wrong with saving, None if the last save succeeded."""
        return None if self._writer.error is None else reason_of(self._writer.error)

    @property
    def busy(self) -> bool:
        """Whether a save is under way."""
        return self._writing is not None and not self._writing.done()

    @property
    def rested(self) -> bool:
        """Whether it is time for another save that nobody waits for."""
        return self._disk.rested

    @property
    def ever(self) -> bool:
        """Whether a save is on disk, one that was recovered or a later one."""
        return self._writer.current is not None

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
        self._go_on(scan, len(entries), arrays)
        if self._durable and not remarks:
            self._writer.go_on(scan)
        return Recovery(scan.meta, entries, tuple(remarks))

    def begin_anew(self) -> None:
        """Let the first save replace what is there."""
        self._recovered = True

    def _go_on(self, scan: Scan, entries: int, arrays: Arrays) -> None:
        """Fill the arrays, and write on after what they were filled from."""
        fill_arrays(scan, arrays)
        self.logged, self._writer.current = scan.covers + entries, scan.number
        self._recovered = True

    def save(
        self,
        arrays: Arrays,
        changed: np.ndarray[Any, Any],
        meta: Mapping[str, Any],
        *,
        wait: bool = False,
        blank: Integers = NONE,
    ) -> bool:
        """Copy what is to be saved and have it written; False if the previous save is still under way.

        Args:
            arrays: the state, the same names, types and shapes each time.
            changed: numbers of the rows that changed since `save` last returned True.
            meta: what else there is to save, ready for JSON.
            wait: wait for the disk, then say whether it is there.
            blank: numbers of rows that are as they were made, and take no room on disk if that is 0.
        """
        if not self._recovered:
            raise BadFile(f"{self._folder}: holds a saved state; recover it, or choose another folder")
        if wait:
            self.wait()
        elif self.busy:
            return False
        layout = layout_of(arrays)
        if self._layout not in (None, layout):
            raise BadInput("arrays", layout, f"as in the saves before: {self._layout}")
        full = self._writer.plan()
        rows = np.union1d(self._owed, np.asarray(changed, dtype=np.int64))
        n = self._identity.get("n")
        parts = make_content(arrays, n, all_rows(arrays, n, blank) if full else rows, meta)
        self._layout = layout
        self._writing = self._background.submit(self._write, rows, full, self.logged, layout, parts)
        return not wait or self._writing.result()

    def wait(self) -> None:
        """Return when no save is under way."""
        if self._writing is not None:
            self._writing.result()

    def log(self, *parts: bytes | memoryview) -> None:
        """Add an entry, made of some parts; it is on disk after the next `sync`."""
        if not self._durable:
            raise BadInput("durable", False, "True to log entries")
        self.logged += 1
        self._writer.log(self.logged, b"".join(parts))

    def sync(self) -> None:
        """Return when all that was logged is on disk.

        Raises `OSError` if it cannot be. The entries are then given up: this fails until a save has succeeded, which
        has them in it, so what they report must not be acknowledged before.
        """
        if self._writer.flush():
            return
        self.wait()  # a save under way may mend it
        if self._writer.flush():
            return
        self._writer.drop(self.logged)
        raise OSError(getattr(self._writer.error, "errno", None) or errno.EIO, self.problem or NO_SAVE)

    def close(self) -> None:
        """Wait for what is being written and release the folder; what was logged is written too, if possible."""
        if self._guard is None:
            return
        self._background.shutdown()
        with suppress(OSError):
            self._writer.flush()
        self._writer.close()
        self._guard.close()
        self._guard = None

    def _write(self, rows: Integers, full: bool, covers: int, layout: Layout, parts: list[Part]) -> bool:
        """In the background: write a save; whether it is on disk."""
        done = self._writer.write(full, covers, layout, parts)
        self._owed = NONE if done else rows
        parts.clear()  # an error may hold on to them
        return done
