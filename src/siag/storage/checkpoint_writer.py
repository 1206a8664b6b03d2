"""The file that holds the last checkpoint and the write-ahead log after it, as it is written.

Entries and further checkpoints are appended to it. A new generation takes its place when it is whole and on disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from siag.storage.disk import DRAFT, Disk, File
from siag.storage.generations import Scan, generations_in
from siag.storage.records import FULL, Layout, Part, make_header, make_record, write_parts


@dataclass(frozen=True)
class Draft:
    """A new generation, written beside the one in use and not in its place yet."""

    file: File
    part: str
    salt: int
    size: int


class CheckpointWriter:
    """Writes the generations of one folder; whoever calls sees to it that one thread at a time does.

    Args:
        disk, folder, identity, spare, entropy: as for `Store`.

    Attributes:
        salt: the number that ties records to the file in use.
        current: the generation in use; `None` before there is one.
    """

    def __init__(
        self, disk: Disk, folder: str, identity: dict[str, Any], spare: int, entropy: Callable[[int], bytes]
    ) -> None:
        self._disk, self._folder, self._identity, self._spare, self._entropy = disk, folder, identity, spare, entropy
        self._file: File | None = None
        self._path = folder  # of that file
        self.salt = self._end = self._limit = 0
        self._sound = False  # whether what was written to the file so far can be relied on
        for name in disk.names(folder):
            if name.startswith("state-") and name.endswith(DRAFT):  # left by a crash
                self._remove(f"{folder}/{name}")
        self.current: int | None = None
        self._previous: int | None = None
        self._next = max(generations_in(folder, disk), default=0) + 1

    @property
    def ready(self) -> bool:
        """Whether there is a file that can be appended to."""
        return self._file is not None and self._sound

    @property
    def full(self) -> bool:
        """Whether it is time for a new generation."""
        return not self._sound or self._end > self._limit

    def go_on(self, scan: Scan) -> None:
        """Append to the file that was read, without the torn record at its end."""
        self._disk.force_folder(self._folder)  # its writer may have been killed before that
        self._file, self._path = self._disk.append(scan.path, create=False), scan.path
        self._file.truncate(scan.end)
        self._file.force()
        self.salt, self._end, self._sound = scan.salt, scan.end, True

    def extend(self, parts: Iterable[Part]) -> None:
        """Add to the file in use and force it to disk, or leave it as it was; it must be `ready`."""
        if self._file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        try:
            size = write_parts(self._file, parts)
        except BaseException:
            try:
                self._file.truncate(self._end)  # part of a record would hide those after it
            except OSError:
                self._sound = False
            raise
        try:
            self._file.force()
            if not self._file.is_at(self._path):  # the next save makes another
                raise OSError(errno.ENOENT, f"{self._folder}: the saved state was deleted")
        except BaseException:
            self._sound = False  # the system may have dropped what it could not write, and will not tell again
            raise
        self._end += size

    def draft(self, layout: Layout, covers: int, parts: list[Part]) -> Draft:
        """Write a new generation beside the old one."""
        header, salt = make_header(self._identity, layout, self._next, self._entropy)
        part = f"{self._place}{DRAFT}"
        self._disk.make_folder(self._folder)
        file = self._disk.append(part, truncate=True)
        try:
            size = write_parts(file, [header, *make_record(FULL, covers, parts, salt)])
            file.force()
        except BaseException:
            self._discard(file, part)
            raise
        return Draft(file, part, salt, size)

    def adopt(self, draft: Draft, late: list[Part]) -> None:
        """Add what came late to a new generation, and go over to it."""
        size, place = draft.size, self._place
        try:
            if late:
                size += write_parts(draft.file, late)
                draft.file.force()
            self._disk.replace(draft.part, place)
            self._sound = False  # if the folder cannot be forced to disk, it is uncertain which file is the last
            self._next += 1
            try:
                self._disk.force_folder(self._folder)
            except BaseException:
                self._remove(place)
                raise
        except BaseException:
            self._discard(draft.file, draft.part)
            raise
        self.close()
        self._file, self._path = draft.file, place
        self._previous, self.current = self.current, self._next - 1
        self.salt, self._end, self._limit, self._sound = draft.salt, size, 2 * size + self._spare, True

    def tidy(self, keep: int | None = None) -> None:
        """Delete the generations before the previous one, but for one that is to be kept."""
        if self._previous is None:
            return
        with suppress(OSError):
            for number, path in generations_in(self._folder, self._disk).items():
                if number < self._previous and number != keep:
                    self._disk.remove(path)

    def close(self) -> None:
        """Close the file in use."""
        if self._file is not None:
            self._file.close()
        self._file = None

    @property
    def _place(self) -> str:
        """Of the next generation."""
        return f"{self._folder}/state-{self._next:06d}.siag"

    def _discard(self, file: File, path: str) -> None:
        file.close()
        self._remove(path)

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            self._disk.remove(path)
