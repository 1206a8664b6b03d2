"""A relay's server: it keeps what its members have sent, and their sum; w is the root's, and it takes no steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from siag.activity import EveryArrivals
from siag.foundations import check
from siag.foundations.types import Floats, Record
from siag.live.until import Until
from siag.methods import Method, Table, advance, receive, table
from siag.methods.table import ALL, LOST, NOTHING, sum_anew
from siag.server.ledger import LAST, LOSS, LOSSES, REPORTS, STAMP
from siag.server.method_state import move
from siag.server.parameter_server import ParameterServer
from siag.server.short import Outgoing
from siag.server.sums import Sum

NEVER = EveryArrivals(check.LARGEST)  # when it steps
ENDLESS = Until(reports=check.LARGEST)  # when it ends by itself
RESUM = 64  # as of `SIAG`


@dataclass(frozen=True, kw_only=True)
class Gather(Method):
    """What a relay does with messages, whatever the root's method makes of them: keep the latest, and their sum.

    Args:
        numbers: how many a message has.
        gradient: how many of them, from the beginning, are a gradient.
    """

    relayed = True
    takes_short = True

    numbers: int
    gradient: int

    def message(self, d: int, n: int) -> int:
        """As many as the root's."""
        return self.numbers

    def measured(self, d: int, n: int) -> int:
        """As many as of the root's."""
        return self.gradient

    @property
    def least(self) -> int:
        """That of the root: machine code is made for its messages."""
        return self.gradient

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table."""
        rows = table(w0, n, RESUM, 0.0, "float64", self.numbers)
        return Gathered(rows.w, rows)


class Gathered(NamedTuple):
    """A table, whose w is the root's."""

    w: Floats  # (d,) the table's own
    table: Table


@receive.when(Gathered)
def keep_message(state: Gathered, i: int, message: Floats, age: int) -> None:
    """As a table does."""
    receive(state.table, i, message, age)


@advance.when(Gathered)
def stay(state: Gathered, eta: float) -> None:
    """Sum anew, if that is due; w stays where the root has it."""
    sum_anew(state.table)


class RelayServer(ParameterServer):
    """A parameter server that takes reports as any does, and never steps: its version is the root's.

    Args:
        given: as for `ParameterServer`.
    """

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.oldest = np.zeros(self.n, np.int64)  # the oldest stamp in each row

    @property
    def rows(self) -> Table:
        """What its members have sent."""
        state: Gathered = self.state
        return state.table

    @property
    def weight(self) -> float:
        """Σ c_k of the rows that are not gone; a member that was not heard of yet has a row of zeros, as at a root."""
        rows = self.rows
        weight = float(self.n + (rows.excess[ALL] - rows.excess[LOST]))
        return weight if weight > NOTHING * self.n else 0.0

    @property
    def loss(self) -> float:
        """The mean of its members' recent losses, NaN if they tell none."""
        told = self.ledger[:-1][(self.ledger[:-1, LOSSES] > 0) & ~self.rows.gone]
        return float(told[:, LOSS].mean()) if len(told) else float("nan")

    def read(self, w: Floats, version: int) -> None:
        """The root has sent w of this version."""
        self.state.w[:] = w
        self.version = version

    def go_back(self) -> None:
        """The root has gone back to an earlier version: nothing is from a later one."""
        for entry in (STAMP, LAST):
            self.ledger[:-1, entry] = np.minimum(self.ledger[:-1, entry], self.version)
        self.oldest = np.minimum(self.oldest, self.version)
        self.sent = Outgoing(self.shown, self.encoding)

    def restore(self, meta: Mapping[str, Any], now: float) -> None:
        """As of any server; of what is in a row only the mean stamp was saved."""
        super().restore(meta, now)
        self.oldest[:] = np.maximum(self.ledger[:-1, STAMP], 0)

    def push(self, row: int, stamp: int, *args: Any, **given: Any) -> None:
        """As of any server; the stamp is remembered."""
        super().push(row, stamp, *args, **given)
        self.oldest[row] = stamp

    def push_sum(self, row: int, stamp: int, message: Floats, sample: int, now: float, what: Sum, *args: Any) -> None:
        """The same of a member that is a relay."""
        super().push_sum(row, stamp, message, sample, now, what, *args)
        self.oldest[row] = what.oldest

    def empty(self, now: float) -> None:
        """Let all rows count for nothing until their members are heard of: they have reported to another before."""
        for row in range(self.n):
            if not self.rows.gone[row]:
                self._fade(row, 0.0, now)

    def sum_to(self, out: Floats, read: int) -> Sum:
        """Write the sum to `out`; what it counts for and how old it is, w of version `read` being the last."""
        move(self.state, 0.0)
        rows = self.rows
        there = (self.ledger[:-1, REPORTS] > 0) & ~rows.gone
        out[:] = rows.total if there.sum() != 1 else rows.rows[np.argmax(there)]  # of one there is nothing to round
        weights, stamps = rows.weights[there], np.minimum(self.ledger[:-1, STAMP][there], read)
        if not weights.sum() > 0.0:
            return Sum(self.weight, read, read)
        mean = round(float((weights * stamps).sum() / weights.sum()))
        return Sum(self.weight, mean, min(mean, int(self.oldest[there].min())))
