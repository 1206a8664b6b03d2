"""The network runtime, worker side: one blocking connection, opened again whenever it is lost."""

from __future__ import annotations

import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from siag import methods
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.methods import Method
from siag.runtimes import wire
from siag.runtimes.task import StreamEnded, Task, last_words

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds before the next try to connect
HEARTBEAT = 2.0  # seconds between two signs of life while a gradient takes long
ANSWER = 120.0  # seconds to wait for an answer before the connection counts as lost


class Dismissed(SiagError):
    """The server does not want this worker."""


class _Over(Exception):
    """The server says the work is done."""


class Line:
    """A connection to the server."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None, host: str) -> None:
        plain = socket.create_connection(address, timeout=10.0)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = plain if context is None else context.wrap_socket(plain, server_hostname=host)
        self._socket.settimeout(ANSWER)
        self._lock = threading.Lock()
        self._head = memoryview(bytearray(wire.HEADER.size))
        self.spoken = time.monotonic()

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame; an array is not copied where that can be avoided."""
        with self._lock:
            self.spoken = time.monotonic()
            if array is None:
                self._socket.sendall(head)
            elif array.nbytes < 1 << 16:
                self._socket.sendall(head + array.tobytes())
            else:
                self._socket.sendall(head)
                self._socket.sendall(array.data.cast("B"))

    def receive(self, numbers: int | None) -> wire.Head:
        """The next header."""
        self._fill(self._head)
        return wire.parse_head(self._head, numbers)

    def waiting(self) -> bool:
        """Whether the server has said something unasked."""
        return bool(select.select([self._socket], [], [], 0.0)[0])

    def text(self, head: wire.Head) -> dict[str, Any]:
        """The JSON that follows a header."""
        payload = memoryview(bytearray(head.length))
        self._fill(payload)
        return wire.parse_text(payload)

    def array(self, out: Floats) -> None:
        """The numbers that follow a header, straight to their place."""
        self._fill(out.data.cast("B"))

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._socket.close()

    def _fill(self, view: memoryview) -> None:
        got = 0
        while got < len(view):
            count = self._socket.recv_into(view[got:])
            if count == 0:
                raise ConnectionResetError("the server hung up")
            got += count


class Worker:
    """A worker of a distant server.

    Args:
        address: of the server.
        make: makes the task, given the method and w⁰, once the server has said what they are.
        name: which of the server's workers this is; `None`: any that is free.
        token: that binds it to its row.
        context: for TLS.
        give_up: seconds without a server after which to end; `None`: never.
        say: what to do with a remark.
    """

    def __init__(
        self,
        address: tuple[str, int],
        make: Callable[[Method, Floats], Task],
        *,
        name: str | None = None,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
        give_up: float | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._address, self._make, self._name, self._token = address, make, name, token
        self._context, self._give_up, self._say = context, give_up, say
        self._task: Task | None = None
        self._line: Line | None = None
        self.reports = 0
        self.refused = 0
        self._in_a_row = 0

    def run(self) -> str:
        """Work until the server is done, the stream ends or the server does not want us; return why it ended."""
        wait, since = FIRST_WAIT, time.monotonic()
        heart = threading.Thread(target=self._beat, daemon=True)
        self._beating = threading.Event()
        heart.start()
        try:
            while True:
                try:
                    self._connect()
                    wait, since = FIRST_WAIT, time.monotonic()
                    self._work()
                except _Over as over:
                    return str(over)
                except StreamEnded:
                    self._leave("its stream ended")
                    return "the stream ended"
                except ssl.SSLCertVerificationError as error:
                    raise Dismissed(f"the server's certificate is not trusted: {error.verify_message}") from None
                except (OSError, wire.BadFrame) as error:
                    self._hang_up()
                    away = time.monotonic() - since
                    if self._give_up is not None and away > self._give_up:
                        raise Dismissed(
                            f"no server at {_shown(self._address)} for {away:.0f} seconds: {error}"
                        ) from None
                    self._say(f"no connection to {_shown(self._address)} ({error}); trying again in {wait:.1f} s")
                    time.sleep(wait * random.uniform(0.5, 1.0))  # not all at once
                    wait = min(2 * wait, LONGEST_WAIT)
                except Dismissed:
                    raise
                except Exception as error:  # whatever a user's code raises
                    self._leave(last_words(error), failed=True)
                    raise
        finally:
            self._beating.set()
            self._hang_up()
            heart.join()

    def _connect(self) -> None:
        """Say hello; on the first welcome, get ready."""
        line = self._line = Line(self._address, self._context, self._address[0])
        hello = {"protocol": wire.PROTOCOL, "siag": __version__, "worker": self._name, "token": self._token}
        line.send(wire.text(wire.HELLO, hello))
        head = line.receive(None)
        if head.kind == wire.REFUSAL:
            self._dismissed(line.text(head))
        if head.kind == wire.GOODBYE:
            self._goodbye(line.text(head))
        if head.kind != wire.WELCOME:
            raise wire.BadFrame("the server did not say welcome")
        welcome = line.text(head)
        self._w = np.empty(int(welcome["d"]))
        self._out = np.empty_like(self._w)
        self._stamp = 0
        self._name = str(welcome["name"])
        self._read_model()
        if self._task is None:
            method = made(welcome["method"])
            task = self._make(method, self._w.copy())
            task.begin(int(welcome["row"]), int(welcome["workers"]), self._w.size, int(welcome["samples"]))
            self._task = task
        self._say(f"joined as worker {self._name}, row {welcome['row']} of {welcome['workers']}")

    def _work(self) -> None:
        """Compute, report, read; for ever."""
        line, task = self._line, self._task
        if line is None or task is None:
            return
        w, out = self._w.view(), self._out
        w.setflags(write=False)
        while True:
            send = task.compute(w, out)
            if line.waiting():
                self._read_model()  # goodbye, or a refusal
            if send:
                line.send(wire.head(wire.REPORT, out.nbytes, self._stamp, task.sample), out)
                self.reports += 1
            else:
                line.send(wire.head(wire.SKIP))
            self._read_model()

    def _read_model(self) -> None:
        """Wait for the next w, whatever else is said before it."""
        line = self._line
        if line is None:
            raise ConnectionResetError("not connected")
        while True:
            head = line.receive(self._w.size)
            if head.kind == wire.MODEL:
                line.array(self._w)
                self._stamp = head.stamp
                return
            content = line.text(head)
            if head.kind == wire.REFUSAL:
                self.refused += 1
                self._say(f"refused: {content.get('reason')}")
                if content.get("final"):
                    self._dismissed(content)
            elif head.kind == wire.GOODBYE:
                self._goodbye(content)
            else:
                raise wire.BadFrame(f"a frame of kind {head.kind} is not for a worker")

    def _dismissed(self, content: dict[str, Any]) -> None:
        reason = str(content.get("reason"))
        if content.get("final"):
            raise Dismissed(f"the server refused: {reason}")
        raise ConnectionRefusedError(reason)

    def _goodbye(self, content: dict[str, Any]) -> None:
        if content.get("done"):
            raise _Over(str(content.get("reason") or "the server is done"))
        raise ConnectionResetError(str(content.get("reason") or "the server stopped"))

    def _leave(self, reason: str, failed: bool = False) -> None:
        if self._line is not None:
            with suppress(OSError):
                self._line.send(wire.text(wire.LEAVE, {"reason": reason, "failed": failed}))

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _beat(self) -> None:
        """A sign of life whenever nothing was said for a while."""
        while not self._beating.wait(HEARTBEAT / 2):
            line = self._line
            if line is not None and time.monotonic() - line.spoken > HEARTBEAT:
                with suppress(OSError):
                    line.send(wire.head(wire.ALIVE))


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def made(description: Any) -> Method:
    """The method a server has described: one of this package's, by its name."""
    content = dict(description) if isinstance(description, dict) else {}
    kind = getattr(methods, str(content.pop("kind", "")), None)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise Dismissed(f"the server's method {description!r} is not one of siag's; give it to siag.work(method=…)")
    try:
        return kind(**content)
    except (TypeError, BadInput) as error:
        raise Dismissed(f"the server's method {description!r} cannot be made here: {error}") from None
