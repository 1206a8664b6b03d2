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
from typing import Any

import numpy as np

from siag.live import wire

PLACE = "/dev/shm"  # files that are memory, on Linux
PREFIX = "siag-"
LEAST = 1 << 16  # bytes of an array; smaller ones are as fast over the connection
SHARE = 2  # of what room there is, at most one part in so many: others need some, Ray for example


class Memory:
    """Numbers that both ends of a connection see: first those of a report, then those of a model.

    Args:
        path: of the file; it is removed as soon as both ends have it, or one has given it up.
        file: its descriptor.
        message: how many numbers a report has.
        shown: how many a model has.

    Attributes:
        report: (message,) what the worker has sent.
        model: (shown,) what the server has answered.
        used: whether the worker is known to have it.
    """

    def __init__(self, path: str, file: int, message: int, shown: int) -> None:
        self.path, self.used, self._there = path, False, True
        mapped = mmap.mmap(file, 8 * (message + shown))
        self.report = np.frombuffer(mapped, np.float64, message)
        self.model = np.frombuffer(mapped, np.float64, shown, 8 * message)

    def remove(self) -> None:
        """Remove the file; the memory is there as long as somebody uses it."""
        if self._there:
            self._there = False
            with suppress(OSError):  # the other end has done it
                os.unlink(self.path)


def same_machine(transport: asyncio.BaseTransport) -> bool:
    """Whether both ends of a connection have the same address."""
    here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    return bool(here and there) and here[0] == there[0]


def offered(transport: asyncio.Transport, hello: dict[str, Any], message: int, shown: int) -> Memory | None:
    """Memory for a worker that asks for it, if it is on this machine, its arrays are large, and there is room."""
    if hello.get("memory") is not True or 8 * min(message, shown) < LEAST:
        return None
    if not wire.NATIVE or not os.path.isdir(PLACE) or not same_machine(transport):
        return None
    try:
        return _made(message, shown)
    except OSError:
        return None


def _made(message: int, shown: int) -> Memory | None:
    size, room = 8 * (message + shown), os.statvfs(PLACE)
    if SHARE * size > room.f_bavail * room.f_frsize:
        return None
    path = f"{PLACE}/{PREFIX}{secrets.token_hex(16)}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(file, 0, size)  # or whoever writes where there is no room would be killed
        return Memory(path, file, message, shown)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(file)


def accepted(path: object, message: int, shown: int) -> Memory | None:
    """The memory a server offers, if it can be had here and is this user's; the file is removed."""
    if not isinstance(path, str) or not wire.NATIVE:
        return None
    folder, name = os.path.split(path)
    if folder != PLACE or not name.startswith(PREFIX):
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(file)
        owned = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not owned or found.st_size != 8 * (message + shown):
            return None
        memory = Memory(path, file, message, shown)
    except OSError:
        return None
    finally:
        os.close(file)
    memory.remove()
    return memory
