"""The network runtime, server side: the door. Who may come in, how many, how slowly; what they say is for others."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

from siag.live import wire
from siag.live.transports.tcp.connection import GRACE, Connection, Limits, refusal
from siag.live.transports.waiting import Spinner

PAUSE = 0.05  # seconds before another try of what the system would not do
SLOWEST = 1 << 16  # bytes per second; a frame may take longer, the larger it is
RESERVE = 64  # file descriptors for everything but connections
UNREAD = 1 << 16  # bytes a worker need not have read; and two models, if that is more
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}  # a machine that is gone is noticed in 90 s


class Door(ABC):
    """All connections of a server.

    Args:
        limits: on connections.
        context: for TLS.
        shown: bytes of what workers read.
        spinner: what the event loop looks with before it sleeps, when workers on this machine are there.
    """

    def __init__(
        self, limits: Limits, context: ssl.SSLContext | None, shown: int, spinner: Spinner | None = None
    ) -> None:
        self.limits = limits
        self.before: wire.Expected = {wire.HELLO: wire.ASKED}
        self.unread = max(UNREAD, 2 * (shown + wire.HEADER.size))
        self.connections: set[Connection] = set()
        self.garbage = 0  # connections that were closed for what they sent
        self._context = context
        self._room = _room(limits.connections)
        self._arriving: dict[socket.socket, float] = {}  # who is shaking hands, and since when
        self._tasks: set[asyncio.Task[None]] = set()
        self._spinner = Spinner() if spinner is None else spinner
        self._near: set[Connection] = set()  # connections from this machine

    @abstractmethod
    def heed(self, connection: Connection, head: wire.Head, payload: memoryview) -> None:
        """A frame has come, one that was expected."""

    @abstractmethod
    def bad_frame(self, connection: Connection, reason: str) -> None:
        """What has come is no frame that was expected, or not all of it came in time."""

    def came(self, connection: Connection) -> None:
        """A connection is here."""
        self.connections.add(connection)
        if connection.near:
            self._near.add(connection)
            self._spinner.able = True

    def lost(self, connection: Connection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self._near.discard(connection)
        self._spinner.able = bool(self._near)

    async def accept(self, listener: socket.socket) -> None:
        """Let in whoever calls, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                caller, _ = await loop.sock_accept(listener)
            except OSError:  # no more file descriptors, or the caller has gone again
                await asyncio.sleep(4 * PAUSE)
                continue
            if self._make_room():
                self._arriving[caller] = time.monotonic()
                task = loop.create_task(self._let_in(caller))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                with suppress(OSError):
                    if self._context is None:
                        caller.send(refusal("too many connections", False))
                caller.close()

    async def _let_in(self, caller: socket.socket) -> None:
        """Shake hands."""
        loop = asyncio.get_running_loop()
        try:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE.items():
                if hasattr(socket, name):
                    caller.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            times: dict[str, Any] = {}
            if self._context is not None:
                times = {"ssl_handshake_timeout": self.limits.hello, "ssl_shutdown_timeout": GRACE}
            await loop.connect_accepted_socket(lambda: Connection(self), caller, ssl=self._context, **times)
        except OSError:
            self.garbage += 1
            caller.close()
        finally:
            self._arriving.pop(caller, None)

    def _make_room(self) -> bool:
        """Whether one more may come in; somebody who has not said hello goes for it, the one who had most time to."""
        if len(self.connections) + len(self._arriving) < self._room:
            return True
        strangers = [each for each in self.connections if each.row is None and not each.closing]
        oldest = min(strangers, key=lambda each: each.due, default=None)
        shaking = next(iter(self._arriving), None)  # they are in order
        if shaking is not None and (oldest is None or self._arriving[shaking] + self.limits.hello < oldest.due):
            self._turn_away(shaking)
        elif oldest is not None:
            oldest.closing = True
            self.connections.discard(oldest)
            oldest.transport.abort()
        else:
            return False
        return True

    def _turn_away(self, caller: socket.socket) -> None:
        """End a handshake: it will find that the other end has hung up."""
        del self._arriving[caller]
        with suppress(OSError):
            caller.shutdown(socket.SHUT_RDWR)

    def deadline(self, size: int) -> float:
        """When so many bytes that begin to travel now must have arrived."""
        return time.monotonic() + self.limits.frame + size / SLOWEST

    def sweep(self, now: float) -> None:
        """Hang up on whoever is too slow."""
        for connection in [each for each in self.connections if now > each.due or now > each.read_by]:
            if connection.closing or now > connection.read_by:
                connection.transport.abort()
            else:
                self.bad_frame(connection, "no complete frame in time")

    async def close(self) -> None:
        """Wait until they have hung up, a worker that hears goodbye does; then hang up."""
        for caller in list(self._arriving):
            self._turn_away(caller)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        for patience in (GRACE, GRACE / 2):
            until = time.monotonic() + patience
            while self.connections and time.monotonic() < until:
                await asyncio.sleep(PAUSE / 5)
            for connection in list(self.connections):
                if connection.closing:
                    connection.transport.abort()
                else:
                    connection.hang_up()
        await asyncio.sleep(0)
        for connection in self.connections:
            connection.forget_memory()


def _room(wanted: int) -> int:
    """How many connections there may be: as many as wanted, if the system lets this process have them."""
    try:
        import resource
    except ImportError:
        return wanted
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if limit == resource.RLIM_INFINITY else max(1, min(wanted, limit - RESERVE))
