"""When w counts as having left the range of numbers, in a simulation and on a server."""

from __future__ import annotations

import numpy as np

from siag.foundations.types import Floats

LIMIT = 1e15  # a coordinate this many times larger than the problem is about to overflow


def limit_of(w0: Floats) -> float:
    """How large a coordinate of w may become on its way from w0."""
    return LIMIT * (1.0 + float(np.abs(w0).max(initial=0.0)))


def in_range(w: Floats, limit: float) -> bool:
    """Whether w is within the range of numbers."""
    return bool((np.abs(w) <= limit).all())


def steps_between_looks(d: int) -> int:
    """How many steps to take before w, of d numbers, is looked at again: so many that looking costs little."""
    return max(64, d // 1000)
