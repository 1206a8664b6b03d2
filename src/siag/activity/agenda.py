"""The event queue of the virtual clock: who does what next, and when."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siag.activity.membership import Switches
from siag.activity.times import EXPONENTIAL, Law, duration
from siag.foundations.dispatch import compiled, rarely
from siag.foundations.rng import blank, rewind, uniform
from siag.foundations.types import Booleans, Floats, Integers, Rng

STEP = 1 << 62  # the code of an event in which the server steps
FADE = -(1 << 62)  # FADE + i: what is kept of worker i, which has left for good, counts for less from now on
FORGET = -(1 << 61)  # FORGET + i: worker i has lost its memory

VERSION, ARRIVED, SIZE, SWITCHED = range(4)  # the entries of `Agenda.counts`
NO_FACTORS = np.empty(0)


class Events(NamedTuple):
    """What happens, in order of time.

    Code i ≥ 0: worker i's report arrives; −1 − i: it reads w; STEP: w moves; FADE + i: its row counts for less;
    FORGET + i: it has lost its memory.
    """

    code: Integers  # (events,)
    age: Integers  # (events,) of a report: steps of the server since its w was read
    time: Floats  # (events,) seconds, ascending
    factor: Floats  # (events,) of FADE; empty if there is none


class Agenda(NamedTuple):
    """Each worker has one thing to do next, or waits for the server; a heap holds them by time."""

    key: Rng  # (2,) of this repeat's times
    rng: Rng  # scratch
    slowness: Floats  # (n,)
    compute: Law
    travel: Law
    gradients: Integers  # (n,) that a report takes
    k: int  # the server steps after k arrivals; 0: by ticks
    tick: float
    barrier: bool  # whether workers wait for the step before they read again
    recorded: Floats  # the times of worker i's reports are recorded[offset[i]:offset[i+1]]; empty: they are drawn
    offset: Integers  # (n + 1,)
    on: Floats  # (n,) mean time there; 0: always
    off: Floats  # (n,)
    when: Floats  # (n,) heap: the time of what is next
    who: Integers  # (n,) heap: whose it is
    away: Booleans  # (n,) whether worker i is on its way, about to report, or about to read
    stamp: Integers  # (n,) the version worker i has read
    tasks: Integers  # (n,) times away drawn so far
    absences: Integers  # (n,) times of availability drawn so far
    leaves: Floats  # (n,) until when worker i is there
    switches: Switches  # who comes and leaves when
    member: Booleans  # (n,) whether worker i is there at all
    counts: Integers  # (4,) version, arrivals since the last step, size of the heap, switches so far
    now: Floats  # (1,)


def agenda(
    key: Rng,
    slowness: Floats,
    laws: tuple[Law, Law],
    gradients: Integers,
    server: tuple[int, float, bool],
    availability: tuple[Floats, Floats],
    recorded: tuple[Floats, Integers],
    switches: Switches,
) -> Agenda:
    """At time 0 everyone is about to read; who is no member then leaves first."""
    n = len(slowness)
    state = Agenda(
        key=key,
        rng=blank(),
        slowness=slowness,
        compute=laws[0],
        travel=laws[1],
        gradients=gradients,
        k=server[0],
        tick=server[1],
        barrier=server[2],
        recorded=recorded[0],
        offset=recorded[1],
        on=availability[0],
        off=availability[1],
        when=np.zeros(n),
        who=np.zeros(n, np.int64),
        away=np.zeros(n, np.bool_),
        stamp=np.zeros(n, np.int64),
        tasks=np.zeros(n, np.int64),
        absences=np.zeros(n, np.int64),
        leaves=np.zeros(n),
        switches=switches,
        member=np.ones(n, np.bool_),
        counts=np.zeros(4, np.int64),
        now=np.zeros(1),
    )
    plan_all(state, 0.0)
    return state


@compiled
def push(state: Agenda, time: float, i: int) -> None:
    """Enter that worker i has something to do at `time`."""
    when, who = state.when, state.who
    at = state.counts[SIZE]
    state.counts[SIZE] += 1
    while at > 0:
        up = (at - 1) // 2
        if when[up] < time or (when[up] == time and who[up] < i):
            break
        when[at], who[at] = when[up], who[up]
        at = up
    when[at], who[at] = time, i


@compiled
def pop(state: Agenda) -> int:
    """Remove the earliest entry and return its worker; of two at the same time the lower number comes first."""
    when, who = state.when, state.who
    first = who[0]
    state.counts[SIZE] -= 1
    size = state.counts[SIZE]
    time, i = when[size], who[size]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        right = down + 1
        if right < size and (when[right] < when[down] or (when[right] == when[down] and who[right] < who[down])):
            down = right
        if time < when[down] or (time == when[down] and i < who[down]):
            break
        when[at], who[at] = when[down], who[down]
        at = down
    when[at], who[at] = time, i
    return int(first)


@compiled
def returns(state: Agenda, i: int, time: float) -> float:
    """When worker i, which would read at `time`, is there to do so."""
    on, off = state.on[i], state.off[i]
    if on > 0.0:
        while state.leaves[i] <= time:
            rewind(state.rng, state.key, i, -1 - state.absences[i])
            state.absences[i] += 1
            back = state.leaves[i]
            if state.absences[i] > 1 or uniform(state.rng) * (on + off) >= on:
                back += duration(state.rng, Law(EXPONENTIAL, off, 0.0))
            state.leaves[i] = back + duration(state.rng, Law(EXPONENTIAL, on, 0.0))
            time = max(time, back)
    return time


@compiled
def takes(state: Agenda, i: int) -> float:
    """How long it is from worker i's next read to its report, of as many gradients as that takes."""
    rewind(state.rng, state.key, i, state.tasks[i])
    state.tasks[i] += 1
    computing = 0.0
    for _ in range(state.gradients[i]):
        computing += duration(state.rng, state.compute)
    return float(state.slowness[i] * computing + duration(state.rng, state.travel))


@compiled
def plan_read(state: Agenda, i: int, time: float) -> None:
    """Worker i would read at `time`; if it is away then, it reads when it is back."""
    push(state, returns(state, i, time), i)


@compiled
def plan_all(state: Agenda, time: float) -> None:
    """Every member would read at `time`."""
    for i in range(state.away.size):
        if state.member[i]:
            plan_read(state, i, time)


@rarely
def cancel(state: Agenda, i: int) -> None:
    """Worker i has nothing to do next, and nothing that it was about to report arrives."""
    when, who = state.when, state.who
    at, size = 0, state.counts[SIZE]
    while at < size and who[at] != i:
        at += 1
    if at < size:
        while at > 0:  # to the top, from where it is taken off
            up = (at - 1) // 2
            when[at], who[at] = when[up], who[up]
            at = up
        when[0], who[0] = -np.inf, i
        pop(state)
    state.away[i] = False


@rarely
def switch_is_due(state: Agenda) -> bool:
    """Whether somebody comes or leaves before anything else happens; a step belongs to the report before it."""
    if state.k > 0 and step_is_due(state):
        return False
    time = state.switches.time[state.counts[SWITCHED]]
    if state.k == 0 and time > (state.counts[VERSION] + 1) * state.tick:
        return False
    return bool(state.counts[SIZE] == 0 or time <= state.when[0])


@rarely
def switch(state: Agenda, events: Events, count: int) -> int:
    """Somebody comes and reads, or leaves: its row is dropped and its memory lost. Return how many events that is."""
    at = state.counts[SWITCHED]
    time, i = state.switches.time[at], state.switches.worker[at]
    state.counts[SWITCHED] += 1
    state.now[0] = time
    state.member[i] = state.switches.joins[at]
    if state.member[i]:
        plan_read(state, i, time)
        return 0
    cancel(state, i)
    events.code[count], events.code[count + 1] = FADE + i, FORGET + i
    for e in range(count, count + 2):
        events.age[e], events.time[e], events.factor[e] = 0, time, 0.0
    return 2


@compiled
def happen(state: Agenda, i: int, time: float) -> bool:
    """Worker i reads, or its report arrives; return whether it was a report."""
    if not state.away[i]:
        state.away[i] = True
        state.stamp[i] = state.counts[VERSION]
        if state.recorded.size > 0:
            at = state.offset[i] + state.tasks[i]
            state.tasks[i] += 1
            if at < state.offset[i + 1]:  # otherwise it is never heard of again
                push(state, state.recorded[at], i)
            return False
        push(state, time + takes(state, i), i)
        return False
    state.away[i] = False
    state.counts[ARRIVED] += 1
    if not state.barrier:
        plan_read(state, i, time)
    return True


@compiled
def step_is_due(state: Agenda) -> bool:
    """Whether the server steps before anything else happens; behind a barrier, once nobody is on its way."""
    if state.barrier:
        return bool(state.counts[SIZE] == 0 and state.counts[ARRIVED] > 0)
    if state.k > 0:
        return bool(state.counts[ARRIVED] >= state.k)
    return bool(state.counts[SIZE] == 0 or state.when[0] > (state.counts[VERSION] + 1) * state.tick)


@compiled
def fill_events(state: Agenda, events: Events, steps: int) -> tuple[int, int]:
    """Write what happens next until the room or the steps are used up; return events written and steps made."""
    count, made, ahead = 0, 0, state.switches.time.size - state.counts[SWITCHED]
    while count + 2 <= events.code.size and made < steps:
        if ahead > 0 and switch_is_due(state):
            count += switch(state, events, count)
            ahead -= 1
            continue
        if step_is_due(state):
            if state.k == 0:
                state.now[0] = (state.counts[VERSION] + 1) * state.tick
            events.code[count], events.age[count] = STEP, 0
            state.counts[VERSION] += 1
            state.counts[ARRIVED] = 0
            made += 1
            if state.barrier:
                plan_all(state, state.now[0])
        else:
            time = state.when[0]
            i = pop(state)
            state.now[0] = time
            reported = happen(state, i, time)
            events.code[count] = i if reported else -1 - i
            events.age[count] = state.counts[VERSION] - state.stamp[i]
        events.time[count] = state.now[0]
        count += 1
    return count, made
