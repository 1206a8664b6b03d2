"""Gradients of recent points alone: the server's memory of Rennala and Ringmaster, which ignore all others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siag.foundations.types import Floats, Integers
from siag.methods.method import advance, ready, receive

DONE, OLDEST, TAKEN = 0, 1, 2  # the entries of `tally`


class Recent(NamedTuple):
    """What has arrived since the last step, of points that w was at less than R steps ago.

    A server that ignores what arrives makes no step in that iteration. So the delay of a gradient, counted in steps as
    in the papers, is not its age, which counts iterations; the iterations of the last R steps tell which is which.
    """

    w: Floats  # (d,)
    total: Floats  # (d,) the sum of the gradients taken since the last step
    steps: Integers  # (R,) the last R steps, in a ring: the iterations after them
    tally: Integers  # (3,) iterations so far, the place of the oldest step in the ring, gradients taken
    batch: int  # how many gradients a step takes


def recent(w0: Floats, batch: int, threshold: int) -> Recent:
    """Nothing received yet; R is the threshold."""
    return Recent(w0.copy(), np.zeros(w0.size), np.zeros(threshold, np.int64), np.zeros(3, np.int64), batch)


@receive.when(Recent)
def add_if_recent(state: Recent, i: int, message: Floats, age: int) -> None:
    """g ← g + message, unless R steps were made since the w it was computed from was shown."""
    if state.tally[DONE] - age >= state.steps[state.tally[OLDEST]]:
        for j in range(message.size):
            state.total[j] += message[j]
        state.tally[TAKEN] += 1


@ready.when(Recent)
def batch_is_full(state: Recent) -> bool:
    """Whether there are enough gradients for a step."""
    return bool(state.tally[TAKEN] >= state.batch)


@advance.when(Recent)
def step_along_batch(state: Recent, eta: float) -> None:
    """If the batch is full: w ← w − η g/|batch|; g ← 0."""
    state.tally[DONE] += 1
    taken = state.tally[TAKEN]
    if taken >= state.batch:
        for j in range(state.w.size):
            state.w[j] -= eta / taken * state.total[j]
            state.total[j] = 0.0
        state.tally[TAKEN] = 0
        state.steps[state.tally[OLDEST]] = state.tally[DONE]
        state.tally[OLDEST] = (state.tally[OLDEST] + 1) % state.steps.size
