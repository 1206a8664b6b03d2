"""The file that holds the last checkpoint and the write-ahead log after it, as it is written.

Entries and further checkpoints are appended to it. A new generation takes its place when it is whole and on disk.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from siag.storage.disk import DRAFT, Disk, File
from siag.storage.generations import Scan, generations_in
from siag.storage.records import CHECKPOINT, ENTRY, Layout, Part, make_header, make_record, write_parts


class CheckpointWriter:
    """Writes the generations of one folder; one thread logs entries, another may write a checkpoint meanwhile.

    Args:
        disk, folder, identity, spare, entropy: as for `Store`.

    Attributes:
        current: the last generation that is good; `None` before there is one.
        keep: a generation not to be deleted.
        error: what went wrong, until a checkpoint was written.
    """

    def __init__(
        self, disk: Disk, folder: str, identity: dict[str, Any], spare: int, entropy: Callable[[int], bytes]
    ) -> None:
        self._disk, self._folder, self._identity, self._spare, self._entropy = disk, folder, identity, spare, entropy
        self._turn = threading.Lock()  # for what only one thread may do at a time
        self._file: File | None = None  # the one in use; `None` if none can be relied on
        self._salt = self._end = self._limit = 0  # of that file
        self._pending: list[tuple[int, bytes]] = []  # entries that are not on disk
        self._carried: list[tuple[int, bytes]] | None = None  # those that a new generation needs, too
        self._lost = 0  # the last entry that could not be written, until a checkpoint covers it
        for name in disk.names(folder):
            if name.startswith("state-") and name.endswith(DRAFT):  # left by a crash
                self._remove(f"{folder}/{name}")
        self._next = max(generations_in(folder, disk), default=0) + 1
        self.current: int | None = None
        self.keep: int | None = None
        self.error: Exception | None = None

    def go_on(self, scan: Scan) -> None:
        """Append to the file that was read, without the torn record at its end."""
        self.close()  # it may have been read before
        try:
            self._disk.force_folder(self._folder)  # its writer may have been killed before that
            file = self._disk.append(scan.path, create=False)
            file.truncate(scan.end)
            file.force()
        except OSError as error:
            self.error = error
        else:
            self._file, self._salt, self._end = file, scan.salt, scan.end

    def log(self, number: int, entry: bytes) -> None:
        """Keep an entry for the next `flush`."""
        self._pending.append((number, entry))

    def flush(self) -> bool:
        """Force all entries to disk; False if the file is in no state to take them, or lacks one before them."""
        with self._turn:
            if self._file is None or self._lost:
                return False
            batch, self._pending = self._pending, []
            if not batch:
                return True
            if self._carried is not None:
                self._carried += batch
            try:
                self._extend(_records(batch, self._salt))
            except OSError as error:
                self.error, self._lost = error, batch[-1][0]
                raise
            return True

    def drop(self, last: int) -> None:
        """Give up the entries that are not on disk, up to this one: a checkpoint must cover them first."""
        self._pending.clear()
        self._lost = last

    def plan(self) -> bool:
        """Whether the next checkpoint is of the whole state, for a new generation, which needs all entries from now."""
        full = self._file is None or self._end > self._limit
        self._carried = [] if full else None
        return full

    def write(self, full: bool, covers: int, layout: Layout, parts: list[Part]) -> bool:
        """Write a checkpoint that covers the entries up to this one; whether it is on disk."""
        try:
            if full:
                self._begin(covers, layout, parts)
            else:
                with self._turn:
                    self._extend(make_record(CHECKPOINT, covers, parts, self._salt))
                    self._cover(covers)
        except Exception as error:
            self.error = error
            return False
        self.error = None
        return True

    def close(self) -> None:
        """Close the file in use, or rely on it no longer."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _cover(self, covers: int) -> None:
        """A checkpoint is on disk."""
        self._carried = None
        if covers >= self._lost:
            self._lost = 0

    def _extend(self, parts: list[Part]) -> None:
        """Add to the file in use and force it to disk, or leave it as it was."""
        file = self._file
        if file is None:  # an entry could not be written since this was planned
            raise self.error or OSError(errno.EIO, os.strerror(errno.EIO))
        try:
            size = write_parts(file, parts)
        except BaseException:
            try:
                file.truncate(self._end)  # part of a record would hide those after it
            except OSError:
                self.close()
            raise
        try:
            file.force()
            if not file.is_at(self._place(self.current)):  # the next save makes another
                raise OSError(errno.ENOENT, f"{self._folder}: the saved state was deleted")
        except BaseException:
            self.close()  # the system may have dropped what it could not write, and will not tell again
            raise
        self._end += size

    def _begin(self, covers: int, layout: Layout, parts: list[Part]) -> None:
        """Write a new generation beside the old one, then go over to it."""
        number, place = self._next, self._place(self._next)
        header, salt = make_header(self._identity, layout, number, self._entropy)
        self._disk.make_folder(self._folder)
        path = f"{place}{DRAFT}"
        file = self._disk.append(path)
        try:
            file.truncate(0)
            size = write_parts(file, [header, *make_record(CHECKPOINT, covers, parts, salt)])
            file.force()
            with self._turn:
                if self._carried:  # they went to the old file meanwhile, which may be gone one day
                    size += write_parts(file, _records(self._carried, salt))
                    file.force()
                self._disk.replace(path, place)
                path = place
                self.close()  # if the folder cannot be forced to disk, it is uncertain which file is the last
                self._next += 1
                self._disk.force_folder(self._folder)
                previous, self.current = self.current, number
                self._file, self._salt, self._end, self._limit = file, salt, size, 2 * size + self._spare
                self._cover(covers)
        except BaseException:
            file.close()
            self._remove(path)
            raise
        if previous is not None:
            self._tidy(previous)

    def _tidy(self, previous: int) -> None:
        """Delete the generations before the previous one, but for the one that is to be kept."""
        with suppress(OSError):
            for number, path in generations_in(self._folder, self._disk).items():
                if number < previous and number != self.keep:
                    self._disk.remove(path)

    def _place(self, number: int | None) -> str:
        """Where a generation is."""
        return f"{self._folder}/state-{number:06d}.siag"

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            self._disk.remove(path)


def _records(entries: list[tuple[int, bytes]], salt: int) -> list[Part]:
    """Entries as records."""
    return [part for number, entry in entries for part in make_record(ENTRY, number, [entry], salt)]
