"""What the servers of a split model tell each other, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from siag.foundations.errors import SiagError
from siag.live import wire

ORDER = struct.Struct("<BBHiqqd")  # kind, step, zero, row, two whole numbers, a real one
NOTE = struct.Struct("<qd")  # row, square; the header has the visit as its stamp, and the sample
TOGETHER = 100  # orders in a frame: it fits on the stage


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
    """Save under this number; `common` is the last number that all servers have saved."""

    number: int
    common: int


Order: TypeAlias = Take | Move | Fade | Answer | Save


def pack(order: Order) -> bytes:
    """An order as bytes."""
    match order:
        case Take(row, age, sample, eta, step):
            return ORDER.pack(1, step, 0, row, age, sample, eta)
        case Move(eta):
            return ORDER.pack(2, 0, 0, 0, 0, 0, eta)
        case Fade(row, factor):
            return ORDER.pack(3, 0, 0, row, 0, 0, factor)
        case Answer(row, version, visit):
            return ORDER.pack(4, 0, 0, row, version, visit, 0.0)
        case Save(number, common):
            return ORDER.pack(5, 0, 0, 0, number, common, 0.0)


def unpack(content: wire.Raw) -> Iterator[Order]:
    """The orders in some bytes; `wire.BadFrame` if they are none."""
    if len(content) % ORDER.size:
        raise wire.BadFrame("orders that are none")
    for kind, step, _, row, a, b, x in ORDER.iter_unpack(content):
        if kind == 1:
            yield Take(row, a, b, x, step)
        elif kind == 2:
            yield Move(x)
        elif kind == 3:
            yield Fade(row, x)
        elif kind == 4:
            yield Answer(row, a, b)
        elif kind == 5:
            yield Save(a, b)
        else:
            raise wire.BadFrame(f"an order of kind {kind}")


def frames(orders: bytes | bytearray) -> Iterator[bytes]:
    """Orders as frames."""
    most = TOGETHER * ORDER.size
    for first in range(0, len(orders), most):
        some = bytes(orders[first : first + most])
        yield wire.head(wire.ORDERS, len(some)) + some
