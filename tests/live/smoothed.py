"""A method whose workers remember something and may have nothing to send, and whose server can be split."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Integers, Record
from siag.methods import Streaming, compute, forget
from siag.methods.table import Aggregated


@dataclass(frozen=True, kw_only=True)
class Smoothed(Aggregated):
    """Workers send a running mean of their gradients, but not each third time."""

    split = True

    def recruit(self, w0: Floats, n: int) -> Record:
        return Means(Streaming(), np.zeros((n, w0.size)), np.zeros(n, np.int64))


class Means(NamedTuple):
    source: Streaming
    mean: Floats
    count: Integers


@compute.when(Means)
def send_mean(memory, oracle, rng, i, w, out):
    compute(memory.source, oracle, rng, i, w, out)
    memory.count[i] += 1
    for j in range(out.size):
        memory.mean[i, j] = 0.5 * memory.mean[i, j] + 0.5 * out[j]
        out[j] = memory.mean[i, j]
    return memory.count[i] % 3 != 0


@forget.when(Means)
def lose_mean(memory, i):
    memory.mean[i, :] = 0.0
    memory.count[i] = 0
