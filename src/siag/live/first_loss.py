"""The loss at w_0, as workers tell it of some of their samples: what the loss of later is compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats

FEWEST = 20  # losses of all workers together, from which something is concluded
ENTRIES = 5  # of a worker's line: how many, the sums of losses and of their squares, of differences and their squares


class Start(NamedTuple):
    """What is known of the loss at w_0; means over workers."""

    mean: float
    spread: float  # its variance from sample to sample
    inverse: float  # the mean of 1 / how many samples of a worker it is known of
    risen: float  # by how much the loss of the same samples at the w of then was above it …
    error: float  # … and the standard error of that


def enter(line: Floats, first: float, loss: float) -> None:
    """Count a sample with its loss at w_0 and at the w that its worker has read."""
    more = loss - first
    line += 1.0, first, first * first, more, more * more


class FirstLoss:
    """The losses at w_0 of some of each worker's samples.

    A worker computes it of its first samples, and then of ever fewer. Only so is it known how good w_0 was where steps
    spoil w at once: each worker's first report is of one sample, and all others are of another w.

    Args:
        n: how many workers there are.

    Attributes:
        told: (n, 5) what was counted of each.

    Example:
        >>> first = FirstLoss(2)
        >>> for row in [0, 1] * 10:
        ...     first.add(row, first=1.0, loss=3.0 + row)
        >>> first.of([0, 1])
        Start(mean=1.0, spread=0.0, inverse=0.1, risen=2.5, error=0.0)
    """

    def __init__(self, n: int) -> None:
        self.told: Floats = np.zeros((n, ENTRIES))

    def add(self, row: int, first: float, loss: float) -> None:
        """A worker tells the loss of a sample at w_0, and the one that it has reported, if that is a number."""
        if math.isfinite(loss):
            enter(self.told[row], first, loss)

    def of(self, rows: Sequence[int], parts: Floats | None = None) -> Start | None:
        """What is known of these workers; `None` if that is too little. By default each counts the same."""
        lines = self.told[rows]
        counts = lines[:, 0]
        if not len(rows) or counts.sum() < FEWEST or counts.min() < 1.0:
            return None
        mean, square, risen, risen2 = (lines[:, 1:] / counts[:, None]).T
        spread, varied = (np.maximum(high - low**2, 0.0) for high, low in ((square, mean), (risen2, risen)))
        each = np.full(len(rows), 1.0 / len(rows)) if parts is None else parts
        error = math.sqrt(float(each**2 @ (varied / counts)))
        return Start(float(each @ mean), float(each @ spread), float(each @ (1.0 / counts)), float(each @ risen), error)
