"""The disk as an argument: the few things that storage asks of one, and the real member of this interface.

What is written is in the hands of the operating system; it is on disk once it was forced there. The same holds for the
names in a folder. The torture tests have a member that loses what was not forced, and `siag.storage.remote_disk` has
one whose files are at a URL. A place is a path or, on such a disk, a URL.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from io import BufferedIOBase
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from filelock import lock_descriptor

Place: TypeAlias = str | os.PathLike[str]

DRAFT = ".part"  # how the name of a file ends that is of no use yet
UNABLE = (errno.EINVAL, errno.ENOTSUP)  # of a file system whose folders need no forcing, or know none
APPEND = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)


class Stat(NamedTuple):
    """What there is at a place."""

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

    def is_at(self, place: Place) -> bool:
        """Whether this place leads to it."""

    def close(self) -> None:
        """Close it."""


class Disk(Protocol):
    """Where files are. What fails raises `OSError`.

    A file whose name ends in `DRAFT` is of no use before `replace` has given it its final name.
    """

    @property
    def rested(self) -> bool:
        """Whether it is time to force something again; if not, only a process that waits for the disk should."""

    def names(self, folder: Place) -> list[str]:
        """The names in a folder."""

    def stat(self, place: Place) -> Stat | None:
        """What is there; `None` if nothing is."""

    def read(self, place: Place) -> BufferedIOBase:
        """Open a file to read it; it can be sought in."""

    def append(self, place: Place, *, create: bool = True) -> File:
        """Open a file to append to it; `create` makes it if it is not there."""

    def replace(self, source: Place, target: Place) -> None:
        """Rename a file, in place of another if there is one."""

    def remove(self, place: Place) -> None:
        """Remove a file."""

    def make_folder(self, folder: Place) -> None:
        """Make a folder and those above it, where they are missing; their names are on disk when this returns."""

    def force_folder(self, folder: Place) -> None:
        """Return when the names in a folder are on disk."""


class LocalFile:
    """A file of the operating system."""

    def __init__(self, file: int) -> None:
        self._file = file

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Append, by one call of the system."""
        return os.write(self._file, content)

    def force(self) -> None:
        """Wait for the disk."""
        os.fsync(self._file)

    def truncate(self, size: int) -> None:
        """Cut it to a size."""
        os.ftruncate(self._file, size)

    def lock(self) -> bool:
        """Lock it where the file system can, and a lock leaves a file to its readers."""
        try:
            return sys.platform == "win32" or lock_descriptor(self._file, blocking=False)
        except OSError:
            return True

    def is_at(self, place: Place) -> bool:
        """Compare what the system knows of both."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(place))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def close(self) -> None:
        """Close it, once."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class LocalDisk:
    """The file systems of this machine."""

    rested = True

    def names(self, folder: Place) -> list[str]:
        """The names in a folder."""
        return os.listdir(folder)

    def stat(self, place: Place) -> Stat | None:
        """What is there; `None` if nothing is."""
        try:
            found = os.stat(place)
        except (FileNotFoundError, NotADirectoryError):
            return Stat(0, 0.0, False) if os.path.lexists(place) else None
        return Stat(found.st_size, found.st_mtime, stat.S_ISREG(found.st_mode))

    def read(self, place: Place) -> BufferedIOBase:
        """Open a file to read it."""
        return open(place, "rb")

    def append(self, place: Place, *, create: bool = True) -> LocalFile:
        """Open a file to append to it."""
        return LocalFile(os.open(place, APPEND | (os.O_CREAT if create else 0), 0o666))

    def replace(self, source: Place, target: Place) -> None:
        """Rename a file."""
        os.replace(source, target)

    def remove(self, place: Place) -> None:
        """Remove a file."""
        os.unlink(place)

    def make_folder(self, folder: Place) -> None:
        """Make a folder, and force the names of those that were missing to disk."""
        folder = Path(folder)
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            self.force_folder(path.parent)

    def force_folder(self, folder: Place) -> None:
        """Wait for the disk, on systems that can open a folder."""
        if sys.platform == "win32":
            return
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in UNABLE:
                raise
        finally:
            os.close(handle)


LOCAL = LocalDisk()
