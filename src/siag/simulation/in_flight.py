"""The loop of the virtual clock: reads and reports as they happen, messages in flight in between."""

from __future__ import annotations

from typing import NamedTuple

from siag.activity.agenda import FADE, FORGET, STEP, Events
from siag.foundations.dispatch import compiled
from siag.foundations.rng import rewind
from siag.foundations.types import Booleans, Floats, Record
from siag.methods import advance, compute, cost, fade, forget, receive, told
from siag.simulation.iterate import CURSOR, DRAWN, READ, SENT, Draws, Track, Views, lost, note

STRANGERS = -(1 << 60)  # no worker has so large a number, so a code below this is FADE + i or FORGET + i


class Flight(NamedTuple):
    """What each worker has computed from the w it read, and will report."""

    message: Floats  # (n, its length)
    sent: Booleans  # (n,) whether there is anything to report


@compiled
def follow_events(
    oracle: Record,
    memory: Record,
    state: Record,
    views: Views,
    draws: Draws,
    events: Events,
    eta: Floats,
    first: int,
    track: Track,
    flight: Flight,
) -> int:
    """Let the events happen, the first step of them being iteration `first`; return that of a divergence, or −1.

    A gradient is computed when w is read, so that it sees that w and no later one; it is received when it arrives.
    """
    t = first
    for e in range(events.code.size):
        code = events.code[e]
        if code == STEP:
            advance(state, eta[t - first])
            if lost(state.w, track.limit):
                return t
            t += 1
            if t == track.t[track.tally[CURSOR]]:
                note(track, views.answer, events.time[e])
        elif code < STRANGERS:
            if code >= FORGET:
                forget(memory, code - FORGET)
            else:
                fade(state, code - FADE, events.factor[e])
        elif code < 0:
            i = -1 - code
            rewind(draws.rng, draws.key, i, draws.counts[i])
            draws.counts[i] += 1
            track.tally[READ] += 1
            told(memory, t)
            flight.sent[i] = compute(memory, oracle, draws.rng, i, views.shown, flight.message[i])
            track.tally[DRAWN] += cost(memory)
        elif flight.sent[code]:
            receive(state, code, flight.message[code], events.age[e])
            track.tally[SENT] += 1
    return -1
