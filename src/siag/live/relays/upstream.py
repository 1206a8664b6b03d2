"""Drives a relay's `RootWorker` over TCP or TLS, in the event loop that serves its members."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from typing import Any, cast

from siag.foundations.errors import reason_of
from siag.live.protocol import wire
from siag.live.protocol.frame_reader import FrameReader
from siag.live.protocol.welcome import Dismissed
from siag.live.protocol.worker import Actions, Connect, End, GaveUp, Phase, Send
from siag.live.reasons import Ending
from siag.live.relays.connections import RelayConnections
from siag.live.relays.root import RootWorker
from siag.live.transports.tcp.client import ANSWER, CONNECT
from siag.live.transports.tcp.endpoint import Endpoint
from siag.live.transports.tcp.worker import Address

PARTING = 1.0  # seconds for the root to note that the relay leaves


class Upstream:
    """Carries what a relay and the root say to each other.

    Args:
        address: of the root.
        root: what the relay says, and when.
        context: for TLS.
        loop: the event loop.
    """

    def __init__(
        self, address: Address, root: RootWorker, context: ssl.SSLContext | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._address, self.root, self._context, self._loop = address, root, context, loop
        self._line: _Line | None = None
        self.lines: set[_Line] = set()  # that one, and those that are being closed
        self._opening: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._connections: RelayConnections | None = None
        self._endpoint: Endpoint | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def join(self) -> None:
        """Connect to the root, and wait until it has sent w; raise `Dismissed` if it will not."""
        self._tell(self.root.start(time.monotonic()))
        while self.root.phase is not Phase.JOINED:
            if self.root.end is not None:
                end, reason = self.root.end
                raise (GaveUp if end is End.GAVE_UP else Dismissed)(reason)
            self._moved.clear()
            await self._moved.wait()

    def serve(self, connections: RelayConnections, endpoint: Endpoint) -> None:
        """There are members from now on."""
        self._connections, self._endpoint = connections, endpoint
        self._beat()
        self._follow()

    async def close(self) -> None:
        """End the connection; the root is told if all members have left."""
        connections = self._connections
        ended = None if connections is None else connections.session.ended
        self._closed, self._connections = True, None
        if self._timer is not None:
            self._timer.cancel()
        if ended is not None and ended.ending is Ending.ALL_LEFT:
            self._tell(self.root.stream_ended(time.monotonic()))
            until = time.monotonic() + PARTING
            while self._line is not None and time.monotonic() < until:
                await asyncio.sleep(0.01)
        self._line = None
        if self._opening is not None:
            self._opening.cancel()
        for line in self.lines:
            line.transport.abort()
        while self.lines or not (self._opening is None or self._opening.done()):
            await asyncio.sleep(0)

    def do(self, actions: Actions) -> None:
        """Carry out what the worker wants done."""
        line, frames = self._line, [action.content for action in actions if isinstance(action, Send)]
        if frames and line is not None:
            line.transport.write(b"".join(frames))
        for action in actions:
            if isinstance(action, Connect):
                self._loop.call_later(action.after, self._connect)
            elif not isinstance(action, Send):
                self._hang_up()

    # What happens

    def received(self, line: _Line, content: bytes) -> None:
        """Bytes have come."""
        if line is not self._line:
            return
        try:
            actions = self.root.feed(line.reader, content, time.monotonic())
        except wire.BadFrame as error:
            self._lost(str(error))
        else:
            self._tell(actions)

    def hung_up(self, line: _Line, error: Exception | None) -> None:
        """The connection is gone."""
        if line is self._line:
            self._lost("the root hung up" if error is None else reason_of(error))

    def _lost(self, reason: str) -> None:
        self._hang_up()
        self._tell(self.root.lost(reason, time.monotonic()))

    def _tell(self, actions: Actions) -> None:
        """The worker was told something, and wants this done."""
        self.do(actions)
        self._moved.set()
        self._follow()

    def _follow(self) -> None:
        """Let the members know."""
        if self._connections is not None and self._endpoint is not None:
            self._endpoint.perform(self._connections.root_moved(time.monotonic()))

    def _beat(self) -> None:
        """Signs of life, sums that are due, a root that does not answer."""
        connections, root, now = self._connections, self.root, time.monotonic()
        if connections is None:
            return
        self.do(root.time(now))
        connections.time(now)
        if self._line is not None and not root.busy and now > self._line.heard + ANSWER:
            self._lost(f"no answer for {ANSWER:g} seconds")
        self._timer = self._loop.call_later(min(root.heartbeat / 2, connections.wait(now)), self._beat)

    # The connection

    def _connect(self) -> None:
        if not self._closed:
            self._opening = self._loop.create_task(self._open())

    async def _open(self) -> None:
        host, port = self._address
        try:
            async with asyncio.timeout(CONNECT):
                given: dict[str, Any] = {"ssl": self._context, "server_hostname": host if self._context else None}
                _, line = await self._loop.create_connection(lambda: _Line(self), host, port, **given)
        except ssl.SSLCertVerificationError as error:
            self._tell(self.root.dismiss(f"the root's certificate is not trusted: {error.verify_message}"))
        except OSError as error:
            self._tell(self.root.lost(reason_of(error), time.monotonic()))
        else:
            if self._closed:
                line.transport.abort()
                return
            self._line = line
            self._tell(self.root.connected(time.monotonic()))

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.transport.close()


class _Line(asyncio.Protocol):
    """A connection to the root."""

    transport: asyncio.Transport

    def __init__(self, upstream: Upstream) -> None:
        self._upstream, self.heard = upstream, time.monotonic()
        self.reader = FrameReader(upstream.root.expected)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._upstream.lines.add(self)
        line = transport.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):  # nobody listens there
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self.heard = time.monotonic()
        self._upstream.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.lines.discard(self)
        self._upstream.hung_up(self, exc)
