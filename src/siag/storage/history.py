"""Earlier versions of a model, kept beside the state of its run: plain `.npy` files, the last few of them.

`w-000000001200.npy` is w of version 1200. A file gets that name when it is whole and on disk, so there is never half of
one; and `numpy.load` reads it.
"""

from __future__ import annotations

import math
import re
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from io import BytesIO
from typing import NamedTuple

import numpy as np

from siag.foundations.errors import BadFile, reason_of
from siag.foundations.types import Floats
from siag.storage.background import OneThread
from siag.storage.disk import DRAFT, LOCAL, Disk, Place
from siag.storage.records import put
from siag.storage.urls import disk_of

NAME = re.compile(r"w-(\d{12,})\.npy")


class History:
    """Keeps versions of w, one every so often, and of those the last few.

    One thread calls it and does not wait for the disk.

    Args:
        folder: of the run.
        most: how many to keep.
        every: seconds between two of them.
        disk: where the folder is.
        background: who writes, one version after the other.
    """

    def __init__(
        self, folder: str, most: int, every: float, *, disk: Disk = LOCAL, background: Executor | None = None
    ) -> None:
        self._folder, self._most, self._every, self._disk = folder, most, every, disk
        self._background = background or OneThread("siag-history")
        self._writing: Future[None] | None = None
        self._kept = -math.inf
        self.problem: str | None = None  # what went wrong with the last one
        for name in disk.names(folder):
            if name.startswith("w-") and name.endswith(DRAFT):  # left by a crash
                self._remove(f"{folder}/{name}")

    def begin(self, now: float) -> None:
        """The first one is due some time from now."""
        self._kept = now

    def note(self, version: int, w: Floats, now: float) -> None:
        """Have this version written, if it is time for one."""
        if now - self._kept >= self._every and (self._writing is None or self._writing.done()):
            self._kept = now
            self._writing = self._background.submit(self._write, version, np.array(w))

    def close(self) -> None:
        """Wait for what is being written."""
        self._background.shutdown()

    def _write(self, version: int, w: Floats) -> None:
        """In the background: write a version, then remove those that are too many."""
        place, content = f"{self._folder}/w-{version:012d}.npy", BytesIO()
        np.save(content, w)
        try:
            with closing(self._disk.append(f"{place}{DRAFT}")) as file:
                file.truncate(0)
                put(file, content.getbuffer())
                file.force()
                self._disk.replace(f"{place}{DRAFT}", place)  # before it is closed: this sends it to a URL
            self._disk.force_folder(self._folder)
            for old in self._oldest_first()[: -self._most]:
                self._remove(old)
        except OSError as error:
            self._remove(f"{place}{DRAFT}")
            self.problem = reason_of(error)
        else:
            self.problem = None

    def _oldest_first(self) -> list[str]:
        """By when they were written: a run that began anew in this folder counts its versions from 0 again."""
        found = versions_in(self._folder, self._disk)
        written = {path: stat.modified for path in found.values() if (stat := self._disk.stat(path)) is not None}
        return [path for _, path in sorted(found.items(), key=lambda each: (written.get(each[1], 0.0), each[0]))]

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            self._disk.remove(path)


class Version(NamedTuple):
    """A version of a model that was kept."""

    version: int
    written: float  # in seconds since 1970


def versions_in(folder: Place, disk: Disk = LOCAL) -> dict[int, str]:
    """The files of a folder by version."""
    found = ((NAME.fullmatch(name), name) for name in disk.names(folder))
    return {int(match[1]): f"{folder}/{name}" for match, name in found if match}


def read_versions(folder: Place, *, disk: Disk = LOCAL) -> list[Version]:
    """The versions that were kept in the folder of a live run with `keep`, the oldest first.

    Args:
        folder: the `folder` of `siag.train` or `siag.serve`, a path or a URL.
        disk: where a path is.
    """
    disk, place = disk_of("folder", folder, disk)
    found = []
    for version, path in sorted(_listed(place, disk).items()):
        stat = disk.stat(path)
        if stat is not None:  # it may have been removed since
            found.append(Version(version, stat.modified))
    return found


def read_version(folder: Place, version: int, *, disk: Disk = LOCAL) -> Floats:
    """(d,) the w of a version that was kept; see `read_versions`."""
    disk, place = disk_of("folder", folder, disk)
    there = _listed(place, disk)
    if version not in there:
        kept = ", ".join(map(str, sorted(there))) or "none; keep=10 keeps the last ten"
        raise BadFile(f"{place}: version {version} was not kept; there are: {kept}")
    try:
        with disk.read(there[version]) as stream:
            w: Floats = np.load(BytesIO(stream.read()), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadFile(f"{there[version]}: cannot be read: {reason_of(error)}") from None
    return w


def _listed(folder: str, disk: Disk) -> dict[int, str]:
    try:
        return versions_in(folder, disk)
    except OSError as error:
        raise BadFile(f"{folder}: cannot be read: {reason_of(error)}") from None
