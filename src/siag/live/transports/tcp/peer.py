"""One connection over TCP or TLS: asyncio's bytes to the reception, and its actions to asyncio."""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from siag.foundations.encodings import put
from siag.live.protocol import wire
from siag.live.protocol.reception import SendModel
from siag.live.transports.tcp.memory import Memory, offered, same_machine

if TYPE_CHECKING:
    from siag.live.transports.tcp.endpoint import Endpoint

PIECE = 1 << 16  # bytes that are encrypted at a time: what is encrypted stays in the cache until it is sent
NOWHERE = memoryview(bytearray(wire.STAGE))  # for what is sent to a connection that is being closed


class Peer(asyncio.BufferedProtocol):
    """Carries one connection of an endpoint.

    Attributes:
        transport: asyncio's.
        near: whether the other end is on this machine.
        arrival: the task that lets it in.
        shaking: since when it has been shaking hands; infinity before.
        socket: what the transport sends with, if it is not encrypted.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._reception = endpoint, endpoint.reception
        self.transport: asyncio.Transport
        self.arrival: asyncio.Task[None]
        self.near, self.shaking = False, math.inf
        self.socket: socket.socket | None = None
        self._memory: Memory | None = None  # that it was offered, and has not declined

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has called."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self._reception.unread())
        self.near = same_machine(transport)
        address = transport.get_extra_info("peername")
        self.connection = self._reception.open(self, time.monotonic(), str(address[0]) if address else "")
        self._buffer: Callable[[], memoryview] = self.connection.reader.buffer
        self._endpoint.count(self, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; the worker's row stays."""
        self.forget_memory()
        self._reception.lost(self.connection, time.monotonic())
        self._endpoint.count(self, -1)

    def pause_writing(self) -> None:
        """The other end does not read what it is sent: this one stops reading from it, until it does."""
        if self._reception.pause(self.connection, time.monotonic()):
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """It has read."""
        if self.connection.paused:
            self.transport.resume_reading()
            self._endpoint.perform(self._reception.resume(self.connection, time.monotonic()))

    def hang_up(self) -> None:
        """Let the other end read what it was sent; it hangs up then, or is cut off when it has had its time.

        To close a connection on which something has come meanwhile would take back what was sent.
        """
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        try:
            self.transport.write_eof()
        except OSError:  # it has hung up itself, and asyncio does not know yet
            self.transport.abort()

    def send(self, head: bytes, numbers: memoryview) -> None:
        """Send numbers from where they are, which may change then: what the system does not take at once is copied."""
        if self.socket is None:
            self.transport.write(head + numbers[:PIECE])  # together, or the other end is woken twice
            for first in range(PIECE, len(numbers), PIECE):
                self.transport.write(bytes(numbers[first : first + PIECE]))
            return
        sent = 0
        if not self.transport.get_write_buffer_size():
            with suppress(OSError):  # it is full, or gone: the transport sees to both
                sent = self.socket.sendmsg([head, numbers])
        if sent < len(head):
            self.transport.write(head[sent:] + numbers)
        elif sent < len(head) + len(numbers):
            self.transport.write(bytes(numbers[sent - len(head) :]))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a large array straight to its place."""
        return NOWHERE if self.connection.closing else self._buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self._endpoint.perform(self._reception.receive(self.connection, nbytes, time.monotonic()))

    # Memory that is shared

    def offer_memory(self, hello: dict[str, Any], message: int, shown: int) -> dict[str, Any]:
        """What a welcome says of memory to share, given a hello and how many numbers reports and models have."""
        self.forget_memory()
        self.connection.reader.tap = self._tap
        self._memory = offered(self.transport, hello, message, shown, self._reception.encoding)
        return {} if self._memory is None else {"memory": self._memory.path}

    def forget_memory(self) -> None:
        """Share no memory any longer."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.remove()

    def _tap(self, head: wire.Head, payload: memoryview) -> tuple[wire.Head, memoryview]:
        """A report in shared memory is passed on as if it had been sent."""
        if head.kind == wire.SHARED_REPORT:
            memory = self._memory
            if memory is None:
                raise wire.BadFrame("SHARED_REPORT: there is no memory that is shared")
            memory.remove()  # now that the worker is known to have it
            payload = memory.report.data.cast("B")
            return wire.Head(len(payload), wire.REPORT, *head[2:]), payload
        if head.kind == wire.REPORT:
            self.forget_memory()  # it could not be had there
        return head, payload

    def show(self, action: SendModel) -> bool:
        """Show w in shared memory, if the worker uses that."""
        memory = self._memory
        if memory is None or not memory.removed:
            return False
        put(self._reception.server.shown, memory.model)
        self.transport.write(action.before + wire.head(wire.SHARED_MODEL, 0, action.version))
        return True
