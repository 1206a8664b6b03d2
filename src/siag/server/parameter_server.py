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

from siag.activity import EveryArrivals, Tick, checked_sizes
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, SiagError, Unsuitable, shorten
from siag.foundations.types import Floats, Integers, Record
from siag.methods import Method, advance, answer, fade, forget, shown
from siag.server import ledger
from siag.server.guard import KNOWN_AFTER, Guard, Refused, square_norm
from siag.server.ledger import GO, HOLD, admit, admit_all, note_silence
from siag.server.members import KEEP, Departed, Member
from siag.server.recorder import Recorder
from siag.server.snapshot import Snapshot, WorkerView
from siag.steps import Step, heard, left, size

AHEAD = 4096  # step sizes worked out at a time
LIMIT = 1e15  # a coordinate so many times larger than where it began is on its way out of the range of numbers
STEP_AT_ONCE = EveryArrivals(1)


class Diverged(SiagError):
    """w has left the range of numbers; a smaller step is needed."""


@dataclass(frozen=True)
class Ticket:
    """What a worker is told when it joins."""

    row: int
    version: int
    samples: int  # it has drawn already, so that it goes on with the next


@compiled
def move(state: Record, eta: float) -> None:
    """Step."""
    advance(state, eta)


@compiled
def fade_away(state: Record, i: int, factor: float) -> None:
    """Let the row of a departed worker count for less."""
    fade(state, i, factor)


@compiled
def hear(rule: Record, i: int, stamp: int) -> None:
    """Let a step that looks at ages know of a report."""
    heard(rule, i, stamp)


@compiled
def miss(rule: Record, i: int) -> None:
    """Let it know that nothing is left of a worker's."""
    left(rule, i)


@compiled
def aged_size(rule: Record, t: int) -> float:
    """Its η_t, asked once."""
    return size(rule, t)


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
        trace: Recorder | None = None,
        patience: float | None = None,
    ) -> None:
        if not isinstance(server, EveryArrivals | Tick):
            raise BadInput("server", server, "EveryArrivals(k) or Tick(seconds)", "a live server waits for nobody")
        method.serve()
        names = [str(i) for i in range(workers)] if isinstance(workers, int) else list(workers)
        if not names or len(set(names)) < len(names):
            raise BadInput("workers", workers, "at least one, and no name twice")
        w0 = check.floats("w0", w0, (None,))
        self.method, self.step, self.server, self.departed = method, step, server, departed
        self.ledger = ledger.blank(len(names))
        self.members = [Member(row, name, self.ledger[row]) for row, name in enumerate(names)]
        self.guard = Guard() if guard is None else guard
        if patience is not None:
            for member in self.members:
                member.patience = check.real("patience", patience, above=0)
        self.n, self.d = len(names), int(w0.size)
        self.state: Record = method.init(w0, self.n)
        self.shown: Floats = _checked(method, shown(self.state), self.state.w)  # what workers read
        self.message_size = method.message(self.d, self.n)
        self.version, self.reports, self.arrived = 0, 0, 0
        self.skips = 0  # reports that there was nothing to send
        self.fades = 0  # times a row faded or a memory was lost: lines of a trace that are no reports
        self.remembers = forget.reaches(method.recruit(w0, self.n))  # whether workers do, between reports
        self.changed: Floats = self.ledger[:-1, ledger.CHANGED]  # which rows, since they were last saved
        self.trace = trace
        self._ages = np.zeros(ledger.BINS, np.int64)
        self._shape, self._kind = (self.message_size,), np.dtype(np.float64)
        self._k = server.k if isinstance(server, EveryArrivals) else sys.maxsize
        self._admit: Callable[..., bool] = admit
        self._admit_all: Callable[..., int] = admit_all
        self._by_name = {name: row for row, name in enumerate(names)}
        self._limit = limit_of(w0)
        self._look = max(64, w0.size // 1000)  # whether w is still finite is looked at after so many versions
        self._rule = step.rule(self.n)  # of a step that looks at ages
        self._sizes = np.empty(0)
        self._sizes_from = 0
        self._known: set[int] = set()  # rows whose workers may have computed something before
        self._fading: dict[int, int] = {}  # rows of the departed, and how often each was faded
        self._started: float | None = None
        self._rate, self._counted, self._counted_at = 0.0, 0, 0.0

    @property
    def guard(self) -> Guard:
        """What reports must be like."""
        return self._guard

    @guard.setter
    def guard(self, guard: Guard) -> None:
        self._guard, self._bounds = guard, guard.bounds

    @property
    def ages(self) -> list[int]:
        """How many reports were of which age, in bins: 0, 1, 2-3, 4-7 and so on, up to the last that has any."""
        return [int(count) for count in np.trim_zeros(self._ages, "b")]

    @property
    def w(self) -> Floats:
        """(d,) the result so far, w for most methods, to be read only, and only by the thread that calls `push`."""
        view: Floats = answer(self.state).view()
        view.setflags(write=False)
        return view

    def warm_up(self) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        small, one = self.method.init(np.zeros(1), 1), np.zeros(1)
        message = np.zeros(self.method.message(1, 1))
        kept = ledger.blank(1), np.zeros(ledger.BINS, np.int64), self._bounds
        kept[0][0, ledger.HERE] = 1.0
        self._admit(small, *kept, 0, message, 0, 0, 0.0, 0, 0.0, GO, 0.0)
        rows, notes = np.zeros(1, np.int32), np.zeros((1, 2), np.int64)
        self._admit_all(small, *kept, rows, message[None], notes, one, 0, 0.0, 0, 1, one, 0)
        note_silence(*kept, 0, 0, 0, 0, 0.0)
        move(small, 0.0)
        square_norm(one)
        rule = None if self._rule is None else self.step.rule(1)
        if rule is not None:
            hear(rule, 0, 0)
            aged_size(rule, 0)

    def begin(self, now: float) -> None:
        """Start the clock from which seconds are counted."""
        self._started = now
        self._counted_at = now

    def count_from(self, now: float) -> None:
        """Only steps from now on count for the rate that is shown."""
        self._rate, self._counted, self._counted_at = 0.0, self.version, now

    def seconds(self, now: float) -> float:
        """Since the first report."""
        return 0.0 if self._started is None else now - self._started

    def join(self, name: str | int, now: float) -> Ticket:
        """A worker is here, for the first time or again, with nothing in its memory; it is given its row."""
        row = name if isinstance(name, int) else self._by_name.get(name, -1)
        if not 0 <= row < self.n:
            raise Refused(f"worker {name!r}: not among the {self.n} workers of this server", final=True)
        member = self.members[row]
        if member.state == "refused":
            raise Refused(f"worker {member.name}: refused {member.refused} times, last: {member.reason}", final=True)
        member.state, member.heard, member.joined, member.reason = "working", now, now, ""
        if row in self._known:
            self.forgotten(row, now)
        self._known.add(row)
        return Ticket(row, self.version, member.samples)

    def push(self, row: int, stamp: int, message: Floats, sample: int, now: float, square: float | None = None) -> None:
        """Worker `row` reports what it computed, with its `sample`-th sample, from w of version `stamp`.

        Raises `Refused`, having changed nothing but the worker's count of refusals, if the guard does not like it; the
        worker has to forget what it remembers then. A runtime that trusts its workers may pass on ‖message‖² as they
        found it, and save the server the look.
        """
        if not 0 <= row < self.n:
            raise Refused(f"row {row}: there are rows 0 to {self.n - 1}", final=True)
        right = message.shape == self._shape and message.dtype == self._kind
        if right and square is None:
            square = square_norm(message)
        go = self.arrived + 1 >= self._k
        if self._rule is not None:
            self._look_closer(row, stamp, message, sample, now, square)
            hear(self._rule, row, stamp)
        eta = self._eta() if go else 0.0
        what: Any = message, stamp, sample, square, self.version, now, GO if go else HOLD, eta
        if not right or not self._admit(self.state, self.ledger, self._ages, self._bounds, row, *what):
            self._look_closer(row, stamp, message, sample, now, square)
            if not self._admit(self.state, self.ledger, self._ages, self._bounds, row, *what):
                raise AssertionError("the guard and the ledger disagree about a report")
        if self._admit is admit:
            self._admit = admit.settled(self.state, self.ledger, self._ages, self._bounds, row, *what)
        self._arrive(row, stamp, sample, now)
        if go:
            self._stepped(now)

    def skip(self, row: int, stamp: int, sample: int, now: float) -> None:
        """Worker `row` has nothing to send, of its `sample`-th sample at w of version `stamp`: a report all the same.

        Raises `Refused` as `push` does.
        """
        if not 0 <= row < self.n:
            raise Refused(f"row {row}: there are rows 0 to {self.n - 1}", final=True)
        what: Any = self.ledger, self._ages, self._bounds, row, stamp, sample, self.version, now
        if not note_silence(*what):
            self._look_closer(row, stamp, None, sample, now, 0.0)
            note_silence(*what)
        self.skips += 1
        if self._rule is not None:
            hear(self._rule, row, stamp)
        self._arrive(row, stamp, sample, now)
        if self.arrived >= self._k:
            self._move(self._eta())
            self._stepped(now)

    def forgotten(self, row: int, now: float) -> None:
        """A worker's memory is as it was at the beginning: it was started anew, or a report of its was refused."""
        if self.remembers:
            if self.trace is not None:
                self.trace.forget(self.version, row, self.seconds(now))
            self.fades += 1

    def push_many(
        self, rows: Integers, messages: Floats, notes: Integers, squares: Floats, now: float, most: int, stop: int
    ) -> int:
        """Take the reports of several rows at once, as `push` would one after the other; return how many.

        It stops at the first that needs a closer look, which is left to `push`, at what is no row, after `most`
        reports, and at version `stop`. What must be seen one by one, for a trace or a row that fades, is left to
        `push`, too; so is everything with a step that looks at ages.

        Args:
            rows: whose reports have come, in order.
            messages: (n, their length) the reports of all rows.
            notes: (n, 2) their stamps and samples.
            squares: (n,) their squared norms.
            now: the time.
            most: how many to take.
            stop: the version to stop at.
        """
        if self.trace is not None or self._fading or self._rule is not None:
            return 0
        self._eta()  # there are sizes for this version and some more
        first = self.version - self._sizes_from
        steps = min(stop - self.version, len(self._sizes) - first, self._look - self.version % self._look)
        rows = rows[: min(most, steps * self._k - self.arrived)]
        if len(rows) == 0:
            return 0
        kept = self.ledger, self._ages, self._bounds
        what: Any = rows, messages, notes, squares, self.version, now, self.arrived, self._k, self._sizes, first
        taken = self._admit_all(self.state, *kept, *what)
        if self._admit_all is admit_all:
            self._admit_all = admit_all.settled(self.state, *kept, *what)
        if taken:
            if self._started is None:
                self.begin(now)
            self.reports += taken
            steps, self.arrived = divmod(self.arrived + taken, self._k)
            self.version += steps
            if steps and self.version % self._look == 0:
                self.look_at_w()
        return taken

    def pull(self, out: Floats) -> int:
        """Copy what workers read, which nobody is writing now, to `out`; return its version, the stamp to report."""
        out[:] = self.shown
        return self.version

    def tick(self, now: float) -> None:
        """With `Tick` as server: it is time to step, whoever has arrived."""
        if self._started is None:
            self.begin(now)
        self._move(self._eta())
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
        """The method's arrays by name, and the step's if it has any: all that must be kept, beside `meta`."""
        found = arrays_of(self.state)
        return found if self._rule is None else found | dict(_arrays_within(self._rule, "step."))

    def meta(self, now: float) -> dict[str, Any]:
        """Versions and membership, to be saved with the arrays."""
        result = answer(self.state)
        return {
            "answer": next((name for name, array in self.arrays().items() if array is result), "w"),
            "version": self.version,
            "reports": self.reports,
            "arrived": self.arrived,
            "skips": self.skips,
            "fades": self.fades,
            "started": self._started is not None,
            "seconds": self.seconds(now),
            "fading": sorted(self._fading.items()),
            "ages": self.ages,
            "members": [member.saved() for member in self.members],
        }

    def restore(self, meta: Mapping[str, Any], now: float) -> None:
        """Go on where another server was, its arrays having been put in place."""
        counts = ("version", "reports", "arrived", "fades")
        self.version, self.reports, self.arrived, self.fades = (int(meta[what]) for what in counts)
        self.skips = int(meta.get("skips", 0))
        self._known = set(range(self.n))
        self._fading = {int(row): int(done) for row, done in meta["fading"]} if self.departed.times > 0 else {}
        self._ages[:] = 0
        self._ages[: len(meta["ages"])] = meta["ages"]
        self._started = None
        if meta["started"]:
            self.begin(now - float(meta["seconds"]))
        self.ledger[-1, ledger.LARGEST] = 0.0
        for member, saved in zip(self.members, meta["members"], strict=True):
            member.restore(saved)
            if member.reports >= KNOWN_AFTER:
                self.ledger[-1, ledger.LARGEST] = max(self.ledger[-1, ledger.LARGEST], member.largest)
        self._by_name = {member.name: member.row for member in self.members}
        self.count_from(now)

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

    def _arrive(self, row: int, stamp: int, sample: int, now: float) -> None:
        """What follows a report."""
        if self._started is None:
            self.begin(now)
        if self.trace is not None:
            self.trace.report(self.version, row, stamp, sample, self.seconds(now))
        self.reports += 1
        self.arrived += 1
        if self._fading:
            self._fading.pop(row, None)

    def _eta(self) -> float:
        """η of this version; a step that looks at ages must be asked once only, when all that has come is heard."""
        if self._rule is not None:
            eta = float(aged_size(self._rule, self.version))
            if not 0.0 <= eta < math.inf:
                raise BadInput("step", eta, "finite and not negative", "mend what `size` means for it")
            return eta
        k = self.version - self._sizes_from
        if not 0 <= k < len(self._sizes):
            self._sizes_from, k = self.version, 0
            self._sizes = checked_sizes(self.step.sizes, self.version, AHEAD)
        return float(self._sizes[k])

    def _move(self, eta: float) -> None:
        """Step, nobody having reported just now."""
        move(self.state, eta)

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
            self.look_at_w()

    def _look_closer(
        self, row: int, stamp: int, message: Floats | None, sample: int, now: float, square: float | None
    ) -> None:
        """Raise `Refused` with the reason if there is one; if not, the worker is here again, and in good standing."""
        member = self.members[row]
        try:
            if member.state == "refused":
                raise Refused(f"worker {member.name}: refused too often, last: {member.reason}", final=True)
            if message is not None and (message.shape != self._shape or message.dtype != self._kind):
                expected = f"{self.message_size} of type float64 are expected"
                raise Refused(f"{message.size} numbers of type {message.dtype}: {expected}")
            self.guard.check_stamp(stamp, self.version, member.last)
            self.guard.check_sample(sample, member.samples)
            norms = member.largest, member.reports, float(self.ledger[-1, ledger.LARGEST])
            self.guard.check_norm(math.nan if square is None else square, *norms)
        except Refused as refusal:
            self.look_at_w()  # if that is beyond all numbers no worker is to blame
            self.strike(row, refusal, now)
            self.forgotten(row, now)
            raise
        member.accepted()

    def in_range(self) -> bool:
        """Whether w is within the range of numbers."""
        return bool((np.abs(self.state.w) <= self._limit).all())

    def look_at_w(self) -> None:
        """Refuse to go on with a w that is no use to anybody."""
        if not self.in_range():
            raise Diverged(f"w left the range of numbers at version {self.version}; use a smaller step")

    def _fade(self, row: int, factor: float, now: float) -> None:
        """Let a departed worker's row count for less."""
        if self.trace is not None:
            self.trace.fade(self.version, row, factor, self.seconds(now))
        fade_away(self.state, row, factor)
        if self._rule is not None and factor == 0.0:
            miss(self._rule, row)
        self.fades += 1
        self.changed[row] = True


def _checked(method: Method, whole: Floats, w: Floats) -> Floats:
    """What workers read, if it can be sent as it is."""
    right = isinstance(whole, np.ndarray) and whole.dtype == np.float64 and whole.ndim == 1
    if not right or not whole.flags.c_contiguous or not np.shares_memory(whole, w):
        what = "an array of float64 that begins with the state's own w"
        raise Unsuitable(f"{method!r}: what is shown to workers must be {what}, not {shorten(whole)}")
    return whole


def limit_of(w0: Floats) -> float:
    """How large a coordinate of w may become."""
    return LIMIT * (1.0 + float(np.abs(w0).max(initial=0.0)))


def arrays_of(state: Record) -> dict[str, np.ndarray[Any, Any]]:
    """A method's arrays by name, each once."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in _arrays_within(state):
        if not any(value is other for other in found.values()):
            found[name] = value
    return found


def _arrays_within(record: Record, place: str = "") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The arrays of a `NamedTuple` by name, those of tuples within it too."""
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            yield place + name, value
        elif hasattr(value, "_fields"):
            yield from _arrays_within(value, f"{place}{name}.")
