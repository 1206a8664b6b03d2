"""Generations as they are read: found in a folder, verified record by record, put back into arrays.

What is read may be in use: a server that is at work appends to the newest generation, and a record that is not whole
yet looks as one that a crash has cut short.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.errors import BadFile, reason_of, shorten
from siag.storage import records
from siag.storage.disk import LOCAL, Disk, Place
from siag.storage.records import Arrays, Layout

NAME = re.compile(r"state-(\d{6,})\.siag")


class OtherFormat(BadFile):
    """A generation of another version of this package: not damaged, so nothing older may be used instead."""


class Save(NamedTuple):
    """A checkpoint that is in a file."""

    meta: dict[str, Any]  # what was saved with the arrays
    rows: int  # how many of them there are
    place: int  # where the arrays begin


@dataclass
class Scan:
    """What one generation holds, verified, arrays left on disk."""

    disk: Disk
    path: str
    number: int
    header: dict[str, Any]
    salt: int
    saves: list[Save] = field(default_factory=list)  # the first of the whole state, the others of what changed
    covers: int = 0  # the last entry that the last of them covers
    entries: list[tuple[int, bytes]] = field(default_factory=list)
    end: int = 0  # of the last intact record
    damage: str = ""  # where it begins
    broken: bool = False  # whether a save is damaged; what changed after it says nothing
    written: float = 0.0  # when the file was last written to, in seconds since 1970

    @property
    def meta(self) -> dict[str, Any]:
        """What was saved with the arrays of the last save."""
        return self.saves[-1].meta


def generations_in(folder: Place, disk: Disk = LOCAL) -> dict[int, str]:
    """The files of the folder by number."""
    found = ((NAME.fullmatch(name), name) for name in disk.names(folder))
    return {int(match[1]): f"{os.fspath(folder)}/{name}" for match, name in found if match}


def good_scans(
    generations: Mapping[int, str], disk: Disk, check: Callable[[Scan], None], remedy: str
) -> tuple[list[Scan], list[str]]:
    """The generations from the newest back to the first with an intact save, and what was damaged, a line each.

    `check` raises `BadFile` if a generation is of no use here, though not damaged; that is said, unless no save is
    intact in it anyway. `remedy` helps if none is good.
    """
    scans: list[Scan] = []
    refused: list[str] = []
    for number, path in sorted(generations.items(), reverse=True):
        try:
            scan = scan_file(path, number, disk)
        except OtherFormat:
            raise
        except BadFile as error:
            refused.append(str(error))
            continue
        try:
            check(scan)
        except BadFile as error:
            if scan.saves:
                raise BadFile("; ".join((*refused, str(error)))) from None
        else:
            scans.append(scan)
        if scan.saves:
            remarks = [f"{reason}; used generation {number}" for reason in refused]
            if scan.damage:
                remarks.append(f"generation {number} is {scan.damage}; used what is intact of it")
            return scans, remarks
        refused.append(f"{path}: {scan.damage or 'cut short'}, no save in it is intact")
    raise BadFile(f"{'; '.join(refused)}; {remedy}")


@contextmanager
def _opened(disk: Disk, path: str) -> Iterator[BufferedIOBase]:
    """A generation to be read; `BadFile` if it cannot be."""
    try:
        with disk.read(path) as stream:
            yield stream
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {reason_of(error)}") from None


def scan_file(path: str, number: int, disk: Disk = LOCAL) -> Scan:
    """Read and verify a generation; `BadFile` if not even its header is right."""
    with _opened(disk, path) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        found = disk.stat(path)
        header, salt = read_header(stream, path, size)
        scan = Scan(disk, path, number, header, salt, end=stream.tell(), written=found.modified if found else 0.0)
        while not read_record(stream, scan, size):
            pass
    return scan


def read_header(stream: BufferedIOBase, path: str, size: int) -> tuple[dict[str, Any], int]:
    """The header of a generation, if it is one, and the number that ties records to it."""
    start = stream.read(records.HEADER.size)
    if not start.startswith(records.MAGIC[: len(start)]):
        raise BadFile(f"{path}: not written by this package")
    if len(start) < records.HEADER.size:
        raise BadFile(f"{path}: cut short in its header")
    magic, version, length, salt = records.HEADER.unpack(start)
    text = stream.read(min(length, size))
    if salt != zlib.crc32(text, zlib.crc32(records.HEADER.pack(magic, version, length, 0))):
        raise BadFile(f"{path}: damaged in its header")
    if version != records.FORMAT:
        raise OtherFormat(f"{path}: of format {version}, not {records.FORMAT}; move it away, or choose another folder")
    return json.loads(text), salt


def newest_identity(folder: Place, disk: Disk) -> dict[str, Any]:
    """What the newest generation is of, as far as its header can be read; nothing if it cannot, or there is none."""
    with suppress(OSError, BadFile):
        for _, path in sorted(generations_in(folder, disk).items())[-1:]:
            with disk.read(path) as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(0)
                return dict(read_header(stream, path, size)[0]["identity"])
    return {}


def read_record(stream: BufferedIOBase, scan: Scan, size: int) -> bool:
    """Take in the next record; True if it was the last. A record cut short at the end is what a crash leaves."""
    place = stream.tell()
    head = stream.read(records.HEAD_SIZE)
    if len(head) < records.HEAD_SIZE:
        return True
    mark, kind, sequence, length, checksum = records.HEAD.unpack_from(head)
    known = records.CHECKSUM.pack(zlib.crc32(head[: records.HEAD.size], scan.salt))
    if mark != records.MARK or head[records.HEAD.size :] != known:
        if head.strip(b"\0") or any(chunk.strip(b"\0") for chunk in iter(lambda: stream.read(records.CHUNK), b"")):
            scan.damage = scan.damage or f"damaged at byte {place}"
        return True
    if kind not in (records.CHECKPOINT, records.ENTRY):
        raise OtherFormat(f"{scan.path}: a record of kind {kind}, unknown here; move it away, or choose another folder")
    if place + records.HEAD_SIZE + length > size:
        return True
    if checksum_of(stream, length, scan.salt) != checksum:
        scan.damage = scan.damage or f"damaged at byte {place}"
        scan.broken = scan.broken or kind != records.ENTRY
    elif kind == records.ENTRY:
        stream.seek(place + records.HEAD_SIZE)
        scan.entries.append((sequence, stream.read(length)))
    elif not scan.broken:
        scan.saves.append(_read_save(stream, place + records.HEAD_SIZE))
        scan.covers = sequence
        scan.entries = [entry for entry in scan.entries if entry[0] > sequence]
    scan.end = stream.seek(place + records.HEAD_SIZE + length)
    return False


def _read_save(stream: BufferedIOBase, place: int) -> Save:
    """What comes before the arrays of a checkpoint."""
    stream.seek(place)
    length, rows = records.SIZES.unpack(stream.read(records.SIZES.size))
    return Save(json.loads(stream.read(length)), rows, stream.tell())


def checksum_of(stream: BufferedIOBase, length: int, checksum: int) -> int:
    """The checksum of the next bytes."""
    while length > 0 and (chunk := stream.read(min(length, records.CHUNK))):
        checksum = zlib.crc32(chunk, checksum)
        length -= len(chunk)
    return checksum


def compare(path: str, header: dict[str, Any], identity: dict[str, Any], layout: Layout) -> None:
    """Refuse the state of another server."""
    for what, there, here in (("", header["identity"], identity), ("array ", header["arrays"], layout)):
        for key in sorted({*there, *here}, key=lambda key: (key == "method", key)):  # with it other things differ
            if there.get(key) != here.get(key):
                is_there, is_here = (shorten(side[key]) if key in side else "not given" for side in (there, here))
                raise BadFile(
                    f"{path}: {what}{key} is {is_there} there and {is_here} here; run what was saved in this folder, "
                    f"or go on from its w in another: siag export writes it, w0 takes it"
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


def fill_arrays(scan: Scan, arrays: Arrays) -> None:
    """Put the saves of a verified file into the arrays, one after the other."""
    small, rowwise = records.in_order(records.layout_of(arrays), scan.header["identity"].get("n"))
    with _opened(scan.disk, scan.path) as stream:
        for k, save in enumerate(scan.saves):
            stream.seek(save.place)
            for name in small:
                read_into(stream, arrays[name])
            rows = np.empty(save.rows, np.int64)
            read_into(stream, rows)
            for name in rowwise:
                if k == 0 and save.rows == len(arrays[name]):  # all of them, in order
                    read_into(stream, arrays[name])
                    continue
                some = np.empty((save.rows, *arrays[name].shape[1:]), arrays[name].dtype)
                read_into(stream, some)
                if k == 0:
                    arrays[name][...] = 0
                arrays[name][rows] = some


def all_saves(folder: Place, disk: Disk) -> Iterator[Scan]:
    """The intact saves of a folder, the oldest first: each a file without what comes after."""
    for number, path in sorted(generations_in(folder, disk).items()):
        try:
            scan = scan_file(path, number, disk)
        except OtherFormat:
            raise
        except BadFile:  # another file may have the save
            continue
        for count in range(1, len(scan.saves) + 1):
            yield replace(scan, saves=scan.saves[:count], covers=0, entries=[])


def read_array(scan: Scan, name: str) -> np.ndarray[Any, Any]:
    """One array of the last save of a verified file; what is saved by rows stays there."""
    small, _ = records.in_order(scan.header["arrays"], scan.header["identity"].get("n"))
    if name not in small:
        raise BadFile(f"{scan.path}: holds no {name}")
    with _opened(scan.disk, scan.path) as stream:
        stream.seek(scan.saves[-1].place)
        for other in small:
            kind, shape = records.form_of(scan.header["arrays"][other])
            if other == name:
                break
            stream.seek(kind.itemsize * math.prod(shape), os.SEEK_CUR)
        array = np.empty(shape, kind)
        read_into(stream, array)
    return array


def read_into(stream: BufferedIOBase, array: np.ndarray[Any, Any]) -> None:
    """Fill an array from the file."""
    whole = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
    if stream.readinto(records.raw_bytes(whole)) != whole.nbytes:
        raise OSError(errno.EIO, "changed while it was read")
    if whole is not array:
        array[...] = whole
