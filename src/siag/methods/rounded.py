"""Short messages in the simulator: what workers read and send is rounded, what the server keeps is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Record, Rng
from siag.methods.around import Around
from siag.methods.method import compute, shown


@dataclass(frozen=True)
class Rounded(Around):
    """Another method whose workers read w, and send their messages, in float32: a live run with such messages, again.

        worker i reads float32(w^t), and sends float32(g_i)

    Workers compute in doubles, and the server keeps w and its state in doubles.

    Args:
        method: the other.
    """

    def init(self, w0: Floats, n: int) -> Record:
        """The method's own."""
        return self.method.init(w0, n)

    def recruit(self, w0: Floats, n: int) -> Record:
        """The method's own workers, and room for the w they read."""
        return Rounding(self.method.recruit(w0, n), np.zeros(shown(self.init(w0, n)).size))


class Rounding(NamedTuple):
    """What workers remember, and the w they read."""

    inner: Record
    read: Floats  # (shown,) rounded


@compute.when(Rounding)
def send_rounded(memory: Rounding, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """The method's own message at the rounded w, rounded."""
    for j in range(w.size):
        memory.read[j] = np.float32(w[j])
    send = compute(memory.inner, oracle, rng, i, memory.read, out)
    for j in range(out.size):
        out[j] = np.float32(out[j])
    return send
