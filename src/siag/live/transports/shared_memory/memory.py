"""The memory that a server and its worker processes share, and the codes they wake each other with."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from siag.foundations.types import Floats, Integers

REPORT, JOIN, SKIP, ENDED, FAILED, SAID = (kind << 16 for kind in range(6))  # what a worker rings for; its row is added
ROW = (1 << 16) - 1  # where the row is in it
GO, REFUSED, STOP, NOTHING = b"g", b"r", b"s", b""  # what it is answered
ANSWERS = (GO, REFUSED)
STAMP, SAMPLE = range(2)  # the entries of `Memory.notes`
TEXT = 600  # bytes for a worker's words


class Memory:
    """The shared memory of all workers.

    Args:
        context: of multiprocessing.
        n: how many workers there are.
        message: how many numbers each sends.
        shown: how many each is sent.
    """

    def __init__(self, context: Any, n: int, message: int, shown: int) -> None:
        self._n = n
        self._raw: list[Any] = [
            context.RawArray(ctypes.c_double, n * message),
            context.RawArray(ctypes.c_double, n * shown),
            context.RawArray(ctypes.c_int64, 2 * n),
            context.RawArray(ctypes.c_char, 2 * TEXT * n),
            context.RawArray(ctypes.c_double, n),
        ]
        self._look()

    def _look(self) -> None:
        n = self._n
        self.sent: Floats = np.frombuffer(self._raw[0], np.float64).reshape(n, -1)
        self.w: Floats = np.frombuffer(self._raw[1], np.float64).reshape(n, -1)
        self.notes: Integers = np.frombuffer(self._raw[2], np.int64).reshape(n, 2)
        self.squares: Floats = np.frombuffer(self._raw[4], np.float64)

    def say(self, row: int, text: str, last: bool = False) -> None:
        """Leave a few words; the last ones have a place of their own."""
        content, first = text.encode()[: TEXT - 1], (2 * row + last) * TEXT
        memoryview(self._raw[3]).cast("B")[first : first + len(content) + 1] = content + b"\0"

    def said(self, row: int, last: bool = False) -> str:
        """The words that were left."""
        first = (2 * row + last) * TEXT
        content = bytes(memoryview(self._raw[3]).cast("B")[first : first + TEXT])
        return content.partition(b"\0")[0].decode(errors="replace")

    def __getstate__(self) -> dict[str, Any]:
        return {"_n": self._n, "_raw": self._raw}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._look()
