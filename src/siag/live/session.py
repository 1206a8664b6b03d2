"""A session: a parameter server and all that goes on around it, whichever way its messages travel."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from siag.activity import Tick
from siag.foundations.types import Floats, Integers
from siag.live.announcer import Announcer
from siag.live.checkpoints import Checkpoints
from siag.live.curve import Curve
from siag.live.departures import GONE, Departures
from siag.live.durable_log import (
    ADMITTED,
    DIVERGED,
    LEFT,
    LET_GO,
    MEMORY_LOST,
    REPORTED,
    SKIPPED,
    SUM,
    SUMMED,
    TICKED,
    WEIGHED,
)
from siag.live.first_loss import FirstLoss
from siag.live.health import Health
from siag.live.monitor.watch import Watcher
from siag.live.past import Past
from siag.live.reasons import UNHEARD, Ended, Ending, Failure, Problem, Trouble, departure, refusal
from siag.live.scales import Doubt
from siag.server.guard import Refused
from siag.server.ledger import HERE, SAMPLES
from siag.server.parameter_server import Diverged, ParameterServer, Ticket
from siag.server.status import Snapshot, State
from siag.server.sums import Sum
from siag.storage.history import History
from siag.storage.store import Store
from siag.storage.trace_writer import TraceWriter

SHOW, SHOW_EACH = 0.25, 1e-4  # seconds between two looks at the server; the same for each worker, if that is more
LOOK = 0.02  # seconds between two looks at what is due, unless a tick is
BEHIND = 1.0  # seconds after which ticks that were missed are left out
EXAMINE = 1.0  # seconds, and …
NEWS = 20  # … reports between two looks at whether the training goes well, …
SELDOM = 10.0  # … unless fewer have come in this number of seconds
PATIENCE = 60.0  # seconds for a first report to come, before the time of `Until` is counted all the same


class Session:
    """What happens around a server: curve, views, saves, ends. It has no clock: the caller says what time it is.

    Args:
        server: the parameter server.
        curve: what to keep of the run; its `until` says when to end.
        watcher: who is shown how it goes.
        store: where the state is saved.
        durable: whether a report is on disk before it is answered.
        linger: seconds to wait for workers when none is there; `None`: for ever.
        forget: seconds after which a worker that is away counts as having left for good; `None`: never.
        history: where earlier versions of w are kept.
        scales: what may be wrong with the columns of the data.
        run_id: by which a new run knows its trace.
        life: another one whenever versions may have gone back, so that a version means one w only; a durable session's
            is that of its run.
    """

    def __init__(
        self,
        server: ParameterServer,
        curve: Curve,
        *,
        watcher: Watcher | None = None,
        store: Store | None = None,
        durable: bool = False,
        linger: float | None = None,
        forget: float | None = None,
        history: History | None = None,
        scales: Doubt | None = None,
        run_id: str = "",
        life: str = "",
    ) -> None:
        self.server, self.until, self.curve, self.store, self.durable = server, curve.until, curve, store, durable
        self.trace: TraceWriter | None = None  # where it is written who reported when
        self.ended: Ended | None = None
        self.diverged_at = -1  # the version at which w left the range of numbers
        self.past = Past(server, run_id)
        self.before = 0  # reports there were when it began
        self.over, self._life = False, life
        self._announcer = Announcer(watcher)
        self.event, self.alarm = self._announcer.event, self._announcer.alarm  # a remark, a problem
        self._saves = Checkpoints(server, store, durable, self._announcer, history)
        self.departures = Departures(server.members, linger, forget)
        self._scales = scales
        self.first = FirstLoss(server.n)  # the loss at w_0, as far as workers tell it
        self.health: Health | None = None  # what seems to be wrong with the training, once it has begun
        self.has_left: list[str] = []  # who, in words
        self._failed: set[int] = set()  # rows of workers that failed since the last look
        self.passes: Integers = np.zeros(server.n, np.int64)  # of each worker over its data, as far as is known
        self._interval = server.pace.seconds if isinstance(server.pace, Tick) else math.inf
        self.next_tick = math.inf  # when a server that steps by the clock does so next
        self._asked: deque[Callable[[], None]] = deque()
        self._shown = self._examined = 0.0
        self._examined_reports = 0
        self._examine_at = 1  # the version, if that comes before it is time
        self._due = 0.0  # nothing needs to be looked after before
        self._seconds0 = 0.0
        self._awaited = math.inf  # since when a first report is waited for: the start, or the first worker's joining
        self._last_version = sys.maxsize if self.until.iterations is None else self.until.iterations
        self._last_report = sys.maxsize if self.until.reports is None else self.until.reports

    @property
    def life(self) -> str:
        """In which a version means one w."""
        return self.past.run_id if self.durable else self._life

    @property
    def why(self) -> str:
        """Why it is over, in words; "" if it is not."""
        return "" if self.ended is None else self.ended.text

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What goes wrong while training goes on."""
        return self._announcer.problems

    @property
    def no_progress(self) -> bool:
        """Whether all workers are gone, not all of them in order, and none has reported anything."""
        return bool(self.departures.failures) and not self.departures.anyone and self.server.reports == self.before

    @property
    def unheard(self) -> list[str]:
        """What is told of a run that has ended without any report; nothing if there was one, or none was asked for."""
        asked = self.ended is not None and self.ended.ending is not Ending.REACHED_BEFORE
        return [UNHEARD] if asked and self.server.reports == self.before else []

    def snapshot(self, now: float) -> Snapshot:
        """How things stand, for the watcher."""
        return replace(
            self.server.snapshot(now),
            target=self.until.iterations,
            loss=self.curve.latest,
            metrics={name: float(np.mean(value)) for name, value in self.curve.metrics.items()},
            warnings=() if self.health is None else self.health.texts,
            saved=self._saves.age(now),
            problems=tuple(problem.text for problem in self.problems),
            done=self.ended is not None and self.ended.ending.done,
        )

    def recover(self, now: float) -> None:
        """Go on where the last session with this store was, if there was one."""
        self.past.recover(self.store, self.curve, self.passes, now)

    def trace_to(self, trace: TraceWriter) -> None:
        """Write who reports when to this trace."""
        self.trace = self._saves.trace = self.server.trace = trace

    @contextmanager
    def running(self, clock: Callable[[], float]) -> Iterator[None]:
        """Begin, and finish after messages were carried; an error of the server's ends a run in order, too.

        A second Ctrl-C does not: it may come in the middle of a step.
        """
        self.begin(clock())
        try:
            yield
        except Exception:
            self.end(Ending.SERVER_ERROR)
            with suppress(Exception):  # the first error is the one to be told
                self.finish(clock())
            raise
        self.finish(clock())

    def begin(self, now: float) -> None:
        """The clock starts."""
        server = self.server
        self._seconds0 = server.seconds(now)
        if self.departures.linger is None:  # one that lingers has another rule for nobody coming
            self._awaited = now
        self.next_tick = now + self._interval
        self._shown = now
        self._saves.begin(now)
        self.health, self._examined = Health(server, self.first, self._scales), now
        self.before = server.reports
        if not self.past.recovered:
            server.vacate(now)
        if not self.curve.begun:
            self._note(now)
        for remark in self.past.remarks:
            self.event(remark)
        for member in [each for each in server.members if each.name in self.past.left]:
            server.leave(member.row, now, "it had left before")  # saved, so it need not be logged
            self.event(f"worker {member.name} had left before")
        # What is logged follows a save; and a save has the run's id, by which it will know a trace with reports.
        if self.durable or (self.trace is not None and not self.past.recovered and self._saves.age(now) is None):
            self.save(now, wait=True)
        if server.version >= self._last_version or server.reports >= self._last_report or self._read_by_all():
            self.end(Ending.REACHED_BEFORE)

    def look_after(self, now: float) -> None:
        """Ticks, views, saves, ends: whatever is due. To be called every now and then."""
        if now < self._due:
            return
        self._due = now + LOOK
        while self._asked:
            self._asked.popleft()()
        self._let_go(now)
        self._keep_time(now)
        if now - self._shown >= max(SHOW, SHOW_EACH * self.server.n):
            self._shown = now
            self._announcer.show(lambda: self.snapshot(now), self.server.seconds(now))
        if self.diverged_at < 0:
            self.curve.refresh(self.server, now)
            self._announcer.tell(Trouble.LOSS, self.curve.trouble)
        if self._saves.due(now):
            self.save(now)
        news = self.server.reports - self._examined_reports >= NEWS
        if now - self._examined >= (EXAMINE if news else SELDOM):
            self._examine(now)
        self._look_for_ends(now)

    def soon(self, what: Callable[[], None]) -> None:
        """Have something done at the next look, by the thread that looks; from a signal handler or another thread."""
        self._asked.append(what)

    def copy_of_w(self) -> Future[Floats]:
        """w as it is at the next look, copied by the thread that looks; for any other thread."""
        copy: Future[Floats] = Future()

        def take() -> None:
            try:
                copy.set_result(np.array(self.server.w))
            except Exception as error:  # a part of it may be elsewhere, and lost
                copy.set_exception(error)

        self.soon(take)
        return copy

    def end(self, ending: Ending, detail: str = "") -> None:
        """Let the session be over, for this reason unless it had another."""
        if not self.over:
            self.over, self.ended = True, Ended(ending, detail)

    def finish(self, now: float) -> None:
        """The end: last point, last save, last look."""
        nobody = self.departures.desertion()
        self.end(nobody.ending, nobody.detail)  # unless it had another reason
        self._examine(now, last=True)
        self.save(now, wait=True)
        if self.diverged_at >= 0:
            self._saves.log(DIVERGED, 0, 0, 0, now)
            with suppress(OSError):  # it will be gone on with, and diverge again
                self.commit()
        self._note(now)
        self._saves.finish()
        self._announcer.show(lambda: self.snapshot(now))

    def give_up(self) -> None:
        """After an error: close the trace."""
        self._saves.give_up(new=not self.past.recovered)

    def save(self, now: float, wait: bool = False) -> None:
        """Save what has changed; if w has overflowed, the last good checkpoint is kept."""
        if self.store is not None and not self.diverged():
            about = {"curve": self.curve.saved(), "passes": self.passes.tolist(), **self.past.saved()}
            self._saves.save(now, about, wait)

    def diverged(self) -> bool:
        """Whether w has left the range of numbers; the session is over if so."""
        try:
            self.server.look_at_w()
        except Diverged as error:
            if self.diverged_at < 0:
                self._diverge(error)
        return self.diverged_at >= 0

    def admit(self, name: str, now: float) -> int:
        """A worker that was not expected is given a row; see `ParameterServer.admit`."""
        row = self.server.admit(name)
        known = self.server.members[row].name
        self._saves.log(ADMITTED, row, 0, 0, now, memoryview(known.encode()))
        self.event(f"worker {known} is new, row {row}")
        return row

    def join(self, row: int, now: float) -> Ticket:
        """A worker is here; see `ParameterServer.join`."""
        before = self.server.fades
        ticket = self.server.join(row, now)
        self._awaited = min(self._awaited, now)
        self._log_loss(row, now, before)
        return ticket

    def push(
        self,
        row: int,
        stamp: int,
        message: Floats | None,
        sample: int,
        now: float,
        square: float | None = None,
        loss: float = math.nan,
        what: Sum | None = None,
    ) -> None:
        """A report, or `None` if there is nothing to send; see `ParameterServer.push`, `skip` and `push_sum`."""
        server, before, reports = self.server, self.server.fades, self.server.reports
        try:
            if message is None:
                server.skip(row, stamp, sample, now)
            elif what is not None:
                server.push_sum(row, stamp, message, sample, now, what, loss)
            else:
                server.push(row, stamp, message, sample, now, square, loss)
        except Diverged as error:
            self._diverge(error, accepted=server.reports > reports)
        except Refused:
            self._log_loss(row, now, before)
            raise
        if self.durable:
            kind = SKIPPED if message is None else REPORTED if what is None else SUMMED
            sums = () if what is None else (memoryview(SUM.pack(*what)),)
            numbers = () if message is None else (*sums, message.data.cast("B"))
            self._saves.log(kind, row, stamp, sample, now, *numbers, loss=loss)
        self._moved(now)

    def weigh(self, row: int, weight: float, now: float) -> None:
        """A relay counts for so much, before its first report; later what it counts for comes with each."""
        self.server.weigh(row, weight, now)
        self._saves.log(WEIGHED, row, 0, 0, now, loss=weight)

    def push_many(self, rows: Integers, messages: Floats, notes: Integers, figures: Floats, now: float) -> int:
        """Take the first of these reports at once; return how many. See `ParameterServer.push_many`."""
        if self.durable or self.over:
            return 0
        server, taken = self.server, 0
        before = server.reports
        most, stop = self._last_report - before, min(self._last_version, self.curve.next)
        try:
            taken = server.push_many(rows, messages, notes, figures, now, most, stop)
        except Diverged as error:
            self._diverge(error)
            taken = server.reports - before
        if taken:
            self._moved(now)
        return taken

    def commit(self) -> None:
        """In durable mode: what was accepted is on disk when this returns. Call it before answering.

        Raises `OSError` if it cannot be; a later call succeeds once a save has, which `look_after` tries.
        """
        self._saves.commit()

    def refused(self, row: int, refused: Refused) -> None:
        """A report was refused."""
        if refused.final:
            self._gone(row, Failure.REFUSED, refused.reason)
        else:
            self.event(f"worker {self.server.members[row].name}: {refusal(refused.reason, final=False)}")

    def said(self, row: int, text: str) -> None:
        """A worker's stream has something to say."""
        self.alarm(f"worker {self.server.members[row].name}: {text}")

    def left(self, row: int, now: float, reason: str) -> None:
        """A worker has left for good."""
        self.departures.left(row)
        self._depart(row, now, reason)

    def failed(self, row: int, reason: str, kind: Failure = Failure.OWN_CODE) -> None:
        """A worker is gone, by default because its own code raised an error; the others go on."""
        self.server.members[row].go_away(reason)
        self._gone(row, kind, reason)

    def died(self, row: int, reason: str) -> None:
        """A worker is gone without a word; its row stays."""
        if self.server.members[row].state not in GONE:
            self.failed(row, reason, Failure.GONE)

    def readmit(self) -> None:
        """Let workers that were refused for good come again."""
        for member in self.server.members:
            if member.state == State.REFUSED:
                self.server.readmit(member.row)
                self.departures.forgiven(member.row)
                self.event(f"worker {member.name} may come again")

    def _gone(self, row: int, kind: Failure, reason: str) -> None:
        """Remember who is gone, and see at once who is left."""
        failure = self.departures.gone(row, kind, reason)
        if failure is not None:
            self.alarm(failure.alarm)
            if kind is not Failure.GONE:  # that one may come back with the next sample
                self._failed.add(row)
        self._due = 0.0

    def _let_go(self, now: float) -> None:
        """The last gradients of workers that failed are not replayed for ever: they go as those of one that left."""
        for row in sorted(self._failed):
            if self.server.members[row].state in (State.AWAY, State.REFUSED):  # and has not come back already
                self.server.let_go(row, now)
                self._saves.log(LET_GO, row, 0, 0, now)
        self._failed.clear()

    def _depart(self, row: int, now: float, reason: str) -> None:
        """A worker has left, or counts as one that has."""
        self.server.leave(row, now, reason)
        self._saves.log(LEFT, row, 0, 0, now)
        name, samples, others = self.server.members[row].name, int(self.server.ledger[row, SAMPLES]), len(self._rest())
        told = departure(name, samples, reason, others, self.server.fading.rule.half_life)
        self.has_left.append(told)
        (self.alarm if len(self.has_left) == 1 and others else self.event)(told)  # of many the first is enough
        self._due = 0.0

    def _keep_time(self, now: float) -> None:
        """Take the ticks that are due, the first one an interval after the first report."""
        if self.server.reports == 0:
            self.next_tick = now + self._interval
        elif now - self.next_tick > BEHIND:  # this process was stopped, or is too slow
            self.next_tick = now
        self.next_tick = max(self.next_tick, now - self.server.seconds(now) + self._interval)
        while not self.over and now >= self.next_tick:
            self.next_tick += self._interval
            try:
                self.server.tick(now)
            except Diverged as error:
                self._diverge(error)
            self._saves.log(TICKED, 0, 0, 0, now)
            self._moved(now)
        self._due = min(self._due, self.next_tick)

    def _look_for_ends(self, now: float) -> None:
        """Whether time is up, whether somebody counts as gone, whether anybody is there."""
        server = self.server
        waited = server.seconds(now) - self._seconds0
        if server.reports == self.before:
            waited = now - self._awaited - PATIENCE
        if self.until.seconds is not None and waited >= self.until.seconds:
            self.end(Ending.TIME, f"{self.until.seconds:g}")
        if self._read_by_all():
            self.end(Ending.EPOCHS, f"{self.until.passes:g}")
        for row in self.departures.forget(now):
            self._depart(row, now, f"not heard of for {self.departures.forget_after:g} seconds")
        deserted = self.departures.end(now, bool(server.ledger[:-1, HERE].any()))
        if deserted is not None:
            self.end(deserted.ending, deserted.detail)

    def _read_by_all(self) -> bool:
        """Whether all who are left have been through their data as often as asked."""
        made, asked = self.passes - self.past.passes, self.until.passes
        return bool(made.max() >= asked and (made[self._rest()] >= asked).all())

    def _rest(self) -> list[int]:
        """The rows of all who have not left and have not failed."""
        failed = {failure.row for failure in self.departures.failures}
        there = [member for member in self.server.members if member.state not in GONE and not member.vacant]
        return [member.row for member in there if member.row not in failed]

    def _examine(self, now: float, *, regular: bool = True, last: bool = False) -> None:
        """Tell what seems to be wrong with the training."""
        if regular:
            self._examined, self._examined_reports = now, self.server.reports
        self._examine_at = 2 * self.server.version
        health = self.health if self.diverged_at < 0 else None
        for text in () if health is None else health.look(now, regular=regular, last=last):
            self.alarm(f"warning: {text}")

    def _note(self, now: float) -> None:
        """A point of the curve; after a divergence there is nothing to measure."""
        self.curve.note(self.server, now, self.diverged_at >= 0)
        self._announcer.tell(Trouble.LOSS, self.curve.trouble)

    def _moved(self, now: float) -> None:
        """After a report or a step: a point of the curve, and whether this was the last."""
        server = self.server
        if server.version >= self.curve.next:
            self._note(now)
            if server.version >= self._examine_at:  # a run may be over within a second
                self._examine(now, regular=False)
        if server.version >= self._last_version or server.reports >= self._last_report:
            self.end(Ending.REACHED)

    def _diverge(self, error: Diverged, accepted: bool = True) -> None:
        """The session is over; the report at which that was seen is refused if it was not accepted before."""
        self.diverged_at = self.server.version
        self.event(f"diverged: {error}")
        self.end(Ending.DIVERGED, str(error))
        if not accepted:
            raise Refused(str(error), blame=False) from None

    def _log_loss(self, row: int, now: float, before: int) -> None:
        """In durable mode: a worker has lost its memory, if there was such a line of the trace."""
        if self.server.fades > before:
            self._saves.log(MEMORY_LOST, row, 0, 0, now)
