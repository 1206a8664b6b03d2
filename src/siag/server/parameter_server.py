"""The parameter server without I/O: Fig. 1. Runtimes carry messages to it and ask it for w; it does the rest.

It has one writer, the thread that calls it, and no clock of its own: whoever calls says what time it is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.activity import EveryArrivals, Tick, TraceWriter, checked_sizes
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.types import Floats, Record
from siag.methods import Method, advance, arrive, fade, receive
from siag.server.guard import Guard, Refused, square_norm
from siag.server.members import KEEP, Departed, Member
from siag.server.snapshot import Snapshot, WorkerView, age_bin
from siag.steps import Step

AHEAD = 4096  # step sizes worked out at a time
LIMIT = 1e15  # a coordinate so many times larger than where it began is on its way out of the range of numbers
STEP_AT_ONCE = EveryArrivals(1)
HOLD, GO = 0, 1  # whether the server steps after a report


class Diverged(SiagError):
    """w has left the range of numbers; a smaller step is needed."""


@dataclass(frozen=True)
class Ticket:
    """What a worker is told when it joins."""

    row: int
    version: int
    samples: int  # it has drawn already, so that it goes on with the next


@compiled
def take(state: Record, i: int, message: Floats, age: int, go: int, eta: float) -> None:
    """Receive a report and, if it is time, step."""
    if go == GO:
        arrive(state, i, message, age, eta)
    else:
        receive(state, i, message, age)


@compiled
def move(state: Record, eta: float) -> None:
    """Step."""
    advance(state, eta)


@compiled
def fade_away(state: Record, i: int, factor: float) -> None:
    """Let the row of a departed worker count for less."""
    fade(state, i, factor)


class ParameterServer:
    """Keeps w and whatever the method keeps; takes reports, guards, steps, and knows its workers.

    Args:
        method: what to do with reports.
        step: the sizes of the moves.
        w0: (d,) where to start.
        workers: how many rows there are, or the workers' names.
        server: when to step: `EveryArrivals(k)` or `Tick(seconds)`.
        guard: what reports must be like.
        departed: what becomes of the row of a worker that has left for good.
        trace: where to record who reported when.

    Example:
        >>> from siag.methods import SIAG
        >>> from siag.steps import Constant
        >>> server = ParameterServer(SIAG(), Constant(0.5), np.zeros(2), workers=["a"])
        >>> ticket = server.join("a", now=0.0)
        >>> server.push(ticket.row, stamp=0, message=np.array([1.0, -2.0]), sample=0, now=0.1)
        >>> server.version, server.w.tolist()
        (1, [-0.5, 1.0])
    """

    def __init__(
        self,
        method: Method,
        step: Step,
        w0: Floats,
        workers: int | Sequence[str],
        *,
        server: EveryArrivals | Tick = STEP_AT_ONCE,
        guard: Guard | None = None,
        departed: Departed = KEEP,
        trace: TraceWriter | None = None,
        patience: float | None = None,
    ) -> None:
        if not isinstance(server, EveryArrivals | Tick):
            raise BadInput("server", server, "EveryArrivals(k) or Tick(seconds)", "a live server waits for nobody")
        names = [str(i) for i in range(workers)] if isinstance(workers, int) else list(workers)
        if not names or len(set(names)) < len(names):
            raise BadInput("workers", workers, "at least one, and no name twice")
        w0 = check.floats("w0", w0, (None,))
        self.method, self.step, self.server, self.departed = method, step, server, departed
        self.guard = Guard() if guard is None else guard
        self.members = [Member(row, name) for row, name in enumerate(names)]
        if patience is not None:
            for member in self.members:
                member.patience = check.real("patience", patience, above=0)
        self.n, self.d = len(names), int(w0.size)
        self.state: Record = method.init(w0, self.n)
        self.version, self.reports, self.arrived, self.fades = 0, 0, 0, 0
        self.changed = np.zeros(len(names), np.bool_)  # rows since they were last saved
        self.trace = trace
        self.ages: list[int] = []
        self._shape = (self.d,)
        self._k = server.k if isinstance(server, EveryArrivals) else sys.maxsize
        self._take: Callable[..., None] = take
        self._by_name = {name: row for row, name in enumerate(names)}
        self._limit = LIMIT * (1.0 + float(np.abs(w0).max(initial=0.0)))
        self._look = max(64, w0.size // 1000)  # whether w is still finite is looked at after so many versions
        self._sizes = np.empty(0)
        self._sizes_from = 0
        self._fading: dict[int, int] = {}  # rows of the departed, and how often each was faded
        self._started: float | None = None
        self._rate, self._counted, self._counted_at = 0.0, 0, 0.0

    @property
    def w(self) -> Floats:
        """(d,) the current w, to be read only, and only by the thread that calls `push`."""
        view: Floats = self.state.w.view()
        view.setflags(write=False)
        return view

    def warm_up(self) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        small = self.method.init(np.zeros(1), 1)
        take(small, 0, np.zeros(1), 0, GO, 0.0)
        move(small, 0.0)
        square_norm(np.zeros(1))

    def begin(self, now: float) -> None:
        """Start the clock from which seconds are counted."""
        self._started = now
        self._counted_at = now

    def seconds(self, now: float) -> float:
        """Since the first report."""
        return 0.0 if self._started is None else now - self._started

    def join(self, name: str | int, now: float) -> Ticket:
        """A worker is here, for the first time or again; it is given its row."""
        row = name if isinstance(name, int) else self._by_name.get(name, -1)
        if not 0 <= row < self.n:
            raise Refused(f"worker {name!r}: not among the {self.n} workers of this server", final=True)
        member = self.members[row]
        if member.state == "refused":
            raise Refused(f"worker {member.name}: refused {member.refused} times, last: {member.reason}", final=True)
        member.state, member.heard, member.joined, member.reason = "working", now, now, ""
        return Ticket(row, self.version, member.samples)

    def push(self, row: int, stamp: int, message: Floats, sample: int, now: float, square: float | None = None) -> None:
        """Worker `row` reports what it computed, with its `sample`-th sample, from w of version `stamp`.

        Raises `Refused`, having changed nothing but the worker's count of refusals, if the guard does not like it. A
        runtime that trusts its workers may pass on ‖message‖² as they found it, and save the server the look.
        """
        if not 0 <= row < self.n:
            raise Refused(f"row {row}: there are rows 0 to {self.n - 1}", final=True)
        member = self.members[row]
        try:
            if member.state == "refused":
                raise Refused(f"worker {member.name}: refused too often, last: {member.reason}", final=True)
            if message.shape != self._shape or message.dtype != np.float64:
                raise Refused(f"{message.size} numbers of type {message.dtype}: {self.d} of type float64 are expected")
            self.guard.check_stamp(stamp, self.version, member.last)
            self.guard.check_sample(sample, member.samples)
            if square is None:
                square = square_norm(message)
            norm = self.guard.check_norm(square, member.largest, member.reports)
        except Refused as refusal:
            self._look_at_w()  # if that is beyond all numbers no worker is to blame
            self.strike(row, refusal, now)
            raise
        age = self.version - stamp
        if self._started is None:
            self.begin(now)
        if self.trace is not None:
            self.trace.report(self.version, row, stamp, sample, self.seconds(now))
        self.arrived += 1
        go = self.arrived >= self._k
        self._take(self.state, row, message, age, GO if go else HOLD, self._eta() if go else 0.0)
        if self.reports == 0:
            self._take = take.settled(self.state, row, message, age, HOLD, 0.0)
        self.reports += 1
        self.changed[row] = True
        member.accepted(self.version, stamp, sample, norm, now)
        if self._fading:
            self._fading.pop(row, None)
        self._count_age(age)
        if go:
            self._stepped(now)

    def pull(self, out: Floats) -> int:
        """Copy w, which nobody is writing now, to `out`; return its version, the stamp of what is computed from it."""
        out[:] = self.state.w
        return self.version

    def tick(self, now: float) -> None:
        """With `Tick` as server: it is time to step, whoever has arrived."""
        if self._started is None:
            self.begin(now)
        move(self.state, self._eta())
        self._stepped(now)

    def strike(self, row: int, refusal: Refused, now: float) -> None:
        """Count a refusal; too many in a row make it final."""
        member = self.members[row]
        member.refused += 1
        member.strikes += refusal.blame
        member.heard = now
        if member.state == "refused":
            return
        member.reason = refusal.reason
        if member.strikes >= self.guard.strikes:
            member.state = "refused"
            refusal.final = True

    def alive(self, row: int, now: float) -> None:
        """A sign of life that is no report."""
        self.members[row].heard = now

    def away(self, row: int, reason: str = "") -> None:
        """The connection to a worker is gone; its row stays, and it may come back."""
        member = self.members[row]
        if member.state in ("working", "expected"):
            member.state, member.reason = "away", reason

    def leave(self, row: int, now: float, reason: str = "") -> None:
        """A worker leaves for good; one that was refused for good stays so."""
        member = self.members[row]
        if member.state in ("left", "refused"):
            return
        member.state, member.reason, member.heard = "left", reason, now
        if self.departed.half_life == 0:
            self._fade(row, 0.0, now)
        elif self.departed.half_life < math.inf:
            self._fading[row] = 0

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The method's arrays by name: all that must be kept, beside `meta`."""
        found: dict[str, np.ndarray[Any, Any]] = {}
        for name, value in _arrays_within(self.state):
            if not any(value is other for other in found.values()):
                found[name] = value
        return found

    def meta(self, now: float) -> dict[str, Any]:
        """Versions and membership, to be saved with the arrays."""
        return {
            "version": self.version,
            "reports": self.reports,
            "arrived": self.arrived,
            "fades": self.fades,
            "started": self._started is not None,
            "seconds": self.seconds(now),
            "fading": sorted(self._fading.items()),
            "ages": list(self.ages),
            "members": [member.saved() for member in self.members],
        }

    def restore(self, meta: Mapping[str, Any], now: float) -> None:
        """Go on where another server was, its arrays having been put in place."""
        counts = ("version", "reports", "arrived", "fades")
        self.version, self.reports, self.arrived, self.fades = (int(meta[what]) for what in counts)
        self._fading = {int(row): int(done) for row, done in meta["fading"]} if self.departed.times > 0 else {}
        self.ages = [int(count) for count in meta["ages"]]
        if meta["started"]:
            self.begin(now - float(meta["seconds"]))
        for member, saved in zip(self.members, meta["members"], strict=True):
            member.restore(saved)
        self._by_name = {member.name: member.row for member in self.members}
        self._counted, self._counted_at = self.version, now

    def snapshot(
        self,
        now: float,
        *,
        target: int | None = None,
        loss: float | None = None,
        saved: float | None = None,
        problems: Sequence[str] = (),
    ) -> Snapshot:
        """How things stand."""
        passed = now - self._counted_at
        if passed >= 0.2:
            weight = 1.0 - math.exp(-passed)
            rate = (self.version - self._counted) / passed
            self._rate = rate if self._rate == 0.0 else self._rate + weight * (rate - self._rate)
            self._counted, self._counted_at = self.version, now
        views: tuple[WorkerView, ...] = tuple(member.view(self.version, now) for member in self.members)
        return Snapshot(
            version=self.version,
            target=target,
            reports=self.reports,
            refused=sum(view.refused for view in views),
            seconds=self.seconds(now),
            rate=self._rate,
            ages=tuple(self.ages),
            workers=views,
            loss=loss,
            saved=saved,
            problems=tuple(problems),
        )

    def _eta(self) -> float:
        """η of this version."""
        k = self.version - self._sizes_from
        if not 0 <= k < len(self._sizes):
            self._sizes_from, k = self.version, 0
            self._sizes = checked_sizes(self.step.sizes, self.version, AHEAD)
        return float(self._sizes[k])

    def _stepped(self, now: float) -> None:
        """What follows a step."""
        self.version += 1
        self.arrived = 0
        if self._fading and self.version % self.departed.every == 0:
            for row in sorted(self._fading):  # sums depend on the order
                self._fading[row] += 1
                last = self._fading[row] >= self.departed.times
                self._fade(row, 0.0 if last else self.departed.factor, now)
                if last:
                    del self._fading[row]
        if self.version % self._look == 0:
            self._look_at_w()

    def _look_at_w(self) -> None:
        """Refuse to go on with a w that is no use to anybody."""
        if not (np.abs(self.state.w) <= self._limit).all():
            raise Diverged(f"w left the range of numbers at version {self.version}; use a smaller step")

    def _fade(self, row: int, factor: float, now: float) -> None:
        """Let a departed worker's row count for less."""
        if self.trace is not None:
            self.trace.fade(self.version, row, factor, self.seconds(now))
        fade_away(self.state, row, factor)
        self.fades += 1
        self.changed[row] = True

    def _count_age(self, age: int) -> None:
        k = age_bin(age)
        if k >= len(self.ages):
            self.ages += [0] * (k + 1 - len(self.ages))
        self.ages[k] += 1


def _arrays_within(record: Record, place: str = "") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The arrays of a `NamedTuple` by name, those of tuples within it too."""
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            yield place + name, value
        elif hasattr(value, "_fields"):
            yield from _arrays_within(value, f"{place}{name}.")
