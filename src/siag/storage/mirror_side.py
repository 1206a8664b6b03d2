"""One side of a mirror: a local folder or file, the same at a URL, and the mark that says whose the URL is."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from siag.storage.generations import NAME, generations_in
from siag.storage.remote import Remote, copy_file

Signature: TypeAlias = tuple[int, int, int]

SLOWEST = 1e6  # bytes a second that a driver moves at least, if it does not tell
STRETCH = 512e6  # bytes that a driver moves at most before it tells; s3fs: ten parts of 50 MiB at a time


class TakenOver(Exception):
    """The mark at a URL, which this names, is another run's."""


class Progress:
    """When a round last made progress, or can be expected to have made some."""

    def __init__(self) -> None:
        self._moved = self._silence = 0.0

    @property
    def last(self) -> float:
        """When that was; later than now while the driver may be silent."""
        return self._moved + self._silence

    def moved(self) -> None:
        """There is progress."""
        self._moved = time.monotonic()

    def expect(self, size: int) -> None:
        """So many bytes begin to move, of which the driver may tell late; 0: they are there."""
        self._silence = min(size, STRETCH) / SLOWEST
        self.moved()


@dataclass(frozen=True)
class Copy:
    """A file as it was at some time."""

    path: Path
    signature: Signature


class Side:
    """A local folder, or a file, and the same at a URL.

    Args:
        local: the folder or file.
        remote: the folder at the URL; if the URL is that of a file, its `name` says which.
        signs: told of all progress.
    """

    def __init__(self, local: Path, remote: Remote, signs: Progress) -> None:
        self.url = remote.url
        self._local, self._remote, self._signs = local, remote, signs
        self._mark = f"{remote.name}.owner" if remote.name else "owner"
        self._sent: dict[str, Signature] = {}  # by their names at the URL
        self._there: dict[str, int] = {}  # what was found at the URL, and its size
        self._pulse, self._beats = f"{self._mark}.alive", 0
        self.seen: tuple[bytes | None, ...] = ()  # another's mark and pulse, if there is a mark
        self.since = 0.0  # when they were seen first
        self.alive = False  # whether they have changed since

    def fetch(self, owner: bytes) -> None:
        """Copy what is at the URL here, but for what is here already."""
        (self._local.parent if self._remote.name else self._local).mkdir(parents=True, exist_ok=True)
        self.look(owner)
        self._there = self._found()
        for name in sorted(self._there):
            here = self._local if self._remote.name else self._local / name
            if not here.exists():
                self._remote.get(name, here)
                self._sent[name] = _signature(here)

    @property
    def new(self) -> bool:
        """Whether there was nothing at the URL."""
        return not self._there

    def look(self, owner: bytes) -> None:
        """Note whether somebody else has the URL, and whether he is alive."""
        mark = self._remote.read(self._mark)
        if mark is None or mark.rpartition(b" ")[0] == owner.rpartition(b" ")[0]:  # nobody, or the same run before
            self.seen = ()
            return
        seen = mark, self._remote.read(self._pulse)
        if not self.seen:
            self.seen, self.since = seen, time.monotonic()
        elif seen != self.seen:
            self.alive = self._remote.read(self._mark) is not None  # or it has just ended, and taken both away
            self.seen = seen if self.alive else ()

    def claim(self, owner: bytes) -> None:
        """Mark the URL."""
        self._remote.make()
        self._remote.write(self._mark, owner)

    def unchanged(self, owner: bytes) -> bool:
        """Whether all at the URL is as it was fetched; the mark must be this one's still."""
        self._check_mark(owner)
        return self._found() == self._there

    def beat(self, owner: bytes) -> None:
        """Be seen to be alive."""
        self._check_mark(owner)
        self._beats += 1
        self._remote.write(self._pulse, b"%b %d" % (owner, self._beats))

    def release(self, owner: bytes) -> None:
        """Take mark and pulse away, if the mark is this one's."""
        with suppress(Exception):  # they hurt nobody
            if self._remote.read(self._mark) == owner:
                self._remote.remove(self._mark)
                self._remote.remove(self._pulse)

    def freeze(self, scratch: Path) -> list[Copy]:
        """Copies of what has changed since it was sent, the oldest generation first."""
        copies = []
        for name, path in self._files().items():
            try:
                signature = _signature(path)  # if it grows while it is copied, it is sent again the next time
                if signature != self._sent.get(name):
                    copy_file(path, scratch / name, self._signs.moved)
                    copies.append(Copy(scratch / name, signature))
            except FileNotFoundError:  # a generation that is needed no longer; a trace always is
                if self._remote.name:
                    raise
        return copies

    def send(self, copies: list[Copy], owner: bytes) -> None:
        """Put copies at the URL."""
        self._check_mark(owner)
        for copy in copies:
            self._check_mark(owner)
            self._signs.expect(copy.signature[0])
            try:
                self._remote.put(copy.path, copy.path.name, self._signs.moved)
            finally:
                self._signs.expect(0)
            self._sent[copy.path.name] = copy.signature

    def tidy(self, owner: bytes) -> None:
        """Delete at the URL the generations that are older than all that are here, which must have been sent."""
        kept = self._files()
        if not kept or any(name not in self._sent for name in kept):
            return
        oldest = min(map(_number, kept))
        for name in [name for name in {*self._sent, *self._there} if _number(name) < oldest]:
            self._check_mark(owner)
            self._remote.remove(name)
            self._signs.moved()
            self._sent.pop(name, None)
            self._there.pop(name, None)

    def _files(self) -> dict[str, Path]:
        """What is to be copied, by its name at the URL."""
        if self._remote.name:
            return {self._remote.name: self._local}
        return {path.name: path for _, path in sorted(generations_in(self._local).items())}

    def _found(self) -> dict[str, int]:
        """The files at the URL, of those that are copied."""
        found, only = self._remote.sizes(), self._remote.name
        return {name: size for name, size in found.items() if (name == only if only else NAME.fullmatch(name))}

    def _check_mark(self, owner: bytes) -> None:
        if self._remote.read(self._mark) != owner:
            raise TakenOver(self.url)


def _signature(path: Path) -> Signature:
    """What tells that a file has changed."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _number(name: str) -> int:
    """Of a generation."""
    match = NAME.fullmatch(name)
    return int(match[1]) if match else 0
