"""The parameter server without I/O: Fig. 1. Runtimes carry messages to it and ask it for w; it does the rest.

It has one writer, the thread that calls it, and no clock of its own: the caller says what time it is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from siag.activity import EveryArrivals, Tick
from siag.foundations import check
from siag.foundations.encodings import FLOAT64, encoding_of
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.overflow import in_range, limit_of, steps_between_looks
from siag.foundations.types import Floats, Integers, Record
from siag.methods import Method, answer, forget, weigh
from siag.methods.method import arrive_and_round
from siag.server.departing import DROP, Departed, Fading
from siag.server.gauges import Gauges
from siag.server.guard import (
    ACCEPTED,
    LANES,
    NOT_HERE,
    Bounds,
    Guard,
    Refused,
    Verdict,
    judge,
    refusal_for,
    square_norm,
)
from siag.server.intake import UNKNOWN, admit, admit_all, warm_up, warm_up_many
from siag.server.ledger import CHANGED, LAST, REPORTS
from siag.server.members import Roster
from siag.server.method_state import GO, HOLD, NOWHERE, SILENT, arrays_of, arrays_within, fade_away, move, shown_by
from siag.server.recorder import Recorder
from siag.server.short import Incoming, Outgoing
from siag.server.status import Rate, Snapshot, State
from siag.server.step_sizes import Sizes, hear, miss
from siag.server.sums import Sum, check_sum, no_relays, weights_of
from siag.steps import Step

STEP_AT_ONCE = EveryArrivals(1)
COUNTS = ("version", "waited", "reports", "arrived", "skips", "fades")
MADE = ("shown", "sent", "gauges", "_admit", "_admit_all", "_rounds")  # of the state, in one process …
BOUND = ("state", "trace", *MADE)  # … to whose memory these are bound


class Diverged(SiagError):
    """w has left the range of numbers; a smaller step is needed."""


@dataclass(frozen=True)
class Ticket:
    """What a worker is told when it joins."""

    row: int
    version: int
    samples: int  # it has drawn already, so that it goes on with the next


class ParameterServer:
    """Keeps w and whatever the method keeps; takes reports, guards, steps, and knows its workers.

    It can be pickled, and the copy goes on bit for bit, but for the trace: a file has one writer.

    Args:
        method: what to do with reports.
        step: the sizes of the moves.
        w0: (d,) where to start.
        workers: how many rows there are, or the workers' names.
        server: when to step: `EveryArrivals(k)` or `Tick(seconds)`; kept as `pace`.
        guard: what reports must be like.
        departed: what becomes of the row of a worker that has left for good.
        trace: where to record who reported when.
        patience: seconds without a report after which a worker is shown as stalled; by default by its own habits.
        room: how many workers there may be; more than `workers` if some are to come later, see `admit`.
        messages: in which numbers reports come and w is sent: `"float64"`; `"float32"`, half the bytes; or packed
            reports, `"bfloat16"` or `"int8"`, w being sent in float32. All that is kept is in doubles: a step that is
            small beside w would be lost in shorter numbers.

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
        departed: Departed = DROP,
        trace: Recorder | None = None,
        patience: float | None = None,
        room: int = 0,
        messages: str = FLOAT64.name,
    ) -> None:
        self.encoding = encoding_of(messages)
        if not isinstance(server, EveryArrivals | Tick):
            raise BadInput("server", server, "EveryArrivals(k) or Tick(seconds)", "a live server waits for nobody")
        method.serve()
        w0 = check.floats("w0", w0, (None,))
        self.roster, self.guard = Roster(workers, patience, room), Guard() if guard is None else guard
        self.method, self.step, self.pace = method, step, server
        self.ledger, self.members = self.roster.lines, self.roster.members
        self.n, self.d = len(self.members), int(w0.size)
        self.message_size, self.gradient_size = method.message(self.d, self.n), method.measured(self.d, self.n)
        self._incoming = Incoming(method, self.n, self.message_size, self.encoding)
        self.version = self.reports = self.arrived = 0
        self.waited = 0  # versions at which the method waited for a quorum; its schedule of steps begins after them
        self.skips = 0  # reports that there was nothing to send
        self.fades = 0  # times a row faded, was weighed or a memory was lost: lines of a trace that are no reports
        self.no_relays = no_relays(method)  # why none of its workers can be a relay; "" if they can
        self.remembers = forget.reaches(method.recruit(w0, self.n))  # whether workers do, between reports
        self.sizes = Sizes(step, self.n)
        self.fading = Fading(departed, self.n)
        self.relays: set[int] = set()  # the rows that are, or were, sums
        self._book: tuple[Floats, Integers, Bounds] = self.ledger, self.roster.ages, self.guard.bounds
        self._k = sys.maxsize
        if isinstance(server, EveryArrivals):
            method.gather(server.k, self.n)
            self._k = server.k
        self._quorum = method.quorum(self.n)
        self._limit = limit_of(w0)
        self.looks = steps_between_looks(self.d)  # versions between two looks at whether w is still finite
        self._started: float | None = None  # when the first report came
        self.rate = Rate(over=1.0, at_once=True)  # of steps, as it is shown
        self._begin_with(method.init(w0, self.n), trace)

    def _begin_with(self, state: Record, trace: Recorder | None) -> None:
        """Have the method's state, and what depends on where it is in memory."""
        self.state, self.trace = state, trace
        self.shown: Floats = shown_by(self.method, state)  # what workers read, in doubles
        self.sent = Outgoing(self.shown, self.encoding)
        self._rounds = arrive_and_round.knows(type(state))  # while it steps
        self.gauges = Gauges(self)
        self._admit: Callable[..., int] = admit
        self._admit_all: Callable[..., int] = admit_all

    def __getstate__(self) -> dict[str, Any]:
        return {name: kept for name, kept in vars(self).items() if name not in BOUND} | {"arrays": self.arrays()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        arrays = kept.pop("arrays")
        vars(self).update(kept)
        self._begin_with(self.method.init(np.zeros(self.d), self.n), None)
        for name, array in self.arrays().items():
            array[...] = arrays[name]

    @contextmanager
    def unguarded(self) -> Iterator[None]:
        """Accept reports of any age and norm for a while: what was acknowledged has passed the guard of its time."""
        book, self._book = self._book, (*self._book[:2], Guard(jump=None).bounds)
        yield
        self._book = book

    @property
    def w(self) -> Floats:
        """(d,) the result so far, w for most methods, to be read only, and only by the thread that calls `push`."""
        view: Floats = answer(self.state).view()
        view.setflags(write=False)
        return view

    @property
    def scheduled(self) -> int:
        """Which step of the schedule comes next: η_0 when a quorum has reported."""
        return self.version - self.waited

    @property
    def changed(self) -> Floats:
        """(n,) which rows have changed since they were last saved; to be written to by who saves them."""
        return self.ledger[:-1, CHANGED]

    def warm_up(self) -> None:
        """Have the machine code made, or found on disk, before anybody waits for it."""
        self._admit = warm_up(self.method, self._incoming.nothing.dtype, self.state, *self._book)
        self.sizes.warm_up()
        self._incoming.warm_up()

    def warm_up_many(self) -> None:
        """The same for `push_many`, unless that leaves every report to `push`."""
        if not self._one_by_one:
            self._admit_all = warm_up_many(self.method, self._incoming.nothing.dtype, self.state, *self._book)

    @property
    def _one_by_one(self) -> bool:
        """Whether every report must be seen, for a trace or by a step that looks at ages."""
        return self.trace is not None or self.sizes.rule is not None

    def take_steps(self, step: Step) -> None:
        """Have the sizes of steps from another rule from now on."""
        self.step, self.sizes = step, Sizes(step, self.n)

    def begin(self, now: float) -> None:
        """Start the clock from which seconds are counted."""
        self._started = now
        self.count_from(now)

    def count_from(self, now: float) -> None:
        """Only steps from now on count for the rate that is shown."""
        self.rate.restart(self.version, now)

    def seconds(self, now: float) -> float:
        """Since the first report."""
        return 0.0 if self._started is None else now - self._started

    def join(self, name: str | int, now: float) -> Ticket:
        """A worker is here, for the first time or again, with nothing in its memory; it is given its row."""
        member = self.roster.joining(name)
        member.join(now)
        if member.began:
            self.memory_lost(member.row, now)
        member.began = True
        return Ticket(member.row, self.version, member.samples)

    def vacate(self, now: float) -> None:
        """Before the first report: rows that nobody has yet count for nothing; their workers' first reports will."""
        for member in self.members:
            if member.vacant and member.row not in self.fading.gone:
                self._fade(member.row, 0.0, now)

    def admit(self, name: str = "") -> int:
        """A worker that was not expected: it is given a vacant row, and counts from its first report on.

        Its name is the number of its row if it has none.
        """
        return self.roster.admit(name).row

    def readmit(self, name: str | int) -> bool:
        """Lift the ban on a worker that was refused too often; return whether there was one."""
        return self.roster.readmit(name)

    def push(
        self,
        row: int,
        stamp: int,
        message: Floats,
        sample: int,
        now: float,
        square: float | None = None,
        loss: float = math.nan,
    ) -> None:
        """Worker `row` reports what it computed, with its `sample`-th sample, from w of version `stamp`.

        Raises `Refused`, having changed nothing but the worker's count of refusals, if the guard does not accept it;
        the worker has to forget what it remembers then. A runtime that trusts its workers may pass on their ‖message‖².
        `loss` is that of the sample, at that w; NaN if the worker has not told it.
        """
        self._check(row, message, now)
        d = self.gradient_size
        message, found = self._incoming.one(message, d)
        if square is None:
            square = square_norm(message, d) if found is None and d >= LANES else found
        go = self.arrived + 1 >= self._k
        if self.sizes.rule is not None:  # it must hear of the report before it is asked for the size
            square = square_norm(message, d) if square is None else square
            self._settle(row, stamp, sample, square, now)
            hear(self.sizes.rule, row, stamp)
        eta = self.sizes.at(self.version - self.waited) if go else 0.0
        known = UNKNOWN if square is None else square
        short = self.sent.ahead() if self._rounds else NOWHERE
        what: Any = row, message, stamp, sample, known, loss, self.version, now, GO if go else HOLD, eta, d, short
        if self._admit(self.state, *self._book, *what) != ACCEPTED:
            self._settle(row, stamp, sample, square_norm(message, d) if square is None else square, now)
            self._admit(self.state, *self._book, *what)
        self._taken(row, stamp, sample, go, eta)
        self._arrive(row, stamp, sample, now, loss)
        if go:
            self._stepped(now)
            self.sent.stepped(self.version, short)

    def push_sum(
        self, row: int, stamp: int, message: Floats, sample: int, now: float, what: Sum, loss: float = math.nan
    ) -> None:
        """A relay, which has read w of version `stamp`, reports the sum of what its members have sent; see `push`.

        Its norm is judged, and shown, as that of their mean. What it counts for changes with it, or not at all.
        """
        self._check(row, message, now)
        try:
            check_sum(what, stamp)
        except Refused as refused:
            self._refuse(row, refused, now)
        square = self.square(message) / (what.weight**2 or 1.0)
        bounds: Bounds = self._book[2]
        if self.version - what.oldest > bounds.age:
            evidence: Any = self.ledger[row], self.ledger[-1], bounds, self.version, what.oldest, sample, square
            self._refuse(row, refusal_for(Verdict.TOO_OLD, *evidence), now)
        self._settle(row, stamp, sample, square, now)
        self.weigh(row, what.weight, now)
        self.ledger[row, LAST] = min(self.ledger[row, LAST], what.mean)  # the mean may be from before its last report
        self.push(row, what.mean, message, sample, now, square, loss)

    def weigh(self, row: int, weight: float, now: float) -> None:
        """What worker `row` sends from now on is `weight` times a message; see `siag.methods.weigh`.

        A trace is told of a relay at least once, even if it counts for 1: what it sends cannot be replayed.
        """
        weights = weights_of(self.state)
        if weights is not None and (weight != weights[row] or row not in self.relays):
            self.relays.add(row)
            if self.trace is not None:
                self.trace.weigh(self.version, row, weight, self.seconds(now))
            weigh(self.state, row, weight)
            self.fades += 1
            self.changed[row] = True

    def skip(self, row: int, stamp: int, sample: int, now: float) -> None:
        """Worker `row` has nothing to send after its `sample`-th sample: a report, refused as in `push`."""
        if not 0 <= row < self.n:
            raise Refused.unknown(row, self.n)
        what: Any = (
            row,
            self._incoming.nothing,
            stamp,
            sample,
            0.0,
            math.nan,
            self.version,
            now,
            SILENT,
            0.0,
            0,
            NOWHERE,
        )
        if self._admit(self.state, *self._book, *what) != ACCEPTED:
            self._settle(row, stamp, sample, 0.0, now)
            self._admit(self.state, *self._book, *what)
        if self.sizes.rule is not None:
            hear(self.sizes.rule, row, stamp)
        self.skips += 1
        self._arrive(row, stamp, sample, now)
        if self.arrived >= self._k:
            self._move(self.sizes.at(self.scheduled))
            self._stepped(now)

    def push_many(
        self, rows: Integers, messages: Floats, notes: Integers, figures: Floats, now: float, most: int, stop: int
    ) -> int:
        """Take the reports of several rows at once, as `push` would one after the other; return how many.

        The arguments are those of `siag.server.intake.admit_all`. It stops after `most` reports, at version `stop`,
        and at the first report that would not be accepted as it is. What must be seen one by one, for a trace, a row
        that fades, a step that looks at ages or a quorum, is left to `push`, too.
        """
        if self._one_by_one or self.fading.times or (self._quorum and self._waits()):
            return 0
        sizes, first = self.sizes.ahead(self.version - self.waited)
        steps = min(stop - self.version, len(sizes) - first, self.looks - self.version % self.looks)
        rows = rows[: min(most, steps * self._k - self.arrived)]
        if len(rows) == 0:
            return 0
        wide = self._incoming.several(rows, messages, figures, self.gradient_size)
        if wide is None:
            return 0
        what: Any = rows, wide, notes, figures, self.version, now, self.arrived, self._k, sizes, first, NOWHERE
        taken = self._admit_all(self.state, *self._book, *what)
        if taken:
            if self._started is None:
                self.begin(now)
            self.reports += taken
            steps, self.arrived = divmod(self.arrived + taken, self._k)
            self.version += steps
            self.fading.back(*(rows[:taken].tolist() if self.fading.gone else ()))
            if steps and self.version % self.looks == 0:
                self.look_at_w()
        return taken

    def square(self, message: Floats) -> float:
        """The squared norm of the gradient of a message, as it comes."""
        return self._incoming.square(message, self.gradient_size)

    def pull(self, out: Floats) -> int:
        """Copy what workers read, which nobody is writing now, to `out`; return its version, the stamp to report."""
        out[:] = self.shown
        return self.version

    def tick(self, now: float) -> None:
        """With `Tick` as pace: it is time to step."""
        if self._started is None:
            self.begin(now)
        self._move(self.sizes.at(self.scheduled))
        self._stepped(now)

    def strike(self, row: int, refusal: Refused, now: float) -> None:
        """Count a refusal; too many in a row make it final."""
        self.members[row].strike(refusal, self.guard.strikes, now)

    def memory_lost(self, row: int, now: float) -> None:
        """A worker's memory is as it was at the beginning: it was started anew, or one of its reports was refused."""
        if self.remembers:
            if self.trace is not None:
                self.trace.memory_lost(self.version, row, self.seconds(now))
            self.fades += 1

    def leave(self, row: int, now: float, reason: str = "") -> None:
        """A worker leaves for good; one that was refused for good stays so."""
        if self.members[row].leave(now, reason):
            self.let_go(row, now)

    def let_go(self, row: int, now: float) -> None:
        """Nobody keeps a row up to date any longer: do with it as `departed` says."""
        if self.fading.let_go(row):
            self._fade(row, self.fading.factor(row), now)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The method's arrays by name, and the step's if it has any: all that must be kept, beside `meta`."""
        rule = self.sizes.rule
        return arrays_of(self.state) | ({} if rule is None else dict(arrays_within(rule, "step.")))

    def meta(self, now: float) -> dict[str, Any]:
        """Versions and membership, to be saved with the arrays."""
        result = answer(self.state)
        return {
            "answer": next((name for name, array in self.arrays().items() if array is result), "w"),
            **{count: getattr(self, count) for count in COUNTS},
            "started": self._started is not None,
            "seconds": self.seconds(now),
            **self.fading.saved(),
            "relays": sorted(self.relays),
            **self.roster.saved(),
        }

    def restore(self, meta: Mapping[str, Any], now: float) -> None:
        """Go on where another server was, after its arrays were put in place."""
        self.sent = Outgoing(self.shown, self.encoding)
        for count in COUNTS:
            setattr(self, count, int(meta[count]))
        self.fading.restore(meta)
        self.relays = set(map(int, meta["relays"]))
        self._started = now - float(meta["seconds"]) if meta["started"] else None
        self.roster.restore(meta)
        self.count_from(now)

    def snapshot(self, now: float) -> Snapshot:
        """How things stand, as far as the server knows."""
        return self.gauges.snapshot(now)

    def in_range(self) -> bool:
        """Whether w is within the range of numbers."""
        return in_range(self.state.w, self._limit)

    def look_at_w(self) -> None:
        """Refuse to go on with a w that has overflowed or become NaN."""
        if not self.in_range():
            chosen = self.method.default_step is None
            remedy = "use a smaller step" if chosen else "check the sign of the gradient, and scale the features"
            raise Diverged(f"w left the range of numbers at version {self.version}; {remedy}")

    def _check(self, row: int, message: Floats, now: float) -> None:
        """Refuse what is no message, or of no worker."""
        if not 0 <= row < self.n:
            raise Refused.unknown(row, self.n)
        wrong = self._incoming.wrong(message)
        if wrong is not None:
            self._refuse(row, wrong, now)

    def _settle(self, row: int, stamp: int, sample: int, square: float, now: float) -> None:
        """Refuse a report that is not right; one with nothing wrong but that nobody expected it has its worker back."""
        evidence: Any = self.ledger[row], self.ledger[-1], self._book[2], self.version, stamp, sample, square
        verdict = judge(*evidence)
        if verdict == NOT_HERE:
            self.members[row].welcome()
        elif verdict != ACCEPTED:
            self._refuse(row, refusal_for(verdict, *evidence), now)

    def _refuse(self, row: int, refusal: Refused, now: float) -> NoReturn:
        self.look_at_w()  # if w has overflowed no worker is to blame
        if self.members[row].state == State.REFUSED:
            refusal = self.members[row].banned()
        self.strike(row, refusal, now)
        self.memory_lost(row, now)
        raise refusal

    def _arrive(self, row: int, stamp: int, sample: int, now: float, loss: float = math.nan) -> None:
        if self._started is None:
            self.begin(now)
        if self.trace is not None:
            self.trace.report(self.version, row, stamp, sample, self.seconds(now), loss)
        self.reports += 1
        self.arrived += 1
        self.fading.back(row)

    def _taken(self, row: int, stamp: int, sample: int, go: bool, eta: float) -> None:
        """A report was received, and a step of η taken if `go`; for servers that have others do the same."""

    def _waits(self) -> bool:
        """Whether the schedule has not begun, for want of a quorum; steps that look at ages see to that themselves."""
        if self.waited < self.version or self.sizes.rule is not None:
            return False
        return int((self.ledger[:-1, REPORTS] > 0).sum()) < self._quorum

    def _stepped(self, now: float) -> None:
        if self._quorum:
            self.waited += self._waits()
        self.version += 1
        self.arrived = 0
        for row in self.fading.due(self.version):
            self._fade(row, self.fading.factor(row), now)
        if self.version % self.looks == 0:
            self.look_at_w()

    def _move(self, eta: float) -> None:
        """Step, nobody having reported just now."""
        move(self.state, eta)

    def _fade(self, row: int, factor: float, now: float) -> None:
        """Let a departed worker's row count for less."""
        if self.trace is not None:
            self.trace.fade(self.version, row, factor, self.seconds(now))
        fade_away(self.state, row, factor)
        if factor == 0.0:
            self.fading.gone.add(row)
            if self.sizes.rule is not None:
                miss(self.sizes.rule, row)
        self.fades += 1
        self.changed[row] = True
