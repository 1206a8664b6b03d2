"""Algorithm 1's loop, compiled once per problem and method: all else has become arrays."""

from __future__ import annotations

from typing import NamedTuple

from siag.foundations.dispatch import compiled
from siag.foundations.rng import rewind
from siag.foundations.schedule import Schedule
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.methods import advance, compute, cost, fade, forget, receive, told

CURSOR, DRAWN, READ, SENT = range(4)  # the entries of `Track.tally`


class Draws(NamedTuple):
    """The randomness of one repeat."""

    key: Rng  # (2,) of the repeat
    rng: Rng  # scratch
    counts: Integers  # (n,) samples each worker has drawn


class Views(NamedTuple):
    """Arrays of the server's state that others look at.

    They are taken out of it before the loop: compiled code that returns an array counts references, which costs more
    than a gradient.
    """

    shown: Floats  # what workers read
    answer: Floats  # (d,) the result so far


class Track(NamedTuple):
    """What is written down along the way."""

    reference: Floats  # (d,) errors are measured from here, the members' optimum; NaN if there is no such point
    t: Integers  # (points,) when to write, ascending
    error: Floats  # (points,)
    counts: Integers  # (3, points) gradients drawn, times w was read, reports sent
    time: Floats  # (points,) iterations, or simulated seconds
    tally: Integers  # (4,) the next point, and the counts so far
    limit: float  # a coordinate beyond this ends the run
    kept: Floats  # (room, d) the results at the last points; (0, d) if nobody wants them


def cuts(track: Track, first: int, count: int) -> list[int]:
    """Where to cut iterations `first` to `first + count`, so that no more points fall in between than are kept."""
    room = len(track.kept)
    if not 0 < room < len(track.t):
        return []
    due = track.t[(track.t > first) & (track.t < first + count)] - first
    places: list[int] = due[room - 1 :: room].tolist()
    return places


@compiled
def note(track: Track, w: Floats, time: float) -> None:
    """Write down the error, the counts and the time at the next point."""
    square = 0.0
    for j in range(w.size):
        gap = w[j] - track.reference[j]
        square += gap * gap
    point = track.tally[CURSOR]
    track.error[point] = square
    track.time[point] = time
    for k in range(3):
        track.counts[k, point] = track.tally[DRAWN + k]
    if track.kept.shape[0] > 0:
        row = point % track.kept.shape[0]
        for j in range(w.size):
            track.kept[row, j] = w[j]
    track.tally[CURSOR] += 1


@compiled
def lost(w: Floats, limit: float) -> bool:
    """Whether a coordinate is beyond the limit, or not a number."""
    beyond = False
    for j in range(w.size):
        beyond |= not abs(w[j]) <= limit
    return beyond


@compiled
def release(state: Record, memory: Record, workers: Integers) -> None:
    """These workers have left: nothing that they sent counts, and they remember nothing."""
    for i in workers:
        fade(state, i, 0.0)
        forget(memory, i)


@compiled
def iterate(
    oracle: Record,
    memory: Record,
    state: Record,
    views: Views,
    draws: Draws,
    schedule: Schedule,
    first: int,
    track: Track,
    message: Floats,
) -> int:
    """Run along the schedule from iteration `first` on; return the iteration of a divergence, or −1.

    Every active worker reads w^t, the messages are received in ascending order of the workers, then the server moves
    once.
    """
    for k in range(schedule.eta.size):
        t = first + k
        for a in range(schedule.start[k], schedule.start[k + 1]):
            i = schedule.worker[a]
            rewind(draws.rng, draws.key, i, draws.counts[i])
            draws.counts[i] += 1
            told(memory, t)
            if compute(memory, oracle, draws.rng, i, views.shown, message):
                receive(state, i, message, 0)
                track.tally[SENT] += 1
            track.tally[DRAWN] += cost(memory)
        track.tally[READ] += schedule.start[k + 1] - schedule.start[k]
        advance(state, schedule.eta[k])
        if lost(state.w, track.limit):
            return t
        if t + 1 == track.t[track.tally[CURSOR]]:
            note(track, views.answer, t + 1.0)
    return -1
