"""The ledger: what the server knows of its workers in numbers, kept where compiled code takes reports by the dozen."""

from __future__ import annotations

import math

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.types import Floats, Integers, Record
from siag.methods import arrive, receive
from siag.server.guard import KNOWN_AFTER, Bounds

REPORTS, STAMP, LAST, SAMPLES, LARGEST, HEARD, WORKED, HERE, CHANGED = range(9)  # the entries of a worker's line
BINS = 64  # of ages: 0, 1, 2-3, 4-7 and so on
HOLD, GO = 0, 1  # whether the server steps after a report
MOST = check.LARGEST


def blank(n: int) -> Floats:
    """(n + 1, 9) the lines of workers nobody has heard of, and a last one for all of them together.

    Of that only `LARGEST` is used: the largest norm of those workers that are known, for judging the others.
    """
    lines = np.zeros((n + 1, 9))
    lines[:, STAMP] = -1.0
    lines[:, HEARD] = lines[:, WORKED] = -math.inf
    return lines


@compiled
def unsuspicious(
    line: Floats, everybody: Floats, bounds: Bounds, version: int, stamp: int, sample: int, square: float
) -> bool:
    """Whether a report needs no closer look: its worker is here and in good standing, and `Guard` would let it pass."""
    if line[HERE] == 0.0 or not 0.0 <= square < math.inf:
        return False
    if stamp > version or stamp < line[LAST] or sample < line[SAMPLES] or sample > MOST:
        return False
    norm = math.sqrt(square)
    usual = line[LARGEST] if line[REPORTS] >= KNOWN_AFTER else everybody[LARGEST]
    jumps = usual > 0.0 and norm > bounds.jump * usual
    return not jumps and version - stamp <= bounds.age and norm <= bounds.norm


@compiled
def enter(
    line: Floats, everybody: Floats, ages: Integers, version: int, stamp: int, sample: int, norm: float, now: float
) -> None:
    """Write a report down."""
    line[REPORTS] += 1.0
    line[STAMP], line[LAST], line[SAMPLES] = stamp, version, sample + 1
    line[LARGEST] = max(line[LARGEST], norm)
    if line[REPORTS] >= KNOWN_AFTER:
        everybody[LARGEST] = max(everybody[LARGEST], line[LARGEST])
    line[HEARD] = line[WORKED] = now
    line[CHANGED] = 1.0
    k, age = 0, version - stamp
    while age > 0:
        age >>= 1
        k += 1
    ages[k] += 1


@compiled
def take(state: Record, i: int, message: Floats, age: int, go: int, eta: float) -> None:
    """Receive a report and, if it is time, step."""
    if go == GO:
        arrive(state, i, message, age, eta)
    else:
        receive(state, i, message, age)


@compiled
def admit(
    state: Record,
    lines: Floats,
    ages: Integers,
    bounds: Bounds,
    i: int,
    message: Floats,
    stamp: int,
    sample: int,
    square: float,
    version: int,
    now: float,
    go: int,
    eta: float,
) -> bool:
    """Take a report that needs no closer look, and write it down; otherwise do nothing, and say so."""
    line, everybody = lines[i], lines[lines.shape[0] - 1]
    if not unsuspicious(line, everybody, bounds, version, stamp, sample, square):
        return False
    take(state, i, message, version - stamp, go, eta)
    enter(line, everybody, ages, version, stamp, sample, math.sqrt(square), now)
    return True


@compiled
def note_silence(
    lines: Floats, ages: Integers, bounds: Bounds, i: int, stamp: int, sample: int, version: int, now: float
) -> bool:
    """Write down that worker i has nothing to send, if that needs no closer look; otherwise do nothing, and say so."""
    line, everybody = lines[i], lines[lines.shape[0] - 1]
    if not unsuspicious(line, everybody, bounds, version, stamp, sample, 0.0):
        return False
    enter(line, everybody, ages, version, stamp, sample, 0.0, now)
    return True


@compiled
def admit_all(
    state: Record,
    lines: Floats,
    ages: Integers,
    bounds: Bounds,
    rows: Integers,
    messages: Floats,
    notes: Integers,
    squares: Floats,
    version: int,
    now: float,
    arrived: int,
    k: int,
    sizes: Floats,
    first: int,
) -> int:
    """Take the reports of these rows, as `admit` does, up to the first that needs a closer look; return how many.

    Args:
        state: the method's.
        lines: the ledger.
        ages: the histogram.
        bounds: of the guard.
        rows: whose reports have come, in order; what is no row ends it.
        messages: (n, their length) the reports.
        notes: (n, 2) their stamps and samples.
        squares: (n,) their squared norms.
        version: of w.
        now: the time.
        arrived: reports since the last step.
        k: step after so many.
        sizes: of the steps.
        first: which of them is next.
    """
    taken, everybody = 0, lines[lines.shape[0] - 1]
    for i in rows:
        if not 0 <= i < lines.shape[0] - 1:
            break
        go = GO if arrived + 1 >= k else HOLD
        eta = sizes[first] if go == GO else 0.0
        stamp, sample = notes[i, 0], notes[i, 1]
        line, square = lines[i], squares[i]
        if not unsuspicious(line, everybody, bounds, version, stamp, sample, square):
            break
        take(state, i, messages[i], version - stamp, go, eta)
        enter(line, everybody, ages, version, stamp, sample, math.sqrt(square), now)
        taken += 1
        arrived += 1
        if go == GO:
            arrived = 0
            version += 1
            first += 1
    return taken
