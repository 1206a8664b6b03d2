"""Short messages in the simulator: what workers read and send is rounded, what the server keeps is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations.encodings import FLOAT32, FLOAT64, Packed, encoding_of
from siag.foundations.errors import Unsuitable
from siag.foundations.packing import branch, pack, unpack
from siag.foundations.rng import blank
from siag.foundations.types import Bytes, Floats, Record, Rng
from siag.methods.around import Around
from siag.methods.method import Method, compute, shown


@dataclass(frozen=True)
class Rounded(Around):
    """Another method whose workers read w, and send their messages, as they do in a live run with short messages.

        worker i reads float32(w^t), and sends Q(g_i)

    Q rounds to the nearest float32, or at random, as `siag.foundations.packing` does: the same numbers, to the bit.
    Workers compute in doubles, and the server keeps w and its state in doubles.

    Args:
        method: the other.
        messages: in which numbers messages are: "float32", "bfloat16" or "int8".
    """

    messages: str = FLOAT32.name

    def init(self, w0: Floats, n: int) -> Record:
        """The method's own."""
        return self.method.init(w0, n)

    def recruit(self, w0: Floats, n: int) -> Record:
        """The method's own workers, and room for the w they read and the message they send."""
        encoding, inner = encoding_of(self.messages), self.method.recruit(w0, n)
        read = np.zeros(shown(self.init(w0, n)).size)
        if not isinstance(encoding, Packed):
            return Rounding(inner, read)
        content = np.zeros(encoding.length(self.method.message(w0.size, n)), np.uint8)
        return Packing(inner, read, encoding.way, content, blank())


def check_messages(messages: object, method: Method, d: int) -> str:
    """Refuse an unknown encoding, and one that would round the indices which a method sends."""
    encoding = encoding_of(messages)
    if method.counts_to(d) > encoding.exact:
        what = f"{type(method).__name__} sends indices up to {method.counts_to(d)}, {messages} rounds them"
        raise Unsuitable(f"{what} above {encoding.exact}; use messages={FLOAT64.name!r}")
    return encoding.name


class Rounding(NamedTuple):
    """What workers remember, and the w they read."""

    inner: Record
    read: Floats  # (shown,) rounded


class Packing(NamedTuple):
    """The same, and the message they send."""

    inner: Record
    read: Floats  # (shown,) rounded
    way: Record  # how messages are packed
    content: Bytes  # of a message
    rng: Rng  # by which it is rounded


@compute.when(Rounding)
def send_rounded(memory: Rounding, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """The method's own message at the rounded w, rounded."""
    for j in range(w.size):
        memory.read[j] = np.float32(w[j])
    send = compute(memory.inner, oracle, rng, i, memory.read, out)
    for j in range(out.size):
        out[j] = np.float32(out[j])
    return send


@compute.when(Packing)
def send_packed(memory: Packing, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """The method's own message at the rounded w, as the server unpacks it."""
    for j in range(w.size):
        memory.read[j] = np.float32(w[j])
    branch(rng, memory.rng)  # before the sample draws from it
    send = compute(memory.inner, oracle, rng, i, memory.read, out)
    pack(memory.way, out, memory.content, memory.rng)
    unpack(memory.way, memory.content, out, 0, out.size)
    return send
