"""The disk as an argument: the few things that storage asks of one, and the real member of this interface.

What is written is in the hands of the operating system; it is on disk once it was forced there. The same holds for the
names in a folder. `siag.storage.simulated_disk` has a member that loses what was not.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple, Protocol

from filelock import lock_descriptor

UNABLE = (errno.EINVAL, errno.ENOTSUP)  # of a file system whose folders need no forcing, or know none
APPEND = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)


class Stat(NamedTuple):
    """What there is at a path."""

    size: int
    modified: float  # in seconds since 1970
    regular: bool  # a file, rather than a folder, a pipe or a link that leads nowhere


class File(Protocol):
    """A file that is appended to. What fails raises `OSError`."""

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Append the first bytes of this; return how many."""

    def force(self) -> None:
        """Return when all that was written is on disk."""

    def truncate(self, size: int) -> None:
        """Cut it to a size."""

    def lock(self) -> bool:
        """Lock it for as long as it is open; False if somebody else has. True where there are no locks."""

    def is_at(self, path: Path) -> bool:
        """Whether this path leads to it."""

    def close(self) -> None:
        """Close it."""


class Disk(Protocol):
    """Where files are. What fails raises `OSError`."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder."""

    def stat(self, path: Path) -> Stat | None:
        """What is there; `None` if nothing is."""

    def read(self, path: Path) -> BufferedIOBase:
        """Open a file to read it; it can be sought in."""

    def append(self, path: Path, *, truncate: bool = False, create: bool = True) -> File:
        """Open a file to append to it.

        Args:
            path: of the file.
            truncate: empty it first.
            create: make it if it is not there.
        """

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file, in place of another if there is one."""

    def remove(self, path: Path) -> None:
        """Remove a file."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it, where they are missing; their names are on disk when this returns."""

    def force_folder(self, folder: Path) -> None:
        """Return when the names in a folder are on disk."""


def lock_file(file: int) -> bool:
    """Lock an open file for as long as it is open; False if another process has it.

    Raises `OSError` where there are no locks, or none that leave a file to its readers.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    return lock_descriptor(file, blocking=False)


class LocalFile:
    """A file of the operating system."""

    def __init__(self, file: int) -> None:
        self._file = file

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Append the first bytes of this; return how many."""
        return os.write(self._file, content)

    def force(self) -> None:
        """Return when all that was written is on disk."""
        os.fsync(self._file)

    def truncate(self, size: int) -> None:
        """Cut it to a size."""
        os.ftruncate(self._file, size)

    def lock(self) -> bool:
        """Lock it for as long as it is open; not every file system can."""
        try:
            return lock_file(self._file)
        except OSError:
            return True

    def is_at(self, path: Path) -> bool:
        """Whether this path leads to it."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """Close it."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class LocalDisk:
    """The file systems of this machine."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder."""
        return os.listdir(folder)

    def stat(self, path: Path) -> Stat | None:
        """What is there; `None` if nothing is."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return Stat(0, 0.0, False) if os.path.lexists(path) else None
        return Stat(found.st_size, found.st_mtime, stat.S_ISREG(found.st_mode))

    def read(self, path: Path) -> BufferedIOBase:
        """Open a file to read it."""
        return open(path, "rb")

    def append(self, path: Path, *, truncate: bool = False, create: bool = True) -> LocalFile:
        """Open a file to append to it."""
        flags = APPEND | (os.O_TRUNC if truncate else 0) | (os.O_CREAT if create else 0)
        return LocalFile(os.open(path, flags, 0o666))

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file, in place of another if there is one."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it, where they are missing; their names are on disk when this returns."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            self.force_folder(path.parent)

    def force_folder(self, folder: Path) -> None:
        """Return when the names in a folder are on disk."""
        if sys.platform == "win32":
            return  # which cannot open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in UNABLE:
                raise
        finally:
            os.close(handle)


LOCAL = LocalDisk()
