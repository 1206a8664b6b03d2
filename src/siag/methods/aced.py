"""ACED: all-client engagement that lets go of updates from a certain age on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import part
from siag.foundations.types import Floats, Integers, Record
from siag.methods.ace import ACE
from siag.methods.method import advance, fade, ready, receive
from siag.methods.table import GONE, LOST, Table

STEPS, OLDEST = 0, 1  # the entries of `tally`


@dataclass(frozen=True, kw_only=True)
class ACED(ACE):
    r"""`ACE` over the clients whose latest update is not too old.

        A_t = {i : t − τ_i(t) ≤ τ_algo},    w^{t+1} = w^t − (η/|A_t|) Σ_{i∈A_t} U_i^{latest}

    τ_i(t) is the iteration of the w that client i's latest update was computed from. A client that is left out is in
    again with its next update, unless that is too old as well. So old updates do no harm, and a client that is gone is
    gone after τ_algo iterations; but clients that are always too old never count, and those that are so at times count
    less: the smaller τ_algo, the more participation biases the model. With a τ_algo that no age exceeds it is `ACE`, to
    the bit.

    Ages count from the first step: until then, while clients are waited for, all updates are of w^0. If all are left
    out, w stays. A row that is dropped or back costs O(d), as any report does. How far the rule was checked against
    the paper is said in docs/reference/methods.md.

    Args:
        threshold: τ_algo, in iterations of the server.
        resum: as in `SIAG`.
        wait: as in `SIAG`; by default the server begins when it has heard from everybody. With less, clients that have
            not reported yet are no part of the mean.
        rows: as in `SIAG`.
        gradients: `"sample"`, stochastic, as in the paper; or `"exact"`, to look at the bias without the noise.

    Example:
        >>> ACED(threshold=50).threshold
        50

    Reference:
        X. Chang et al., "Mitigating participation imbalance bias in asynchronous federated learning",
        arXiv:2511.19066, 2025.
    """

    ages = ""
    relayed = False  # a sum has no age of its own by which to leave it out

    threshold: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "threshold", check.integer("threshold", self.threshold, high=2**53))

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table: nobody is in the mean."""
        rows = super().init(w0, n)
        rows.gone[:] = True
        rows.tally[GONE] = n
        rows.excess[LOST] = n
        return Engaged(rows.w, rows, np.zeros(n, np.int64), np.zeros(2, np.int64), self.threshold)


class Engaged(NamedTuple):
    """A table, and how old its rows are; those that are too old are gone from it, like those of departed workers."""

    w: Floats  # (d,) the table's own
    table: Table
    stamp: Integers  # (n,) τ_i, counted from the first step
    tally: Integers  # (2,) steps so far, and a stamp that none in the mean is below
    threshold: int


@receive.when(Engaged)
def replace_and_stamp(state: Engaged, i: int, message: Floats, age: int) -> None:
    """Row i is the message, and in the mean."""
    receive(state.table, i, message, age)
    state.stamp[i] = max(0, state.tally[STEPS] - age)
    state.tally[OLDEST] = min(state.tally[OLDEST], state.stamp[i])


@part
def leave_out(state: Engaged) -> None:
    """Drop the rows that are too old; find the oldest of the rest."""
    now = state.tally[STEPS]
    state.tally[OLDEST] = now
    for i in range(state.stamp.size):
        if not state.table.gone[i]:
            if now - state.stamp[i] > state.threshold:
                fade(state.table, i, 0.0)
            else:
                state.tally[OLDEST] = min(state.tally[OLDEST], state.stamp[i])


@ready.when(Engaged)
def anybody_is_in(state: Engaged) -> bool:
    """Whether enough have reported, and somebody is in the mean."""
    return bool(ready(state.table) and state.table.tally[GONE] < state.stamp.size)


@advance.when(Engaged)
def step_along_recent(state: Engaged, eta: float) -> None:
    """w ← w − (η/|A_t|) Σ_{i∈A_t} g_i, once enough have reported."""
    if ready(state.table):
        if state.tally[STEPS] - state.tally[OLDEST] > state.threshold:
            leave_out(state)
        state.tally[STEPS] += 1
    if state.table.tally[GONE] < state.stamp.size:  # of rows that are all gone the sum is 0 up to rounding
        advance(state.table, eta)
