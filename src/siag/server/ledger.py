"""The ledger: what the server knows of its workers in numbers, kept where compiled code can write a report down."""

from __future__ import annotations

import math

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.types import Floats, Integers

# The entries of a worker's line
REPORTS, STAMP, LAST, SAMPLES, LARGEST, HEARD, SINCE, USUAL, LONGEST, HERE, BANNED, CHANGED = range(12)
LOSSES, LOSS, LOSS2, FIRST_LOSS, START_LOSS, NORM, FIRST_NORM, AGED, ZEROS, MEAN_NORM = range(12, 22)
ENTRIES = 22
START = 2  # reports, the longer of whose gradients counts as the first
EARLY = 10  # reports, of which those are counted whose gradient is zero
WINDOW = 100  # reports over which a worker's loss and norm are averaged; the older fade
BINS = 64  # of ages: 0, 1, 2-3, 4-7 and so on
KNOWN_AFTER = 20  # reports, before a worker's own history is held against it
SEVERAL = 3  # workers that must be known, before theirs is held against another as its own would be
NEW = 1 / 16  # weight of the newest time between two reports in the usual one
FADING = 1 - 1 / 256  # what is left, one report later, of the longest time between two


def blank(n: int) -> Floats:
    """(n + 1, 22) the lines of workers nobody has heard of, and a last one for all of them together.

    Of that only two are used, for judging the others: `REPORTS`, how many workers are known, and `LARGEST`, the largest
    norm of those.
    """
    lines = np.zeros((n + 1, ENTRIES))
    lines[:, STAMP] = -1.0
    lines[:, HEARD] = lines[:, SINCE] = -math.inf
    return lines


@compiled
def enter(
    line: Floats,
    everybody: Floats,
    ages: Integers,
    version: int,
    stamp: int,
    sample: int,
    norm: float,
    loss: float,
    now: float,
) -> None:
    """Write a report down; its loss is NaN where none was told."""
    gap = now - line[SINCE]
    if 0.0 <= gap < math.inf:
        line[USUAL] += NEW * (gap - line[USUAL]) if line[LONGEST] > 0.0 else gap
        line[LONGEST] = max(gap, FADING * line[LONGEST])
    line[REPORTS] += 1.0
    line[STAMP], line[LAST], line[SAMPLES] = stamp, version, sample + 1
    line[LARGEST] = max(line[LARGEST], norm)
    line[NORM] = norm
    line[MEAN_NORM] += (norm - line[MEAN_NORM]) / min(line[REPORTS], WINDOW)
    if line[REPORTS] <= START:
        line[FIRST_NORM] = line[LARGEST]
    if norm == 0.0 and line[REPORTS] <= EARLY:
        line[ZEROS] += 1.0
    line[AGED] += version - stamp
    if abs(loss) < math.inf:
        line[LOSSES] += 1.0
        share = 1.0 / min(line[LOSSES], WINDOW)
        line[LOSS] += share * (loss - line[LOSS])
        line[LOSS2] += share * (loss * loss - line[LOSS2])
        if line[LOSSES] <= WINDOW:
            line[FIRST_LOSS] = line[LOSS]
        if line[LOSSES] == 1.0:
            line[START_LOSS] = loss
    if line[REPORTS] == KNOWN_AFTER:
        everybody[REPORTS] += 1.0
    if line[REPORTS] >= KNOWN_AFTER:
        everybody[LARGEST] = max(everybody[LARGEST], line[LARGEST])
    line[HEARD] = line[SINCE] = now
    line[CHANGED] = 1.0
    k, age = 0, version - stamp
    while age > 0:
        age >>= 1
        k += 1
    ages[k] += 1
