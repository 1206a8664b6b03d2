"""What an exact error curve is made of, written down along the way."""

from __future__ import annotations

from typing import NamedTuple

from siag.foundations.dispatch import compiled
from siag.foundations.types import Floats, Integers


class Trail(NamedTuple):
    """What is written down along the way."""

    t: Integers  # (points,)
    optimum: Floats  # (d,) of those who are members at the time
    parts: Floats  # (2, points) bias, variance
    cursor: Integers  # (1,)


@compiled
def mark(trail: Trail, m: Floats, V: Floats) -> None:
    """Write down bias and variance at the next point."""
    bias = 0.0
    for k in range(m.size):
        bias += (m[k] - trail.optimum[k]) * (m[k] - trail.optimum[k])
    trail.parts[0, trail.cursor[0]] = bias
    trail.parts[1, trail.cursor[0]] = V[0]
    trail.cursor[0] += 1
