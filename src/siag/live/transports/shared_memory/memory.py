"""The memory that a server and its worker processes share, and the codes they wake each other with."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from siag.foundations.encodings import Encoding
from siag.foundations.types import Floats, Integers
from siag.live.first_loss import ENTRIES

ROW = (1 << 16) - 1  # the bits of a ring that are the worker's row
GO, REFUSED, STOP = b"g", b"r", b"s"  # what a worker that rings is answered
STAMP, SAMPLE, PASSES = range(3)  # the entries of `Memory.notes`
UNMEASURED = -1.0  # the squared norm of a packed message
TEXT = 600  # bytes for a worker's words


class Ring:
    """What a worker rings for; its row is added."""

    REPORT, JOIN, SKIP, ENDED, FAILED, SAID = ALL = tuple(kind << 16 for kind in range(6))


class Memory:
    """The shared memory of all workers.

    Args:
        n: how many workers there are.
        raw: what is shared.
        encoding: in which numbers gradients and w travel.

    Attributes:
        sent: (n, …) what each sends, as it travels.
        w: (n, shown) what each is sent.
        notes: (n, 3) the version of that w, the number of the worker's last sample, and its passes over finite data.
        figures: (n, 2) the squared norm of the gradient, −1 of a packed one, which the server finds when it unpacks it;
            and the loss of its sample, NaN where that is not told.
        first: (n, 5) the losses at w_0, as `siag.live.first_loss` counts them.
    """

    def __init__(self, n: int, raw: Sequence[Any], encoding: Encoding) -> None:
        self._given, self.encoding = (n, raw, encoding), encoding
        self.sent: Floats = np.frombuffer(raw[0], encoding.dtype).reshape(n, -1)
        self.w: Floats = np.frombuffer(raw[1], encoding.model.dtype).reshape(n, -1)
        self.notes: Integers = np.frombuffer(raw[2], np.int64).reshape(n, -1)
        self._words = np.frombuffer(raw[3], f"S{TEXT}").reshape(n, -1)
        self.figures: Floats = np.frombuffer(raw[4]).reshape(n, -1)
        self.first: Floats = np.frombuffer(raw[5]).reshape(n, -1)

    @classmethod
    def shared(cls, context: Any, n: int, message: int, shown: int, encoding: Encoding) -> Memory:
        """New memory of a context of multiprocessing; each worker sends `message` numbers, and is sent `shown`."""
        sizes = encoding.size(message), encoding.model.size(shown), 8 * 3, 2 * TEXT, 8 * 2, 8 * ENTRIES
        return cls(n, [context.RawArray(ctypes.c_char, n * size) for size in sizes], encoding)

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, self._given

    def say(self, row: int, text: str, last: bool = False) -> None:
        """Leave a few words; the last ones have a place of their own."""
        self._words[row, int(last)] = text.encode()

    def said(self, row: int, last: bool = False) -> str:
        """The words that were left."""
        return bytes(self._words[row, int(last)]).decode(errors="replace")
