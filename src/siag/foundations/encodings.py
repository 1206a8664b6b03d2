"""In which numbers gradients and w travel between workers and a server."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats

NATIVE = sys.byteorder == "little"  # whether numbers lie in memory as they travel


class Encoding:
    """Floating-point numbers of one size, little-endian.

    An encoding that is no array of numbers, such as one with a scale for each block, would be another class with the
    same methods; its `dtype` is that of the arrays at both ends.

    Args:
        dtype: of the arrays that are written and read.

    Attributes:
        name: what users call it.
        exact: all whole numbers up to this one are exact.

    Example:
        >>> FLOAT32.size(3), FLOAT32.exact == 2**24
        (12, True)
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.name: str = self.dtype.name
        self.exact = 1 << (np.finfo(self.dtype).nmant + 1)

    def size(self, count: int) -> int:
        """How many bytes a message of this many numbers takes."""
        return self.dtype.itemsize * count

    def write(self, numbers: Floats) -> Floats:
        """An array whose bytes are what is sent; the same array where numbers lie in memory as they travel."""
        return numbers if NATIVE else numbers.astype(self.dtype.newbyteorder("<"))

    def read(self, payload: bytes | bytearray | memoryview) -> Floats:
        """The numbers in some bytes, not copied where that can be avoided."""
        found: Floats = np.frombuffer(payload, self.dtype.newbyteorder("<"))
        return found if NATIVE else found.astype(self.dtype)

    def copy(self, payload: bytes | bytearray | memoryview, place: Floats) -> None:
        """Copy the numbers in some bytes, wherever these lie, to an array."""
        if NATIVE:
            place.data.cast("B")[:] = payload
        else:
            place[:] = self.read(payload)

    def __reduce__(self) -> tuple[Any, ...]:
        return encoding_of, (self.name,)


FLOAT64, FLOAT32 = Encoding(np.float64), Encoding(np.float32)
ENCODINGS = {each.name: each for each in (FLOAT64, FLOAT32)}


def encoding_of(name: object) -> Encoding:
    """The encoding of that name, which users call `messages`."""
    return ENCODINGS[check.choice("messages", name, tuple(ENCODINGS))]


def put(numbers: Floats, place: Floats) -> None:
    """Copy numbers to a place of another type, in one pass; what is too large there becomes infinite."""
    with np.errstate(over="ignore"):
        np.copyto(place, numbers, casting="same_kind")
