"""The network runtime, server side: one connection, as bytes that become frames."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats
from siag.live import wire
from siag.live.transports.tcp.memory import Memory, offered, same_machine
from siag.live.wire import STAGE

if TYPE_CHECKING:
    from siag.live.transports.tcp.acceptor import Door

GRACE = 1.0  # seconds in which the other end may hang up before this one insists


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a connection may take.

    Args:
        connections: at most so many at a time; one without a hello makes room for a newer one.
        hello: seconds from the connection to a complete hello.
        frame: seconds from the first byte of a frame to its last; large ones have longer, as if over a slow line.
    """

    connections: int = 2000
    hello: float = 10.0
    frame: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "connections", check.integer("connections", self.connections))
        for name in ("hello", "frame"):
            object.__setattr__(self, name, check.real(name, getattr(self, name), above=0))


class Connection(asyncio.BufferedProtocol):
    """One worker's connection: bytes become frames, frames become calls of the session."""

    def __init__(self, hub: Door) -> None:
        self._hub = hub
        self._stage = bytearray(STAGE)
        self._view = memoryview(self._stage)
        self._filled = 0
        self._head: wire.Head | None = None  # of a large array on its way
        self._array: memoryview | None = None  # where large arrays go, one after the other
        self._got = 0
        self._full = False  # whether it has been sent more than it reads
        self.expected = hub.before
        self.row: int | None = None
        self.waits = False  # whether an answer is owed to it
        self.closing = False
        self.near = False  # whether it is from this machine
        self.due = time.monotonic() + hub.limits.hello  # when what is on its way must be complete
        self.read_by = math.inf  # when it must have read what it was sent
        self.transport: asyncio.Transport
        self._memory: Memory | None = None  # that it was offered, and has not declined

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has called."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self._hub.unread)
        self.near = same_machine(transport)
        self._hub.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; the worker's row stays."""
        self.closing = True
        self.forget_memory()
        self._hub.lost(self)

    def pause_writing(self) -> None:
        """It does not read what it is sent: neither do we, until it does."""
        self._full = True
        self.read_by = self._hub.deadline(self._hub.unread)
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """It has read."""
        self._full, self.read_by = False, math.inf
        if not self.closing:
            self.transport.resume_reading()
            self.buffer_updated(0)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a large array straight to its place."""
        if self.closing:
            return self._view  # and nowhere from there
        if self._head is not None and self._array is not None:
            return self._array[self._got :]
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        if self.closing:
            return
        try:
            if self._head is None:
                self._filled += nbytes
                self._take_frames()
            else:
                self._got += nbytes
                if self._got == self._head.length:
                    self._complete_large(self._head)
        except wire.BadFrame as error:
            self._hub.bad_frame(self, str(error))

    def _take_frames(self) -> None:
        """Handle every complete frame on the stage; begin to receive a large one."""
        first, size = 0, wire.HEADER.size
        while self._filled - first >= size and not self.closing and not self._full:
            head = wire.parse_head(self._stage, self.expected, first)
            end = first + size + head.length
            if end <= self._filled:
                self._heed(head, self._view[first + size : end])
                first = end
            elif size + head.length > STAGE:
                self._begin_large(head, first + size)
                return
            else:
                break
        if first:
            self._stage[: self._filled - first] = self._stage[first : self._filled]
            self._filled -= first
        if self.row is not None:
            if not self._filled:
                self.due = math.inf
            elif first or self.due == math.inf:
                self.due = self._hub.deadline(0)

    def _begin_large(self, head: wire.Head, first: int) -> None:
        if self._array is None:
            self._array = np.empty(head.length, np.uint8).data
        self._head, self._got = head, self._filled - first
        self._array[: self._got] = self._view[first : self._filled]
        self._filled = 0
        self.due = self._hub.deadline(head.length)

    def _complete_large(self, head: wire.Head) -> None:
        self._head, self.due = None, math.inf
        if self._array is not None:
            self._heed(head, self._array)

    def _heed(self, head: wire.Head, payload: memoryview) -> None:
        """Pass a frame on; a report in shared memory as if it had been sent."""
        if head.kind == wire.SHARED_REPORT:
            memory = self._memory
            if memory is None:
                raise wire.BadFrame("SHARED_REPORT: there is no memory that is shared")
            memory.used = True
            memory.remove()
            payload = memory.report.data.cast("B")
            head = wire.Head(len(payload), wire.REPORT, head.stamp, head.sample)
        elif head.kind == wire.REPORT:
            self.forget_memory()  # it could not be had there
        self._hub.heed(self, head, payload)

    def offer_memory(self, hello: dict[str, Any], message: int, shown: int) -> dict[str, str]:
        """What a welcome says of memory to share, given a hello and how many numbers reports and models have."""
        self.forget_memory()
        self._memory = offered(self.transport, hello, message, shown)
        return {} if self._memory is None else {"memory": self._memory.path}

    def forget_memory(self) -> None:
        """Share no memory any longer."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.remove()

    def show(self, said: bytes, version: int, shown: Floats) -> bool:
        """Say something and show w in shared memory, if the worker uses that."""
        memory = self._memory
        if memory is None or not memory.used:
            return False
        memory.model[:] = shown
        self.transport.write(said + wire.head(wire.SHARED_MODEL, 0, version))
        return True

    def refuse(self, reason: str, *, final: bool) -> None:
        """Say why, and hang up."""
        if not self.closing:
            self.transport.write(refusal(reason, final))
            self.hang_up()

    def hang_up(self) -> None:
        """Let it read what it was sent, for a while, and end the connection."""
        self.closing = True
        self.due = time.monotonic() + GRACE
        self.transport.close()


def refusal(reason: str, final: bool) -> bytes:
    """A frame that says no."""
    return wire.text(wire.REFUSAL, {"reason": reason, "final": final})
