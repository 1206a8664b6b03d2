"""A pattern that is given: recorded from a run, from another activity, or written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from siag.activity.activity import Activity, Moments, active
from siag.activity.unfold import unfold
from siag.foundations import check
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Floats, Integers, Record, Rng


class Tape(NamedTuple):
    """A recorded pattern: the workers of iteration t are `worker[start[t]:start[t+1]]`."""

    start: Integers  # (iterations + 1,)
    worker: Integers  # (arrivals,)


@dataclass(frozen=True, eq=False)
class Recorded(Activity):
    """Just the given sets A_0, A_1, ….

    Args:
        trace: for every iteration the workers active in it, in any order, each at most once; or the same as a `Tape`.

    Example:
        >>> Recorded([[0, 1], [], [1]]).bound(n=2)
        2
    """

    trace: Tape | Sequence[Sequence[int]] = field(repr=False)

    def __post_init__(self) -> None:
        tape = self.trace if isinstance(self.trace, Tape) else _tape(self.trace)
        object.__setattr__(self, "trace", _sorted(tape))

    @classmethod
    def of(cls, activity: Activity, n: int, iterations: int, seed: int = 0, repeat: int = 0) -> Recorded:
        """The pattern that `simulate` with this seed sees in this repeat, from now on always the same."""
        if not isinstance(activity, Activity):
            raise BadInput("activity", activity, "an Activity", "the order is activity, n, iterations")
        if activity.changes(check.integer("n", n)):
            raise Unsuitable(f"{activity!r}: sets A_t do not say who is a member; use Members(Recorded.of(…), …)")
        sizes, workers = [], []
        n, iterations, seed = check.integer("n", n), check.integer("iterations", iterations), check.seed(seed)
        for _, chunk in unfold(activity, n, iterations, seed, check.integer("repeat", repeat, low=0)):
            sizes.append(np.diff(chunk.start))
            workers.append(chunk.worker.copy())
        return cls(Tape(_running(np.concatenate(sizes)), np.concatenate(workers)))

    def __repr__(self) -> str:
        """How long it is; the trace itself may be huge."""
        return f"Recorded(<{self.length} iterations, {len(self.tape.worker)} reports>)"

    @property
    def tape(self) -> Tape:
        """The pattern as arrays."""
        return cast(Tape, self.trace)

    @property
    def length(self) -> int:
        """How many iterations were recorded."""
        return len(self.tape.start) - 1

    def start(self, n: int, rng: Rng) -> Record:
        """The pattern, if all its workers exist."""
        self._fits(n)
        return self.tape

    def bound(self, n: int) -> int | None:
        """The largest age that occurs once every worker has reported; `None` if one never does."""
        reports = self._reports(n)
        if any(len(times) == 0 for times in reports):
            return None
        begin = max(int(times[0]) for times in reports)
        ends = [np.append(times, self.length) for times in reports]
        return max(int((np.diff(end)[end[1:] > begin]).max(initial=1)) - 1 for end in ends)

    def moments(self, n: int) -> Moments:
        """The means over the recorded gaps."""
        gaps = [np.diff(times).astype(float) for times in self._reports(n)]
        silent = [i for i, own in enumerate(gaps) if len(own) == 0]
        if silent:
            raise Unsuitable(
                f"worker {silent[0]} reports less than twice in the trace, so its gaps are unknown; "
                "record more iterations"
            )
        return Moments(np.array([own.mean() for own in gaps]), np.array([np.square(own).mean() for own in gaps]))

    def reuse(self, n: int, average: int = 1) -> Floats:
        """From the recorded gaps in their order, as if the pattern were repeated for ever: they may be dependent."""
        mean = self.moments(n).mean
        average = check.integer("average", average, high=2**31)
        uses = [_uses(np.diff(times).astype(float), average) for times in self._reports(n)]
        return np.array([np.square(own).mean() for own in uses]) / mean

    def _fits(self, n: int) -> None:
        if self.tape.worker.max(initial=0) >= n:
            raise BadInput("trace", int(self.tape.worker.max()), f"made of workers 0 to {n - 1}")

    def _reports(self, n: int) -> list[Integers]:
        """For every worker the iterations of its reports."""
        self._fits(n)
        start, worker = self.tape
        when = np.repeat(np.arange(self.length), np.diff(start))
        order = np.argsort(worker, kind="stable")
        ends = np.searchsorted(worker[order], np.arange(n + 1))
        return [when[order[a:b]] for a, b in pairwise(ends)]


def _uses(gaps: Floats, average: int) -> Floats:
    """Σ_l (1/m)(1 − 1/m)^l G_{k+l} for every k, gaps being repeated for ever: how much the k-th gradient is used."""
    if average == 1:
        return gaps
    fresh, kept = 1.0 / average, 1.0 - 1.0 / average
    uses = np.zeros(len(gaps))
    for k in range(len(gaps) - 1, -1, -1):
        uses[k] = fresh * gaps[k] + kept * uses[(k + 1) % len(gaps)]
    around = -math.expm1(len(gaps) * math.log1p(-fresh))  # 1 − (1 − 1/m)^K
    return np.asarray(uses + kept ** np.arange(len(gaps), 0, -1) * uses[0] / around)


def _running(sizes: Integers) -> Integers:
    """Where each iteration's arrivals start, given their numbers."""
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def _tape(trace: Sequence[Sequence[int]]) -> Tape:
    """Sets of workers as arrays."""
    if not isinstance(trace, Sequence):
        raise BadInput("trace", trace, "a list that holds, for every iteration, a list of worker numbers")
    sets = []
    for t, workers in enumerate(trace):
        try:
            array = np.asarray(workers)
        except ValueError:  # rows of unequal lengths
            array = np.empty(())
        if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
            raise BadInput(f"trace[{t}]", workers, "a list of worker numbers, whole and from 0 on")
        sets.append(array)
    sizes = np.array([len(workers) for workers in sets], np.int64)
    return Tape(_running(sizes), np.concatenate([np.empty(0), *sets]).astype(np.int64))


def _sorted(tape: Tape) -> Tape:
    """The tape with every iteration's workers in ascending order, if it is one at all."""
    for array in map(np.asarray, tape):
        if array.size and array.dtype.kind not in "iu":
            raise BadInput("trace", tape, "made of whole numbers")
    start, worker = np.array(tape.start, np.int64), np.array(tape.worker, np.int64)
    if len(start) < 2 or start[0] != 0 or start[-1] != len(worker) or (np.diff(start) < 0).any():
        raise BadInput("trace", tape, "at least one iteration long, with starts that ascend from 0 to its arrivals")
    when = np.repeat(np.arange(len(start) - 1), np.diff(start))
    if ((np.diff(worker) < 0) & (np.diff(when) == 0)).any():
        worker = worker[np.lexsort((worker, when))]
    twice = (np.diff(worker) == 0) & (np.diff(when) == 0)
    for wrong, allowed in ((worker < 0, "from 0 to 2⁶³ − 1"), (np.append(twice, False)[: len(worker)], "named once")):
        if wrong.any():
            k = int(np.argmax(wrong))
            raise BadInput(f"trace[{when[k]}]", int(worker[k]), f"a worker number, {allowed}")
    for array in (start, worker):
        array.setflags(write=False)
    return Tape(start, worker)


@active.when(Tape)
def as_recorded(state: Tape, rng: Rng, t: int, out: Integers) -> int:
    """Those of the trace."""
    count = state.start[t + 1] - state.start[t]
    for k in range(count):
        out[k] = state.worker[state.start[t] + k]
    return int(count)
