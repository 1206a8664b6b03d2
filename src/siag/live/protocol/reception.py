"""The server's side of a connection as a state machine without I/O: events in, actions out, time is an argument.

A transport tells a `Reception` what has happened: a connection was opened, bytes have come, it was lost. It gets back a
few actions, and carries each out before it asks for the next: send this, send w as it is now, close.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

from siag.foundations import check
from siag.foundations.encodings import Encoding
from siag.foundations.types import Floats
from siag.live.protocol import wire
from siag.live.protocol.frame_reader import FrameReader
from siag.server.sums import Sum

GRACE = 1.0  # seconds in which the other end may hang up before this one insists
UNREAD = 1 << 16  # bytes a worker need not have read; and two models, if that is more
TOO_SLOW = "no complete frame in time"
TAKEN_OVER = "another connection has taken over this worker's row"
BEFORE: wire.Expected = {wire.HELLO: wire.JSON_FROM_WORKER}  # the frames that a new connection may send


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a connection may take.

    Args:
        connections: how many at a time, at most; one without a hello makes room for a newer one.
        hello: seconds from the connection to a complete hello.
        frame: seconds from the first byte of a frame to its last; large ones have longer.
        slowest: bytes per second that a large frame must have, after that.
        max_weight: what a worker may count for at most, unless its token says otherwise; one that may count for more
            than 1 may be a relay.
    """

    connections: int = 2000
    hello: float = 10.0
    frame: float = 30.0
    slowest: float = 1 << 16
    max_weight: float = 1.0

    @classmethod
    def for_workers(cls, n: int, **given: Any) -> Self:
        """With room for two connections of each of n workers, unless `given` says otherwise."""
        return cls(**{"connections": max(cls.connections, 2 * n)} | given)

    def __post_init__(self) -> None:
        object.__setattr__(self, "connections", check.integer("connections", self.connections))
        for name in ("hello", "frame", "slowest"):
            object.__setattr__(self, name, check.real(name, getattr(self, name), above=0))
        object.__setattr__(self, "max_weight", check.real("max_weight", self.max_weight, low=1))


class Connection:
    """What a server knows of one connection.

    Attributes:
        reader: makes frames of what comes.
        row: whose it is; `None` before a hello that was accepted.
        owed: whether an answer is owed to it that waits for the disk.
        first: the loss at w_0 of the sample of its next report, if it has told that.
        most: what it may count for, if it is a relay's; 0 if it is not.
        sum: what its next report is the sum of, if it has told that.
        closing: whether nothing more is to be read from it, or sent to it.
        paused: whether nothing is to be read from it until it has read what it was sent.
        large: whether a large frame is on its way.
        trusted: whether it may be sent any amount that it has not read.
        due: when what is on its way must be complete, or, if it is closing, when it is cut off.
        read_by: when it must have read what it was sent.
        place: what the transport knows it by, and carries actions out with.
        peer: where it comes from, in words.
    """

    def __init__(self, place: Any, peer: str, due: float) -> None:
        self.place, self.peer, self.due = place, peer, due
        self.reader = FrameReader(BEFORE)
        self.row: int | None = None
        self.first: float | None = None
        self.most = 0.0
        self.sum: Sum | None = None
        self.owed = self.closing = self.paused = self.trusted = self.large = False
        self.read_by = math.inf


class Send(NamedTuple):
    """Send a frame."""

    connection: Connection
    frame: bytes


class SendModel(NamedTuple):
    """Send what comes before it, and then what workers read, as it is when this action is carried out."""

    connection: Connection
    before: bytes
    version: int


class Close(NamedTuple):
    """Let it read what it was sent, for a while, and end the connection."""

    connection: Connection


Action: TypeAlias = Send | SendModel | Close
Actions: TypeAlias = Sequence[Action]


class Reception(ABC):
    """All connections of a server.

    Args:
        limits: on connections.

    Attributes:
        server: what is served; workers are sent its `sent`, in its `encoding`.
        connections: those that are open, the oldest first.
        garbage: how many were closed for what they sent.
        pending: whether `flush` has something to do.
        sources: what else to wait for, each by its `fileno`, and to call `heard` about.
        failure: an error that is nobody's message, such as one of the user's loss; the transport raises it.
    """

    server: Any

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.connections: dict[Connection, None] = {}
        self.garbage = 0
        self.pending = False
        self.sources: Sequence[Any] = ()
        self.failure: Exception | None = None

    @property
    def encoding(self) -> Encoding:
        """How reports travel; models as its `model` says."""
        encoding: Encoding = self.server.encoding
        return encoding

    def sent(self, version: int) -> Floats:
        """What is to be sent by a `SendModel` of this version: what workers read, in the numbers that travel."""
        numbers: Floats = self.server.sent.at(version)
        return numbers

    @abstractmethod
    def handle_frame(
        self, connection: Connection, head: wire.Head, payload: memoryview, now: float
    ) -> Iterable[Action]:
        """A frame has come, one that was expected. May raise `wire.BadFrame`."""

    def handle_garbage(self, connection: Connection, reason: str, now: float) -> Actions:
        """What has come is no frame that was expected, or not all of it came in time: say so, and hang up."""
        self.garbage += 1
        return self.refuse(connection, reason, now, final=False)

    def flush(self, now: float) -> Iterable[Action]:
        """Do what was put off; a transport calls this after all that has come at once, if it is `pending`."""
        return ()

    def heard(self, source: object, now: float) -> Iterable[Action]:
        """One of the `sources` has something to say."""
        return ()

    def open(self, place: Any, now: float, peer: str = "") -> Connection:
        """A connection is here."""
        connection = Connection(place, peer, now + self.limits.hello)
        self.connections[connection] = None
        return connection

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone."""
        connection.closing = True
        self.connections.pop(connection, None)

    def receive(self, connection: Connection, count: int, now: float) -> Iterable[Action]:
        """`count` bytes have come to where the connection's reader wanted them.

        Each action is to be carried out before the next is asked for: a connection that does not read may be paused
        by it, and then the frames that are left wait for `resume`.
        """
        if connection.closing:
            return
        reader = connection.reader
        reader.received(count)
        handled = False
        try:
            while not connection.closing and not connection.paused and (frame := reader.next()) is not None:
                handled = True
                yield from self.handle_frame(connection, *frame, now)
        except wire.BadFrame as error:
            yield from self.handle_garbage(connection, str(error), now)
            return
        if connection.row is None or connection.closing:
            return
        missing = reader.missing
        known = bool(missing) and not connection.large  # only now how many there are to come
        connection.large = bool(missing)
        if missing is None or handled or known:
            connection.due = math.inf
        if missing is not None and not connection.paused:  # a few more bytes do not extend the time for the rest
            connection.due = min(connection.due, self.deadline(missing, now))

    def pause(self, connection: Connection, now: float) -> bool:
        """The other end does not read what it is sent; whether nothing is to be read from it until it does."""
        if connection.trusted or connection.closing:  # the two might wait for each other
            return False
        connection.paused, connection.due = True, math.inf if connection.row is not None else connection.due
        connection.read_by = self.deadline(self.unread(), now)
        return True

    def resume(self, connection: Connection, now: float) -> Iterable[Action]:
        """It has read: what it had sent meanwhile is dealt with."""
        connection.paused, connection.read_by = False, math.inf
        return self.receive(connection, 0, now)

    def feed(self, connection: Connection, content: wire.Raw, now: float) -> Iterator[Action]:
        """These bytes have come; for transports that have them in one piece. As for `receive`, one action at a time."""
        rest = memoryview(content)
        while rest and not connection.closing:
            room = connection.reader.buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            yield from self.receive(connection, count, now)

    def deadline(self, size: int, now: float) -> float:
        """When `size` bytes that begin to travel now must have arrived."""
        return now + self.limits.frame + size / self.limits.slowest

    def unread(self) -> int:
        """How many bytes a worker may be sent that it has not read."""
        size: int = self.server.sent.size
        return max(UNREAD, 2 * (size + wire.HEADER.size))

    def slow(self, now: float) -> tuple[list[Connection], Actions]:
        """Those that have had their time and are to be cut off, and what to do about those that were too slow."""
        cut: list[Connection] = []
        actions: list[Action] = []
        for connection in [each for each in self.connections if now > each.due or now > each.read_by]:
            if connection.closing or now > connection.read_by:
                cut.append(connection)
            else:
                actions += self.handle_garbage(connection, TOO_SLOW, now)
        return cut, actions

    def refuse(self, connection: Connection, reason: str, now: float, *, final: bool) -> Actions:
        """Say why, and hang up."""
        if connection.closing:
            return ()
        return [Send(connection, refusal(reason, final)), *self.close(connection, now)]

    def close(self, connection: Connection, now: float) -> Actions:
        """Hang up."""
        connection.closing, connection.due = True, now + GRACE
        return [Close(connection)]


def model_frame(reception: Reception, action: SendModel) -> bytes:
    """All that a `SendModel` has to send, as bytes."""
    numbers = reception.encoding.model.write(reception.sent(action.version)).tobytes()
    return action.before + wire.head(wire.MODEL, len(numbers), action.version) + numbers


def refusal(reason: str, final: bool) -> bytes:
    """A frame that says no."""
    return wire.text(wire.REFUSAL, {"reason": reason, "final": final})
