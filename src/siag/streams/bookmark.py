"""Where a followed file was left, though it may have been rotated since."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path

from siag.foundations.errors import BadFile, reason_of
from siag.foundations.files import write_text
from siag.streams.remarks import say

HEAD = 1024  # bytes at the beginning of a file by which it is known again, beside its inode
KEPT = 100  # files


@dataclass(frozen=True)
class Mark:
    """A file that was begun."""

    device: int
    inode: int
    size: int  # of its head, in bytes
    head: str  # their digest
    before: int  # samples that were given before its first

    def is_of(self, other: Mark) -> bool:
        """Whether both are of one file, whatever came before it."""
        return replace(self, before=other.before) == other

    def fits(self, file: FileIO) -> bool:
        """Whether this is the file; it is left at its beginning."""
        found = os.fstat(file.fileno())
        fits = (found.st_dev, found.st_ino) == (self.device, self.inode)
        fits = fits and _digest(_start(file, self.size)) == self.head
        file.seek(0)
        return fits


@dataclass(frozen=True)
class Begun:
    """A file that was begun, found again and opened."""

    file: FileIO
    name: str
    mark: Mark


class Bookmark:
    """Which files a stream has read, and with which sample each began; it is noted before that sample is given.

    A file is known again by its inode and its first bytes, under whatever name it has in the same folder.

    Args:
        path: where this is kept.

    Attributes:
        is_new: whether nothing was kept there.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.marks: list[Mark] = []
        try:
            with open(path, encoding="utf-8") as file:
                self.marks = [Mark(**mark) for mark in json.load(file)]
        except FileNotFoundError:
            pass
        except OSError as error:
            raise BadFile(f"{path}: cannot be read: {reason_of(error)}") from None
        except (ValueError, TypeError):
            raise BadFile(f"{path}: not a bookmark of a stream; if it is of no use, delete it") from None
        self.is_new = not self.marks

    def begun(self, path: str, samples: int) -> list[Begun]:
        """The files with what follows after the first `samples`, oldest first; files that are gone are reported."""
        if samples == 0 and self.marks:
            say(f"{path}: nothing of it was reported before, so it is read from its beginning, and its bookmark is new")
            self.marks = []
        first = max((k for k, mark in enumerate(self.marks) if mark.before <= samples), default=0)
        marks, found = self.marks[first:], []
        if marks and samples < marks[0].before:
            self._miss(path, marks[0].before - samples)
        for k, mark in enumerate(marks):
            later = marks[k + 1 :]
            end = later[0].before if later else None
            truncated = any((each.device, each.inode) == (mark.device, mark.inode) for each in later)
            again = None if truncated else _find(mark, path)
            if again is not None:
                found.append(again)
            elif end is None or end > samples:
                self._miss(path, None if end is None else end - max(samples, mark.before))
        if found and found[-1].name != path:
            once = "if it was more than once, what lies between is lost"
            say(f"{path}: was rotated since it was read; {found[-1].name} is read to its end first; {once}")
        self.marks = [each.mark for each in found]
        return found

    def _miss(self, path: str, count: int | None) -> None:
        if count is None:
            lost = "what had not been read of it is lost, and the present one is read from its beginning"
        else:
            lost = f"samples lost: {count:,}"
        say(f"{path}: a file that was here before is not found any more in its folder; {lost}")

    def watch(self, file: FileIO, mark: Mark | None, before: int, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass on what is read of a file from its beginning, and note which it is, and what came before it.

        Args:
            file: the file.
            mark: what was noted of it before, if it was begun before.
            before: how many samples were given before its first.
            blocks: what is read of it.
        """
        head, found = b"", os.fstat(file.fileno())
        for block in blocks:
            if len(head) < HEAD:
                head += block[: HEAD - len(head)]
                now = Mark(found.st_dev, found.st_ino, len(head), _digest(head), before)
                if mark is None:
                    self.marks = [*self.marks[1 - KEPT :], now]
                else:  # an older one may have got more lines meanwhile, so that all later ones begin later
                    at = next(k for k, each in enumerate(self.marks) if each.is_of(mark))
                    later = now.before - self.marks[at].before
                    after = [replace(each, before=each.before + later) for each in self.marks[at + 1 :]]
                    self.marks[at:] = [now, *after]
                mark = now
                self._write()
            yield block

    def _write(self) -> None:
        try:
            write_text(Path(self._path), json.dumps([asdict(mark) for mark in self.marks]) + "\n")
        except OSError as error:
            raise BadFile(f"{self._path}: cannot be written: {reason_of(error)}") from None


def _find(mark: Mark, path: str) -> Begun | None:
    """The file, under its old name or another one in the folder; a link may lead there."""
    folder = os.path.dirname(os.path.realpath(path))
    try:
        others = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        others = []
    for place in (path, *others):
        try:
            found = os.stat(place)
            if found.st_ino != mark.inode or not stat.S_ISREG(found.st_mode):
                continue
            file = open(place, "rb", buffering=0)  # noqa: SIM115  # its reader closes it
        except OSError:
            continue
        if mark.fits(file):
            return Begun(file, place, mark)
        file.close()
    return None


def _start(file: FileIO, size: int) -> bytes:
    file.seek(0)
    start = b""
    while len(start) < size and (more := file.read(size - len(start))):
        start += more
    return start


def _digest(start: bytes) -> str:
    return hashlib.sha256(start).hexdigest()
