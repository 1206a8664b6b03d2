"""Writing a trace while its run goes on, and going on with one; `siag.activity.trace` says what is in it.

Training never waits for the disk: a thread forces to it what was written. What the disk has not confirmed is kept here,
so that a full disk costs nothing once there is room again; what is too much to keep is given up.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from siag.activity.trace import BLOCK, COLUMNS, FORGOTTEN, FORMAT, GZIP, text_of
from siag.foundations.errors import BadFile, BadInput, reason_of, shorten
from siag.foundations.files import write_bytes

if sys.platform != "win32":
    import fcntl

TELLING = ("method", "step", "w0", "workers", "problem", "seed", "upload", "download")  # tell runs without ids apart
NO_TRACE = "is no trace"
TAIL = 1 << 20  # characters that a save of the state may carry for a trace
ROOM = 64 << 20  # characters kept for a disk that does not take them; with more, the trace is given up


class TraceWriter:
    """Writes a trace while the run goes on.

    Args:
        path: of the file; one that exists is not overwritten, unless it is the trace of the run that goes on, or one
            without a report that nobody writes to.
        about: what was run, kept in the first line; its "run" is the id of the run, by which it knows its trace.
        keep: how many reports of an existing file belong to the run that goes on; those after them were lost.
        fades: how many of its other lines do; needed only if some came after the last of the reports.
        again: whether a run goes on at all, be it from its very start: then an existing file may be its own.
        tail: the last lines of the run that goes on, as far as they are known; used if the file lacks them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: Mapping[str, Any],
        keep: int = 0,
        fades: int = 0,
        again: bool = False,
        tail: Sequence[str] = (),
    ) -> None:
        head = f"# {FORMAT} {_in_json(about)}\n{COLUMNS}\n"
        packed = os.fspath(path).endswith(".gz")
        again = again or keep + fades > 0
        content = b""
        if again:
            kept = _own_lines(path, about, keep, fades, tail)
            content = "".join([head, *kept]).encode()
            content = _packed(content) if packed else content
            write_bytes(Path(path), content)
        try:
            self._raw = _own_file(path) if again else _new_file(path)
        except OSError as error:
            raise BadFile(f"{os.fspath(path)}: cannot be written: {reason_of(error)}") from None
        _force_folder(Path(path).parent)
        self._pack: Any = zlib.compressobj(wbits=GZIP) if packed else None
        self._lines: list[str] = []  # since the last flush
        self._texts: list[str] = []  # flushed, and not yet known to be on disk
        self._size = 0  # of these
        self._doubtful = bytearray()  # the same as it is in the file, where it begins at `_safe`
        self._written = 0  # how much of it the system has taken
        self._safe = len(content)
        self._forcing: _Forcing | None = None
        self._refusal: OSError | None = None  # why the system did not take all
        self._trouble: OSError | None = None  # why the disk did not keep what the system had taken
        self._given_up: OSError | None = None
        if not again:
            self._add("", head.encode())

    def report(self, version: int, worker: int, stamp: int, sample: int, seconds: float) -> None:
        """Worker's `sample`-th sample, computed from w of version `stamp`, arrived at `version`."""
        self._lines.append(f"{version},{worker},{stamp},{sample},{seconds:.6f},\n")

    def fade(self, version: int, worker: int, factor: float, seconds: float) -> None:
        """The row of a worker that has left counts for `factor` as much from now on."""
        self._lines.append(f"{version},{worker},,,{seconds:.6f},{factor!r}\n")

    def memory_lost(self, version: int, worker: int, seconds: float) -> None:
        """A worker has lost what it remembered: it was started anew, or what it sent was refused."""
        self._lines.append(f"{version},{worker},,,{seconds:.6f},{FORGOTTEN!r}\n")

    @property
    def tail(self) -> str | None:
        """The lines that may not be on disk yet; none if they are too many, `None` if the trace is given up."""
        if self._given_up is not None:
            return None
        text = "".join(self._texts + self._lines)
        return text if len(text) <= TAIL else ""

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way to disk."""
        return self._forcing is None or not self._forcing.is_alive()

    def flush(self) -> None:
        """Hand what there is to the operating system; what a full disk does not take is kept for the next time.

        Raises `OSError` as long as something is wrong with the disk.
        """
        self._hand_over()
        self._complain()

    def sync(self, wait: bool = False) -> None:
        """Flush, and have it forced to disk in the background; with `wait`, return when it is there."""
        if wait and self._forcing is not None:
            self._forcing.join()
        self._hand_over()
        self._force()
        if wait and self._forcing is not None:
            self._forcing.join()
            self._settle()
        self._complain()

    def close(self, version: int) -> None:
        """End the file, the server being at `version`; one that was given up is left without an end."""
        if self._raw.closed:
            return
        try:
            if self._given_up is None:
                self._lines.append(f"# end {version}\n")
                self.sync(wait=True)
                if self._pack is not None:
                    self._doubtful += self._pack.flush()
                    self.sync(wait=True)
        finally:
            self._raw.close()

    def discard(self) -> None:
        """Remove the file of a run that was refused before it began, unless it has been closed."""
        if self._raw.closed:
            return
        if self._forcing is not None:
            self._forcing.join()
        with self._raw as file, suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(file.name)):
                os.unlink(file.name)

    def _add(self, text: str, content: bytes) -> None:
        if self._pack is not None:
            content = self._pack.compress(content) + self._pack.flush(zlib.Z_SYNC_FLUSH)
        self._texts.append(text)
        self._size += len(text)
        self._doubtful += content

    def _hand_over(self) -> None:
        text = "".join(self._lines)
        self._lines.clear()
        if self._given_up is None:
            self._settle()
            if text:
                self._add(text, text.encode())
            if self._size > ROOM:
                self._abandon(f"with {ROOM >> 20} MB waiting for the disk")
        if self._given_up is not None:
            raise OSError(self._given_up.errno, self._given_up.strerror)
        while self._written < len(self._doubtful):
            part = bytes(self._doubtful[self._written : self._written + BLOCK])
            try:
                self._written += self._raw.write(part)
            except OSError as error:
                self._refusal = error
                raise
        self._refusal = None
        if self._size > TAIL:
            self._force()

    def _force(self) -> None:
        """Force to disk what was written, in a thread, unless one is at it."""
        if self._forcing is None and self._written == len(self._doubtful) > 0:
            self._forcing = _Forcing(self._raw.fileno(), len(self._texts), self._written)
            self._forcing.start()

    def _settle(self) -> None:
        """What came of forcing it to disk; if that failed, the system may have dropped all, so it is written anew."""
        done = self._forcing
        if done is None or done.is_alive():
            return
        self._forcing, self._trouble = None, done.error
        if done.error is None:
            self._size -= sum(map(len, self._texts[: done.texts]))
            del self._texts[: done.texts], self._doubtful[: done.size]
            self._written -= done.size
            self._safe += done.size
            return
        try:
            os.ftruncate(self._raw.fileno(), self._safe)
            os.lseek(self._raw.fileno(), self._safe, os.SEEK_SET)
            self._written = 0
        except OSError:
            self._abandon("what the disk has of it is uncertain")

    def _complain(self) -> None:
        if self._trouble is not None:
            raise OSError(self._trouble.errno, self._trouble.strerror)

    def _abandon(self, why: str) -> None:
        """Give the trace up: what is on disk stays, nothing is added to it."""
        cause = self._refusal or self._trouble
        reason = f"given up, {why}" if cause is None else f"{cause.strerror}; given up, {why}"
        self._given_up = OSError(errno.EIO if cause is None else cause.errno, reason)
        self._texts, self._size, self._doubtful, self._written = [], 0, bytearray(), 0


class Unwritten(TraceWriter):
    """Keeps lines that are not to be written, as `lines`."""

    def __init__(self) -> None:
        self._lines = []

    @property
    def lines(self) -> list[str]:
        """One for each report, each fading and each memory that was lost."""
        return self._lines


class _Forcing(threading.Thread):
    """Forces a file to disk, up to so many texts and bytes."""

    def __init__(self, file: int, texts: int, size: int) -> None:
        super().__init__(name="siag-trace", daemon=True)
        self._file, self.texts, self.size = file, texts, size
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            self.error = error


def check_new(path: str | os.PathLike[str]) -> None:
    """Refuse a file that a new trace must not be written to: one that exists, unless it is a trace without a report."""
    if os.path.lexists(path) and not _bare(path):
        raise BadInput("trace", os.fspath(path), "a file that does not exist yet", "move the old one")


def _bare(path: str | os.PathLike[str]) -> bool:
    """Whether this is a trace that holds nothing that could be lost: its run was ended before the first report."""
    if not os.path.isfile(path) or (size := os.path.getsize(path)) > TAIL:
        return False
    try:
        text = text_of(path)
    except BadFile:
        return False
    if _fault(text, {}, 0) == NO_TRACE:
        return size == 0
    body = text.partition("\n")[2]
    return COLUMNS.startswith(body) or re.fullmatch(rf"{COLUMNS}\n(# end \d+\n)?", body) is not None


def _new_file(path: str | os.PathLike[str]) -> FileIO:
    """The file of a new trace, empty, and this run's alone."""
    check_new(path)
    while True:
        file = _own_file(path)
        try:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                check_new(path)  # its writer may have gone on until now
                file.truncate(0)
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()  # its writer has removed it meanwhile


def _own_file(path: str | os.PathLike[str]) -> FileIO:
    """A file to append to, for as long as the run, which no other run writes to."""
    file = open(path, "ab", buffering=0)  # noqa: SIM115  # whoever writes to it closes it
    if not _locked(file.fileno()):
        file.close()
        raise BadInput("trace", os.fspath(path), "a file that no other run writes to", "give another path")
    return file


def _locked(file: int) -> bool:
    """Take a file for as long as it is open; whether nobody else has it. Not every system can tell."""
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    return True


def _own_lines(
    path: str | os.PathLike[str], about: Mapping[str, Any], keep: int, fades: int, tail: Sequence[str]
) -> list[str]:
    """The lines of the run that goes on; a file that is not its trace is refused."""
    if keep + fades == 0 and not os.path.exists(path):
        return []
    text = text_of(path)
    fault = _fault(text, json.loads(_in_json(about)), keep + fades)
    if fault and not (text == "" and os.path.getsize(path) == 0):  # an empty one holds nothing that could be lost
        new, old = "give the path of a new file", "give the trace it began with, or go on without one"
        allowed = f"the trace of the run that goes on, and this file {fault}"
        raise BadInput("trace", os.fspath(path), allowed, old if keep + fades > 0 else new)
    return _first_lines(path, text, keep, fades, tail) if keep + fades > 0 else []


def _fault(text: str, about: Mapping[str, Any], lines: int) -> str:
    """Why this text is not the trace of a run that has come to so many lines; nothing if it is."""
    first, _, rest = text.partition("\n")
    mark, _, head = first.partition(" {")
    if mark != f"# {FORMAT}" or not rest.startswith(f"{COLUMNS}\n"):
        torn = first.startswith(f"# {FORMAT} {{") and COLUMNS.startswith(rest)  # by a crash, before any report
        return "" if torn else NO_TRACE
    try:
        found = json.loads("{" + head)
    except (ValueError, RecursionError):
        return NO_TRACE
    if found.get("run") != about.get("run"):
        return "is another run's"
    return "" if "run" in about else _strange(found, about, rest.split("\n")[1:-1], lines)


def _strange(found: Mapping[str, Any], about: Mapping[str, Any], body: Sequence[str], lines: int) -> str:
    """The same for runs from before they had ids: what was run must agree, and the number of lines be likely."""
    for what in set(TELLING) & set(found) & set(about):
        if found[what] != about[what] and " at 0x" not in f"{found[what]} {about[what]}":
            return f"is another run's, with another {what}"
    ended = bool(body) and body[-1].startswith("#")
    more = len(body) - ended > lines
    return "is another run's, with more reports" if more and (ended or lines == 0) else ""


def _first_lines(path: str | os.PathLike[str], text: str, keep: int, fades: int, tail: Sequence[str]) -> list[str]:
    """The lines of an existing trace up to its `keep`-th report, and after it up to its `fades`-th other line."""
    kept = []
    for line in text.split("\n")[2:-1]:
        report = line.endswith(",")
        if line.startswith("#") or (keep <= 0 and (report or fades <= 0)):
            break
        kept.append(line + "\n")
        keep, fades = keep - report, fades - (not report)
    missing = max(0, keep) + max(0, fades)
    if missing > len(tail):
        remedy = "go on without a trace, or start anew with another folder and another trace"
        raise BadFile(f"{os.fspath(path)}: lacks the last {missing} lines of the run that goes on; {remedy}")
    return kept + list(tail[len(tail) - missing :])


def _in_json(about: Mapping[str, Any]) -> str:
    """What was run, as it is in the first line."""
    return json.dumps(dict(about), default=_plain)


def _plain(value: Any) -> Any:
    """What JSON does not know, as something it does: NumPy's numbers as numbers, all else in words."""
    return value.item() if isinstance(value, np.generic) else shorten(value)


def _force_folder(folder: Path) -> None:
    """Make sure of a new file's name; not every system can."""
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def _packed(content: bytes) -> bytes:
    """A whole part of a gzip file; more may follow it."""
    pack = zlib.compressobj(wbits=GZIP)
    return pack.compress(content) + pack.flush()
