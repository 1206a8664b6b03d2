"""What a worker computes in doubles becomes a message in shorter numbers."""

from __future__ import annotations

import numpy as np

from siag.foundations import check
from siag.foundations.encodings import Packed
from siag.foundations.packing import pack_message
from siag.foundations.rng import SAMPLES, blank, key
from siag.foundations.types import Floats, Message


class Packer:
    """Packs the messages of a worker: the k-th is a function of its numbers, the seed, the worker and k.

    Args:
        encoding: how.
        seed: of the run.
        row: of the worker.
        message: how many numbers a message has.

    Attributes:
        numbers: (message,) room for those of a message.
    """

    def __init__(self, encoding: Packed, seed: int, row: int, message: int) -> None:
        self._way, self._key, self._row, self._rng = encoding.way, key(seed, 0, SAMPLES), row, blank()
        self.numbers: Floats = np.zeros(message)
        self.pack(self.numbers, np.empty(encoding.length(message), encoding.dtype), 0)  # have the machine code

    def pack(self, numbers: Floats, out: Message, k: int) -> None:
        """Write the message with these numbers, of the k-th sample, to `out`."""
        pack_message(self._way, numbers, out, self._key, self._row, k, self._rng)


class Doubles:
    """A w and a message in doubles, for code that computes in them where shorter numbers travel."""

    def __init__(self, shown: int, message: int) -> None:
        self._w, self.out = np.empty(shown), np.empty(message)
        self.w = check.read_only(self._w)  # as the w of workers is

    def read(self, w: Floats) -> None:
        """Take in what was read."""
        self._w[:] = w
