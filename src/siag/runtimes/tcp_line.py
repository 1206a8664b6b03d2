"""The network runtime, worker side: the connection."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

from siag.foundations.types import Floats
from siag.runtimes import wire

CONNECT = 10.0  # seconds to connect, and to shake hands
ANSWER = 120.0  # seconds to wait for an answer before the connection counts as lost
BUFFER = 1 << 16  # bytes received at a time, unless a large array is on its way


class Line:
    """A connection to the server.

    One thread receives, several may send. The socket never blocks: OpenSSL allows one call at a time on a connection,
    so nobody may be inside one while waiting.
    """

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(address, timeout=CONNECT)
        try:
            if plain.getsockname() == plain.getpeername():  # TCP can do that on a port of this machine nobody has
                raise ConnectionRefusedError("nobody listens there")
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket = plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
        except BaseException:
            plain.close()
            raise
        self._socket.setblocking(False)
        self._frame = threading.Lock()  # held while a frame is being sent
        self._call = threading.Lock()  # held during a call of the socket
        self._head = memoryview(bytearray(wire.HEADER.size))
        self._buffer = memoryview(bytearray(BUFFER))
        self._low = self._high = 0  # what is left in the buffer
        self.spoken = time.monotonic()

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame; a large array is not copied."""
        with self._frame:
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
        self._fill(self._head)
        return wire.parse_head(self._head, expected)

    def waiting(self) -> bool:
        """Whether the server has said something unasked; never waits."""
        if self._low == self._high:
            try:
                with self._call:
                    count = self._socket.recv_into(self._buffer)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):  # or TLS talked about itself
                return False
            self._low, self._high = 0, _some(count)
        return True

    def text(self, head: wire.Head) -> dict[str, Any]:
        """The JSON that follows a header."""
        payload = memoryview(bytearray(head.length))
        self._fill(payload)
        return wire.parse_text(payload)

    def array(self, out: Floats) -> None:
        """The numbers that follow a header, straight to their place."""
        self._fill(out.data.cast("B"))
        if out.dtype.newbyteorder("<") != out.dtype:
            out.byteswap(inplace=True)

    def drain(self, seconds: float) -> None:
        """Wait until the server hangs up, whatever else it says, but not for ever."""
        until = time.monotonic() + seconds
        with suppress(OSError):
            while time.monotonic() < until:
                self._receive(self._buffer, max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Hang up; whoever is waiting for the socket is woken."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        with self._frame, self._call:
            self._socket.close()

    def _send(self, head: bytes, array: Floats | None = None) -> None:
        self.spoken = time.monotonic()
        if array is None:
            self._send_all(memoryview(head))
            return
        little = array.astype("<f8", copy=False)
        if little.nbytes < BUFFER:
            self._send_all(memoryview(head + little.tobytes()))
        else:
            self._send_all(memoryview(head))
            self._send_all(little.data.cast("B"))

    def _send_all(self, rest: memoryview) -> None:
        while rest:
            try:
                with self._call:
                    rest = rest[self._socket.send(rest) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                _wait(self._socket, True, ANSWER)
            except ssl.SSLWantReadError:
                _wait(self._socket, False, ANSWER)

    def _fill(self, view: memoryview) -> None:
        got, size = 0, len(view)
        while got < size:
            if self._low < self._high:
                count = min(self._high - self._low, size - got)
                view[got : got + count] = self._buffer[self._low : self._low + count]
                self._low += count
                got += count
            elif size - got >= BUFFER:
                got += self._receive(view[got:], ANSWER)
            else:
                self._low, self._high = 0, self._receive(self._buffer, ANSWER)

    def _receive(self, view: memoryview, patience: float) -> int:
        """Receive something."""
        while True:
            try:
                with self._call:
                    return _some(self._socket.recv_into(view))
            except (BlockingIOError, ssl.SSLWantReadError):
                _wait(self._socket, False, patience)
            except ssl.SSLWantWriteError:
                _wait(self._socket, True, patience)


def _some(count: int) -> int:
    if count == 0:
        raise ConnectionResetError("the server hung up")
    return count


def _wait(waiting: socket.socket, writing: bool, seconds: float) -> None:
    """Wait until a socket can be read, or written."""
    if hasattr(select, "poll"):
        poller = select.poll()
        poller.register(waiting, select.POLLOUT if writing else select.POLLIN)
        there = bool(poller.poll(1000 * seconds))
    else:
        reading, writable = ([], [waiting]) if writing else ([waiting], [])
        there = any(select.select(reading, writable, [], seconds))
    if not there:
        raise TimeoutError("it does not answer")
