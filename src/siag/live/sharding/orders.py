"""What the lead has its followers do, and what they note to it, as bytes; and the slice that they do it to."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from siag.foundations.encodings import encoding_of
from siag.foundations.errors import SiagError
from siag.foundations.overflow import in_range, limit_of, steps_between_looks
from siag.foundations.types import Booleans, Floats, Record
from siag.live.protocol import wire
from siag.live.sharding.slices import Shard, bounds
from siag.methods import Method, shown
from siag.methods.weighted import for_one
from siag.server.guard import square_norm
from siag.server.method_state import NOWHERE, arrays_of, fade_away, move, take
from siag.server.short import Incoming, Outgoing


class ShardLost(SiagError):
    """A server of a split model is gone; the others cannot go on without it."""


class Take(NamedTuple):
    """Receive the report of `row` with this sample, its w being `age` versions old; step by η if `step`."""

    row: int
    age: int
    sample: int
    eta: float
    step: int


class Move(NamedTuple):
    """Step by η, nobody having reported."""

    eta: float


class Fade(NamedTuple):
    """Let a departed worker's row count for `factor` as much."""

    row: int
    factor: float


class Answer(NamedTuple):
    """Drop what is there of a report of `row`; send the worker of this visit the slice as it is, as this version."""

    row: int
    version: int
    visit: int


class Save(NamedTuple):
    """Save under this number, and say when it is on disk; `common` is the last number that all servers have saved."""

    number: int
    common: int


class GoBack(NamedTuple):
    """Go back to the save of this number, and say so; 0: stay at the beginning, and write on beside what is there."""

    number: int


class Show(NamedTuple):
    """Send the lead the slice of the result."""


Order: TypeAlias = Take | Move | Fade | Answer | Save | GoBack | Show

LAYOUTS: dict[type[Order], struct.Struct] = {
    Take: struct.Struct("<iqqdB"),
    Move: struct.Struct("<d"),
    Fade: struct.Struct("<id"),
    Answer: struct.Struct("<iqq"),
    Save: struct.Struct("<qq"),
    GoBack: struct.Struct("<q"),
    Show: struct.Struct("<"),
}
KINDS = dict(enumerate(LAYOUTS, start=1))  # the first byte of an order says of which kind it is
CODES = {kind: bytes([code]) for code, kind in KINDS.items()}
TOGETHER = 100  # orders in a frame, which fits on the stage
MOST = TOGETHER * (1 + max(layout.size for layout in LAYOUTS.values()))  # bytes of them
NOTE = struct.Struct("<qd")  # row and squared norm of a slice; the header has the visit as its stamp, and the sample


def pack(order: Order) -> bytes:
    """An order as bytes."""
    kind = type(order)
    return CODES[kind] + LAYOUTS[kind].pack(*order)


def unpack(content: wire.Raw) -> Iterator[Order]:
    """The orders in some bytes; `wire.BadFrame` at what is none."""
    place = 0
    while place < len(content):
        try:
            kind = KINDS[content[place]]
            order = kind._make(LAYOUTS[kind].unpack_from(content, place + 1))
        except (KeyError, struct.error):
            raise wire.BadFrame("orders that are none") from None
        yield order
        place += 1 + LAYOUTS[kind].size


def frames(orders: Sequence[bytes]) -> Iterator[bytes]:
    """Packed orders as frames."""
    for first in range(0, len(orders), TOGETHER):
        some = b"".join(orders[first : first + TOGETHER])
        yield wire.head(wire.ORDERS, len(some)) + some


class SliceServer:
    """Keeps a slice of w and of whatever the method keeps, and does what it is told.

    Args:
        shard: whose slice.

    Attributes:
        shown: what workers read, in doubles.
        encoding: how slices of reports travel, and by its `model` slices of w.
        sent: what workers are sent.
        changed: (n,) which rows have changed since they were last saved.
        pending: slices of reports that wait for the lead's word, by row: the sample, and the numbers.
    """

    def __init__(self, shard: Shard) -> None:
        n = shard.spec.n
        self.state: Record = shard.spec.weighted.init(shard.w0, n)
        self.shown: Floats = shown(self.state)
        self.encoding = encoding_of(shard.spec.messages).after(bounds(shard.spec.w0.size, shard.shards, shard.k)[0])
        self.sent = Outgoing(self.shown, self.encoding)
        self._incoming = Incoming(shard.spec.weighted, 0, self.shown.size, self.encoding)
        self.changed: Booleans = np.zeros(n, np.bool_)
        self.pending: dict[int, tuple[int, Floats]] = {}
        self._limit, self._moves = limit_of(shard.spec.w0), 0
        self._look = steps_between_looks(shard.w0.size)  # moves between two looks at w

    @staticmethod
    def warm_up(method: Method, messages: str) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        incoming = Incoming(method, 0, 1, encoding_of(messages))
        small, one = for_one(method).init(np.zeros(1), 1), np.zeros(1, incoming.nothing.dtype)
        take(small, 0, one, 0, 1, 0.0, NOWHERE)
        move(small, 0.0)
        fade_away(small, 0, 0.0)
        square_norm(one, 1)
        incoming.warm_up()

    def keep(self, row: int, sample: int, message: Floats) -> float:
        """Have the slice of a report wait for the lead's word; its squared norm."""
        self.pending[row] = sample, message
        return self._incoming.square(message, self.shown.size)

    @property
    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that must be kept."""
        return arrays_of(self.state)

    def follow(self, order: Order) -> None:
        """Do what the lead has done to its slice."""
        match order:
            case Take(row, age, sample, eta, step):
                number, message = self.pending.pop(row, (None, None))
                if message is None or number != sample:
                    raise wire.BadFrame(f"an order to take sample {sample} of row {row}, which is not here")
                message, _ = self._incoming.one(message, self.shown.size)
                take(self.state, row, message, age, step, eta, NOWHERE)
                self.changed[row] = True
                self._moves += step
            case Move(eta):
                move(self.state, eta)
                self._moves += 1
            case Fade(row, factor):
                fade_away(self.state, row, factor)
                self.changed[row] = True

    def diverged(self) -> bool:
        """True if w has overflowed or become NaN; looked at now and then."""
        if self._moves < self._look:
            return False
        self._moves = 0
        return not self.in_range()

    def in_range(self) -> bool:
        """Whether w is within the range of numbers."""
        return in_range(self.state.w, self._limit)
