"""Non-aggregated SGD, eq. (sgd): only the gradients that arrive now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats, Integers, Record
from siag.methods.method import Method, advance, ready, receive, weight

NORMALIZATIONS = ("mean", "sum")
SUM_OVER_ALL = "normalization='sum' divides by the number of all workers; use 'mean'"


@dataclass(frozen=True, kw_only=True)
class SGD(Method):
    r"""Step along this iteration's stochastic gradients, forgetting all others.

        mean:  w^{t+1} = w^t − (η_t/|A_t|) Σ_{i∈A_t} ∇f_i(w^t; ξ_i^t)
        sum:   w^{t+1} = w^t − (η_t/n) Σ_{i∈A_t} ∇f_i(w^t; ξ_i^t)

    Workers that report more often weigh more: under unequal participation it converges to a biased point.

    Args:
        normalization: `"mean"` over the active workers, comparable to sIAG at the same η; or the `"sum"`
            of eq. (sgd) read literally, whose effective step is |A_t|/n of sIAG's.
    """

    split = True

    normalization: str = "mean"

    def __post_init__(self) -> None:
        check.choice("normalization", self.normalization, NORMALIZATIONS)
        if self.normalization == "sum":
            object.__setattr__(self, "NO_CHANGES", SUM_OVER_ALL)

    def init(self, w0: Floats, n: int) -> Record:
        """Nothing received yet."""
        return Fresh(w0.copy(), np.zeros(w0.size), np.zeros(1, np.int64), n if self.normalization == "sum" else 0)


class Fresh(NamedTuple):
    """What arrived in the current iteration."""

    w: Floats  # (d,)
    total: Floats  # (d,) the sum of this iteration's messages
    arrived: Integers  # (1,) their number
    divisor: int  # n, or 0 for the number of messages


@receive.when(Fresh)
def add(state: Fresh, i: int, message: Floats, age: int) -> None:
    """g ← g + message."""
    for j in range(message.size):
        state.total[j] += message[j]
    state.arrived[0] += 1


@ready.when(Fresh)
def anything_arrived(state: Fresh) -> bool:
    """Whether there is anything to step along."""
    return bool(state.arrived[0] > 0)


@weight.when(Fresh)
def share_of_all(state: Fresh) -> float:
    """1, or |A|/n."""
    return state.arrived[0] / state.divisor if state.divisor > 0 else 1.0


@advance.when(Fresh)
def step_and_forget(state: Fresh, eta: float) -> None:
    """w ← w − (η/|A|) g or w − (η/n) g; g ← 0."""
    if state.arrived[0] > 0:
        scale = eta / (state.divisor if state.divisor > 0 else state.arrived[0])
        for j in range(state.w.size):
            state.w[j] -= scale * state.total[j]
            state.total[j] = 0.0
        state.arrived[0] = 0
