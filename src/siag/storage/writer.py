"""Generations as they are written: the one in use is appended to, a new one takes its place when it is whole."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siag.storage.generations import Scan, generations_in
from siag.storage.records import FULL, OPEN, Layout, Part, force_folder, make_header, make_record, write_parts


@dataclass(frozen=True)
class Draft:
    """A new generation, written beside the one in use and not in its place yet."""

    file: int
    part: Path
    salt: int
    size: int

    def discard(self) -> None:
        """Remove it."""
        os.close(self.file)
        with contextlib.suppress(OSError):
            self.part.unlink()


class Writer:
    """Writes the generations of one folder; whoever calls sees to it that one thread at a time does.

    Args:
        folder: where.
        identity: what the state is of; every header has it.
        spare: the file is full when it exceeds twice the state and so many bytes.

    Attributes:
        salt: the number that ties records to the file in use.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], spare: int) -> None:
        self._folder, self._identity, self._spare = folder, identity, spare
        self._file: int | None = None
        self.salt = self._end = self._limit = 0
        self._sound = False  # whether what was written to the file so far can be relied on
        for left in folder.glob("state-*.siag.part"):
            with contextlib.suppress(OSError):
                left.unlink()
        self._current: int | None = None  # the generation in use
        self._previous: int | None = None
        self._next = max(generations_in(folder), default=0) + 1

    @property
    def ready(self) -> bool:
        """Whether there is a file that can be appended to."""
        return self._file is not None and self._sound

    @property
    def full(self) -> bool:
        """Whether it is time for a new generation."""
        return not self._sound or self._end > self._limit

    def follow(self, scan: Scan) -> None:
        """What is written next comes after a generation that was read."""
        self._current = scan.number

    def go_on(self, scan: Scan) -> None:
        """Append to the file that was read, without the torn record at its end."""
        if self._file is not None:
            return
        self._file = os.open(scan.path, OPEN)
        os.ftruncate(self._file, scan.end)
        os.fsync(self._file)
        self.salt, self._end, self._sound = scan.salt, scan.end, True

    def extend(self, parts: Iterable[Part]) -> None:
        """Add to the file in use and force it to disk, or leave it as it was; it must be `ready`."""
        if self._file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        try:
            size = write_parts(self._file, parts)
        except BaseException:
            try:
                os.ftruncate(self._file, self._end)  # part of a record would hide those after it
            except OSError:
                self._sound = False
            raise
        try:
            os.fsync(self._file)
        except BaseException:
            self._sound = False  # the system may have dropped what it could not write, and will not tell again
            raise
        if os.fstat(self._file).st_nlink == 0:  # somebody has deleted it; the next save makes another
            self._sound = False
            raise OSError(errno.ENOENT, f"{self._folder}: the saved state was deleted")
        self._end += size

    def draft(self, layout: Layout, covers: int, parts: list[Part]) -> Draft:
        """Write a new generation beside the old one."""
        header, salt = make_header(self._identity, layout, self._next)
        part = self._place.with_name(self._place.name + ".part")
        self._folder.mkdir(parents=True, exist_ok=True)
        file = os.open(part, OPEN | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            size = write_parts(file, [header, *make_record(FULL, covers, parts, salt)])
            os.fsync(file)
        except BaseException:
            Draft(file, part, salt, 0).discard()
            raise
        return Draft(file, part, salt, size)

    def adopt(self, draft: Draft, late: list[Part]) -> None:
        """Add what came late to a new generation, and go over to it."""
        size = draft.size
        try:
            if late:
                size += write_parts(draft.file, late)
                os.fsync(draft.file)
            place = self._place
            os.replace(draft.part, place)
            self._sound = False  # if the folder cannot be forced to disk, it is uncertain which file is the last
            self._next += 1
            try:
                force_folder(self._folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    place.unlink()
                raise
        except BaseException:
            draft.discard()
            raise
        old, self._file = self._file, draft.file
        self._previous, self._current = self._current, self._next - 1
        self.salt, self._end, self._limit, self._sound = draft.salt, size, 2 * size + self._spare, True
        if old is not None:
            os.close(old)

    @property
    def current(self) -> int | None:
        """The generation in use."""
        return self._current

    def tidy(self, keep: int | None = None) -> None:
        """Delete the generations before the previous one, and before one that is to be kept."""
        if self._previous is None:
            return
        first = self._previous if keep is None else min(keep, self._previous)
        with contextlib.suppress(OSError):
            for number, path in generations_in(self._folder).items():
                if number < first:
                    path.unlink()

    def close(self) -> None:
        """Close the file in use."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    @property
    def _place(self) -> Path:
        """Of the next generation."""
        return self._folder / f"state-{self._next:06d}.siag"
