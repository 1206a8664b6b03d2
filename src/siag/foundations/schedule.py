"""A schedule is plain arrays: who reports in which iteration, and with which step the server then moves.

Who reports when never depends on w, and neither do step sizes. So both are unfolded ahead of the loop, a
chunk of iterations at a time; exact moments and simulation run along the same arrays, and memory does not
grow with the number of iterations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Integers

ARRIVALS = 1 << 14  # a chunk's arrivals: some milliseconds of work, so that Ctrl-C is prompt
ITERATIONS = 1 << 12


class Schedule(NamedTuple):
    """Some consecutive iterations. The workers active in the k-th of them are `worker[start[k]:start[k+1]]`."""

    start: Integers  # (iterations + 1,)
    worker: Integers  # (arrivals,), ascending within an iteration
    eta: Floats  # (iterations,)

    @property
    def iterations(self) -> int:
        """How many iterations it covers."""
        return len(self.start) - 1


def room(n: int, iterations: int) -> Schedule:
    """An empty schedule to unfold into: at least one iteration with all n workers fits."""
    length = max(1, min(iterations, ITERATIONS))
    arrivals = max(ARRIVALS, 2 * n)
    return Schedule(np.zeros(length + 1, np.int64), np.empty(arrivals, np.int64), np.empty(length))


def points(iterations: int, record: int) -> Integers:
    """At most `record` iteration numbers, evenly spaced on a logarithmic axis; 0 and `iterations` always among them."""
    inner = np.geomspace(1, iterations, record - 1).round() if record > 2 else np.empty(0)
    return np.unique(np.concatenate(([0], inner, [iterations]))).astype(np.int64)
