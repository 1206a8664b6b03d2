"""Scratch folders, which are gone after their owner, however it ends.

A scratch folder is locked while its owner lives. One whose lock is free was left by a process that was killed: whoever
makes a scratch folder on the same machine removes it. What is in it is never used.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from siag.storage.disk import lock_file

PREFIX = "siag-scratch-"  # of their names
LOCK = "lock"


class Scratch:
    """A folder for temporary files that is gone after its owner, however that ends.

    It goes with `remove` or, if its owner is killed, when the next one is made by the same user on the same machine.
    """

    def __init__(self) -> None:
        for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError):  # in use, another user's, or gone meanwhile
                _remove_dead(left)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._guard = _locked(self.path)

    def remove(self) -> None:
        """Delete it; what cannot be deleted now goes as after a kill."""
        if self._guard is None:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        with suppress(OSError), _entered(self.path) as folder:
            _remove(self.path, folder)
        os.close(self._guard)
        self._guard = None


def _locked(folder: Path) -> int | None:
    """Lock a new scratch folder; the lock appears in it when it is taken. `None` where there are no locks."""
    if sys.platform == "win32":
        return None
    guard = os.open(folder / f"{LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        lock_file(guard)
        os.write(guard, _machine())
        os.rename(folder / f"{LOCK}.new", folder / LOCK)
    except OSError:  # a file system without locks
        os.close(guard)
        return None
    return guard


def _remove_dead(path: Path) -> None:
    """Delete a scratch folder if it is this user's, was made on this machine, and its lock is free."""
    if sys.platform == "win32":
        return
    with _entered(path) as folder:
        if os.fstat(folder).st_uid != os.getuid():
            return
        guard = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
        try:
            if (
                lock_file(guard) and os.read(guard, 1 << 10) == _machine()
            ):  # of another one's locks nothing may be known here
                _remove(path, folder)
        finally:
            os.close(guard)


@contextmanager
def _entered(path: Path) -> Iterator[int]:
    """A folder that stays the same one whatever becomes of its name; no link is followed."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield folder
    finally:
        os.close(folder)


def _remove(path: Path, folder: int) -> None:
    """Delete a scratch folder, its lock last: as long as there is anything, it can be found."""
    with os.scandir(folder) as entries:
        others = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if entry.name != LOCK]
    for name, is_folder in others:
        if is_folder:
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    os.unlink(LOCK, dir_fd=folder)
    os.rmdir(path)


def _machine() -> bytes:
    """What tells this machine from others that may have the same temporary folder."""
    return socket.gethostname().encode()[: 1 << 10]
