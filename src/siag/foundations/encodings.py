"""In which numbers gradients and w travel between workers and a server."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.packing import BLOCK, SCALE, codes, halves
from siag.foundations.types import Floats, Record

NATIVE = sys.byteorder == "little"  # whether numbers lie in memory as they travel
Raw = bytes | bytearray | memoryview


class Encoding:
    """Floating-point numbers of one size, little-endian.

    A message of an encoding is an array, whose bytes are what is sent. Its numbers are those of the array, or, if the
    encoding is `packed`, what `siag.foundations.packing` makes of the array's bytes.

    Args:
        dtype: of the arrays that are written and read.

    Attributes:
        name: what users call it.
        packed: whether numbers must be packed to be sent, and unpacked to be used.
        exact: all whole numbers up to this one are exact.

    Example:
        >>> FLOAT32.size(3), FLOAT32.exact == 2**24, INT8.size(20), INT8.size(1000)
        (12, True, 24, 1016)
    """

    packed = False

    def __init__(self, dtype: Any) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.name: str = self.dtype.name
        self.exact = 1 << (np.finfo(self.dtype).nmant + 1)

    @property
    def model(self) -> Encoding:
        """The one in which w travels, where messages are of this one."""
        return self

    def length(self, count: int) -> int:
        """How long the array of a message of this many numbers is."""
        return count

    def count(self, length: int) -> int:
        """How many numbers a message has whose array is this long."""
        return length

    def size(self, count: int) -> int:
        """How many bytes a message of this many numbers takes."""
        return self.dtype.itemsize * self.length(count)

    def write(self, message: Floats) -> Floats:
        """An array whose bytes are what is sent; the same array where numbers lie in memory as they travel."""
        return message if NATIVE else message.astype(self.dtype.newbyteorder("<"))

    def read(self, payload: Raw) -> Floats:
        """The message in some bytes, not copied where that can be avoided."""
        found: Floats = np.frombuffer(payload, self.dtype.newbyteorder("<"))
        return found if NATIVE else found.astype(self.dtype)

    def copy(self, payload: Raw, place: Floats) -> None:
        """Copy the message in some bytes, wherever these lie, to an array."""
        if NATIVE:
            place.data.cast("B")[:] = payload
        else:
            place[:] = self.read(payload)

    def after(self, first: int) -> Encoding:
        """That of the slice of a message that begins with this number."""
        return self

    def cut(self, message: Floats, first: int, last: int) -> Floats:
        """The slice of a message that has the numbers from `first` to `last`."""
        return message[first:last]

    def __reduce__(self) -> tuple[Any, ...]:
        return encoding_of, (self.name,)


class Packed(Encoding, ABC):
    """Bytes that are no numbers by themselves; w travels as float32 beside them."""

    packed = True
    exact = 0

    def __init__(self, name: str) -> None:
        self.dtype, self.name = np.dtype(np.uint8), name

    @property
    def model(self) -> Encoding:
        """float32: a w of fewer bits would shift every gradient, in one direction until w has moved."""
        return FLOAT32

    @property
    @abstractmethod
    def way(self) -> Record:
        """What `siag.foundations.packing` packs and unpacks with; for one thread."""


class BFloat16(Packed):
    """The upper 16 bits of float32 numbers, rounded at random: the range of float32, and 2 to 3 digits."""

    exact = 1 << 8

    def length(self, count: int) -> int:
        """Two bytes a number."""
        return 2 * count

    def count(self, length: int) -> int:
        """Two bytes a number."""
        return length // 2

    def cut(self, message: Floats, first: int, last: int) -> Floats:
        """Their bytes."""
        return message[2 * first : 2 * last]

    @property
    def way(self) -> Record:
        """Halves of float32 numbers."""
        return halves()


class Int8(Packed):
    """A whole number from −127 to 127 for each number, rounded at random, and a scale for each block of 256.

    A slice has its numbers' codes, and the scales of all blocks that these are of.

    Args:
        name: what users call it.
        before: how many numbers of a slice's first block come before the slice.
    """

    def __init__(self, name: str, before: int = 0) -> None:
        super().__init__(name)
        self._before = before

    def length(self, count: int) -> int:
        """A byte for each number, and four for each block."""
        return SCALE * self._blocks(count) + count

    def _blocks(self, count: int) -> int:
        return (self._before + count + BLOCK - 1) // BLOCK

    def count(self, length: int) -> int:
        """Of a whole message."""
        return length - SCALE * -(-length // (BLOCK + SCALE))

    def after(self, first: int) -> Encoding:
        """One whose first block begins before the slice, unless it begins with it."""
        return Int8(self.name, first % BLOCK) if first % BLOCK else self

    def cut(self, message: Floats, first: int, last: int) -> Floats:
        """Scales and codes."""
        low, high = first // BLOCK, (last + BLOCK - 1) // BLOCK
        at = message.size - self.count(message.size)  # where codes begin
        return np.concatenate([message[SCALE * low : SCALE * high], message[at + first : at + last]])

    @property
    def way(self) -> Record:
        """Codes and their scales."""
        return codes(self._before)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Int8, (self.name, self._before)) if self._before else super().__reduce__()


FLOAT64, FLOAT32 = Encoding(np.float64), Encoding(np.float32)
BFLOAT16, INT8 = BFloat16("bfloat16"), Int8("int8")
ENCODINGS: dict[str, Encoding] = {each.name: each for each in (FLOAT64, FLOAT32, BFLOAT16, INT8)}


def encoding_of(name: object) -> Encoding:
    """The encoding of that name, which users call `messages`."""
    return ENCODINGS[check.choice("messages", name, tuple(ENCODINGS))]


def put(numbers: Floats, place: Floats) -> None:
    """Copy numbers to a place of another type, in one pass; what is too large there becomes infinite."""
    with np.errstate(over="ignore"):
        np.copyto(place, numbers, casting="same_kind")
