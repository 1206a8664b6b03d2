"""SAGA: the table of SAG, used so that every step is unbiased."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Integers, Record
from siag.methods.by_sample import BySample
from siag.methods.method import advance, receive
from siag.methods.table import SEEN, Table, sum_anew, total_weight


@dataclass(frozen=True, kw_only=True)
class SAGA(BySample):
    r"""Step along the gradient of one sample, corrected by what is remembered of it and of all others.

        w^{t+1} = w^t − η [∇f_j(w^t) − g_j + (1/n) Σ_i g_i],    then g_j ← ∇f_j(w^t)

    with j drawn at random. As in `SAG` row i belongs to sample i of a finite data set (`problem.by_sample()`), and F_i
    is its loss. The mean of the step over j is −η∇F(w^t), whatever the table holds; SAG's is not. The paper's steps are
    1/(3L) and 1/(2(μn + L)), with L the largest smoothness of a sample's loss.

    If several samples arrive in an iteration, the mean of their ∇f_j − g_j is taken; if none does, w stays.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`. The paper's table is full from the start; an empty row is that of a sample remembered at
            the minimum of its own loss.
        rows: as in `SIAG`.

    Reference:
        A. Defazio, F. Bach, S. Lacoste-Julien, "SAGA: a fast incremental gradient method with support for non-strongly
        convex composite objectives", NIPS 2014, eq. (1). For the proximal step wrap it in `Prox`.
    """

    ages = ""  # a step goes along more than the table

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table."""
        table = super().init(w0, n)
        return Jump(table.w, table, np.zeros(w0.size), np.zeros(1, np.int64))


class Jump(NamedTuple):
    """A table, and how far this iteration's reports are from the rows they replaced."""

    w: Floats  # (d,) the table's own
    table: Table
    change: Floats  # (d,) Σ (∇f_j(w) − g_j) over this iteration's reports
    arrived: Integers  # (1,) their number


@receive.when(Jump)
def replace_and_compare(state: Jump, i: int, message: Floats, age: int) -> None:
    """Replace row i, and add what that changed."""
    row, change = state.table.rows[i], state.change
    for j in range(change.size):
        change[j] -= np.float64(row[j])
    receive(state.table, i, message, age)
    for j in range(change.size):
        change[j] += np.float64(row[j])
    state.arrived[0] += 1


@advance.when(Jump)
def step_unbiased(state: Jump, eta: float) -> None:
    """w ← w − η [change/|A| + (g − change)/n]: g − change is the sum of the table before this iteration."""
    table, change = state.table, state.change
    sum_anew(table)
    n, arrived = total_weight(table), state.arrived[0]
    if arrived > 0:
        for j in range(state.w.size):
            if table.tally[SEEN] >= table.quorum:
                state.w[j] -= eta * (change[j] / arrived + (table.total[j] - change[j]) / n)
            change[j] = 0.0
        state.arrived[0] = 0
