"""Messages in shorter numbers than doubles: w is rounded for the workers, their reports are widened for the server.

What the server keeps stays in doubles: a step that is small beside w would be lost in shorter numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.encodings import FLOAT64, Encoding, put
from siag.foundations.types import Floats, Integers
from siag.server.guard import widen

TOGETHER = 1 << 12  # numbers of a message; longer ones are taken one by one, since a call takes no time beside them


class Outgoing:
    """What workers are sent: what they read, rounded once for each version, and not at all if doubles travel.

    Args:
        whole: what they read, as the server keeps it.
        encoding: in which numbers it travels.

    Attributes:
        size: how many bytes are sent.
        exact: whether it is sent as it is kept.
    """

    def __init__(self, whole: Floats, encoding: Encoding) -> None:
        self.exact, self.size = encoding is FLOAT64, encoding.size(whole.size)
        self._whole, self._version = whole, -1
        self._rounded: Floats = whole if self.exact else np.empty(whole.size, encoding.dtype)

    def at(self, version: int) -> Floats:
        """The same as numbers of the encoding, the server being at this version."""
        if version != self._version and not self.exact:
            put(self._whole, self._rounded)
            self._version = version
        return self._rounded


@compiled
def widen_rows(rows: Integers, messages: Floats, wide: Floats) -> None:
    """Copy the messages of these rows, up to what is no row."""
    for i in rows:
        if not 0 <= i < messages.shape[0]:
            break
        for j in range(messages.shape[1]):
            wide[i, j] = messages[i, j]


class Incoming:
    """Reports in short numbers become doubles, in memory that is used again.

    Args:
        n: how many workers there are.
        size: how many numbers a message has.
        encoding: of which kind.
    """

    def __init__(self, n: int, size: int, encoding: Encoding) -> None:
        self._one: Floats = np.zeros(size)
        self._several: Floats = np.zeros((n if size <= TOGETHER else 0, size))
        self._kind = encoding.dtype

    def warm_up(self) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        rows: Any = np.zeros(1, np.int32)  # as runtimes give them
        short, wide = np.zeros((1, 1), self._kind), np.zeros((1, 1))
        widen(short[0], wide[0], 1)
        widen_rows(rows, short, wide)

    def one(self, message: Floats, d: int) -> tuple[Floats, float]:
        """A message in doubles, and the squared norm of its first d numbers."""
        return self._one, widen(message, self._one, d)

    def several(self, rows: Integers, messages: Floats) -> Floats | None:
        """(n, size) the messages of these rows in doubles; `None`: they are better taken one by one."""
        if not len(self._several):
            return None
        widen_rows(rows, messages, self._several)
        return self._several
