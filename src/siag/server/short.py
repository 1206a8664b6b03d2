"""Messages in shorter numbers than doubles: w is rounded for the workers, their reports are widened for the server.

What the server keeps stays in doubles: a step that is small beside w would be lost in shorter numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.encodings import FLOAT64, Encoding, Packed, put
from siag.foundations.types import Bytes, Floats, Integers, Message, Record
from siag.methods import Method
from siag.server.guard import Refused, square_norm, widen, widen_packed
from siag.server.method_state import NOWHERE

TOGETHER = 1 << 12  # numbers of a message; longer ones are taken one by one, since a call takes no time beside them


class Outgoing:
    """What workers are sent: what they read, rounded once for each version, and not at all if doubles travel.

    Args:
        whole: what they read, as the server keeps it.
        encoding: in which numbers reports travel, and w as its `model` says.

    Attributes:
        size: how many bytes are sent.
        exact: whether it is sent as it is kept.
    """

    def __init__(self, whole: Floats, encoding: Encoding) -> None:
        kind = encoding.model
        self.exact, self.size = kind is FLOAT64, kind.size(whole.size)
        self._whole, self._version, self._read = whole, -1, False
        self._rounded: Floats = whole if self.exact else np.empty(whole.size, kind.dtype)

    def at(self, version: int) -> Floats:
        """The same as numbers of the encoding, the server being at this version."""
        if not self.exact:
            self._read = True
            if version != self._version:
                put(self._whole, self._rounded)
                self._version = version
        return self._rounded

    def ahead(self) -> Floats:
        """Where the server's next step may round to, which is faster than doing so later: empty if nobody reads it."""
        return self._rounded if self._read else NOWHERE

    def stepped(self, version: int, place: Floats) -> None:
        """A step to this version has rounded to a place that was given by `ahead`."""
        if place.size:
            self._version, self._read = version, False


@compiled
def widen_rows(rows: Integers, messages: Floats, wide: Floats) -> None:
    """Copy the messages of these rows, up to what is no row."""
    for i in rows:
        if not 0 <= i < messages.shape[0]:
            break
        for j in range(messages.shape[1]):
            wide[i, j] = messages[i, j]


@compiled
def widen_packed_rows(way: Record, rows: Integers, messages: Bytes, wide: Floats, figures: Floats, d: int) -> None:
    """Unpack the messages of these rows, up to what is no row; their squared norms, which only now are known."""
    for i in rows:
        if not 0 <= i < messages.shape[0]:
            break
        figures[i, 0] = widen_packed(way, messages[i], wide[i], d)


class Incoming:
    """Reports as a method's server half takes them: as they are, or made wider in memory that is used again.

    It takes short numbers in float32, which holds all of them, if it can; otherwise in doubles.

    Args:
        method: the method.
        n: how many workers there are, whose reports may come together.
        size: how many numbers a message has.
        encoding: how it travels.

    Attributes:
        nothing: a message with nothing in it.
    """

    def __init__(self, method: Method, n: int, size: int, encoding: Encoding) -> None:
        wide = (encoding.model if method.takes_short else FLOAT64).dtype
        self._as_is = wide == encoding.dtype
        self._kind, self._length, self._shortest = encoding.dtype, encoding.length(size), encoding.length(1)
        self._way: Record = encoding.way if isinstance(encoding, Packed) else None
        self.nothing: Floats = np.empty(0, wide)
        self._one: Floats = np.zeros(0 if self._as_is else size, wide)
        self._several: Floats = np.zeros((0 if self._as_is or size > TOGETHER else n, size), wide)

    def warm_up(self) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        if self._as_is:
            return
        rows: Any = np.zeros(1, np.int32)  # as runtimes give them
        short, figures = np.zeros((1, self._shortest), self._kind), np.zeros((1, 2))
        wide: Floats = np.zeros((1, 1), self._one.dtype)
        if self._way is None:
            widen(short[0], wide[0], 1)
            widen_rows(rows, short, wide)
        else:
            widen_packed(self._way, short[0], wide[0], 1)
            widen_packed_rows(self._way, rows, short, wide, figures, 1)

    def wrong(self, message: Message) -> Refused | None:
        """Why this is no message, if it is none."""
        if message.dtype == self._kind and message.shape == (self._length,):
            return None
        return Refused.malformed(message, self._length, self._kind.name)

    def one(self, message: Message, d: int) -> tuple[Floats, float | None]:
        """A message as it is to be taken, and the squared norm of its first d numbers, if that was found on the way."""
        if self._as_is:  # machine code wants it so
            return message if message.flags.c_contiguous and message.flags.aligned else message.copy(), None
        if self._way is None:
            return self._one, widen(message, self._one, d)
        return self._one, widen_packed(self._way, message, self._one, d)

    def square(self, message: Message, d: int) -> float:
        """The squared norm of the first d numbers of a message."""
        if self._way is None:
            return square_norm(message, d)
        return widen_packed(self._way, message, self._one, d)

    def several(self, rows: Integers, messages: Message, figures: Floats, d: int) -> Floats | None:
        """(n, size) the messages of these rows as they are to be taken; `None`: they are better taken one by one.

        Of packed messages it enters the squared norms of the first d numbers in `figures`; of others they are there.
        """
        if self._as_is:
            return messages
        if not len(self._several):
            return None
        if self._way is None:
            widen_rows(rows, messages, self._several)
        else:
            widen_packed_rows(self._way, rows, messages, self._several, figures, d)
        return self._several
