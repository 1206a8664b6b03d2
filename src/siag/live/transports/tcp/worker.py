"""The network runtime, worker side: one connection, opened again whenever it is lost."""

from __future__ import annotations

import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from siag import methods
from siag.foundations.errors import BadInput, SiagError, reason_of, shorten
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live import wire
from siag.live.interrupt import wakeable
from siag.live.sharding.lines import Lines
from siag.live.task import FromProblem, StreamEnded, Task, last_words
from siag.live.transports.tcp.client import Line
from siag.methods import Method

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds before the next try to connect
HEARTBEAT = 2.0  # seconds between two signs of life while a gradient takes long
LONG = 0.05  # seconds; after a gradient that took longer, see whether the server has said goodbye meanwhile
REJOIN = 3  # refusals in a row, after which to begin with a new hello
PARTING = 5.0  # seconds to wait for the server to note that this worker leaves
NO_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")

BEFORE: wire.Expected = {wire.WELCOME: wire.TOLD, wire.REFUSAL: wire.TOLD, wire.GOODBYE: wire.TOLD}

Address = tuple[str, int]
Make = Callable[[dict[str, Any], Floats], Task]
"""make(description, w0): the task, given the server's description of its method, and w."""


class Dismissed(SiagError):
    """The server does not want this worker, or is not one it can work for."""


class GaveUp(Dismissed):
    """There was no server for as long as the worker was told to wait."""


class _Over(Exception):
    """The server says the work is done."""


class _Again(ConnectionResetError):
    """This worker hangs up, to begin anew."""


class Worker:
    """A worker of a distant server.

    Args:
        address: of the server; or a function that is asked for it before each connection, and returns the addresses of
            all servers a model is split over, or raises `OSError` if there is none now.
        make: makes the task, once the server has said what it needs.
        name: which of the server's workers this is; `None`: any that is free.
        token: that binds it to its row.
        context: for TLS.
        give_up: seconds without a server after which to end; `None`: never.
        say: what to do with a remark.
        origin: the problem and the seed of its samples, in words.
        share: whether to share memory with a server on this machine that offers it.
    """

    def __init__(
        self,
        address: Address | Callable[[], Sequence[Address]],
        make: Make,
        *,
        name: str | None = None,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
        give_up: float | None = None,
        say: Callable[[str], None] = lambda text: None,
        origin: dict[str, Any] | None = None,
        share: bool = False,
    ) -> None:
        self._origin = origin or {}
        self._share = {"memory": True} if share else {}
        self._address, self._make, self._token = address, make, token
        self._where = "the server" if callable(address) else shown(address)  # where it was last looked for
        self._context, self._give_up, self._say = context, give_up, say
        self._task: Task | None = None
        self._line: Line | Lines | None = None
        self._place = (0, 0, 0)  # row, workers, d
        self._lengths = (0, 0)  # of what is sent, and of what is read
        self._ahead = 0  # how many samples others have reported in this worker's place
        self._joined = False
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._hands = threading.Lock()  # held by whoever uses the connection; free while the user's code is at work
        self._verdict: Exception | None = None  # what the server said meanwhile, if that is the end
        self._rejoined: int | None = None  # the samples the server knew of when it was called again meanwhile
        self._away_since = 0.0
        self._calling = False  # whether the server is being called again meanwhile
        self._outside = False  # whether the user's code is at work
        self._wake: Callable[[], None] = lambda: None
        self.name = name
        self.reports = 0
        self.refused = 0

    def run(self) -> str:
        """Work until the server is done, the stream ends or the server does not want us; return why it ended."""
        with wakeable(lambda: self._outside and self._verdict is not None) as self._wake:
            return self._run()

    def _run(self) -> str:
        wait, since = FIRST_WAIT, time.monotonic()
        self._hands.acquire()
        heart = threading.Thread(target=self._beat, name="siag-heart", daemon=True)
        heart.start()
        try:
            while True:
                try:
                    self._connect()
                    self._work()
                except _Over as over:
                    return str(over)
                except StreamEnded:
                    self._leave("its stream ended")
                    return "the stream ended"
                except KeyboardInterrupt:
                    if isinstance(self._verdict, _Over):
                        return str(self._verdict)
                    if self._verdict is not None:
                        raise self._verdict from None
                    self._leave("it was interrupted", failed=True)
                    raise
                except (OSError, wire.BadFrame) as error:
                    if error is self._failure:
                        raise
                    self._check_tls(error)
                    self._hang_up()
                    if self._joined:
                        self._joined, wait, since = False, FIRST_WAIT, time.monotonic()
                    self._wait(wait, time.monotonic() - since, error)
                    wait = min(2 * wait, LONGEST_WAIT)
        finally:
            self._ended.set()
            self._hang_up()
            heart.join(PARTING)  # it may be calling a server that does not answer

    def _wait(self, wait: float, away: float, error: Exception) -> None:
        """Before the next try; the server may be back by then."""
        place, reason = self._where, reason_of(error)
        if self._give_up is not None and away > self._give_up:
            raise GaveUp(f"no server at {place} for {away:.0f} seconds: {reason}") from None
        what = reason if isinstance(error, _Again) else f"no connection to {place} ({reason})"
        self._say(f"{what}; trying again in {wait:.1f} s")
        time.sleep(wait * random.uniform(0.5, 1.0))  # not all at once

    def _connect(self) -> None:
        """Say hello; on the first welcome, get ready."""
        content, samples = self._greet()
        self._stamp = self._read_model(self._w)
        if self._task is None:
            self._task = self._attempt(lambda: self._ready(content.get("method"), samples))
        else:
            self._go_on(self._task, samples)
        self._welcomed()

    def _welcomed(self) -> None:
        row, workers, _ = self._place
        self._joined = True
        self._say(f"joined as worker {self.name}, row {row} of {workers}")

    def _greet(self) -> tuple[dict[str, Any], int]:
        """Say hello; return what the welcome says, and how many samples the server knows of."""
        line = self._open()
        hello = {"protocol": wire.PROTOCOL, "siag": __version__, "worker": self.name, "token": self._token}
        try:
            head = line.hello(wire.text(wire.HELLO, hello | self._origin | self._share | line.ticket), BEFORE)
        except ConnectionResetError:
            if self._task is None and self._context is None:
                raise ConnectionResetError("it hung up at our hello; if it uses TLS, give --ca or --tls") from None
            raise
        content = line.text(head)
        if head.kind != wire.WELCOME:
            self._turned_away(head, content)
        place, lengths, samples = _welcome(content)
        self._expected: wire.Expected = {
            wire.MODEL: (8 * lengths[1], 8 * lengths[1]),
            wire.REFUSAL: wire.TOLD,
            wire.GOODBYE: wire.TOLD,
        }
        if self._task is None:
            self._out, self._w, self._stamp = np.empty(lengths[0]), np.empty(lengths[1]), 0
            self._place, self._lengths, self.name = place, lengths, str(content.get("name"))
        elif place != self._place or lengths != self._lengths:
            there, here = (f"row {row} of {n}, d = {d}" for row, n, d in (place, self._place))
            if there == here:
                there, here = (f"reports of {sent} numbers" for sent, _ in (lengths, self._lengths))
            raise Dismissed(f"the server is another than before: {there}, not {here}")
        if self._share:
            line.share(content.get("memory"), *lengths)
        return content, samples

    def _open(self) -> Line | Lines:
        """Connect to the server, or to all that a model is split over."""
        addresses = self._address() if callable(self._address) else [self._address]
        self._where = shown(addresses[0])
        whole = len(addresses) == 1
        line = self._line = Line(addresses[0], self._context) if whole else Lines(addresses, self._context)
        if self._ended.is_set():  # meanwhile; nobody else would hang up
            self._hang_up()
            raise ConnectionResetError("the worker has ended")
        return line

    def _ready(self, method: Any, samples: int) -> Task:
        task = self._make(method if isinstance(method, dict) else {}, self._w[: self._place[2]].copy())
        task.begin(*self._place, samples)
        return task

    def _go_on(self, task: Task, samples: int) -> None:
        """After another worker may have worked in this one's place: no sample is reported twice.

        Whether what was sent last has arrived is not known, so nothing of it is remembered.
        """
        task.forget()
        if samples > task.sample + 1 + self._ahead:
            if isinstance(task, FromProblem):  # a sample's number says what it is
                task.begin(*self._place, samples)
            else:
                self._ahead = samples - task.sample - 1

    def _work(self) -> None:
        """Compute, report, read; for ever."""
        task = self._task
        if task is None:
            return
        w, out = self._w.view(), self._out
        w.setflags(write=False)
        in_a_row, compute = 0, partial(task.compute, w, out)
        while True:
            began = time.monotonic()
            send = self._run_users_code(compute)
            line = self._resume(task)
            if line is None:
                continue
            if time.monotonic() - began > LONG:
                while line.waiting():
                    self._read_frame(self._w)
            try:
                if send:
                    line.send(wire.head(wire.REPORT, out.nbytes, self._stamp, task.sample + self._ahead), out)
                    self.reports += 1
                else:
                    line.send(wire.head(wire.SKIP, 0, self._stamp, task.sample + self._ahead))
            except OSError:
                while line.waiting():  # perhaps it said goodbye before it hung up
                    self._read_frame(self._w)
                raise
            before = self.refused
            self._stamp = self._read_model(self._w)
            in_a_row = in_a_row + 1 if self.refused > before else 0
            if in_a_row:
                task.forget()
            if in_a_row == REJOIN:  # the two ends may disagree about what was before
                raise _Again(f"refused {REJOIN} times in a row")

    def _run_users_code(self, compute: Callable[[], bool]) -> bool:
        """Run the user's code; the connection is another thread's meanwhile, and for good if it fails or is ended."""
        ended = False
        try:
            self._hands.release()
            self._outside = True
            return bool(self._attempt(compute))
        except BaseException as end:
            self._outside = False
            ended = not isinstance(end, StreamEnded)
            if self._verdict is not None and isinstance(end, KeyboardInterrupt | StreamEnded):
                raise self._verdict from None  # which is why it ended
            raise
        finally:
            self._outside = False
            if not ended:
                self._hands.acquire()

    def _attempt(self, users: Callable[[], Any]) -> Any:
        """Run a user's code; what it raises is told to the server, and is no fault of the connection's."""
        try:
            return users()
        except (StreamEnded, Dismissed, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit, too: it is the user's code that wants to end
            self._failure = error
            error.add_note(f"in worker {self.name} of {self._where}")
            self._leave(last_words(error), failed=True)
            raise

    def _resume(self, task: Task) -> Line | Lines | None:
        """After the user's code: what became of the connection meanwhile; `None` if its message is of no use now."""
        if self._verdict is not None:
            raise self._verdict
        if self._line is None:
            raise ConnectionResetError("the connection was lost")
        if self._rejoined is not None:
            number, samples, self._rejoined = task.sample + self._ahead, self._rejoined, None
            self._go_on(task, samples)
            if number < samples:
                return None
        return self._line

    def _read_model(self, into: Floats) -> int:
        """Wait for the next w, whatever else is said before it; return its version."""
        while True:
            head = self._read_frame(into)
            if head.kind == wire.MODEL:
                return head.stamp

    def _read_frame(self, into: Floats) -> wire.Head:
        """Read a frame, and do what it says; a w goes into the given array."""
        line = self._line
        if line is None:
            raise ConnectionResetError("not connected")
        head = line.receive(self._expected)
        if head.kind == wire.MODEL:
            line.array(into)
            return head
        content = line.text(head)
        if head.kind == wire.GOODBYE or content.get("final"):
            self._turned_away(head, content)
        self.refused += 1
        self._say(f"refused: {wire.words(content.get('reason'))}")
        return head

    def _turned_away(self, head: wire.Head, content: dict[str, Any]) -> None:
        """A refusal, or goodbye: for good, or for now."""
        reason = wire.words(content.get("reason"))
        if head.kind == wire.GOODBYE:
            if content.get("done"):
                raise _Over(reason or "the server is done")
            raise ConnectionResetError(reason or "the server stopped")
        if content.get("final"):
            raise Dismissed(f"the server refused: {reason}")
        raise ConnectionRefusedError(reason or "the server is busy")

    def _check_tls(self, error: Exception) -> None:
        """Give up if the two ends will never understand each other."""
        if isinstance(error, ssl.SSLCertVerificationError):
            raise Dismissed(f"the server's certificate is not trusted: {error.verify_message}") from None
        if isinstance(error, ssl.SSLError) and error.reason in NO_TLS and self._task is None:
            remedy = "leave out --ca and --tls, or start it with --certificate and --key"
            raise Dismissed(f"the server at {self._where} does not speak TLS; {remedy}") from None

    def _leave(self, reason: str, failed: bool = False) -> None:
        """Say farewell, and wait until the server has heard it; not to one that is only being called again."""
        line, calling = self._line, self._calling
        self._ended.set()  # nobody else speaks any longer
        whole = line is not None and line.whole  # else it would be taken for the rest of what was being sent
        if line is not None and whole and not calling:
            with suppress(OSError):
                line.send(wire.text(wire.LEAVE, {"reason": wire.words(reason), "failed": failed}))
                line.drain(PARTING)

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _beat(self) -> None:
        """A sign of life whenever nothing was said for a while."""
        while not self._ended.wait(HEARTBEAT / 2):
            line = self._line
            if line is not None and self._joined and time.monotonic() - line.spoken > HEARTBEAT:
                with suppress(OSError):
                    line.beat()
            if self._verdict is None and self._hands.acquire(blocking=False):  # the user's code is at work
                try:
                    self._listen()
                finally:
                    self._hands.release()

    def _listen(self) -> None:
        """While the user's code is at work: hear what the server says, and call it again if it is gone."""
        meanwhile = np.empty(self._lengths[1])  # the w the user's code reads must not change
        try:
            if self._line is None:
                self._calling = True
                _, self._rejoined = self._greet()
                self._read_model(meanwhile)
                self._welcomed()
                self._calling = False
            while self._line is not None and self._line.waiting():
                self._read_frame(meanwhile)
        except (_Over, Dismissed) as verdict:
            self._end_with(verdict)
        except (OSError, wire.BadFrame) as error:
            self._hang_up()
            self._calling = False
            if self._ended.is_set():
                return
            if self._joined:
                self._joined, self._away_since = False, time.monotonic()
                self._say(f"no connection to {self._where} ({reason_of(error)}); trying again")
            away = time.monotonic() - self._away_since
            if self._give_up is not None and away > self._give_up:
                self._end_with(GaveUp(f"no server at {self._where} for {away:.0f} seconds: {reason_of(error)}"))

    def _end_with(self, verdict: Exception) -> None:
        """Let the worker end, though its code may wait for data that never come."""
        self._verdict = verdict
        if self._task is not None:
            self._task.stop()
        self._wake()


def made(description: dict[str, Any]) -> Method:
    """The method a server has described: one of this package's, by its name."""
    content = {name: made(value) if _is_method(value) else value for name, value in description.items()}
    kind = getattr(methods, str(content.pop("kind", "")), None)
    if not (isinstance(kind, type) and issubclass(kind, Method) and kind is not Method):
        raise Dismissed(
            f"the server's method {shorten(description)} is not one of siag's; give it to siag.work(method=…)"
        )
    try:
        return kind(**content)
    except (TypeError, BadInput) as error:
        raise Dismissed(f"the server's method {shorten(description)} cannot be made here: {error}") from None


def shown(address: Address) -> str:
    """An address as it is written."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_method(value: object) -> bool:
    """Whether this describes a method that another is around."""
    return isinstance(value, dict) and "kind" in value


def _welcome(content: dict[str, Any]) -> tuple[tuple[int, int, int], tuple[int, int], int]:
    """Row, workers and d, the lengths of what is sent and of what is read, and the number of samples, of a welcome."""
    same = content.get("d")
    found = [content.get(name) for name in ("row", "workers", "d", "samples")]
    found += [content.get(name, same) for name in ("message", "shown")]
    row, workers, d, samples, message, shown = (value if type(value) is int else -1 for value in found)
    most = wire.LARGEST // 8
    if not (0 <= row < workers and 0 < d <= shown <= most and 0 < message <= most and samples >= 0):
        raise wire.BadFrame("the server's welcome is not one")
    return (row, workers, d), (message, shown), samples
