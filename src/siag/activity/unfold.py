"""Unfolding: an activity and a step become a schedule, one chunk of iterations after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from siag.activity.activity import Activity, active
from siag.activity.agenda import STEP
from siag.activity.timed import Timed
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.rng import ACTIVITY, fresh
from siag.foundations.schedule import Schedule, room
from siag.foundations.types import Floats, Integers, Record, Rng


def unfold(
    activity: Activity,
    n: int,
    iterations: int,
    seed: int,
    repeat: int,
    sizes: Callable[[Integers], Floats] | None = None,
    cost: int = 1,
) -> Iterator[tuple[int, Schedule]]:
    """Yield (first iteration, schedule) until `iterations` are covered.

    The arrays are used again for the next chunk, so memory does not grow. Steps are η_t = sizes(t), or NaN without
    `sizes`. Chunks are shorter if an arrival means work on many numbers (`cost`).
    """
    lasts(activity, iterations)  # compiled code would read past the end of a trace
    whole = room(n, iterations, cost)
    rng = fresh(seed, repeat, ACTIVITY)
    state = activity.start(n, rng)
    first = 0
    while first < iterations:
        count = fill(state, rng, n, first, iterations, whole.start, whole.worker)
        worker = whole.worker[: whole.start[count]]
        if not in_order(whole.start[: count + 1], worker, n):  # compiled code would read where there is nothing
            raise SiagError(f"{activity!r}: its `active` must name workers from 0 to {n - 1} in ascending order")
        whole.eta[:count] = np.nan if sizes is None else checked_sizes(sizes, first, count)
        yield first, Schedule(whole.start[: count + 1], worker, whole.eta[:count])
        first += count


@compiled
def in_order(start: Integers, worker: Integers, n: int) -> bool:
    """Whether every iteration names workers that exist, each once, in ascending order."""
    good = True
    for k in range(start.size - 1):
        last = -1
        for a in range(start[k], start[k + 1]):
            good &= last < worker[a] < n
            last = worker[a]
    return good


def checked_sizes(sizes: Callable[[Integers], Floats], first: int, count: int) -> Floats:
    """η_t for the next iterations, if they are steps at all."""
    eta = np.asarray(sizes(np.arange(first, first + count)))
    if eta.shape != (count,) or not np.isfinite(eta).all() or (eta < 0).any():
        raise BadInput("step", eta, "finite and not negative, one size for every t", "mend its method sizes(t)")
    return eta


def waited(activity: Activity, n: int, quorum: int, iterations: int, seed: int, repeat: int) -> int:
    """How many iterations there are before the one by which a quorum of workers has reported."""
    seen: set[int] = set()
    for done, who in enumerate(_reporters(activity, n, iterations, seed, repeat) if quorum > 0 else [[]]):
        seen.update(who)
        if len(seen) >= quorum:
            return done
    return iterations


def _reporters(activity: Activity, n: int, iterations: int, seed: int, repeat: int) -> Iterator[list[int]]:
    """Who reports in each iteration."""
    if isinstance(activity, Timed):
        who: list[int] = []
        for events in activity.events(n, iterations, seed, repeat, 1):
            for code in events.code.tolist():
                if code == STEP:
                    yield who
                    who = []
                elif code >= 0:
                    who.append(code)
    else:
        for _, chunk in unfold(activity, n, iterations, seed, repeat):
            for begin, end in pairwise(chunk.start.tolist()):
                yield chunk.worker[begin:end].tolist()


def lasts(activity: Activity, iterations: int) -> None:
    """Refuse more iterations than the activity has."""
    if activity.length is not None and iterations > activity.length:
        remedy = "record a longer one"
        raise BadInput("iterations", iterations, f"at most the trace's {activity.length}", remedy)


@compiled
def fill(state: Record, rng: Rng, n: int, first: int, stop: int, start: Integers, worker: Integers) -> int:
    """Unfold as many iterations from `first` on as fit with certainty; return their number."""
    count, arrivals = 0, 0
    while first + count < stop and count < start.size - 1 and arrivals + n <= worker.size:
        arrivals += active(state, rng, first + count, worker[arrivals:])
        count += 1
        start[count] = arrivals
    return count
