"""The network runtime on one machine: memory that a server and a worker share, so that large arrays are not sent.

The connection stays, and says when something is there. Only for workers that the server trusts: one could change its
numbers after the guard has seen them, or cut the file off.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import secrets
import stat
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from siag.foundations.encodings import FLOAT64, NATIVE, Encoding
from siag.foundations.types import Floats
from siag.live.protocol import wire

PLACE = "/dev/shm"  # files that are memory, on Linux
PREFIX = "siag-"
LEAST = 1 << 16  # bytes of an array; smaller ones are as fast over the connection
SHARE = 2  # at most half of the room there is: others need some, Ray for example


class Memory:
    """Numbers that both ends of a connection see: first those of a report, then those of a model.

    Args:
        path: of the file.
        file: its descriptor.
        message: how many numbers a report has.
        shown: how many a model has.
        encoding: of the report; the model is in the numbers of its `model`.

    Attributes:
        report: what the worker has sent, as it travels.
        model: (shown,) what the server has answered.
        removed: whether the file is, as it is once both ends have it, or one has given it up.
    """

    def __init__(self, path: str, file: int, message: int, shown: int, encoding: Encoding) -> None:
        self.path, self.removed = path, False
        mapped = mmap.mmap(file, bytes_of(message, shown, encoding))
        self.report: Floats = np.frombuffer(mapped, encoding.dtype, encoding.length(message))
        self.model: Floats = np.frombuffer(mapped, encoding.model.dtype, shown, _place_of_model(message, encoding))

    def remove(self) -> None:
        """Remove the file; the memory is there as long as somebody uses it."""
        if not self.removed:
            self.removed = True
            with suppress(OSError):  # the other end has done it
                os.unlink(self.path)

    def show(self, head: wire.Head, payload: memoryview) -> tuple[wire.Head, memoryview]:
        """A model that is here is passed on as if it had been sent."""
        if head.kind != wire.SHARED_MODEL:
            return head, payload
        return wire.Head(self.model.nbytes, wire.MODEL, head.stamp, head.sample), self.model.data.cast("B")


def bytes_of(message: int, shown: int, encoding: Encoding) -> int:
    """How large the memory is for a report and a model of this many numbers."""
    return _place_of_model(message, encoding) + encoding.model.size(shown)


def _place_of_model(message: int, encoding: Encoding) -> int:
    """Where the model begins: after the report, at a multiple of the size of its numbers."""
    each = encoding.model.dtype.itemsize
    return -(-encoding.size(message) // each) * each


def same_machine(transport: asyncio.BaseTransport) -> bool:
    """Whether both ends of a connection have the same address."""
    here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return bool(here and there) and here[0] == there[0]


def offered(
    transport: asyncio.Transport, hello: dict[str, Any], message: int, shown: int, encoding: Encoding = FLOAT64
) -> Memory | None:
    """Memory for a worker that asks for it, if it is on this machine, its arrays are large, and there is room."""
    if hello.get("memory") is not True or min(encoding.size(message), encoding.model.size(shown)) < LEAST:
        return None
    if not NATIVE or not os.path.isdir(PLACE) or not same_machine(transport):
        return None
    with suppress(OSError):
        return _made(message, shown, encoding)
    return None


def _made(message: int, shown: int, encoding: Encoding) -> Memory | None:
    size, room = bytes_of(message, shown, encoding), os.statvfs(PLACE)
    if SHARE * size > room.f_bavail * room.f_frsize:
        return None
    path = f"{PLACE}/{PREFIX}{secrets.token_hex(16)}"
    with open(path, "x+b", buffering=0, opener=partial(os.open, mode=0o600)) as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # else a write where there is no room kills the process
            return Memory(path, file.fileno(), message, shown, encoding)
        except BaseException:
            os.unlink(path)
            raise


def accepted(path: object, message: int, shown: int, encoding: Encoding = FLOAT64) -> Memory | None:
    """The memory a server offers, if it can be had here and is this user's; the file is removed."""
    if not isinstance(path, str) or not NATIVE:
        return None
    folder, name = os.path.split(path)
    if folder != PLACE or not name.startswith(PREFIX):
        return None
    try:
        with open(path, "r+b", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
            found = os.fstat(file.fileno())
            owned = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
            if not owned or found.st_size != bytes_of(message, shown, encoding):
                return None
            memory = Memory(path, file.fileno(), message, shown, encoding)
    except (OSError, ValueError):
        return None
    memory.remove()
    return memory
