"""Intake: a report is judged, taken and written down in one go, by compiled code. What is refused: `guard`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.types import Floats, Integers, Record
from siag.methods import Method
from siag.methods.weighted import for_one
from siag.server.guard import ACCEPTED, Bounds, judge, norm_of_few, square_norm
from siag.server.ledger import BINS, HERE, blank, enter
from siag.server.method_state import GO, HOLD, NOWHERE, move, take

UNKNOWN = -1.0  # a squared norm


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
    loss: float,
    version: int,
    now: float,
    go: int,
    eta: float,
    d: int,
    short: Floats,
) -> int:
    """Take worker i's report and write it down if the verdict is ACCEPTED, otherwise do nothing; return the verdict.

    `square` is the squared norm of the message's gradient, its first d numbers; if that is `UNKNOWN` it is found here,
    which takes longer for a long one than to do so before.
    `short` is where what workers read goes after a step, in the numbers that travel; empty if nobody wants it.
    """
    line, everybody = lines[i], lines[lines.shape[0] - 1]
    if square < 0.0:
        square = norm_of_few(message, d)
    verdict = judge(line, everybody, bounds, version, stamp, sample, square)
    if verdict == ACCEPTED:
        take(state, i, message, version - stamp, go, eta, short)
        enter(line, everybody, ages, version, stamp, sample, math.sqrt(square), loss, now)
    return verdict


@compiled
def admit_all(
    state: Record,
    lines: Floats,
    ages: Integers,
    bounds: Bounds,
    rows: Integers,
    messages: Floats,
    notes: Integers,
    figures: Floats,
    version: int,
    now: float,
    arrived: int,
    k: int,
    sizes: Floats,
    first: int,
    nowhere: Floats,
) -> int:
    """Take the reports of these rows, as `admit` does, up to the first that is not accepted; return how many.

    `rows` says whose reports have come, in order; what is no row ends it. Of the workers, by row, there are `messages`
    (n, their length), `notes` (n, 2 or more), which begin with stamps and samples, and `figures` (n, 2), the squared
    norms and the losses. The server steps after `k` reports, `arrived` of which have come before, and `sizes[first]`
    is the size of its next step. `nowhere` is empty, for `admit`: code that made such an array would be twice as slow.
    """
    taken = 0
    for i in rows:
        if not 0 <= i < lines.shape[0] - 1:
            break
        go = GO if arrived + 1 >= k else HOLD
        eta = sizes[first] if go == GO else 0.0
        stamp, sample = notes[i, 0], notes[i, 1]
        report = i, messages[i], stamp, sample, figures[i, 0], figures[i, 1]
        if admit(state, lines, ages, bounds, *report, version, now, go, eta, 0, nowhere) != ACCEPTED:
            break
        taken += 1
        arrived += 1
        if go == GO:
            arrived = 0
            version += 1
            first += 1
    return taken


def warm_up(method: Method, kind: Any, state: Record, *book: Any) -> Callable[..., int]:
    """Have the machine code made, or found on disk, before anybody waits for it; return `admit` for this state.

    `kind` is that of a message's numbers, `book` the next arguments of `admit`. What is returned does not look at the
    types of its arguments, which would take as long as all else: messages must be contiguous and aligned.
    """
    first, lines, ages, message = _first(method, kind)
    what: Any = 0, message, 0, 0, 0.0, 0.0, 0, 0.0, GO, 0.0, 1, NOWHERE
    admit(first, lines, ages, book[-1], *what)
    move(first, 0.0)
    square_norm(message, 1)
    return admit.bare(state, *book, *what)


def warm_up_many(method: Method, kind: Any, state: Record, *book: Any) -> Callable[..., int]:
    """The same for `admit_all`, all of whose arrays must be contiguous and aligned."""
    first, lines, ages, message = _first(method, kind)
    rows: Any = check.read_only(np.zeros(1, np.int32))  # as runtimes give them, who read them from a pipe
    notes, figures, sizes = np.zeros((1, 2), np.int64), np.zeros((1, 2)), np.zeros(1)
    what: Any = rows, message[None], notes, figures, 0, 0.0, 0, 1, sizes, 0, NOWHERE
    admit_all(first, lines, ages, book[-1], *what)
    return admit_all.bare(state, *book, *what)


def _first(method: Method, kind: Any) -> tuple[Record, Floats, Integers, Floats]:
    """A state as small as can be, what is known of its one worker, and room for that one's first report."""
    d, lines = method.least, blank(1)
    lines[0, HERE] = 1.0
    return for_one(method).init(np.zeros(d), 1), lines, np.zeros(BINS, np.int64), np.zeros(method.message(d, 1), kind)
