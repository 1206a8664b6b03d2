"""Drives a `siag.live.protocol.worker.Worker` over TCP or TLS: one thread runs the user's code and waits for answers.

The thread that holds the lock `hands` uses the connection and tells the worker what happens. The main thread releases
it while the user's code is at work. A second thread takes it then, now and then: it sends signs of life, hears what the
server says unasked, and connects again if the connection was lost.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from siag.foundations.errors import reason_of
from siag.foundations.last_words import last_words
from siag.live.interrupt import wakeable
from siag.live.protocol import wire
from siag.live.protocol.welcome import Dismissed
from siag.live.protocol.worker import Actions, Connect, End, GaveUp, Phase, Send, Worker
from siag.live.task import StreamEnded
from siag.live.transports.tcp.client import ClientConnection

LONG = 0.05  # seconds; after a gradient that took longer, see whether the server has said goodbye meanwhile
PARTING = 5.0  # seconds to wait for the server to note that this worker leaves
AT_ONCE = 0.5  # seconds to wait for the other thread when the user's code has failed
NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
PERHAPS_TLS = "it hung up at our hello; if it uses TLS, give ca or tls"

LEAVING = Phase.LEAVING  # an enum's members are slow to look up
NOTHING: dict[str, Any] = {}

Address = tuple[str, int]
Connector = Callable[[Sequence[Address], ssl.SSLContext | None], ClientConnection]


class TcpWorker:
    """Carries a worker's messages.

    Args:
        address: of the server; or a function that is asked for it before each connection, and returns the addresses of
            all servers a model is split over, or raises `OSError` if there is none now.
        worker: what is said, and when.
        context: for TLS.
        connect: opens a connection, given the addresses; by default to the one server there is.
    """

    def __init__(
        self,
        address: Address | Callable[[], Sequence[Address]],
        worker: Worker,
        *,
        context: ssl.SSLContext | None = None,
        connect: Connector = lambda addresses, context: ClientConnection(addresses[0], context),
    ) -> None:
        self._address, self.worker, self._context, self._open = address, worker, context, connect
        self._connection: ClientConnection | None = None
        self._connect_at = 0.0
        self._failure: BaseException | None = None  # what the user's code has raised
        self._outside = False  # whether the user's code is at work
        self._hands = threading.RLock()
        self._ended = threading.Event()
        self._wake: Callable[[], None] = lambda: None

    def run(self) -> str:
        """Work until the server is done, the stream ends or the server does not want us; return why it ended."""
        with wakeable(lambda: self._outside and self.worker.end is not None) as self._wake:
            self._hands.acquire()
            heart = threading.Thread(target=self._beat, name="siag-heart", daemon=True)
            heart.start()
            try:
                self._work()
            except KeyboardInterrupt as stop:
                self._interrupted(stop)
            finally:
                self._ended.set()
                self._hang_up()
                heart.join(PARTING)  # it may be calling a server that does not answer
        end, reason = self.worker.end or (End.INTERRUPTED, "")
        if self._failure is not None and end in (End.FAILED, End.INTERRUPTED):
            raise self._failure
        if end in (End.DISMISSED, End.GAVE_UP):
            raise (GaveUp if end is End.GAVE_UP else Dismissed)(reason)
        return "the stream ended" if end is End.STREAM_ENDED else reason

    def _work(self) -> None:
        """Compute, report, read; until the end."""
        worker = self.worker
        self._do(worker.start(time.monotonic()))
        ended = Phase.ENDED
        while worker.phase is not ended:
            if worker.busy:
                self._compute()
            elif self._connection is not None:
                self._receive()
            else:
                time.sleep(max(0.0, self._connect_at - time.monotonic()))
                self._connect()

    def _interrupted(self, stop: KeyboardInterrupt) -> None:
        """A signal, or the other thread's call because the worker has ended while the user's code was at work."""
        self._take_hands()
        if self.worker.end is None:
            self._failure = stop
            self._farewell(self.worker.interrupted)

    # The user's code

    def _compute(self) -> None:
        """Run the user's code; the connection is the other thread's meanwhile."""
        worker, began = self.worker, time.monotonic()
        send, ended = False, False
        try:
            self._hands.release()
            self._outside = True
            send = worker.compute()
            self._outside = False
        except StreamEnded:
            self._outside, ended = False, True
        except (KeyboardInterrupt, Dismissed) as end:
            self._outside = False
            self._take_hands()
            if isinstance(end, KeyboardInterrupt):
                raise
            self._do(worker.dismiss(str(end)))
            return
        except BaseException as error:  # SystemExit, too: it is the user's code that wants to end
            self._outside = False
            error.add_note(f"in worker {worker.name} of {worker.where}")
            self._failure, words = error, last_words(error)
            self._take_hands()
            self._farewell(lambda now: worker.failed(words, now))
            return
        self._hands.acquire()
        now = time.monotonic()
        if now - began > LONG:
            self._poll()
        self._do(worker.stream_ended(now) if ended else worker.computed(send, now))

    def _take_hands(self) -> None:
        """Use the connection again; if the other thread waits for a server that does not answer, it waits no longer."""
        if not self._hands.acquire(timeout=AT_ONCE):
            self._hang_up()

    def _farewell(self, event: Callable[[float], Actions]) -> None:
        """Say that this worker leaves, unless the server would take it for the rest of what was being sent."""
        if self._connection is not None and not self._connection.whole:
            self._hang_up()
        with suppress(KeyboardInterrupt):
            self._do(event(time.monotonic()))
        self.worker.phase = Phase.ENDED

    # The connection

    def _do(self, actions: Actions) -> None:
        """Carry out what the worker wants done."""
        for action in actions:
            if type(action) is Send:
                self._send(action)
            elif type(action) is Connect:
                self._connect_at = time.monotonic() + action.after
            else:
                self._hang_up()
        if self._outside and self.worker.end is not None:
            self._wake()

    def _send(self, action: Send) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            connection.send(*action)
        except (OSError, wire.BadFrame) as error:
            self._poll()  # perhaps it said goodbye before it hung up
            if self._connection is connection:
                self._lost(error)
        if self.worker.phase is LEAVING and self._connection is connection:
            connection.drain(PARTING)
            self._hang_up()
            self._do(self.worker.lost("", time.monotonic()))

    def _connect(self) -> None:
        """Connect to the server, or to all that a model is split over."""
        worker = self.worker
        try:
            addresses = self._address() if callable(self._address) else [self._address]
            worker.where = shown(addresses[0])
            self._connection = self._open(addresses, self._context)
        except OSError as error:
            self._lost(error)
            return
        if self._ended.is_set():  # meanwhile; nobody else would hang up
            self._hang_up()
            return
        self._do(worker.connected(time.monotonic(), self._connection.extras))

    def _receive(self) -> None:
        """Wait for a frame, and do what it says."""
        connection, worker = self._connection, self.worker
        if connection is None:
            return
        try:
            head, payload = connection.receive(worker.expected, worker.model_place())
            content = NOTHING if head.kind == wire.MODEL else wire.parse_text(payload)
            actions = worker.frame(head, content, time.monotonic())
            if head.kind == wire.WELCOME:
                connection.agree(worker.encoding)
                if worker.share:
                    connection.share(content.get("memory"), *worker.lengths)
        except (OSError, wire.BadFrame) as error:
            self._lost(error)
            return
        if actions:  # seldom
            self._do(actions)

    def _poll(self) -> None:
        """Do what the server has said unasked; never waits."""
        try:
            while self._connection is not None and self._connection.waiting():
                self._receive()
        except (OSError, wire.BadFrame) as error:
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        """The connection is gone, or could not be opened."""
        self._hang_up()
        worker, reason = self.worker, reason_of(error)
        first = worker.task is None
        if isinstance(error, ssl.SSLCertVerificationError):
            self._do(worker.dismiss(f"the server's certificate is not trusted: {error.verify_message}"))
        elif isinstance(error, ssl.SSLError) and error.reason in NO_TLS and first:
            remedy = "leave out ca and tls, or start it with certificate and key"
            self._do(worker.dismiss(f"the server at {worker.where} does not speak TLS; {remedy}"))
        else:
            hung_up = isinstance(error, ConnectionResetError) and worker.phase is Phase.GREETING
            reason = PERHAPS_TLS if hung_up and first and self._context is None else reason
            self._do(worker.lost(reason, time.monotonic()))

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect_again(self) -> None:
        """If there is no connection and it is time, open one, and read what the server says first."""
        if self._connection is None and self.worker.end is None and time.monotonic() >= self._connect_at:
            self._connect()
            while self.worker.phase in (Phase.GREETING, Phase.WELCOMED):
                self._receive()

    def _beat(self) -> None:
        """The second thread."""
        worker = self.worker
        while not self._ended.wait(worker.heartbeat / 2):
            if self._hands.acquire(blocking=False):  # the user's code is at work
                try:
                    self._connect_again()
                    self._poll()
                    self._do(worker.time(time.monotonic()))
                finally:
                    self._hands.release()
            elif (connection := self._connection) is not None and worker.time(time.monotonic()):
                with suppress(OSError):
                    connection.beat()


def shown(address: Address) -> str:
    """An address as it is written."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
