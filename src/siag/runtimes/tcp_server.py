"""The network runtime, server side: TCP or TLS, one connection for each worker, one event loop for all."""

from __future__ import annotations

import asyncio
import math
import signal
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np

from siag.activity import Tick
from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.runtimes import wire
from siag.runtimes.security import Tokens
from siag.runtimes.session import Session
from siag.server.guard import Refused

PAUSE = 0.05  # seconds between two looks at everything that is no message
STAGE = 4096  # bytes received at a time, unless a large payload is on its way
GRACE = 1.0  # seconds in which workers may hang up before the server does
OCCUPIED = 5.0  # seconds of silence after which a row may be taken over by a new connection


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a connection may take.

    Args:
        connections: at most so many at a time.
        hello: seconds from the connection to a complete hello.
        frame: seconds from the first byte of a frame to its last.
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

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._stage = bytearray(STAGE)
        self._view = memoryview(self._stage)
        self._filled = 0
        self._head: wire.Head | None = None
        self._payload: memoryview | None = None  # a large payload on its way
        self._array: Floats | None = None
        self._got = 0
        self.row: int | None = None
        self.due = math.inf  # when what is on its way must be complete
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has called."""
        self.transport = transport  # type: ignore[assignment]  # asyncio names the base class
        if len(self._hub.connections) >= self._hub.limits.connections:
            self.refuse("too many connections; try again later")
            return
        self._hub.connections.add(self)
        self.due = time.monotonic() + self._hub.limits.hello

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; the worker's row stays."""
        self._hub.connections.discard(self)
        if self.row is not None and self._hub.by_row.get(self.row) is self:
            del self._hub.by_row[self.row]
            self._hub.session.died(self.row, "its connection was lost")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a large payload straight to its place."""
        if self._payload is not None:
            return self._payload[self._got :]
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        try:
            if self._payload is not None:
                self._got += nbytes
                if self._got == len(self._payload):
                    self._complete_large()
            else:
                self._filled += nbytes
                self._take_frames()
        except wire.BadFrame as error:
            self._hub.bad_frame(self, str(error))

    def _take_frames(self) -> None:
        """Handle every complete frame on the stage; begin to receive a large one."""
        first, size = 0, wire.HEADER.size
        while self._filled - first >= size and not self.transport.is_closing():
            head = wire.parse_head(self._view[first : first + size], self._hub.d if self.row is not None else 0)
            if self.row is None and head.kind != wire.HELLO:
                raise wire.BadFrame("the first frame must be a hello")
            end = first + size + head.length
            if end <= self._filled:
                self._hub.heed(self, head, self._view[first + size : end])
                first = end
            elif head.length + size > STAGE:
                self._begin_large(head, first + size)
                return
            else:
                break
        if first:
            self._stage[: self._filled - first] = self._stage[first : self._filled]
            self._filled -= first
        if self.row is not None:
            self.due = time.monotonic() + self._hub.limits.frame if self._filled else math.inf

    def _begin_large(self, head: wire.Head, first: int) -> None:
        if head.kind in wire.ARRAYS:
            self._array = np.empty(head.length // 8)
            self._payload = self._array.data.cast("B")
        else:
            self._payload = memoryview(bytearray(head.length))
        self._head = head
        self._got = self._filled - first
        self._payload[: self._got] = self._view[first : self._filled]
        self._filled = 0
        if self.row is not None:
            self.due = time.monotonic() + self._hub.limits.frame

    def _complete_large(self) -> None:
        head, payload = self._head, self._payload
        self._head = self._payload = self._array = None
        self.due = math.inf if self.row is not None else self.due
        if head is not None and payload is not None:
            self._hub.heed(self, head, payload)

    def refuse(self, reason: str) -> None:
        """Say why, and hang up."""
        self.transport.write(wire.text(wire.REFUSAL, {"reason": reason, "final": True}))
        self.transport.close()


class Hub:
    """All connections of a session."""

    def __init__(self, session: Session, tokens: Tokens, limits: Limits) -> None:
        self.session, self.tokens, self.limits = session, tokens, limits
        self.server = session.server
        self.d = self.server.d
        self.connections: set[Connection] = set()
        self.by_row: dict[int, Connection] = {}
        self.garbage = 0  # connections that were closed for what they sent
        self._scratch = np.empty(self.d)
        self._model = (-1, b"")  # a version, and its w as bytes
        self._answers: list[tuple[Connection, bytes | None]] = []

    def heed(self, connection: Connection, head: wire.Head, payload: memoryview) -> None:
        """A frame has come."""
        now = time.monotonic()
        if head.kind == wire.HELLO and connection.row is None:
            self._hello(connection, wire.parse_text(payload), now)
        elif connection.row is None:
            raise wire.BadFrame("the first frame must be a hello")
        elif head.kind == wire.REPORT:
            self._report(connection, connection.row, head, payload, now)
        elif head.kind == wire.SKIP:
            self.server.alive(connection.row, now)
            self._answer(connection, None)
        elif head.kind == wire.ALIVE:
            self.server.alive(connection.row, now)
        elif head.kind == wire.LEAVE:
            reason = str(wire.parse_text(payload).get("reason", ""))[:500]
            row, connection.row = connection.row, None
            self.by_row.pop(row, None)
            if wire.parse_text(payload).get("failed"):
                self.session.failed(row, reason)
            else:
                self.session.left(row, now, reason)
            self.session.commit()
            connection.transport.close()
        else:
            raise wire.BadFrame(f"a frame of kind {head.kind} is not for the server")

    def bad_frame(self, connection: Connection, reason: str) -> None:
        """Garbage: counted, answered, and the connection closed; nothing else can be believed of it."""
        self.garbage += 1
        if connection.row is not None:
            refusal = Refused(reason)
            self.server.strike(connection.row, refusal, time.monotonic())
            self.session.refused(connection.row, refusal)
        connection.refuse(reason)

    def sweep(self, now: float) -> None:
        """Hang up on whoever is too slow."""
        for connection in [each for each in self.connections if now > each.due]:
            self.bad_frame(connection, "no complete frame in time")

    def goodbye(self, done: bool, reason: str) -> None:
        """Tell everybody that the server ends, for good or for now."""
        for connection in self.connections:
            connection.transport.write(wire.text(wire.GOODBYE, {"done": done, "reason": reason}))
        self.by_row.clear()

    def _hello(self, connection: Connection, hello: dict[str, Any], now: float) -> None:
        protocol = hello.get("protocol")
        if protocol != wire.PROTOCOL:
            connection.refuse(
                f"protocol {protocol!r}: this server, siag {__version__}, speaks {wire.PROTOCOL}; "
                "install the same version"
            )
            return
        try:
            ticket = self.server.join(self._row_of(hello, now), now)
        except Refused as refusal:
            self.garbage += 1
            connection.refuse(refusal.reason)
            return
        except _Busy as busy:
            connection.transport.write(wire.text(wire.REFUSAL, {"reason": str(busy), "final": False}))
            connection.transport.close()
            return
        connection.row, connection.due = ticket.row, math.inf
        self.by_row[ticket.row] = connection
        member = self.server.members[ticket.row]
        self.session.watcher.event(f"worker {member.name} joined, row {ticket.row}")
        welcome = {
            "protocol": wire.PROTOCOL,
            "row": ticket.row,
            "name": member.name,
            "workers": self.server.n,
            "d": self.d,
            "samples": ticket.samples,
            "method": described(self.server.method),
        }
        connection.transport.write(wire.text(wire.WELCOME, welcome, ticket.version))
        self._send_model(connection)

    def _row_of(self, hello: dict[str, Any], now: float) -> int:
        """The row a worker asks for and may have."""
        asked = hello.get("worker")
        row: int | None = None
        if self.tokens.required:
            row = self.tokens.row_of(str(hello.get("token") or ""))
            if row is None:
                raise Refused("the token is not one of this server's", final=True)
        if asked is not None:
            names = {member.name: member.row for member in self.server.members}
            named = names.get(str(asked), -1)
            if named < 0 or (row is not None and named != row):
                raise Refused(f"worker {asked!r}: not among this server's, or another's row", final=True)
            row = named
        if row is None:
            free = [m.row for m in self.server.members if m.row not in self.by_row and m.state == "expected"]
            free += [m.row for m in self.server.members if m.row not in self.by_row and m.state == "away"]
            if not free:
                raise _Busy("all rows are taken; give more workers to siag serve")
            row = free[0]
        old = self.by_row.get(row)
        if old is not None:
            if now - self.server.members[row].heard < OCCUPIED:
                raise _Busy(f"worker {self.server.members[row].name} is connected already")
            del self.by_row[row]
            old.row = None
            old.transport.close()
        return row

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview, now: float) -> None:
        if self.session.over:
            return
        if len(payload) < STAGE:
            self._scratch[:] = wire.numbers(payload)  # on the stage it may lie anywhere; compiled code wants it aligned
            message = self._scratch
        else:
            message = wire.numbers(payload)
        try:
            self.session.push(row, head.stamp, message, head.sample, now)
        except Refused as refusal:
            self.session.refused(row, refusal)
            self._answer(connection, wire.text(wire.REFUSAL, {"reason": refusal.reason, "final": refusal.final}))
            if refusal.final:
                connection.transport.close()
            return
        self._answer(connection, None)

    def _answer(self, connection: Connection, refusal: bytes | None) -> None:
        """Send a refusal or the current w: at once, or in durable mode once what came with it is on disk."""
        if not self.session.durable:
            if refusal is not None:
                connection.transport.write(refusal)
            if not connection.transport.is_closing():
                self._send_model(connection)
            return
        if not self._answers:
            asyncio.get_running_loop().call_soon(self._commit)
        self._answers.append((connection, refusal))

    def _commit(self) -> None:
        """All reports of this turn of the loop go to disk together."""
        try:
            self.session.commit()
        except OSError as error:
            self.session.watcher.event(f"problem: {error.strerror}; nothing is acknowledged until it is on disk")
            asyncio.get_running_loop().call_later(PAUSE * 10, self._commit)
            return
        answers, self._answers = self._answers, []
        for connection, refusal in answers:
            if refusal is not None:
                connection.transport.write(refusal)
            if not connection.transport.is_closing():
                self._send_model(connection)

    def _send_model(self, connection: Connection) -> None:
        version = self.server.version
        if self._model[0] != version:
            self._model = (version, self.server.state.w.astype("<f8", copy=False).tobytes())
        model = self._model[1]
        header = wire.head(wire.MODEL, len(model), version)
        if len(model) < STAGE:
            connection.transport.write(header + model)
        else:
            connection.transport.write(header)
            connection.transport.write(model)


class _Busy(Exception):
    """Not now, but perhaps later."""


def described(method: object) -> dict[str, Any]:
    """A method in words that a worker can make it from again."""
    fields = asdict(method) if is_dataclass(method) and not isinstance(method, type) else {}
    return {"kind": type(method).__name__, **fields}


async def serve_session(
    session: Session,
    host: str,
    port: int,
    *,
    context: ssl.SSLContext | None,
    tokens: Tokens,
    limits: Limits,
    ready: Callable[[str, int], None] | None = None,
) -> None:
    """Serve until the session is over, or a signal comes; then save and say goodbye."""
    loop = asyncio.get_running_loop()
    hub = Hub(session, tokens, limits)
    stop: list[str] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop.append, signal.Signals(number).name)
    try:
        listener = await loop.create_server(lambda: Connection(hub), host, port, ssl=context, backlog=1024)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput("port", port, f"free on {host} ({reason.lower()})", "choose another with --port") from None
    address = listener.sockets[0].getsockname()
    session.begin(time.monotonic())
    session.save(time.monotonic())
    if ready is not None:
        ready(address[0], address[1])
    ticking = isinstance(session.server.server, Tick)
    try:
        while not session.over and not stop:
            pause = min(PAUSE, max(0.0, session.next_tick - time.monotonic())) if ticking else PAUSE
            await asyncio.sleep(pause)
            now = time.monotonic()
            hub.sweep(now)
            session.look_after(now)
    finally:
        if stop:
            session.why = f"stopped by {stop[0]}"
        session.over = True
        listener.close()
        hub.goodbye(not stop, session.why)
        session.finish(time.monotonic())
        until = time.monotonic() + GRACE
        while hub.connections and time.monotonic() < until:  # a worker that hears goodbye hangs up
            await asyncio.sleep(PAUSE / 5)
        for connection in list(hub.connections):
            connection.transport.close()
