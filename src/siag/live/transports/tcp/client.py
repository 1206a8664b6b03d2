"""A connection to a server, used by a worker or by the server that leads others: frames over TCP or TLS."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from siag.foundations.types import Floats
from siag.live import wire
from siag.live.transports.tcp.memory import Memory, accepted
from siag.live.transports.waiting import Spinner

CONNECT = 10.0  # seconds to connect, and to shake hands
ANSWER = 120.0  # seconds to wait for an answer before the connection counts as lost
BUFFER = 1 << 16  # bytes received at a time, unless a large array is on its way


class WorkerConnection(Protocol):
    """What a worker needs of its connection; one to several servers at once can be used in the same way."""

    @property
    def extras(self) -> dict[str, Any]:
        """What a hello has to say of the connection itself."""

    @property
    def whole(self) -> bool:
        """Whether what was sent last was sent to its end."""

    def greet(self, hello: bytes) -> None:
        """Send a hello, whose answer comes as any frame does."""

    def share(self, path: object, message: int, shown: int) -> None:
        """Send no arrays from now on but through this memory, which a welcome offers, if it can be had."""

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame."""

    def beat(self) -> None:
        """Send a sign of life, unless something is being sent anyway."""

    def receive(self, expected: wire.Expected) -> wire.Head:
        """The next header."""

    def waiting(self) -> bool:
        """Whether the server has said something unasked; never waits."""

    def text(self, head: wire.Head) -> dict[str, Any]:
        """The JSON that follows a header."""

    def array(self, out: Floats) -> None:
        """The numbers that follow a header, straight to their place."""

    def drain(self, seconds: float) -> None:
        """Wait until the server hangs up, whatever else it says, but not for ever."""

    def close(self) -> None:
        """Hang up."""


class ClientConnection:
    """A connection to the server. One thread receives, several may send.

    Args:
        address: of the server.
        context: for TLS.
        answer: seconds to wait for an answer, and until something is sent, before the connection counts as lost.
    """

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None, *, answer: float = ANSWER) -> None:
        self._answer = answer
        plain = socket.create_connection(address, timeout=CONNECT)
        try:
            if plain.getsockname() == plain.getpeername():  # TCP can do that on a port of this machine nobody has
                raise ConnectionRefusedError("nobody listens there")
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            spinner = Spinner(able=plain.getsockname()[0] == plain.getpeername()[0])  # the server is on this machine
            used = plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
            self._channel = _Channel(used, spinner, answer)
        except BaseException:
            plain.close()
            raise
        self._frame = threading.Lock()  # held while a frame is being sent
        self._buffer = memoryview(bytearray(BUFFER))
        self._low = self._high = 0  # what is left in the buffer
        self._memory: Memory | None = None  # for large arrays, if the server is on this machine
        self._shared = False  # whether the array that was announced last is there
        self._whole = True  # whether what was sent last was sent to its end

    @property
    def extras(self) -> dict[str, Any]:
        """What a hello has to say of the connection itself."""
        return {}

    @property
    def whole(self) -> bool:
        """Whether what was sent last was sent to its end."""
        return self._whole

    def greet(self, hello: bytes) -> None:
        """Send a hello, whose answer comes as any frame does."""
        self.send(hello)

    def share(self, path: object, message: int, shown: int) -> None:
        """Send no arrays from now on but through this memory, which a welcome offers, if it can be had."""
        self._memory = accepted(path, message, shown)

    def fileno(self) -> int:
        """Of the socket, to wait for it."""
        return self._channel.fileno()

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame; a large array is not copied, but to shared memory."""
        with self._frame:
            if array is not None and self._memory is not None:
                self._memory.report[:] = array
                _, _, _, stamp, sample = wire.HEADER.unpack(head)
                head, array = wire.head(wire.SHARED_REPORT, 0, stamp, sample), None
            self._send(head, array)

    def beat(self) -> None:
        """Send a sign of life, unless something is being sent anyway."""
        if self._frame.acquire(blocking=False):
            try:
                self._send(wire.head(wire.ALIVE))
            finally:
                self._frame.release()

    def receive(self, expected: wire.Expected) -> wire.Head:
        """The next header."""
        size = wire.HEADER.size
        while self._high - self._low < size:
            if self._low == self._high:  # as almost always
                self._low, self._high = 0, self._channel.receive(self._buffer, self._answer)
                continue
            left = self._high - self._low
            self._buffer[:left] = self._buffer[self._low : self._high]
            self._low, self._high = 0, left + self._channel.receive(self._buffer[left:], self._answer)
        self._low += size
        if self._memory is None:
            return wire.parse_head(self._buffer, expected, self._low - size)
        if wire.MODEL in expected:
            expected = {**expected, wire.SHARED_MODEL: wire.NONE}
        head = wire.parse_head(self._buffer, expected, self._low - size)
        self._shared = head.kind == wire.SHARED_MODEL
        return head if not self._shared else wire.Head(self._memory.model.nbytes, wire.MODEL, head.stamp, head.sample)

    def waiting(self) -> bool:
        """Whether the server has said something unasked; never waits."""
        if self._low == self._high:
            self._low, self._high = 0, self._channel.peek(self._buffer)
        return self._high > 0

    def text(self, head: wire.Head) -> dict[str, Any]:
        """The JSON that follows a header."""
        payload = memoryview(bytearray(head.length))
        self.fill(payload)
        return wire.parse_text(payload)

    def array(self, out: Floats) -> None:
        """The numbers that follow a header, straight to their place."""
        if self._shared and self._memory is not None:
            out[:] = self._memory.model
            return
        self.fill(out.data.cast("B"))
        if not wire.NATIVE:
            out.byteswap(inplace=True)

    def drain(self, seconds: float) -> None:
        """Wait until the server hangs up, whatever else it says, but not for ever."""
        until = time.monotonic() + seconds
        with suppress(OSError):
            while time.monotonic() < until:
                self._channel.receive(self._buffer, max(0.001, until - time.monotonic()))

    def close(self) -> None:
        """Hang up; whoever is waiting for the socket is woken."""
        self._channel.shut()
        with self._frame:
            self._channel.close()

    def _send(self, head: bytes, array: Floats | None = None) -> None:
        if array is None:
            self._channel.send(head)
            return
        little = array if wire.NATIVE else array.astype("<f8")
        if little.nbytes < BUFFER:  # what is small goes in one piece, or not at all
            self._channel.send(head + little.data)
            return
        self._whole = False
        self._channel.send(head)
        self._channel.send(little.data.cast("B"))
        self._whole = True

    def fill(self, view: memoryview) -> None:
        """So many bytes that follow, straight to their place."""
        got, size = 0, len(view)
        while got < size:
            if self._low < self._high:
                count = min(self._high - self._low, size - got)
                view[got : got + count] = self._buffer[self._low : self._low + count]
                self._low += count
                got += count
            elif size - got >= BUFFER:
                got += self._channel.receive(view[got:], self._answer)
            else:
                self._low, self._high = 0, self._channel.receive(self._buffer, self._answer)


class _Channel:
    """A socket, plain or with TLS, that never waits inside a call: OpenSSL allows one call at a time."""

    def __init__(self, connected: socket.socket, spinner: Spinner, answer: float) -> None:
        self._socket, self._answer = connected, answer
        connected.setblocking(False)
        self._call = threading.Lock()  # held during a call of the socket
        self._spinner, self._look = spinner, _look_at(connected)

    def send(self, content: bytes | memoryview) -> None:
        """Send everything."""
        sent = 0
        while sent < len(content):
            try:
                with self._call:
                    sent += self._socket.send(memoryview(content)[sent:] if sent else content)
            except (BlockingIOError, ssl.SSLWantWriteError):
                _wait(self._socket, True, self._answer)
            except ssl.SSLWantReadError:
                _wait(self._socket, False, self._answer)

    def receive(self, view: memoryview, patience: float) -> int:
        """Wait for something, and receive it."""
        while True:
            if not (self._decrypted() or self._spinner(self._look)):
                _wait(self._socket, False, patience)
            try:
                with self._call:
                    return _some(self._socket.recv_into(view))
            except (BlockingIOError, ssl.SSLWantReadError):  # not all of what TLS needs has come
                continue
            except ssl.SSLWantWriteError:
                _wait(self._socket, True, patience)

    def _decrypted(self) -> bool:
        """Whether TLS has something that the socket would not tell of."""
        if not isinstance(self._socket, ssl.SSLSocket):
            return False
        with self._call:
            return self._socket.pending() > 0

    def peek(self, view: memoryview) -> int:
        """Receive what is there, without waiting."""
        try:
            with self._call:
                return _some(self._socket.recv_into(view))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):  # nothing, or TLS talked about itself
            return 0

    def fileno(self) -> int:
        """Its number, to wait for it."""
        return self._socket.fileno()

    def shut(self) -> None:
        """Let nobody wait for it any longer."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Give it back."""
        with self._call:
            self._socket.close()


def _some(count: int) -> int:
    if count == 0:
        raise ConnectionResetError("the server hung up")
    return count


def readable(connections: Sequence[ClientConnection], seconds: float) -> set[int]:
    """Wait for one of some connections; the numbers of the sockets that can be read."""
    if not hasattr(select, "poll"):
        return {each.fileno() for each in select.select(connections, [], [], seconds)[0]}
    poller = select.poll()
    for each in connections:
        poller.register(each, select.POLLIN)
    return {number for number, _ in poller.poll(1000 * seconds)}


def _look_at(waiting: socket.socket) -> Callable[[], Any]:
    """A function that tells whether a socket can be read now."""
    if not hasattr(select, "poll"):
        return partial(_ready, waiting, False, 0.0)
    poller = select.poll()
    poller.register(waiting, select.POLLIN)
    return partial(poller.poll, 0)


def _ready(waiting: socket.socket, writing: bool, seconds: float) -> bool:
    """Whether a socket can be read, or written, within some time."""
    if waiting.fileno() < 0:
        raise ConnectionResetError("the connection was closed")
    if hasattr(select, "poll"):
        poller = select.poll()
        poller.register(waiting, select.POLLOUT if writing else select.POLLIN)
        return bool(poller.poll(1000 * seconds))
    reading, writable = ([], [waiting]) if writing else ([waiting], [])
    return any(select.select(reading, writable, [], seconds))


def _wait(waiting: socket.socket, writing: bool, seconds: float) -> None:
    """Wait until a socket can be read, or written."""
    if not _ready(waiting, writing, seconds):
        raise TimeoutError("it does not answer")
