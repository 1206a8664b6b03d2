"""The table: the server's memory of the latest message of every worker, and their sum, kept up to date in O(d)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.types import Booleans, Floats, Integers, Record
from siag.methods.method import Method, advance, arrive, arrive_and_round, fade, ready, receive, weigh

PRECISIONS = ("float64", "float32")
SINCE, SEEN, GONE = 0, 1, 2  # the entries of `tally`
ALL, LOST = 0, 1  # the entries of `excess`
NOTHING = 1e-12  # times n: a weight that is but rounding


class Table(NamedTuple):
    """Fig. 1's buffer. `total` is the sum of `rows` at all times, up to rounding that cannot pile up.

    A row whose worker counts c times as much as others is c times its message; the average divides by Σ c_i.
    """

    w: Floats  # (d,)
    rows: Floats  # (n, d) g_i, zero until worker i first reports; may be float32
    total: Floats  # (d,) g = Σ g_i
    seen: Booleans  # (n,) whether worker i has reported
    gone: Booleans  # (n,) whether nothing is left of row i, its worker having left
    weights: Floats  # (n,) c_i: row i is a message times c_i, 1 unless somebody has said otherwise
    excess: Floats  # (2,) Σ (c_i − 1) over all rows, and Σ c_i over those that are gone
    tally: Integers  # (3,) reports since the last exact sum, workers that have reported, rows that are gone
    resum: int  # reports per worker after which the rows are summed anew; 0: never
    quorum: int  # how many workers must have reported before the first step


@dataclass(frozen=True, kw_only=True)
class Aggregated(Method):
    """A method whose server keeps a table and steps along the average of its rows, whatever the workers send.

    Args:
        resum: sum the table anew after this many reports per worker, so that rounding errors do not pile up; 0: never.
        wait: the fraction of workers that must have reported before the server first steps, with η_0. 0 is
            Algorithm 1, in which a row is zero until its worker reports; 1 waits for everybody.
        rows: `"float32"` halves the table's memory; the sum and w stay in double precision.
    """

    ages = "table"

    resum: int = 64
    wait: float = 0.0
    rows: str = "float64"

    def __post_init__(self) -> None:
        object.__setattr__(self, "resum", check.integer("resum", self.resum, low=0, high=2**31))
        object.__setattr__(self, "wait", check.real("wait", self.wait, low=0, high=1))
        check.choice("rows", self.rows, PRECISIONS)

    def quorum(self, n: int) -> int:
        """The fraction `wait` of all."""
        return fraction_of(n, self.wait)

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table: Algorithm 1, line 2."""
        return table(w0, n, self.resum, self.wait, self.rows, self.message(w0.size, n))


def fraction_of(n: int, wait: float) -> int:
    """How many workers a fraction of n is."""
    return math.ceil(wait * n * (1.0 - 1e-12))  # 0.07 of 100 is 7, rounding or not


def table(w0: Floats, n: int, resum: int, wait: float, precision: str = "float64", width: int | None = None) -> Table:
    """A table in which no worker has reported yet; its rows may be wider than w."""
    width = w0.size if width is None else width
    rows, total = np.zeros((n, width), precision), np.zeros(width)
    seen, gone, tally = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(3, np.int64)
    resting = tally, resum, fraction_of(n, wait)
    return Table(w0.copy(), rows, total, seen, gone, np.ones(n), np.zeros(2), *resting)


@part
def total_weight(state: Table) -> float:
    """What the average divides by: Σ c_i of the rows that are not gone, their number if all count the same.

    1 if nothing is left, whose sum is 0.
    """
    n = state.rows.shape[0]
    weight = n + (state.excess[ALL] - state.excess[LOST])
    return float(weight) if weight > NOTHING * n else 1.0


@part
def rows_there(state: Table) -> int:
    """How many rows are not gone."""
    return int(state.rows.shape[0] - state.tally[GONE])


@part
def count_report(state: Table, i: int) -> None:
    """Worker i has reported, and its row is there."""
    state.tally[SINCE] += 1
    if not state.seen[i]:
        state.seen[i] = True
        state.tally[SEEN] += 1
    if state.gone[i]:
        state.gone[i] = False
        state.tally[GONE] -= 1
        state.excess[LOST] -= state.weights[i]


@receive.when(Table)
def replace_row(state: Table, i: int, message: Floats, age: int) -> None:
    """g ← g − g_i + message; g_i ← message: the incremental form at the end of Sec. II."""
    row, total = state.rows[i], state.total
    for j in range(message.size):
        before = np.float64(row[j])
        row[j] = message[j]
        total[j] += np.float64(row[j]) - before  # what is stored, in case it was rounded
    count_report(state, i)


@part
def sum_anew(state: Table) -> None:
    """g ← Σ g_i, summed row by row, and Σ c_i, if that is due."""
    if state.resum > 0 and state.tally[SINCE] >= state.resum * rows_there(state):
        state.tally[SINCE] = 0
        state.total[:] = 0.0
        state.excess[:] = 0.0
        for i in range(state.rows.shape[0]):
            state.excess[ALL] += state.weights[i] - 1.0
            if state.gone[i]:
                state.excess[LOST] += state.weights[i]
            else:
                for j in range(state.total.size):
                    state.total[j] += np.float64(state.rows[i, j])


@advance.when(Table)
def step_along_total(state: Table, eta: float) -> None:
    """w ← w − (η/n) g, eq. (siag), after summing anew if that is due; n is the weight of the rows that are not gone."""
    sum_anew(state)
    if state.tally[SEEN] >= state.quorum:
        n = total_weight(state)
        for j in range(state.w.size):
            state.w[j] -= eta / n * state.total[j]


@ready.when(Table)
def enough_have_reported(state: Table) -> bool:
    """Whether somebody has, and as many as are waited for."""
    return bool(state.tally[SEEN] >= max(state.quorum, 1))


@part
def in_the_way(state: Table, i: int) -> bool:
    """Whether worker i's report and a step cannot be one pass over memory."""
    due = state.resum > 0 and state.tally[SINCE] + 1 >= state.resum * rows_there(state)
    return bool(due or not state.seen[i] or state.gone[i] or state.tally[SEEN] < state.quorum)


@arrive.when(Table)
def replace_and_step(state: Table, i: int, message: Floats, age: int, eta: float) -> None:
    """Both in one pass over memory, unless a sum anew or a quorum is in the way; the same numbers to the bit."""
    if in_the_way(state, i):
        receive(state, i, message, age)
        advance(state, eta)
        return
    state.tally[SINCE] += 1
    n = total_weight(state)
    w, row, total = state.w, state.rows[i], state.total
    for j in range(message.size):
        before = np.float64(row[j])
        row[j] = message[j]
        sum_j = total[j] + (np.float64(row[j]) - before)
        total[j] = sum_j
        w[j] -= eta / n * sum_j


@arrive_and_round.when(Table)
def replace_step_and_round(state: Table, i: int, message: Floats, age: int, eta: float, short: Floats) -> None:
    """All in one pass over memory: to read w again would take half as long as all the rest."""
    if short.size == 0 or in_the_way(state, i):
        arrive(state, i, message, age, eta)
        for j in range(short.size):
            short[j] = state.w[j]
        return
    state.tally[SINCE] += 1
    n = total_weight(state)
    w, row, total = state.w, state.rows[i], state.total
    for j in range(message.size):
        before = np.float64(row[j])
        row[j] = message[j]
        sum_j = total[j] + (np.float64(row[j]) - before)
        total[j] = sum_j
        w_j = w[j] - eta / n * sum_j
        w[j] = w_j
        short[j] = w_j


@fade.when(Table)
def fade_row(state: Table, i: int, factor: float) -> None:
    """g_i ← factor · g_i, and the sum with it; a row of which nothing is left does not count in the average."""
    row, total = state.rows[i], state.total
    for j in range(total.size):
        before = np.float64(row[j])
        row[j] = factor * before
        total[j] += np.float64(row[j]) - before
    state.tally[SINCE] += 1  # it rounds as a report does
    if factor == 0.0 and not state.gone[i]:
        state.gone[i] = True
        state.tally[GONE] += 1
        state.excess[LOST] += state.weights[i]


@weigh.when(Table)
def set_weight(state: Table, i: int, weight: float) -> None:
    """c_i ← weight."""
    more = weight - state.weights[i]
    state.weights[i] = weight
    state.excess[ALL] += more
    if state.gone[i]:
        state.excess[LOST] += more
