"""A schedule is plain arrays: who reports in which iteration, and with which step the server then moves.

Who reports when never depends on w, and neither do step sizes. So both are unfolded ahead of the loop, a
chunk of iterations at a time; exact moments and simulation run along the same arrays, and memory does not
grow with the number of iterations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Integers

NUMBERS = 1 << 21  # how many numbers a chunk's arrivals touch: some milliseconds of work, so that Ctrl-C is prompt
ITERATIONS = 1 << 15


class Schedule(NamedTuple):
    """Some consecutive iterations. The workers active in the k-th of them are `worker[start[k]:start[k+1]]`."""

    start: Integers  # (iterations + 1,)
    worker: Integers  # (arrivals,), ascending within an iteration
    eta: Floats  # (iterations,)

    @property
    def iterations(self) -> int:
        """How many iterations it covers."""
        return len(self.start) - 1


def room(n: int, iterations: int, cost: int) -> Schedule:
    """An empty schedule to unfold into: some milliseconds of work if an arrival touches `cost` numbers."""
    length = max(1, min(iterations, ITERATIONS))
    arrivals = n + NUMBERS // max(cost, 32)  # an iteration is begun only if all n workers would fit
    return Schedule(np.zeros(length + 1, np.int64), np.empty(arrivals, np.int64), np.empty(length))


FINE = 50  # points of a curve from which on its last decade has half of them


def points(iterations: int, record: int) -> Integers:
    """At most `record` iteration numbers, evenly spaced on a logarithmic axis; 0 and `iterations` always among them.

    If there are many, half of them are: the others are evenly spaced over the last nine tenths, which matter most.
    """
    late = record // 2 if record >= FINE else 0
    inner = np.geomspace(1, iterations, record - late - 1).round() if record > 2 else np.empty(0)
    last = np.linspace(iterations / 10, iterations, late + 1)[:-1].round() if iterations >= 10 else np.empty(0)
    return np.unique(np.concatenate(([0], inner, last, [iterations]))).astype(np.int64)
