"""Steps that look at ages, worked out along a schedule or along events, ahead of the loop."""

from __future__ import annotations

import numpy as np

from siag.activity.agenda import FADE, FORGET, STEP, Events
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.schedule import Schedule
from siag.foundations.types import Floats, Record
from siag.simulation.in_flight import STRANGERS
from siag.steps import heard, left, size


@compiled
def sizes_along(rule: Record, schedule: Schedule, first: int) -> None:
    """Write η_t for every iteration of a schedule that begins with `first`, where reports are as old as they can be."""
    for k in range(schedule.eta.size):
        for a in range(schedule.start[k], schedule.start[k + 1]):
            heard(rule, schedule.worker[a], first + k)
        schedule.eta[k] = size(rule, first + k)


@compiled
def sizes_of_events(rule: Record, events: Events, first: int, eta: Floats) -> None:
    """Write η_t for every step among the events, the first of them being iteration `first`."""
    t = first
    for e in range(events.code.size):
        code = events.code[e]
        if code == STEP:
            eta[t - first] = size(rule, t)
            t += 1
        elif code < STRANGERS:
            if code < FORGET and events.factor[e] == 0.0:
                left(rule, code - FADE)
        elif code >= 0:
            heard(rule, code, t - events.age[e])


def aged_schedule(rule: Record, schedule: Schedule, first: int, fast: bool) -> None:
    """Fill in a schedule's step sizes, if they are steps at all."""
    (sizes_along if fast else sizes_along.plain)(rule, schedule, first)
    check_sizes(schedule.eta)


def aged_events(rule: Record, events: Events, first: int, steps: int, fast: bool) -> Floats:
    """The sizes of the steps among the events, if they are steps at all."""
    eta = np.empty(steps)
    (sizes_of_events if fast else sizes_of_events.plain)(rule, events, first, eta)
    check_sizes(eta)
    return eta


def check_sizes(eta: Floats) -> None:
    """Refuse what a rule of the user's own may have come up with."""
    if not (np.isfinite(eta) & (eta >= 0)).all():
        raise BadInput("step", eta, "finite and not negative, one size for every t", "mend what `size` means for it")
