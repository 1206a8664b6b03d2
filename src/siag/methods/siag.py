"""Streaming incremental aggregated gradient: Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats, Integers, Record
from siag.methods.method import advance, fade, receive
from siag.methods.table import SINCE, Aggregated, Table


@dataclass(frozen=True, kw_only=True)
class SIAG(Aggregated):
    r"""Step along the average of the latest stochastic gradient of every worker, stale or not.

        w^{t+1} = w^t − (η_t/n) Σ_i g_i,    g_i = ∇f_i(w^{τ_i(t)}; ξ_i^{τ_i(t)})

    where τ_i(t) is the iteration of worker i's latest report. Every worker counts the same however often it reports,
    so fast workers do not bias the model. An arrival costs O(d), not O(nd): the sum is kept up to date.

    With `average` = m a row is a moving average of its worker's own reports instead,

        g_i ← g_i + (∇f_i(w^t; ξ) − g_i)/min(k, m)    with its k-th report,

    m = 1 being Algorithm 1. A row's noise is then 1/(2m − 1) as strong, and its gradients are m − 1 reports older on
    average. For large t that helps workers whose gaps are irregular and changes nothing for regular ones; until every
    worker has reported many times m it hurts, up to several hundredfold. docs/explanation/theory.md says
    what m is best when.

    Args:
        resum: sum the table anew after this many reports per worker, so that rounding errors do not pile up; 0: never.
        wait: the fraction of workers that must have reported before the server first steps. 0 is Algorithm 1, in
            which a row is zero until its worker reports; 1 waits for everybody.
        rows: `"float32"` halves the table's memory; the sum and w stay in double precision.
        average: m. A worker whose row has faded or was dropped begins anew, with k = 1.

    Example:
        >>> SIAG(wait=1.0)
        SIAG(resum=64, wait=1.0, rows='float64', average=1)

    Reference:
        X. Wang, C. Jin, H.-T. Wai, Y. Gu, "Linear speedup of incremental aggregated gradient methods on streaming
        data", CDC 2023, Algorithm 1; it has no averages in its rows.
    """

    split = True
    takes_short = True

    average: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "average", check.integer("average", self.average, high=2**31))
        object.__setattr__(self, "relayed", self.average == 1)  # of sums whose weights change there is no average

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table, and how many reports each row is the average of."""
        rows = super().init(w0, n)
        return rows if self.average == 1 else MeanRows(rows.w, rows, np.zeros(n, np.int64), self.average)


class MeanRows(NamedTuple):
    """A table whose rows are moving averages of their workers' reports."""

    w: Floats  # (d,) the table's own
    table: Table
    reports: Integers  # (n,) min(k, m) for the k-th report of worker i; 0 if its next one is to replace the row
    most: int  # m


@receive.when(MeanRows)
def move_row(state: MeanRows, i: int, message: Floats, age: int) -> None:
    """g_i ← g_i + (message − g_i)/min(k, m), and the sum with it; the first report is taken as it is."""
    k = min(state.reports[i] + 1, state.most)
    state.reports[i] = k
    if k == 1:
        receive(state.table, i, message, age)
        return
    row, total = state.table.rows[i], state.table.total
    for j in range(message.size):
        before = np.float64(row[j])
        row[j] = before + (message[j] - before) / k
        total[j] += np.float64(row[j]) - before  # what is stored, in case it was rounded
    state.table.tally[SINCE] += 1


@advance.when(MeanRows)
def step_along_means(state: MeanRows, eta: float) -> None:
    """As Algorithm 1 does."""
    advance(state.table, eta)


@fade.when(MeanRows)
def fade_and_begin_anew(state: MeanRows, i: int, factor: float) -> None:
    """As in the table; a row that has faded is no average to go on from."""
    fade(state.table, i, factor)
    if factor < 1.0:
        state.reports[i] = 0
