"""A sum of this iteration's messages, each weighted by its age: the server's memory of AsyncSGD and FedBuff."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Integers
from siag.methods.method import advance, ready, receive, weight

EVEN, CAPPED, ROOT, DROPPED = range(4)  # the kinds of weight


class Discounted(NamedTuple):
    """What arrived in the current iteration, old messages counting for less.

    A message of age τ weighs 1 (`EVEN`), min(1, c/max(τ, 1)) (`CAPPED`), 1/√(1 + τ) (`ROOT`), or 1 if τ ≤ c and 0
    otherwise (`DROPPED`), c being the threshold.
    """

    w: Floats  # (d,)
    total: Floats  # (d,) the weighted sum of this iteration's messages
    arrived: Integers  # (1,) their number
    weights: Floats  # (1,) the sum of their weights
    threshold: int  # c; not used by `EVEN` and `ROOT`
    kind: int


def discounted(w0: Floats, threshold: int, kind: int) -> Discounted:
    """Nothing received yet."""
    return Discounted(w0.copy(), np.zeros(w0.size), np.zeros(1, np.int64), np.zeros(1), threshold, kind)


@receive.when(Discounted)
def add_weighted(state: Discounted, i: int, message: Floats, age: int) -> None:
    """g ← g + v(τ) · message."""
    v = 1.0
    if state.kind == CAPPED and age > state.threshold:
        v = state.threshold / age
    elif state.kind == DROPPED and age > state.threshold:
        v = 0.0
    elif state.kind == ROOT:
        v = 1.0 / math.sqrt(1.0 + age)
    for j in range(message.size):
        state.total[j] += v * message[j]
    state.arrived[0] += 1
    state.weights[0] += v


@ready.when(Discounted)
def anything_came(state: Discounted) -> bool:
    """Whether there is anything to step along."""
    return bool(state.arrived[0] > 0)


@weight.when(Discounted)
def mean_weight(state: Discounted) -> float:
    """(1/|A|) Σ v(τ)."""
    return float(state.weights[0] / state.arrived[0])


@advance.when(Discounted)
def step_along_sum(state: Discounted, eta: float) -> None:
    """w ← w − (η/|A|) g; g ← 0. The weights do not enter the divisor: an old message makes the step shorter."""
    if state.arrived[0] > 0:
        for j in range(state.w.size):
            state.w[j] -= eta / state.arrived[0] * state.total[j]
            state.total[j] = 0.0
        state.arrived[0] = 0
        state.weights[0] = 0.0
