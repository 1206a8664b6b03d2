"""The files of a store: generations, each a header and then records, all with checksums.

    header  magic, format, length, checksum, {"identity", "arrays", "generation", "birth"} as JSON
    record  mark, kind, sequence, length, checksum of the content, checksum of all that, content
    content of FULL    length of the JSON, number of rows, JSON, small arrays, all rows
    content of CHANGE  the same, but row numbers and only those rows at its end
    content of ENTRY   what was logged

Entries are numbered. The sequence of a FULL or CHANGE is the number of the last entry it covers, so it does not matter
whether an entry that was logged while the state was being written comes before or after it in the file.
"""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from siag.foundations.errors import BadFile, BadInput, shorten
from siag.foundations.types import Integers

if sys.platform != "win32":
    pass

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


class OtherFormat(BadFile):
    """A generation of another version of this package: not damaged, so nothing older may be used instead."""


@dataclass
class Scan:
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


def generations_in(folder: Path) -> dict[int, Path]:
    """The files of the folder by number."""
    found = ((NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in found if match}


def force_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    if sys.platform == "win32":
        return  # which cannot open a folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def layout_of(arrays: Arrays) -> Layout:
    """Types and shapes by name, as the header and messages show them."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc":
            raise BadInput(name, array.dtype, "an array of numbers or truth values")
    order = "" if sys.byteorder == "little" else f" {sys.byteorder}-endian"
    return {name: f"{array.dtype} {array.shape}{order}" for name, array in arrays.items()}


def in_order(names: Iterable[str], rowwise: set[str]) -> list[str]:
    """Names in the order of the content: small arrays first."""
    return sorted(names, key=lambda name: (name in rowwise, name))


def raw_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def make_content(arrays: Arrays, rowwise: set[str], rows: Integers | None, meta: Mapping[str, Any]) -> list[Part]:
    """A copy of what a save holds: all rows, or some."""
    text = json.dumps(meta).encode()
    parts: list[Part] = [SIZES.pack(len(text), 0 if rows is None else len(rows)) + text]
    names = in_order(arrays, rowwise)
    parts += [raw_bytes(np.array(arrays[name], order="C")) for name in names if rows is None or name not in rowwise]
    if rows is not None:
        parts.append(raw_bytes(rows))
        parts += [raw_bytes(np.take(arrays[name], rows, axis=0)) for name in names if name in rowwise]
    return parts


def make_header(identity: dict[str, Any], layout: Layout, number: int) -> tuple[bytes, int]:
    """The beginning of a file, and the number that ties records to it."""
    about = {"identity": identity, "arrays": layout, "generation": number, "birth": os.urandom(8).hex()}
    text = json.dumps(about).encode()
    salt = zlib.crc32(text, zlib.crc32(HEADER.pack(MAGIC, FORMAT, len(text), 0)))
    return HEADER.pack(MAGIC, FORMAT, len(text), salt) + text, salt


def make_record(kind: int, sequence: int, parts: Sequence[Part], salt: int) -> list[Part]:
    """Put a head before some parts."""
    checksum, length = salt, 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
        length += len(part)
    head = HEAD.pack(MARK, kind, sequence, length, checksum)
    return [head + CHECKSUM.pack(zlib.crc32(head, salt)), *parts]


def make_entries(batch: Sequence[tuple[int, bytes]], salt: int) -> list[Part]:
    """Entries as records."""
    return [part for sequence, entry in batch for part in make_record(ENTRY, sequence, [entry], salt)]


def write_parts(file: int, parts: Iterable[Part]) -> int:
    """Write all parts, small ones together; return how many bytes."""
    total, gathered = 0, bytearray()
    for part in parts:
        if len(part) < BIG:
            gathered += part
        else:
            total += put(file, gathered) + put(file, part)
            gathered = bytearray()
    return total + put(file, gathered)


def put(file: int, part: Part | bytearray) -> int:
    """Write all of a part, however often the system takes only some of it; return how much that was."""
    rest = memoryview(part)
    while rest:
        done = os.write(file, rest)
        if done <= 0:
            raise OSError(errno.EIO, "a write made no progress")
        rest = rest[done:]
    return len(part)


def scan_file(path: Path, number: int) -> Scan:
    """Read and verify a generation; `BadFile` if not even its header is right."""
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            scan = read_header(stream, path, number, size)
            while not read_record(stream, scan, size):
                pass
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {reason_of(error).lower()}") from None
    return scan


def read_header(stream: BufferedReader, path: Path, number: int, size: int) -> Scan:
    """The header of a generation, if it is one."""
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
        raise OtherFormat(f"{path}: of format {version}, not {FORMAT}; use the version of siag that wrote it")
    return Scan(path, number, json.loads(text), salt, end=stream.tell())


def read_record(stream: BufferedReader, scan: Scan, size: int) -> bool:
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
        intact = checksum_of(stream, length, scan.salt) == checksum
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


def checksum_of(stream: BufferedReader, length: int, checksum: int) -> int:
    """The checksum of so many bytes more."""
    while length > 0 and (chunk := stream.read(min(length, CHUNK))):
        checksum = zlib.crc32(chunk, checksum)
        length -= len(chunk)
    return checksum


def compare(path: Path, header: dict[str, Any], identity: dict[str, Any], layout: Layout) -> None:
    """Refuse the state of another server."""
    for what, there, here in (("", header["identity"], identity), ("array ", header["arrays"], layout)):
        for key in sorted({*there, *here}):
            if there.get(key) != here.get(key):
                is_there, is_here = (shorten(side[key]) if key in side else "not given" for side in (there, here))
                raise BadFile(
                    f"{path}: {what}{key} is {is_there} there and {is_here} here; "
                    f"choose another folder, or run what was saved in this one"
                )


def join_entries(scans: Sequence[Scan]) -> tuple[list[bytes], int]:
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


def fill_arrays(scan: Scan, arrays: Arrays, rowwise: set[str]) -> dict[str, Any]:
    """Put the saves of a verified file into the arrays, one after the other; return what was saved with the last."""
    names = in_order(arrays, rowwise)
    meta: dict[str, Any] = {}
    try:
        with open(scan.path, "rb") as stream:
            for kind, place in scan.saves:
                stream.seek(place)
                length, count = SIZES.unpack(stream.read(SIZES.size))
                meta = json.loads(stream.read(length))
                for name in names:
                    if kind == FULL or name not in rowwise:
                        read_into(stream, arrays[name])
                if kind == CHANGE:
                    rows = np.empty(count, np.int64)
                    read_into(stream, rows)
                    for name in (name for name in names if name in rowwise):
                        some = np.empty((count, *arrays[name].shape[1:]), arrays[name].dtype)
                        read_into(stream, some)
                        arrays[name][rows] = some
    except OSError as error:
        raise BadFile(f"{scan.path}: cannot be read: {reason_of(error).lower()}") from None
    return meta


def read_into(stream: BufferedReader, array: np.ndarray[Any, Any]) -> None:
    """Fill an array from the file."""
    whole = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
    if stream.readinto(raw_bytes(whole)) != whole.nbytes:
        raise OSError(errno.EIO, "changed while it was read")
    if whole is not array:
        array[...] = whole


def reason_of(error: Exception) -> str:
    """An error in words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
