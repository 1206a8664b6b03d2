"""What the lead has its followers do, and what they note to it, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from siag.foundations.errors import SiagError
from siag.live import wire


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


Change: TypeAlias = Take | Move | Fade
Order: TypeAlias = Change | Answer | Save | GoBack | Show

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
