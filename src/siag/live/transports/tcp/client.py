"""A connection to a server, used by a worker or by the server that leads others: frames over TCP or TLS."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from siag.foundations.encodings import FLOAT64, NATIVE, Encoding
from siag.foundations.types import Floats
from siag.live.protocol import wire
from siag.live.protocol.frame_reader import FrameReader
from siag.live.transports.tcp.memory import Memory, accepted
from siag.live.transports.waiting import Spinner

CONNECT = 10.0  # seconds to connect, and to shake hands
ANSWER = 120.0  # seconds to wait for an answer before the connection counts as lost
NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
RECORD = 1 << 14  # bytes of a TLS record, at most
BUFFER = wire.HEADER.size + wire.JSON_FROM_SERVER[1]  # bytes received at a time, unless a large array is on its way


class ClientConnection:
    """A connection to the server. One thread receives, several may send.

    Args:
        address: of the server.
        context: for TLS.
        answer: seconds to wait for an answer, and until something is sent, before the connection counts as lost.

    Attributes:
        extras: what a hello has to say of the connection itself.
        encoding: in which numbers reports travel; doubles, unless a welcome says otherwise.
        whole: whether what was sent last was sent to its end.
    """

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None, *, answer: float = ANSWER) -> None:
        self.extras: dict[str, Any] = {}
        self.encoding = FLOAT64
        self.whole = True
        plain = socket.create_connection(address, timeout=CONNECT)
        try:
            here, there = plain.getsockname(), plain.getpeername()
            if here == there:  # TCP can do that on a port of this machine nobody has
                raise ConnectionRefusedError("nobody listens there")
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._socket = plain if context is None else context.wrap_socket(plain, server_hostname=address[0])
            self._socket.setblocking(False)
        except BaseException:
            plain.close()
            raise
        self._answer = answer
        self._frame = threading.Lock()  # held while a frame is being sent
        self._call = threading.Lock()  # held during a call of the socket: OpenSSL allows one at a time, so none waits
        self._spinner = Spinner(able=here[0] == there[0])  # whether the server is on this machine
        self._reader = FrameReader({}, BUFFER)
        self._memory: Memory | None = None  # for large arrays, if the server is on this machine

    def fileno(self) -> int:
        """Of the socket, to wait for it."""
        return self._socket.fileno()

    def agree(self, encoding: Encoding) -> None:
        """Have arrays travel in these numbers from now on."""
        self.encoding = encoding

    def share(self, path: object, message: int, shown: int) -> None:
        """Send no arrays from now on but through this memory, which a welcome offers, if it can be had."""
        self._memory = accepted(path, message, shown, self.encoding)
        if self._memory is not None:
            self._reader.tap = self._memory.show

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame; a large array is not copied, but to shared memory."""
        with self._frame:
            if array is not None and self._memory is not None:
                self._memory.report[:] = array
                _, _, _, *rest = wire.HEADER.unpack(head)
                head, array = wire.head(wire.SHARED_REPORT, 0, *rest), None
            if array is None:
                self._send(head)
                return
            little = self.encoding.write(array)
            if little.nbytes < BUFFER:  # what is small goes in one piece, or not at all
                self._send(head + little.data)
                return
            self.whole = False
            self._send(head)
            self._send(little.data.cast("B"))
            self.whole = True

    def beat(self) -> None:
        """Send a sign of life, unless something is being sent anyway."""
        if self._frame.acquire(blocking=False):
            try:
                self._send(wire.head(wire.ALIVE))
            finally:
                self._frame.release()

    def receive(self, expected: wire.Expected, place: Floats | None = None) -> tuple[wire.Head, memoryview]:
        """The next frame, good until another is received; the numbers of a MODEL are in their place, if one is given.

        A large array is received straight to its place.
        """
        reader = self._reader
        if self._memory is not None and wire.MODEL in expected:
            expected = {**expected, wire.SHARED_MODEL: wire.NONE}
        reader.expected, reader.place = expected, place
        frame = reader.next()
        while frame is None:
            frame = reader.whole(self._receive(reader.buffer(), self._answer)) or reader.next()
        head, payload = frame
        owner: object = payload.obj  # of a large array the place itself
        if head.kind == wire.MODEL and place is not None and (owner is not place or not NATIVE):
            self.encoding.model.copy(payload, place)
        return frame

    def waiting(self) -> bool:
        """Whether the server has said something unasked; never waits."""
        if self._reader.missing is None:
            self._reader.received(self._receive_some(self._reader.buffer()))
        return self._reader.missing is not None

    def drain(self, seconds: float) -> None:
        """Wait until the server hangs up, whatever else it says, but not for ever."""
        until, nowhere = time.monotonic() + seconds, memoryview(bytearray(wire.STAGE))
        with suppress(OSError):
            while (left := until - time.monotonic()) > 0:
                self._receive(nowhere, left)

    def close(self) -> None:
        """Hang up; a thread that waits for the socket is woken."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        with self._frame, self._call:
            self._socket.close()

    # The socket

    def _send(self, content: bytes | memoryview) -> None:
        """Send everything."""
        sent = 0
        while sent < len(content):
            try:
                with self._call:
                    sent += self._socket.send(memoryview(content)[sent:] if sent else content)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(self._answer, writing=True)
            except ssl.SSLWantReadError:
                self._wait(self._answer)

    def _receive(self, view: memoryview, patience: float) -> int:
        """Wait for something, and receive it."""
        look = partial(self._receive_some, view)
        while not (count := self._spinner(look) or look()):
            self._wait(patience)
        return count

    def _receive_some(self, view: memoryview) -> int:
        """Receive what is there, in bytes; 0 if there is nothing, or not all of what TLS needs."""
        got = 0
        try:
            with self._call:
                count = got = self._socket.recv_into(view)
                while count == RECORD and got < len(view):  # TLS gives no more at a time
                    count = self._socket.recv_into(view[got:])
                    got += count
        except NOT_YET:
            return got
        if got == 0:
            raise ConnectionResetError("the server hung up")
        return got

    def _wait(self, seconds: float, writing: bool = False) -> None:
        """Wait until the socket can be read, or written."""
        if self.fileno() < 0:
            raise ConnectionResetError("the connection was closed")
        if not poller(self.fileno(), writing=writing)(1000 * seconds):
            raise TimeoutError("it does not answer")


def poller(*sockets: int, writing: bool = False) -> Callable[[float], Any]:
    """A function that waits, given milliseconds, until one of some sockets can be read, or written; if one can."""
    if not hasattr(select, "poll"):
        reading, writable = ([], sockets) if writing else (sockets, [])
        return lambda wait: any(select.select(reading, writable, [], wait / 1000))
    poll = select.poll()
    for each in sockets:
        poll.register(each, select.POLLOUT if writing else select.POLLIN)
    return poll.poll
