"""A server's end of TCP or TLS: lets callers in, as many as may be, and carries out what its reception wants done."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from siag.foundations.encodings import NATIVE
from siag.foundations.errors import BadInput, reason_of
from siag.live.protocol import wire
from siag.live.protocol.reception import GRACE, Action, Reception, Send, SendModel, refusal
from siag.live.transports.tcp.peer import Peer
from siag.live.transports.waiting import Spinner

PAUSE = 0.05  # seconds before another try of what the system would not do
EACH = 2e-5  # seconds for each connection between two looks at all of them, which take a hundredth of that
RESERVE = 64  # file descriptors for everything but connections
TLS = b"\x16"  # what a TLS handshake begins with; frames of this protocol never do
HANDSHAKES = 100  # TLS handshakes at a time: each takes a third of a megabyte
LEAST = 1.0  # seconds a handshake may take before it makes room for another
USES_TLS = "this server uses TLS; give the worker ca or tls"
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}  # a machine that is gone is noticed in 90 s


class SmallTls(SSLProtocol):
    """TLS that reads a few kilobytes at a time: asyncio's own keeps a quarter of a megabyte for each connection."""

    max_size = 2 * wire.STAGE


class Endpoint:
    """All connections of a server over TCP or TLS.

    Args:
        reception: what is to be done with them.
        context: for TLS.
        spinner: what the event loop polls with before it sleeps, while workers on this machine are there.
    """

    def __init__(self, reception: Reception, context: ssl.SSLContext | None, spinner: Spinner | None = None) -> None:
        self.reception = reception
        self._context, self._spinner = context, Spinner() if spinner is None else spinner
        self._loop = asyncio.get_running_loop()
        self.room = _room(reception.limits.connections)  # for how many connections there is
        self._arriving: dict[Peer, float] = {}  # who has called, and when, and is not let in yet
        self._turns = asyncio.Semaphore(HANDSHAKES)
        self._near = 0  # connections from this machine
        self._scheduled = False
        self._slow_at = 0.0  # when to look for slow ones again
        sent = reception.server.sent
        self._size, self._exact = sent.size, sent.exact  # of w in bytes; whether w is sent as the server keeps it
        self._at_once = self._size + wire.HEADER.size <= wire.STAGE and NATIVE
        for source in reception.sources:
            self._loop.add_reader(source.fileno(), self._hear, source)

    # Actions

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what the reception wants done, and have done soon what it has put off."""
        for action in actions:
            peer: Peer = action.connection.place
            if type(action) is SendModel:
                self._send_model(peer, action)
            elif type(action) is Send:
                peer.transport.write(action.frame)
            else:
                peer.hang_up()
        if self.reception.pending and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """What came in one turn of the loop is dealt with together; what is still pending waits for `look_after`."""
        try:
            self.perform(self.reception.flush(time.monotonic()))
        except Exception as error:
            self.reception.failure = self.reception.failure or error
        self._scheduled = False

    def _send_model(self, peer: Peer, action: SendModel) -> None:
        _, before, version = action
        if self._at_once:
            numbers = self.reception.server.shown if self._exact else self.reception.sent(version)
            peer.transport.write(before + wire.head(wire.MODEL, self._size, version) + numbers.data)
        elif not peer.show(action):
            numbers = self.reception.encoding.model.write(self.reception.sent(version))
            peer.send(before + wire.head(wire.MODEL, self._size, version), numbers.data.cast("B"))

    def _hear(self, source: Any) -> None:
        """Something that is no worker has something to say."""
        try:
            self.perform(self.reception.heard(source, time.monotonic()))
        except Exception as error:
            self._loop.remove_reader(source.fileno())
            self.reception.failure = self.reception.failure or error

    # Connections

    def count(self, peer: Peer, change: int) -> None:
        """There is one connection more, or less."""
        self._arriving.pop(peer, None)  # it is not to be counted twice
        self._near += change * peer.near
        self._spinner.able = self._near > 0

    async def accept(self, listener: socket.socket) -> None:
        """Let callers in, for ever."""
        while True:
            try:
                caller, _ = await self._loop.sock_accept(listener)
            except OSError:  # no more file descriptors, or the caller has gone again
                await asyncio.sleep(4 * PAUSE)
                continue
            try:
                room = await self._make_room()
            except asyncio.CancelledError:
                caller.close()
                raise
            if room:
                peer = Peer(self)
                self._arriving[peer] = time.monotonic()
                peer.arrival = self._loop.create_task(self._let_in(caller, peer))
                peer.arrival.add_done_callback(partial(self._arrived, caller, peer))
            else:
                with caller, suppress(OSError):
                    if self._context is None:
                        caller.send(refusal("too many connections", False))

    def _arrived(self, caller: socket.socket, peer: Peer, arrival: asyncio.Task[None]) -> None:
        """A caller is let in, or gone."""
        self._arriving.pop(peer, None)
        if arrival.cancelled():  # before it began
            caller.close()

    async def _let_in(self, caller: socket.socket, peer: Peer) -> None:
        """Shake hands."""
        try:
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does so not for every socket
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE.items():
                if hasattr(socket, name):
                    caller.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            if self._context is None:
                peer.socket = caller if hasattr(caller, "sendmsg") else None
                await self._loop.connect_accepted_socket(lambda: peer, caller)
            elif await self._speaks_tls(caller):
                await self._shake_hands(caller, peer)
        except (OSError, asyncio.CancelledError) as error:  # cancelled: to make room, or at the end
            error.__traceback__ = None  # or asyncio's future would keep it, and with it the buffers of TLS
            self.reception.garbage += 1
            caller.close()

    async def _speaks_tls(self, caller: socket.socket) -> bool:
        """Wait for a caller's first byte, which costs nothing; one that speaks no TLS is told so, and sent away."""
        async with asyncio.timeout(self.reception.limits.hello):
            await self._readable(caller)
        if caller.recv(1, socket.MSG_PEEK) == TLS:
            return True
        self.reception.garbage += 1
        with caller, suppress(TimeoutError):
            more = caller.recv(wire.STAGE)  # to close with something unread would take back what was sent
            if more:
                caller.send(refusal(USES_TLS, final=True))
                caller.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(GRACE):
                while more:
                    await self._readable(caller)
                    more = caller.recv(wire.STAGE)
        return False

    async def _readable(self, caller: socket.socket) -> None:
        """Wait until something has come."""
        ready = asyncio.Event()
        self._loop.add_reader(caller, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(caller)

    async def _shake_hands(self, caller: socket.socket, peer: Peer) -> None:
        """TLS; at most `HANDSHAKES` callers do so at a time, the others wait for their turn."""
        times: dict[str, Any] = {"ssl_handshake_timeout": self.reception.limits.hello, "ssl_shutdown_timeout": GRACE}
        async with self._turns:
            peer.shaking = time.monotonic()
            if not self._at_once or self._context is None:  # large arrays travel, which larger pieces are faster for
                await self._loop.connect_accepted_socket(lambda: peer, caller, ssl=self._context, **times)
                return
            done: asyncio.Future[None] = self._loop.create_future()
            tls = SmallTls(self._loop, peer, self._context, done, server_side=True, **times)
            transport, _ = await self._loop.connect_accepted_socket(lambda: tls, caller)
            try:
                await done
            except BaseException:  # as asyncio does
                transport.close()
                raise

    async def _make_room(self) -> bool:
        """Whether one more may come in; somebody who has not said hello goes for it, the one who had most time to."""
        reception = self.reception
        if len(reception.connections) + len(self._arriving) < self.room:
            return True
        strangers = [each for each in reception.connections if each.row is None or each.closing]
        oldest = min(strangers, key=lambda each: each.due, default=None)
        first = next(iter(self._arriving), None)
        if first is not None and (oldest is None or self._arriving[first] + reception.limits.hello < oldest.due):
            first.arrival.cancel()
            await asyncio.wait([first.arrival])
        elif oldest is not None:
            reception.lost(oldest, time.monotonic())
            oldest.place.transport.abort()
            await asyncio.sleep(0)  # its descriptor is free then
        else:
            return False
        return True

    def look_after(self, now: float) -> None:
        """Hang up on callers that are too slow, and try again what could not be done; called now and then."""
        if now >= self._slow_at:
            self._slow_at = now + EACH * len(self.reception.connections)
            cut, actions = self.reception.slow(now)
            for connection in cut:
                connection.place.transport.abort()
            self.perform(actions)
        if self._turns.locked():
            for peer in self._arriving:
                if now - peer.shaking > LEAST:
                    peer.arrival.cancel()
        if self.reception.failure is not None:
            raise self.reception.failure

    async def close(self) -> None:
        """Wait until the workers have hung up, one that hears goodbye does; then hang up."""
        for source in self.reception.sources:
            with suppress(ValueError, OSError):  # closed already
                self._loop.remove_reader(source.fileno())
        arrivals = [peer.arrival for peer in self._arriving]
        for arrival in arrivals:
            arrival.cancel()
        if arrivals:
            await asyncio.wait(arrivals, timeout=GRACE)
        for patience in (GRACE, GRACE / 2):
            until = time.monotonic() + patience
            while self.reception.connections and time.monotonic() < until:
                await asyncio.sleep(PAUSE / 5)
            for connection in list(self.reception.connections):
                if connection.closing:
                    connection.place.transport.abort()
                else:
                    self.perform(self.reception.close(connection, time.monotonic()))
        await asyncio.sleep(0)
        for connection in self.reception.connections:
            connection.place.forget_memory()


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on all addresses of a host, on the same port."""
    listeners: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            taken = listeners[0].getsockname()[1] if listeners else port
            listener = socket.create_server((address[0], taken, *address[2:]), family=family, backlog=1024)
            listener.setblocking(False)
            listeners.append(listener)
    except OSError as error:
        for listener in listeners:
            listener.close()
        reason = reason_of(error).partition(" (while")[0]  # attempting to bind on an address, which is said anyway
        raise BadInput("port", port, f"one to listen on at {host} ({reason})", "choose another") from None
    return listeners


def _room(wanted: int) -> int:
    """How many connections there may be: as many as wanted, if the system lets this process have them.

    A process may raise its own limit up to the hard one, which is for its administrator to raise.
    """
    try:
        import resource
    except ImportError:
        return wanted
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVE if most == resource.RLIM_INFINITY else min(wanted + RESERVE, most)
    if limit != resource.RLIM_INFINITY and limit < needed:
        with suppress(OSError, ValueError):  # some systems have another bound, too
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))
            limit = needed
    return wanted if limit == resource.RLIM_INFINITY else max(1, min(wanted, limit - RESERVE))
