"""The state of a live server on disk: saved while training goes on, found again after a crash, never half of it.

A folder holds generations, plain files state-000001.siag, state-000002.siag, …: a header, then records. The first is
the whole state; those after it are rows that changed since, and logged entries. Every record has checksums, which cover
its head, its content and which file it belongs to. A file that has grown to a few times the state is followed by a new
generation; the previous one is kept.

    header  magic, format, length, checksum, {"identity", "arrays", "generation", "birth"} as JSON
    record  mark, kind, sequence, length, checksum of the content, checksum of all that, content
    content of FULL    length of the JSON, number of rows, JSON, small arrays, all rows
    content of CHANGE  the same, but row numbers and only those rows at its end
    content of ENTRY   what was logged

Entries are numbered. The sequence of a FULL or CHANGE is the number of the last entry it covers, so it does not matter
whether an entry that was logged while the state was being written comes before or after it in the file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import re
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from siag.foundations.errors import BadFile, BadInput, SiagError, shorten
from siag.foundations.files import writable_folder
from siag.foundations.types import Integers

if sys.platform != "win32":
    import fcntl

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
Layout: TypeAlias = dict[str, str]
Part: TypeAlias = bytes | memoryview

MAGIC = b"\x89siag\r\n\x1a"
FORMAT = 1
HEADER = struct.Struct("<8sIII")  # magic, format, length of the JSON, checksum of magic to length and JSON
HEAD = struct.Struct("<4sB3xQQI")  # mark, kind, sequence, length, checksum; its own checksum follows
CHECKSUM = struct.Struct("<I")
SIZES = struct.Struct("<II")  # length of the JSON, number of rows
MARK = b"\xf5rec"
FULL, CHANGE, ENTRY = 1, 2, 3
HEAD_SIZE = HEAD.size + CHECKSUM.size
NAME = re.compile(r"state-(\d{6,})\.siag")
BIG = 1 << 16  # smaller parts are gathered before they are written
CHUNK = 1 << 20
OPEN = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Recovery:
    """What was found on disk, beside the arrays.

    Attributes:
        meta: what was saved with the arrays.
        entries: what was logged after that, in order, without a gap.
        remarks: what was damaged, and what was used instead, one line each.
    """

    meta: dict[str, Any]
    entries: list[bytes]
    remarks: tuple[str, ...]


class _OtherFormat(BadFile):
    """A generation of another version of this package: not damaged, so nothing older may be used instead."""


@dataclass
class _Job:
    """One save on its way to disk."""

    kind: int
    covers: int  # the last entry that is part of the state
    rows: Integers  # to be saved once more if this fails
    parts: list[Part]
    layout: Layout
    done: bool = False


@dataclass
class _Scan:
    """What one generation holds, verified, large content left on disk."""

    path: Path
    number: int
    header: dict[str, Any]
    salt: int
    saves: list[tuple[int, int]] = field(default_factory=list)  # kind and place of content, from the FULL on
    covers: int = 0  # the last entry that the last of them covers
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 0  # of the last intact record
    damage: str = ""  # where it begins
    broken: bool = False  # whether a save is damaged; what changed after it says nothing


class Store:
    """Keeps the state of one server in one folder.

    One thread calls it, and never waits for the disk but in `sync` and with `wait`; a thread of its own writes. A write
    that fails is told by `problem` and made good by the next save.

    Args:
        folder: where; made if need be. It belongs to one server at a time.
        identity: what the state is of (method, n, d and so on), ready for JSON; the state of another is refused. Arrays
            of two or more dimensions and n rows are saved by rows, all others whole.
        durable: whether entries are to be logged between saves.
        spare: a new generation begins when the file exceeds twice the state and so many bytes.
    """

    def __init__(
        self, folder: str | os.PathLike[str], identity: dict[str, Any], *, durable: bool = False, spare: int = 4 << 20
    ) -> None:
        try:
            self._identity: dict[str, Any] = json.loads(json.dumps(identity))
        except (TypeError, ValueError):
            raise BadInput("identity", identity, "numbers and text that JSON can hold") from None
        made = [path for path in (Path(folder), *Path(folder).parents) if not path.exists()]
        self._folder = writable_folder("folder", folder)
        for path in made:
            _force_folder(path.parent)
        self._durable, self._spare = durable, spare
        self._guard: int | None = _lock(self._folder)  # the lock of the folder
        self._disk = threading.Lock()  # the file: writing and forcing to disk, one at a time
        self._brief = threading.Lock()  # the numbers and list of entries
        self._idle = threading.Event()
        self._idle.set()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

        self._file: int | None = None
        self._salt = self._end = self._limit = 0
        self._sound = False  # whether what was written to the file so far can be relied on
        self._fresh = True  # whether the next save must be a new generation
        self._layout: Layout | None = None
        self._owed: Integers = np.empty(0, np.int64)  # rows of saves that failed

        self._sequence = 0  # of the last entry logged
        self._covered = 0  # the last entry that the newest save on disk covers
        self._lost = 0  # the last entry that could not be written
        self._pending: list[tuple[int, bytes]] = []
        self._carry: list[tuple[int, bytes]] | None = None  # entries logged while a new generation is being written

        self._error: Exception | None = None
        for left in self._folder.glob("state-*.siag.part"):
            with contextlib.suppress(OSError):
                left.unlink()
        generations = _generations(self._folder)
        self._recovered = not generations
        self._current: int | None = None  # the generation in use
        self._next = max(generations, default=0) + 1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def problem(self) -> str | None:
        """What goes wrong with saving, None if the last save succeeded."""
        return None if self._error is None else _reason(self._error)

    def recover(self, arrays: Arrays) -> Recovery | None:
        """Fill the arrays from the newest good save; None if nothing was ever saved here.

        Raises `BadFile`, having touched no array, if what is there is of another server or damaged throughout.
        """
        self._check_open()
        if self._thread is not None:
            raise SiagError(f"{self._folder}: recover comes before the first save")
        generations = _generations(self._folder)
        if not generations:
            return None
        scans, refused = self._scans(generations, _layout(arrays))
        scan = scans[-1]
        entries, unused = _joined(scans)
        meta = _fill(scan, arrays, self._rowwise(arrays))
        remarks = [f"{reason}; used generation {scan.number}" for reason in refused]
        if scan.damage:
            remarks.append(f"generation {scan.number} is {scan.damage}; used what is intact of it")
        if unused:
            remarks.append(f"{unused} logged entries were not used: one before them is missing")
        self._sequence = scan.covers + len(entries)
        self._covered, self._current, self._recovered = scan.covers, scan.number, True
        if self._durable and self._file is None and not remarks:
            self._go_on(scan)
        return Recovery(meta, entries, tuple(remarks))

    def save(
        self, arrays: Arrays, changed: np.ndarray[Any, Any], meta: Mapping[str, Any], *, wait: bool = False
    ) -> bool:
        """Copy what is to be saved and have it written; False if the previous save is still under way.

        Args:
            arrays: the state, the same names, types and shapes each time.
            changed: numbers of the rows that changed since `save` last returned True.
            meta: what else there is to save, ready for JSON.
            wait: wait for the disk, then say whether it is there.
        """
        self._check_open()
        if not self._recovered:
            raise BadFile(f"{self._folder}: holds a saved state; recover it, or choose another folder")
        if wait:
            self._idle.wait()
        elif not self._idle.is_set():
            return False
        layout = _layout(arrays)
        if self._layout not in (None, layout):
            raise BadInput("arrays", layout, f"as in the saves before: {self._layout}")
        full = self._fresh or not self._sound or self._end > self._limit
        covers = self._sequence  # this thread logs, too
        rows = np.union1d(self._owed, np.asarray(changed, dtype=np.int64))
        parts = _content(arrays, self._rowwise(arrays), None if full else rows, meta)
        job = _Job(FULL if full else CHANGE, covers, rows, parts, layout)
        self._layout = layout
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_jobs, name="siag-store", daemon=True)
            self._thread.start()
        self._carry = [] if full else None
        self._idle.clear()
        self._jobs.put(job)
        if wait:
            self._idle.wait()
            return job.done
        return True

    def log(self, *parts: bytes | memoryview) -> None:
        """Add an entry, made of some parts; it is on disk after the next `sync`."""
        self._check_open()
        if not self._durable:
            raise BadInput("durable", False, "True to log entries")
        entry = b"".join(parts)
        with self._brief:
            self._sequence += 1
            self._pending.append((self._sequence, entry))

    def sync(self) -> None:
        """Return when all that was logged is on disk.

        Raises `OSError` if it cannot be. The entries are then given up: this fails until a save has succeeded, which
        has them in it, so what they report must not be acknowledged before.
        """
        self._check_open()
        if self._flushed():
            return
        self._idle.wait()  # a save under way may mend it
        if self._flushed():
            return
        with self._brief:
            self._pending.clear()
            self._lost = self._sequence
        if isinstance(self._error, OSError):
            raise OSError(self._error.errno or errno.EIO, self.problem)
        raise OSError(errno.EIO, self.problem or "there is no save yet that entries could follow; save first")

    def close(self) -> None:
        """Wait for what is being written and release the folder; what was logged is written too, if possible."""
        if self._guard is None:
            return
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        with contextlib.suppress(OSError):
            self._flushed()
        if self._file is not None:
            os.close(self._file)
        os.close(self._guard)
        self._file = self._guard = None

    def _check_open(self) -> None:
        if self._guard is None:
            raise SiagError(f"{self._folder}: this store is closed")

    def _rowwise(self, arrays: Arrays) -> set[str]:
        """The names of the arrays that are saved by rows."""
        n = self._identity.get("n")
        return {name for name, array in arrays.items() if array.ndim >= 2 and array.shape[0] == n}

    def _scans(self, generations: dict[int, Path], layout: Layout) -> tuple[list[_Scan], list[str]]:
        """The generations from the newest back to the first with an intact save, and why those after it have none."""
        scans: list[_Scan] = []
        refused: list[str] = []
        for number, path in sorted(generations.items(), reverse=True):
            try:
                scan = _scan(path, number)
            except _OtherFormat:
                raise
            except BadFile as error:
                refused.append(str(error))
                continue
            _compare(path, scan.header, self._identity, layout)
            scans.append(scan)
            if scan.saves:
                return scans, refused
            refused.append(f"{path}: {scan.damage or 'cut short'}, no save in it is intact")
        raise BadFile(f"{'; '.join(refused)}; put back a copy, or move what is there away to start afresh")

    def _go_on(self, scan: _Scan) -> None:
        """Log to the file that was recovered until the first save, without the torn record at its end."""
        try:
            self._file = os.open(scan.path, OPEN)
            os.ftruncate(self._file, scan.end)
            os.fsync(self._file)
        except OSError as error:
            self._error = error
            return
        self._salt, self._end, self._sound = scan.salt, scan.end, True

    def _flushed(self) -> bool:
        """Force all entries to disk; False if the file is in no state to take them."""
        with self._disk:
            if self._file is None or not self._sound or self._lost > self._covered:
                return False
            with self._brief:
                batch, self._pending = self._pending, []
            if not batch:
                return True
            if self._carry is not None:
                self._carry += batch
            try:
                self._extend(self._file, _entries(batch, self._salt))
            except OSError as error:
                self._error, self._lost = error, batch[-1][0]
                raise
            return True

    def _extend(self, file: int, parts: Iterable[Part]) -> None:
        """Add to the file and force it to disk, or leave it as it was; the caller holds `_disk`."""
        try:
            size = _write(file, parts)
        except BaseException:
            try:
                os.ftruncate(file, self._end)  # part of a record would hide those after it
            except OSError:
                self._sound = False
            raise
        try:
            os.fsync(file)
        except BaseException:
            self._sound = False  # the system may have dropped what it could not write, and will not tell again
            raise
        self._end += size

    def _write_jobs(self) -> None:
        """The thread that writes."""
        while (job := self._jobs.get()) is not None:
            try:
                if job.kind == FULL:
                    self._begin(job)
                else:
                    self._append(job)
                job.done, self._error = True, None
                self._owed = np.empty(0, np.int64)
            except Exception as error:
                self._error, self._owed = error, job.rows
            self._carry = None
            job.parts.clear()
            self._idle.set()

    def _append(self, job: _Job) -> None:
        """Add a save to the generation in use."""
        with self._disk:
            if self._file is None or not self._sound:
                raise self._error or OSError(errno.EIO, os.strerror(errno.EIO))
            self._extend(self._file, _record(CHANGE, job.covers, job.parts, self._salt))
            self._covered = job.covers

    def _begin(self, job: _Job) -> None:
        """Write a new generation beside the old one, then go over to it."""
        path = self._folder / f"state-{self._next:06d}.siag"
        header, salt = _header(self._identity, job.layout, self._next)
        part = path.with_name(path.name + ".part")
        file = os.open(part, OPEN | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            size = _write(file, [header, *_record(FULL, job.covers, job.parts, salt)])
            os.fsync(file)
            with self._disk:  # entries logged meanwhile went to the old file, which may be gone one day
                if self._carry:
                    size += _write(file, _entries(self._carry, salt))
                    os.fsync(file)
                os.replace(part, path)
                self._sound = False  # if the folder cannot be forced to disk, it is uncertain which file is the last
                previous, self._current, self._next = self._current, self._next, self._next + 1
                try:
                    _force_folder(self._folder)
                except BaseException:
                    self._current = previous
                    with contextlib.suppress(OSError):
                        path.unlink()
                    raise
                old, self._file = self._file, file
                self._salt, self._end, self._limit = salt, size, 2 * size + self._spare
                self._covered, self._sound, self._fresh, self._carry = job.covers, True, False, None
        except BaseException:
            os.close(file)
            with contextlib.suppress(OSError):
                part.unlink()
            raise
        if old is not None:
            os.close(old)
        self._remove_before(previous)

    def _remove_before(self, number: int | None) -> None:
        """Delete the generations before one."""
        with contextlib.suppress(OSError):
            for other, path in _generations(self._folder).items():
                if number is not None and other < number:
                    path.unlink()


def _lock(folder: Path) -> int:
    """Take the folder, or say that another has it."""
    try:
        guard = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise BadFile(f"{folder / 'lock'}: cannot be opened: {_reason(error).lower()}") from None
    if sys.platform != "win32":
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(guard)
            raise BadFile(f"{folder}: in use by another server; stop that one, or choose another folder") from None
        except OSError:
            pass  # a file system without locks
    return guard


def _generations(folder: Path) -> dict[int, Path]:
    """The files of the folder by number."""
    found = ((NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in found if match}


def _force_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    if sys.platform == "win32":
        return  # which cannot open a folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _layout(arrays: Arrays) -> Layout:
    """Types and shapes by name, as the header and messages show them."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc":
            raise BadInput(name, array.dtype, "an array of numbers or truth values")
    order = "" if sys.byteorder == "little" else f" {sys.byteorder}-endian"
    return {name: f"{array.dtype} {array.shape}{order}" for name, array in arrays.items()}


def _ordered(names: Iterable[str], rowwise: set[str]) -> list[str]:
    """Names in the order of the content: small arrays first."""
    return sorted(names, key=lambda name: (name in rowwise, name))


def _raw(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _content(arrays: Arrays, rowwise: set[str], rows: Integers | None, meta: Mapping[str, Any]) -> list[Part]:
    """A copy of what a save holds: all rows, or some."""
    text = json.dumps(meta).encode()
    parts: list[Part] = [SIZES.pack(len(text), 0 if rows is None else len(rows)) + text]
    names = _ordered(arrays, rowwise)
    parts += [_raw(np.array(arrays[name], order="C")) for name in names if rows is None or name not in rowwise]
    if rows is not None:
        parts.append(_raw(rows))
        parts += [_raw(np.take(arrays[name], rows, axis=0)) for name in names if name in rowwise]
    return parts


def _header(identity: dict[str, Any], layout: Layout, number: int) -> tuple[bytes, int]:
    """The beginning of a file, and the number that ties records to it."""
    about = {"identity": identity, "arrays": layout, "generation": number, "birth": os.urandom(8).hex()}
    text = json.dumps(about).encode()
    salt = zlib.crc32(text, zlib.crc32(HEADER.pack(MAGIC, FORMAT, len(text), 0)))
    return HEADER.pack(MAGIC, FORMAT, len(text), salt) + text, salt


def _record(kind: int, sequence: int, parts: Sequence[Part], salt: int) -> list[Part]:
    """Put a head before some parts."""
    checksum, length = salt, 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
        length += len(part)
    head = HEAD.pack(MARK, kind, sequence, length, checksum)
    return [head + CHECKSUM.pack(zlib.crc32(head, salt)), *parts]


def _entries(batch: Sequence[tuple[int, bytes]], salt: int) -> list[Part]:
    """Entries as records."""
    return [part for sequence, entry in batch for part in _record(ENTRY, sequence, [entry], salt)]


def _write(file: int, parts: Iterable[Part]) -> int:
    """Write all parts, small ones together; return how many bytes."""
    total, gathered = 0, bytearray()
    for part in parts:
        if len(part) < BIG:
            gathered += part
        else:
            total += _put(file, gathered) + _put(file, part)
            gathered = bytearray()
    return total + _put(file, gathered)


def _put(file: int, part: Part | bytearray) -> int:
    rest = memoryview(part)
    while rest:
        done = os.write(file, rest)
        if done <= 0:
            raise OSError(errno.EIO, "a write made no progress")
        rest = rest[done:]
    return len(part)


def _scan(path: Path, number: int) -> _Scan:
    """Read and verify a generation; `BadFile` if not even its header is right."""
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            scan = _read_header(stream, path, number, size)
            while not _read_record(stream, scan, size):
                pass
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {_reason(error).lower()}") from None
    return scan


def _read_header(stream: BufferedReader, path: Path, number: int, size: int) -> _Scan:
    start = stream.read(HEADER.size)
    if not start.startswith(MAGIC[: len(start)]):
        raise BadFile(f"{path}: not written by this package")
    if len(start) < HEADER.size:
        raise BadFile(f"{path}: cut short in its header")
    magic, version, length, salt = HEADER.unpack(start)
    text = stream.read(min(length, size))
    if salt != zlib.crc32(text, zlib.crc32(HEADER.pack(magic, version, length, 0))):
        raise BadFile(f"{path}: damaged in its header")
    if version != FORMAT:
        raise _OtherFormat(f"{path}: of format {version}, not {FORMAT}; use the version of siag that wrote it")
    return _Scan(path, number, json.loads(text), salt, end=stream.tell())


def _read_record(stream: BufferedReader, scan: _Scan, size: int) -> bool:
    """Take in the next record; True if it was the last. A record cut short at the end is what a crash leaves."""
    place = stream.tell()
    head = stream.read(HEAD_SIZE)
    if len(head) < HEAD_SIZE:
        return True
    mark, kind, sequence, length, checksum = HEAD.unpack_from(head)
    if mark != MARK or head[HEAD.size :] != CHECKSUM.pack(zlib.crc32(head[: HEAD.size], scan.salt)):
        if head.strip(b"\0") or any(chunk.strip(b"\0") for chunk in iter(lambda: stream.read(CHUNK), b"")):
            scan.damage = scan.damage or f"damaged at byte {place}"
        return True
    if place + HEAD_SIZE + length > size:
        return True
    if kind == ENTRY:
        entry = stream.read(length)
        intact = zlib.crc32(entry, scan.salt) == checksum
    else:
        intact = _checksum(stream, length, scan.salt) == checksum
    if not intact:
        scan.damage = scan.damage or f"damaged at byte {place}"
        scan.broken = scan.broken or kind != ENTRY
    elif kind == ENTRY:
        scan.entries.append((sequence, entry))
    elif not scan.broken:
        scan.saves.append((kind, place + HEAD_SIZE))
        scan.covers = sequence
        scan.entries = [entry for entry in scan.entries if entry[0] > sequence]
    scan.end = stream.tell()
    return False


def _checksum(stream: BufferedReader, length: int, checksum: int) -> int:
    while length > 0 and (chunk := stream.read(min(length, CHUNK))):
        checksum = zlib.crc32(chunk, checksum)
        length -= len(chunk)
    return checksum


def _compare(path: Path, header: dict[str, Any], identity: dict[str, Any], layout: Layout) -> None:
    """Refuse the state of another server."""
    for what, there, here in (("", header["identity"], identity), ("array ", header["arrays"], layout)):
        for key in sorted({*there, *here}):
            if there.get(key) != here.get(key):
                is_there, is_here = (shorten(side[key]) if key in side else "not given" for side in (there, here))
                raise BadFile(
                    f"{path}: {what}{key} is {is_there} there and {is_here} here; "
                    f"choose another folder, or run what was saved in this one"
                )


def _joined(scans: Sequence[_Scan]) -> tuple[list[bytes], int]:
    """The entries after the last save, the oldest file being the last, up to the first gap; how many are beyond it."""
    entries: list[bytes] = []
    unused, wanted = 0, scans[-1].covers + 1
    for scan in reversed(scans):
        for sequence, entry in scan.entries:
            if sequence == wanted:
                entries.append(entry)
                wanted += 1
            elif sequence > wanted:
                unused += 1
    return entries, unused


def _fill(scan: _Scan, arrays: Arrays, rowwise: set[str]) -> dict[str, Any]:
    """Put the saves of a verified file into the arrays, one after the other; return what was saved with the last."""
    names = _ordered(arrays, rowwise)
    meta: dict[str, Any] = {}
    try:
        with open(scan.path, "rb") as stream:
            for kind, place in scan.saves:
                stream.seek(place)
                length, count = SIZES.unpack(stream.read(SIZES.size))
                meta = json.loads(stream.read(length))
                for name in names:
                    if kind == FULL or name not in rowwise:
                        _read_into(stream, arrays[name])
                if kind == CHANGE:
                    rows = np.empty(count, np.int64)
                    _read_into(stream, rows)
                    for name in (name for name in names if name in rowwise):
                        some = np.empty((count, *arrays[name].shape[1:]), arrays[name].dtype)
                        _read_into(stream, some)
                        arrays[name][rows] = some
    except OSError as error:
        raise BadFile(f"{scan.path}: cannot be read: {_reason(error).lower()}") from None
    return meta


def _read_into(stream: BufferedReader, array: np.ndarray[Any, Any]) -> None:
    whole = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
    if stream.readinto(_raw(whole)) != whole.nbytes:
        raise OSError(errno.EIO, "changed while it was read")
    if whole is not array:
        array[...] = whole


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
