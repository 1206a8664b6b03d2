"""What the servers of a split model tell each other, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from siag.foundations.errors import SiagError
from siag.live import wire

ORDER = struct.Struct("<BBHiqqd")  # what, go, nothing, row, a, b, x
TAKE, MOVE, FADE, ANSWER, SAVE = range(1, 6)
"""TAKE: row, a its age, b its sample, x η, whether to go; MOVE: x η; FADE: row, x the factor; ANSWER: row, a the
version, b the ticket; SAVE: a its number, b the last that all servers have."""

NOTE = struct.Struct("<qd")  # row, square; the header has the ticket as its stamp, and the sample
TOGETHER = 100  # orders in a frame: it fits on the stage


class ShardLost(SiagError):
    """A server of a split model is gone; the others cannot go on without it."""


def frames(orders: bytes | bytearray) -> Iterator[bytes]:
    """Orders as frames."""
    most = TOGETHER * ORDER.size
    for first in range(0, len(orders), most):
        some = bytes(orders[first : first + most])
        yield wire.head(wire.ORDERS, len(some)) + some
