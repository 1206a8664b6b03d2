"""Files at a URL, reached by fsspec: the member of `Disk` for object stores and all else that fsspec opens.

A file that is written is kept here, in a temporary file without a name, which is gone with its process however that
ends. It is sent whole, and takes the place of the one before when all of it is there. Object stores do so by
themselves; elsewhere it is sent under another name, then moved. fsspec takes keys and endpoints from the environment
and from its own configuration files, not from here.

Sending takes at most a tenth of the time: after each upload the disk rests, unless somebody waits for it.
"""

from __future__ import annotations

import errno
import math
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from io import BufferedIOBase
from typing import Any, TypeVar

from siag.foundations.errors import reason_of
from siag.storage.disk import DRAFT, Place, Stat
from siag.storage.lease import PULSE, Clock, Lease

Answer = TypeVar("Answer")

OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "ocilake", "tos", "tosfs"}
PART = 1 << 20  # bytes written or fetched at a time
BLOCK = 5 << 20  # bytes that an object store is sent at a time; not all take less
EVERY = 5.0  # seconds from one upload to the next, at least
REST = 9.0  # how much longer than an upload the pause after it is


class RemoteFile:
    """A file that is written here and sent to its URL when it is forced; a draft when it gets its final name.

    It is written from its beginning: what is at the URL is not fetched, and stays there until it is replaced.
    """

    def __init__(self, disk: RemoteDisk, url: str) -> None:
        self.url = url
        self._disk, self._mark = disk, ""
        self._content = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed by `close`
        self._turn = threading.Lock()  # it may grow while it is sent

    def write(self, content: bytes | bytearray | memoryview) -> int:
        """Append to what is kept here."""
        with self._turn:
            self._content.seek(0, os.SEEK_END)
            return self._content.write(content)

    def force(self) -> None:
        """Send it."""
        if not self.url.endswith(DRAFT):
            self._disk.upload(self, self.url)

    def truncate(self, size: int) -> None:
        """Cut what is kept here."""
        with self._turn:
            self._content.truncate(size)

    def lock(self) -> bool:
        """Take the lease of its final name."""
        mark = f"{self.url.removesuffix(DRAFT)}.owner"
        self._mark = mark if self._disk.hold(mark) else ""
        return bool(self._mark)

    def is_at(self, place: Place) -> bool:
        """Compare the names."""
        return self.url == os.fspath(place)

    def close(self) -> None:
        """Drop what is kept here, and its lease."""
        self._content.close()
        if self._mark:
            self._disk.let_go(self._mark)
        self._mark = ""

    def parts(self) -> Iterator[bytes]:
        """What is in it now, a part at a time."""
        with self._turn:
            size = self._content.seek(0, os.SEEK_END)
        for start in range(0, size, PART):
            with self._turn:
                self._content.seek(start)
                part = self._content.read(min(PART, size - start))
            yield part or b""


class RemoteDisk:
    """Where the files of one folder, or one file, are that have URLs; one lease guards them.

    Calls to the driver are made one at a time, each in a thread that is given up when it makes no progress.

    Args:
        run: a name that no other run has, by which a server that was started again knows its own lease; by default
            each disk has its own.
        patience: seconds without progress after which a call is given up.
        period, clock: seconds between two signs of life of its lease; what time it is.
    """

    def __init__(
        self, run: str | None = None, *, patience: float = 60.0, period: float = PULSE, clock: Clock = time.monotonic
    ) -> None:
        self._run, self._patience, self._period, self._clock = run or secrets.token_hex(16), patience, period, clock
        self._drafts: dict[str, RemoteFile] = {}
        self._lease: Lease | None = None
        self._holders = 0  # open files that rely on it
        self._turn = threading.Lock()
        self._moved = self._due = 0.0  # when there was progress last, and when the next upload may begin

    @property
    def rested(self) -> bool:
        """Whether the pause after the last upload is over."""
        return self._clock() >= self._due

    def names(self, folder: Place) -> list[str]:
        """The names in a folder; none if there is no such folder, since object stores have none."""
        try:
            return self._call(folder, _names)
        except FileNotFoundError:
            return []

    def stat(self, place: Place) -> Stat | None:
        """What is there; `None` if nothing is."""
        try:
            return self._call(place, _stat)
        except FileNotFoundError:
            return None

    def read(self, place: Place) -> BufferedIOBase:
        """Fetch a file."""
        return self._call(place, self._fetch)

    def append(self, place: Place, *, create: bool = True) -> RemoteFile:
        """Open a file to write it anew, or to lock it."""
        if not create and self.stat(place) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        file = RemoteFile(self, os.fspath(place))
        if file.url.endswith(DRAFT):
            self._drafts[file.url] = file
        return file

    def replace(self, source: Place, target: Place) -> None:
        """Send a draft under its final name."""
        file = self._drafts[os.fspath(source)]
        self.upload(file, os.fspath(target))
        file.url = os.fspath(target)
        del self._drafts[os.fspath(source)]

    def remove(self, place: Place) -> None:
        """Remove a file, or forget a draft."""
        if self._drafts.pop(os.fspath(place), None) is None:
            self._call(place, self._delete)

    def make_folder(self, folder: Place) -> None:
        """Make a folder where there are any."""
        self._call(folder, _make_folder)

    def force_folder(self, folder: Place) -> None:
        """Nothing to do: a name is there when this is known of its file."""

    def upload(self, file: RemoteFile, url: str) -> None:
        """Put what is in a file at a URL."""
        began, self._due, pause = self._clock(), math.inf, EVERY
        try:
            self._call(url, partial(self._send, file))
            pause = max(EVERY, REST * (self._clock() - began))
        finally:
            self._due = self._clock() + pause

    def hold(self, mark: str) -> bool:
        """Take the lease, or share the one that this disk has; False if another run has it."""
        if self._lease is None:
            self.make_folder(mark.rpartition("/")[0])
            lease = Lease(mark, self._run, self._period)
            if not self._call(mark, lambda *_: lease.take()):
                return False
            self._lease = lease
        self._holders += 1
        return True

    def let_go(self, mark: str) -> None:
        """Share the lease no longer; the last file gives it up."""
        self._holders -= 1
        if not self._holders and (lease := self._lease) is not None:
            self._lease = None
            with suppress(OSError):  # it did not answer
                self._call(mark, lambda *_: lease.release())

    def _send(self, file: RemoteFile, system: Any, path: str) -> None:
        self._check_lease()
        whole = _appears_whole(system)
        there = system.open(path if whole else f"{path}{DRAFT}", "wb", block_size=BLOCK)
        try:
            for part in file.parts():
                there.write(part)
                self._moved = self._clock()
        except BaseException:
            with suppress(Exception):
                there.discard()
            with suppress(Exception):
                there.closed = True  # when an object's file is closed it takes the place of the one before
            raise
        there.close()
        if not whole:
            self._check_lease()
            system.mv(f"{path}{DRAFT}", path)

    def _fetch(self, system: Any, path: str) -> BufferedIOBase:
        kept = tempfile.TemporaryFile()  # noqa: SIM115  # closed by the reader
        with system.open(path, "rb") as stream:
            while part := stream.read(PART):
                kept.write(part)
                self._moved = self._clock()
        kept.seek(0)
        return kept

    def _delete(self, system: Any, path: str) -> None:
        self._check_lease()
        system.rm_file(path)

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def _call(self, url: Place, function: Callable[[Any, str], Answer]) -> Answer:
        """Call a function with the file system of a URL and the path there; what fails raises `OSError`."""
        answer: Future[Answer] = Future()
        threading.Thread(target=self._answer, args=(url, function, answer), name="siag-url", daemon=True).start()
        self._moved = self._clock()
        while (left := self._moved + self._patience - self._clock()) > 0:
            if wait([answer], left).done:
                return answer.result()
        answer.cancel()
        raise TimeoutError(errno.ETIMEDOUT, f"no progress within {self._patience:g} seconds")

    def _answer(self, url: Place, function: Callable[[Any, str], Answer], answer: Future[Answer]) -> None:
        from fsspec.core import url_to_fs

        with self._turn:  # a call that was given up, and still goes on, is not overtaken by a later one
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(function(*url_to_fs(os.fspath(url))))
            except FileNotFoundError:
                answer.set_exception(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
            except Exception as error:  # each driver has its own kinds
                answer.set_exception(OSError(getattr(error, "errno", None) or errno.EIO, reason_of(error)))


def _appears_whole(system: Any) -> bool:
    """Whether what is written appears when it is complete."""
    names = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    return bool(names & OBJECT_STORES)


def _names(system: Any, path: str) -> list[str]:
    system.invalidate_cache()
    return [name.rstrip("/").rpartition("/")[2] for name in system.ls(path, detail=False)]


def _stat(system: Any, path: str) -> Stat:
    system.invalidate_cache()
    found = system.info(path)
    modified = 0.0
    with suppress(Exception):  # not every driver knows
        modified = system.modified(path).timestamp()
    return Stat(int(found["size"] or 0), modified, found["type"] == "file")


def _make_folder(system: Any, path: str) -> None:
    if not _appears_whole(system):  # there a bucket must exist, and folders do not
        system.makedirs(path, exist_ok=True)
