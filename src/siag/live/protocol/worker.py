"""A worker as a state machine without I/O: events in, actions out; time, randomness and the user's code are arguments.

    start ──► Connect ──connected──► GREETING ──WELCOME──► WELCOMED ──MODEL──► JOINED ◄──► (computing, reporting)
                 ▲                                                                │
                 └───────────── AWAY ◄── lost, GOODBYE for now, refused for now ──┘

A transport carries the actions out and tells what came of them. The user's code runs outside: whenever the worker is
`busy`, the transport is to call `compute`, and then `computed`, `stream_ended` or `failed`. Other events may come
meanwhile; the w that the user's code reads does not change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from siag.foundations.encodings import FLOAT64
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live.protocol import wire
from siag.live.protocol.frame_reader import FrameReader
from siag.live.protocol.welcome import Dismissed, parse_welcome
from siag.live.task import UNKNOWN, FromProblem, Task

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds before the next try to connect
HEARTBEAT = 2.0  # seconds between two signs of life while a gradient takes long
REJOIN = 3  # refusals in a row, after which to begin with a new hello
BEFORE: wire.Expected = {
    wire.WELCOME: wire.JSON_FROM_SERVER,
    wire.REFUSAL: wire.JSON_FROM_SERVER,
    wire.GOODBYE: wire.JSON_FROM_SERVER,
}

Make = Callable[[dict[str, Any], Floats], Task]
"""make(description, w0): the task, given the server's description of its method, and w."""


class Phase(Enum):
    """How a worker stands with its server."""

    AWAY = auto()  # no connection; it has asked for one, unless it is to begin yet
    GREETING = auto()  # hello was sent
    WELCOMED = auto()  # w is to come
    JOINED = auto()
    LEAVING = auto()  # farewell was sent, and the server hangs up next; when that is `lost`, the worker has ended
    ENDED = auto()


class End(Enum):
    """Why a worker has ended."""

    DONE = auto()  # the server says so
    STREAM_ENDED = auto()
    DISMISSED = auto()  # the server does not want it, or is not one it can work for
    GAVE_UP = auto()  # there was no server for as long as it was told to wait
    FAILED = auto()  # the user's code raised an error
    INTERRUPTED = auto()


class GaveUp(Dismissed):
    """There was no server for as long as the worker was told to wait."""


class Connect(NamedTuple):
    """Open a connection `after` seconds, and say `connected` or `lost`."""

    after: float


class Send(NamedTuple):
    """Send a frame; or its header, and after it an array."""

    frame: bytes
    array: Floats | None = None

    @property
    def content(self) -> bytes:
        """All of it, as bytes."""
        if self.array is None:
            return self.frame
        return self.frame + self.array.astype(self.array.dtype.newbyteorder("<"), copy=False).tobytes()


class HangUp(NamedTuple):
    """End the connection, if there is one; nothing is to be told of that."""


JOINED = Phase.JOINED  # an enum's members are slow to look up

Action: TypeAlias = Connect | Send | HangUp
Actions: TypeAlias = Sequence[Action]


class Worker:
    """A worker of a server.

    Args:
        make: makes the task, once the server has said what it needs.
        name: which of the server's workers this is; `None`: any that is free.
        token: that binds it to its row.
        origin: the problem and the seed of its samples, in words.
        share: whether to share memory with a server that offers it.
        give_up: seconds without a server after which to end; `None`: never.
        heartbeat: seconds of silence after which it sends a sign of life.
        wait: seconds before it first tries to connect again; twice as long each time, up to `LONGEST_WAIT`.
        rng: spreads the tries to connect.
        where: the server's address, for remarks.
        say: what to do with a remark.

    Attributes:
        phase: how it stands with its server.
        busy: whether the user's code is at work, or to be called.
        end: why it has ended, and a reason in words; `None` before that.
        expected: the frames that may come now.
        encoding: how it sends its messages, and by its `model` how it reads w, once it has been told.
        w: (shown,) what it has read last, to be read only, in the numbers that travel.
        message: what it is to send, as it travels.
        reports: how many it has sent.
        refused: how many of its reports were refused.
        spoken: when it last sent something.
    """

    def __init__(
        self,
        make: Make,
        *,
        name: str | None = None,
        token: str | None = None,
        origin: dict[str, Any] | None = None,
        share: bool = False,
        give_up: float | None = None,
        heartbeat: float = HEARTBEAT,
        wait: float = FIRST_WAIT,
        rng: random.Random | None = None,
        where: str = "the server",
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._make, self.name, self._token, self.share = make, name, token, share
        self._hello = {**(origin or {}), **({"memory": True} if share else {})}
        self.give_up, self.heartbeat, self._rng = give_up, heartbeat, rng or random.Random()
        self.where, self._say = where, say
        self.phase, self.busy = Phase.AWAY, False
        self.end: tuple[End, str] | None = None
        self.expected: wire.Expected = BEFORE
        self.task: Task | None = None
        self.encoding = FLOAT64
        self.place, self.lengths = (0, 0, 0), (0, 0)  # row, workers, d; of what is sent, and of what is read
        self.w = self.message = np.empty(0)
        self.reports = self.refused = 0
        self.spoken = 0.0
        self._writable = self._model = np.empty(0)  # what w is a view of; a newer w, while the user's code reads w
        self._model_stamp = 0
        self._stamp = self._samples = 0
        self._passes = 0  # over its data, as far as the server knows
        self._method: Any = None
        self._life = self._life_of_w = ""  # of the server, and of the one that w is from; a version means w in one life
        self._ahead = 0  # how many samples others have reported in this worker's place
        self._settle: Callable[[bool], None] | None = None  # the task's
        self._rejoined = False  # whether the server was joined anew while the user's code was at work
        self._refusals = 0  # in a row
        self._declined = False  # whether what was sent last was refused
        self._first_wait = self._wait = wait
        self._since = 0.0

    # What the user's code does

    def compute(self) -> bool:
        """Run the user's code: make the task if there is none, and the next message; whether to send it."""
        if self.task is None:
            _, _, d = self.place
            task = self._make(self._method if isinstance(self._method, dict) else {}, self.w[:d].astype(np.float64))
            task.begin(*self.place, self._samples, self.encoding)
            self.task, self._settle = task, task.settle
        elif self._settle is not None:
            self._settle(not self._refusals)
        self.task.version = self._stamp
        return bool(self.task.compute(self.w, self.message))

    def computed(self, send: bool, now: float) -> Actions:
        """The user's code has made a message, or found that there is nothing to send."""
        self.busy = False
        task = self.task
        if task is None or self.phase is not JOINED:
            return []  # the message is of no use: the next comes when the server is there again
        number = task.sample + self._ahead
        if self._rejoined:
            self._rejoined = False
            void = self._go_on(task)  # the message was made with what the server takes for lost
            if void or number < self._samples or self._life_of_w != self._life:
                self._writable[:], self._stamp = self._model, self._model_stamp
                self._life_of_w, self.busy = self._life, True
                return []
        self.spoken = now
        if send:
            self.reports += 1
            said = Send(wire.head(wire.REPORT, self.message.nbytes, self._stamp, number, task.loss), self.message)
        else:
            said = Send(wire.head(wire.SKIP, 0, self._stamp, number))
        if task.passes == self._passes and task.first is UNKNOWN:
            return (said,)
        self._passes = task.passes
        return Send(wire.head(wire.ALIVE, sample=self._passes, loss=task.first)), said

    def put_off(self) -> None:
        """The user's code is not called: the worker goes away instead, and reads w anew when it is back."""
        self.busy, self.phase = False, Phase.AWAY

    def stream_ended(self, now: float) -> Actions:
        """There are no more samples."""
        self.busy = False
        return self._leave(End.STREAM_ENDED, "its stream ended", now)

    def failed(self, reason: str, now: float) -> Actions:
        """The user's code has raised an error."""
        self.busy = False
        return self._leave(End.FAILED, reason, now)

    def interrupted(self, now: float) -> Actions:
        """It is to end before its stream does."""
        return self._leave(End.INTERRUPTED, "it was interrupted", now)

    # What happens to the connection

    def start(self, now: float) -> Actions:
        """Begin."""
        self._since = now
        return [Connect(0.0)]

    def connected(self, now: float, extras: dict[str, Any] | None = None) -> Actions:
        """A connection is there; `extras` is what the hello says of it."""
        if self.phase is not Phase.AWAY:
            return [HangUp()]
        self.phase, self.expected, self.spoken = Phase.GREETING, BEFORE, now
        hello = {"protocol": wire.PROTOCOL, "siag": __version__, "worker": self.name, "token": self._token}
        return [Send(wire.text(wire.HELLO, hello | self._hello | (extras or {})))]

    def lost(self, reason: str, now: float) -> Actions:
        """The connection is gone, or could not be opened."""
        if self.end is not None:  # it is leaving, or has left
            self.phase = Phase.ENDED
            return []
        return self._retry_later(f"no connection to {self.where} ({reason})", reason, now)

    def dismiss(self, reason: str) -> Actions:
        """The two ends will never understand each other."""
        return self._finish(End.DISMISSED, reason)

    def time(self, now: float) -> Actions:
        """Some time has passed."""
        if self.phase is Phase.JOINED and now >= self.spoken + self.heartbeat:
            self.spoken = now
            return [Send(wire.head(wire.ALIVE))]
        return []

    @property
    def wakes(self) -> float | None:
        """When `time` should be called next; `None`: no need."""
        return self.spoken + self.heartbeat if self.phase is Phase.JOINED else None

    def model_place(self) -> Floats:
        """Where the numbers of the next MODEL are to go, before `frame` is told of it."""
        return self._model if self.busy else self._writable

    def feed(self, reader: FrameReader, content: wire.Raw, now: float) -> Actions:
        """These bytes have come; for transports that have them in one piece. May raise `wire.BadFrame`."""
        actions: list[Action] = []
        reader.expected = self.expected
        for head, payload in reader.feed(content):
            if head.kind == wire.MODEL:
                self.encoding.model.copy(payload, self.model_place())
            actions += self.frame(head, {} if head.kind == wire.MODEL else wire.parse_text(payload), now)
            reader.expected = self.expected
        return actions

    def frame(self, head: wire.Head, content: dict[str, Any], now: float) -> Actions:
        """A frame has come, one that was expected; `content` is its JSON, empty for a MODEL."""
        if head.kind == wire.MODEL and self.phase is JOINED and not (self.busy or self._declined):  # as almost always
            self._stamp, self._refusals, self.busy = head.stamp, 0, True
            return ()
        if self.phase in (Phase.ENDED, Phase.LEAVING, Phase.AWAY):
            return ()
        if head.kind == wire.WELCOME:
            return self._welcome(content)
        if head.kind == wire.MODEL:
            return self._read(head.stamp, now)
        return self._told(head.kind, content, now)

    # Inside

    def _told(self, kind: int, content: dict[str, Any], now: float) -> Actions:
        """A refusal, or goodbye: for good, or for now."""
        reason = wire.words(content.get("reason"))
        if kind == wire.GOODBYE and content.get("done"):
            return self._finish(End.DONE, reason or "the server is done")
        if kind == wire.REFUSAL and content.get("final"):
            return self._finish(End.DISMISSED, f"the server refused: {reason}")
        if kind == wire.GOODBYE or self.phase is Phase.GREETING:
            reason = reason or ("the server stopped" if kind == wire.GOODBYE else "the server is busy")
            return [HangUp(), *self._retry_later(f"no connection to {self.where} ({reason})", reason, now)]
        self.refused += 1
        self._declined = True
        self._say(f"refused: {reason}")
        return []

    def _welcome(self, content: dict[str, Any]) -> Actions:
        place, lengths, encoding, samples = parse_welcome(content)
        known = self.lengths[0] > 0
        if known and (self.task is None or not self.task.tied):
            self.place = place[0], *self.place[1:]  # an open server that went back in time may give rows anew
        if known and (place, lengths, encoding) != (self.place, self.lengths, self.encoding):
            there, here = (f"row {row} of {n}, d = {d}" for row, n, d in (place, self.place))
            if there == here:
                both = (lengths, encoding), (self.lengths, self.encoding)
                there, here = (f"reports of {sent} numbers of {kind.name}" for (sent, _), kind in both)
            return self._finish(
                End.DISMISSED, f"the server is another than before: {there}, not {here}; start it again"
            )
        if not known:
            self.place, self.lengths, self.name = place, lengths, str(content.get("name"))
            self.encoding, (sent, read), kind = encoding, lengths, encoding.model.dtype
            self.message = np.empty(encoding.length(sent), encoding.dtype)
            self._writable, self._model = np.empty(read, kind), np.empty(read, kind)
            self.w = self._writable.view()
            self.w.setflags(write=False)
        self._samples, self._method, self._life = samples, content.get("method"), str(content.get("life"))
        size = encoding.model.size(lengths[1])
        self.expected = {
            wire.MODEL: (size, size),
            wire.REFUSAL: wire.JSON_FROM_SERVER,
            wire.GOODBYE: wire.JSON_FROM_SERVER,
        }
        self.phase = Phase.WELCOMED
        return []

    def _read(self, stamp: int, now: float) -> Actions:
        """The numbers of a MODEL have come."""
        joined = self.phase is Phase.WELCOMED
        self.phase = Phase.JOINED
        if joined:
            row, workers, _ = self.place
            self._say(f"joined as worker {self.name}, row {row} of {workers}")
            self._wait, self._refusals, self._declined = self._first_wait, 0, False
            self._passes = 0
        if self.busy:
            self._rejoined, self._model_stamp = self._rejoined or joined, stamp
            return []
        self._stamp, self._life_of_w, self._rejoined = stamp, self._life, False
        self._refusals, self._declined = (self._refusals + 1 if self._declined else 0), False
        if self.task is not None and joined:
            self._go_on(self.task)
        elif self.task is not None and self._refusals:
            self.task.forget()
            if self._refusals == REJOIN:  # the two ends may disagree about what was before
                self._refusals = 0
                reason = f"refused {REJOIN} times in a row"
                return [HangUp(), *self._retry_later(reason, reason, now)]
        self.busy = True
        return []

    def _go_on(self, task: Task) -> bool:
        """After another worker may have worked in this one's place: no sample is reported twice.

        Whether what was sent last has arrived is not known, so nothing of it is remembered; whether anything was.
        A stream that is acknowledged goes back to the first sample that has not arrived.
        """
        remembered = task.forget()
        if self._settle is not None:
            return task.again(self._samples) or remembered
        if self._samples > task.sample + 1 + self._ahead:
            if isinstance(task, FromProblem):  # a sample's number says what it is
                task.begin(*self.place, self._samples, self.encoding)
            else:
                self._ahead = self._samples - task.sample - 1
        return remembered

    def _retry_later(self, remark: str, reason: str, now: float) -> Actions:
        """Connect again after a while, or give up."""
        if self.phase in (Phase.JOINED, Phase.WELCOMED):
            self._wait, self._since = self._first_wait, now
        away = now - self._since
        if self.give_up is not None and away > self.give_up:
            return self._finish(End.GAVE_UP, f"no server at {self.where} for {away:.0f} seconds: {reason}")
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
        self.phase = Phase.AWAY
        self._say(f"{remark}; trying again in {wait:.1f} s")
        return [Connect(wait * self._rng.uniform(0.5, 1.0))]  # not all at once

    def _leave(self, end: End, reason: str, now: float) -> Actions:
        """Say farewell; the worker has ended when the server has heard it. Without one there is nothing to say."""
        if self.phase is Phase.ENDED:
            return []
        self.end = self.end or (end, reason)
        if self.phase is not Phase.JOINED:
            self.phase = Phase.ENDED
            return [HangUp()]
        self.phase, self.spoken = Phase.LEAVING, now
        farewell = {"reason": wire.words(reason), "failed": end is not End.STREAM_ENDED}
        return [Send(wire.text(wire.LEAVE, farewell))]

    def _finish(self, end: End, reason: str) -> Actions:
        """The worker has ended; code of the user's that waits for a sample is to wait no longer."""
        self.end, self.phase = self.end or (end, reason), Phase.ENDED
        if self.busy and self.task is not None:
            self.task.stop()
        return [HangUp()]
