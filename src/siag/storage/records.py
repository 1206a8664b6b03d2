"""What the files of a state are made of: a header and then records, all with checksums.

    header  magic, format, length, checksum, {"identity", "arrays", "generation", "birth"} as JSON
    record  mark, kind, sequence, length, checksum of the content, checksum of all that, content
    content of a CHECKPOINT          length of the JSON, number of rows, JSON, small arrays, row numbers, these rows
    content of an ENTRY              what was logged

A file begins with a checkpoint of the whole state; rows that are not in it are 0. Later ones have the rows that
changed. Entries of the write-ahead log are numbered. The sequence of a checkpoint is the number of the last entry it
covers, so it does not matter whether an entry that was logged while the checkpoint was being written comes before or
after it in the file.
"""

from __future__ import annotations

import errno
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from siag.foundations.errors import BadInput
from siag.foundations.types import Integers
from siag.storage.disk import File

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
Layout: TypeAlias = dict[str, str]
Part: TypeAlias = bytes | memoryview

MAGIC = b"\x89siag\r\n\x1a"
FORMAT = 10
HEADER = struct.Struct("<8sIII")  # magic, format, length of the JSON, checksum of magic to length and JSON
HEAD = struct.Struct("<4sB3xQQI")  # mark, kind, sequence, length, checksum; its own checksum follows
CHECKSUM = struct.Struct("<I")
SIZES = struct.Struct("<II")  # length of the JSON, number of rows
MARK = b"\xf5rec"
CHECKPOINT, ENTRY = 1, 2
HEAD_SIZE = HEAD.size + CHECKSUM.size
BIG = 1 << 16  # smaller parts are gathered before they are written
CHUNK = 1 << 20


def layout_of(arrays: Arrays) -> Layout:
    """Types and shapes by name, as the header and messages show them; `form_of` reads them."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc":
            raise BadInput(name, array.dtype, "an array of numbers or truth values")
    return {name: f"{array.dtype.str} {array.shape}" for name, array in arrays.items()}


def form_of(text: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape of an array, from a `Layout`.

    >>> form_of("<f8 (5, 3)")
    (dtype('float64'), (5, 3))
    >>> form_of("|b1 (4,)")
    (dtype('bool'), (4,))
    """
    kind, _, shape = text.partition(" ")  # not parsed by `ast`, which Python 3.11 can use in one thread only
    return np.dtype(kind), tuple(int(size) for size in shape.strip("()").split(",") if size)


def in_order(layout: Layout, n: int | None) -> tuple[list[str], list[str]]:
    """The names of arrays that are saved whole, and of those saved by rows: with a row for each of n workers."""
    shapes = {name: form_of(text)[1] for name, text in sorted(layout.items())}
    rowwise = [name for name, shape in shapes.items() if len(shape) >= 2 and shape[0] == n]
    return [name for name in shapes if name not in rowwise], rowwise


def raw_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def make_content(arrays: Arrays, n: int | None, rows: Integers, meta: Mapping[str, Any]) -> list[Part]:
    """A copy of what a save holds: these rows, and all that is not kept by rows."""
    small, rowwise = in_order(layout_of(arrays), n)
    text = json.dumps(meta).encode()
    parts: list[Part] = [SIZES.pack(len(text), len(rows)) + text]
    parts += [raw_bytes(np.array(arrays[name], order="C")) for name in small]
    return [*parts, raw_bytes(rows), *(raw_bytes(np.take(arrays[name], rows, axis=0)) for name in rowwise)]


def all_rows(arrays: Arrays, n: int | None, blank: Integers) -> Integers:
    """The rows that a checkpoint of the whole state needs: all, without those that are blank, as they were made.

    Rows are made alike, so one of them tells whether they are 0.
    """
    rowwise = in_order(layout_of(arrays), n)[1]
    rows = np.arange(n or 0)
    zero = len(blank) > 0 and not any(arrays[name][blank[-1]].any() for name in rowwise)
    return np.setdiff1d(rows, blank) if zero else rows


def make_header(
    identity: dict[str, Any], layout: Layout, number: int, entropy: Callable[[int], bytes]
) -> tuple[bytes, int]:
    """The beginning of a file, and the number that ties records to it."""
    about = {"identity": identity, "arrays": layout, "generation": number, "birth": entropy(8).hex()}
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


def write_parts(file: File, parts: Iterable[Part]) -> int:
    """Write all parts, small ones together; return how many bytes."""
    total, gathered = 0, bytearray()
    for part in parts:
        if len(part) < BIG:
            gathered += part
        else:
            total += put(file, gathered) + put(file, part)
            gathered = bytearray()
    return total + put(file, gathered)


def put(file: File, part: Part | bytearray) -> int:
    """Write all of a part, however often the system takes only some of it; return how much that was."""
    rest = memoryview(part)
    while rest:
        done = file.write(rest)
        if done <= 0:
            raise OSError(errno.EIO, "a write made no progress")
        rest = rest[done:]
    return len(part)
