"""A session: a parameter server and all that goes on around it, whichever way its messages travel."""

from __future__ import annotations

import math
import secrets
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from siag.activity import Tick
from siag.foundations.types import Floats, Integers
from siag.live.departures import Absence
from siag.live.monitor.watch import Problems, Quiet, Watcher
from siag.live.recovery import ENTRY, FORGOT, LEFT, REPORTED, SKIPPED, TICKED, go_on
from siag.live.until import Curve, Until
from siag.server.guard import Refused
from siag.server.ledger import HERE
from siag.server.parameter_server import Diverged, ParameterServer, Ticket
from siag.storage.store import Store
from siag.storage.trace_writer import TraceWriter

SHOW = 0.25  # seconds between two looks at the server
SAVE = 0.5  # seconds between two saves: with the time a save takes, at most the last second is lost
LOOK = 0.02  # seconds between two looks at what is due, unless a tick is
BEHIND = 1.0  # seconds after which ticks that were missed are left out
PATIENCE = 60.0  # seconds for a first report to come, before the time of `Until` is counted all the same
LOSS = "the loss"
GONE = ("left", "refused")


class Session:
    """What happens around a server: curve, views, saves, ends.

    Args:
        server: the parameter server.
        until: when to end.
        curve: what to keep of the run.
        watcher: who is shown how it goes.
        store: where the state is saved; `None`: nowhere.
        durable: whether a report is on disk before it is answered.
        linger: seconds to wait for workers when none is there; `None`: for ever.
        forget: seconds after which a worker that is away counts as having left for good; `None`: never.
    """

    def __init__(
        self,
        server: ParameterServer,
        until: Until,
        curve: Curve,
        *,
        watcher: Watcher | None = None,
        store: Store | None = None,
        durable: bool = False,
        linger: float | None = None,
        forget: float | None = None,
    ) -> None:
        self.server, self.until, self.curve = server, until, curve
        self.watcher: Watcher = Quiet() if watcher is None else watcher
        self.store, self.durable, self.linger, self.forget = store, durable, linger, forget
        self.trace: TraceWriter | None = None
        self.over, self.why, self.done = False, "", False
        self.diverged = -1
        self.next_tick = 0.0
        self.remarks: list[str] = []
        self.recovered = False  # whether it goes on where another was
        self.run_id = secrets.token_hex(8)  # by which a run knows its trace; "" if it is from before there were any
        self.tail: list[str] | None = []  # last lines of its trace; `None` if it went on without one
        self._uncommitted = False
        self._shown = self._saved = self._tried = self._flushed = 0.0
        self._saved_once = False
        self._forced: float | None = None  # when the trace was sent to disk, ahead of the state
        self._lonely_since: float | None = None
        self._departures = 0  # in this session; a run that had ended may be gone on with
        self._seconds0 = 0.0
        self._awaited = math.inf  # since when a first report is waited for: the start, or the first worker's joining
        self._absence = Absence(server.members)
        self._due = 0.0  # nothing needs to be looked after before
        self.before = 0  # reports there were when it began
        self._troubles: dict[str, str] = {}
        self._last_version = until.iterations if until.iterations is not None else sys.maxsize
        self._last_report = until.reports if until.reports is not None else sys.maxsize

    def recover(self, now: float) -> None:
        """Go on where the last session with this store was, if there was one."""
        if self.store is None:
            return
        found = self.store.recover(self.server.arrays())
        if found is None:
            return
        self.recovered, self.run_id = True, found.meta.get("run", "")
        if "curve" in found.meta:
            self.curve.restore(found.meta["curve"])
        self.remarks += found.remarks
        traced = found.meta.get("trace", "")
        lines, remarks = go_on(self.server, self.store, found, now)
        self.remarks += remarks
        self.tail = None if traced is None else traced.splitlines(keepends=True) + lines
        self.remarks.append(f"went on from version {self.server.version}, {self.server.reports} reports")

    def begin(self, now: float) -> None:
        """The clock starts."""
        server = self.server
        self._seconds0 = server.seconds(now)
        if self.linger is None:  # one that lingers has another rule for nobody coming
            self._awaited = now
        if isinstance(server.pace, Tick):
            self.next_tick = now + server.pace.seconds
        self._shown = self._saved = self._tried = self._flushed = now
        self.before = server.reports
        if not self.curve.begun or server.version >= self.curve.next:
            self._note(now)
        for remark in self.remarks:
            self.watcher.event(remark)
        if self.durable:
            self.save(now, wait=True)  # what is logged follows a save
        elif self.trace is not None and not (self.recovered or self._saved_once):
            self.save(now, wait=True)  # has the run's id, by which it will know a trace with reports
        if self.until.reached(server.version, server.reports, 0.0):
            self.end("it had been reached before", done=True)

    def end(self, why: str, done: bool = False) -> None:
        """Let the session be over; `done`: because what was asked for is reached."""
        if not self.over:
            self.over, self.why, self.done = True, why, done

    @property
    def troubles(self) -> tuple[str, ...]:
        """What goes wrong while training goes on."""
        return tuple(f"{what}: {trouble}" for what, trouble in self._troubles.items())

    @property
    def failures(self) -> list[str]:
        """Who is gone without having left, and why; whoever has reported since is not among them."""
        return self._absence.failures

    @property
    def fruitless(self) -> bool:
        """Whether all workers are gone, not all of them in order, and none has reported anything."""
        there = any(member.state in ("working", "expected") for member in self.server.members)
        return bool(self.failures) and not there and self.server.reports == self.before

    def join(self, row: int, now: float) -> Ticket:
        """A worker is here; see `ParameterServer.join`."""
        before = self.server.fades
        ticket = self.server.join(row, now)
        self._awaited = min(self._awaited, now)
        self._log_loss(row, now, before)
        return ticket

    def push(self, row: int, stamp: int, message: Floats, sample: int, now: float, square: float | None = None) -> None:
        """A report; see `ParameterServer.push`."""
        server, before, reports = self.server, self.server.fades, self.server.reports
        try:
            server.push(row, stamp, message, sample, now, square)
        except Diverged as error:
            self._diverge(error, accepted=server.reports > reports)
        except Refused:
            self._log_loss(row, now, before)
            raise
        if self.durable and self.store is not None:
            self.store.log(ENTRY.pack(REPORTED, row, stamp, sample, server.seconds(now)), message.data.cast("B"))
            self._uncommitted = True
        self._moved(now)

    def skip(self, row: int, stamp: int, sample: int, now: float) -> None:
        """A report that there is nothing to send; see `ParameterServer.skip`."""
        before, reports = self.server.fades, self.server.reports
        try:
            self.server.skip(row, stamp, sample, now)
        except Diverged as error:
            self._diverge(error, accepted=self.server.reports > reports)
        except Refused:
            self._log_loss(row, now, before)
            raise
        self._log(SKIPPED, row, stamp, sample, now)
        self._moved(now)

    def push_many(self, rows: Integers, messages: Floats, notes: Integers, squares: Floats, now: float) -> int:
        """Take the first of these reports at once; return how many. See `ParameterServer.push_many`."""
        if self.durable or self.over:
            return 0
        server, taken = self.server, 0
        before = server.reports
        most, stop = self._last_report - before, min(self._last_version, self.curve.next)
        try:
            taken = server.push_many(rows, messages, notes, squares, now, most, stop)
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
        if self._uncommitted and self.store is not None:
            self._flush()  # a trace must not have less than the log
            self.store.sync()
            self._uncommitted = False

    def refused(self, row: int, refusal: Refused) -> None:
        """A report was refused."""
        name = self.server.members[row].name
        end = "; it is disconnected" if refusal.final else ""
        text = f"worker {name}: refused: {refusal.reason}{end}"
        if refusal.final:
            self.alarm(text)
            self._gone(row, text)
        else:
            self.watcher.event(text)

    def said(self, row: int, text: str) -> None:
        """A worker's stream has something to say."""
        self.alarm(f"worker {self.server.members[row].name}: {text}")

    def left(self, row: int, now: float, reason: str) -> None:
        """A worker has left for good."""
        self._absence.left(row)
        self._depart(row, now, reason)

    def failed(self, row: int, reason: str) -> None:
        """A worker's own code raised an error; the others go on."""
        self.server.away(row, reason)
        text = f"worker {self.server.members[row].name} failed: {reason}"
        self.alarm(f"{text}; the others go on")
        self._gone(row, text)

    def died(self, row: int, reason: str) -> None:
        """A worker is gone without a word; its row stays."""
        if self.server.members[row].state not in GONE:
            self.server.away(row, reason)
            text = f"worker {self.server.members[row].name} is gone: {reason}"
            self.alarm(f"{text}; its row stays")
            self._gone(row, text)

    def look_after(self, now: float) -> None:
        """Ticks, views, saves, ends: whatever is due. To be called every now and then."""
        if now < self._due:
            return
        server = self.server
        self._due = now + LOOK
        if isinstance(server.pace, Tick):
            self._keep_time(now, server.pace.seconds)
        if now - self._shown >= SHOW:
            self._shown = now
            self.watcher.show(self.snapshot(now))
        if self.diverged < 0 and self.curve.due(server.version, server.seconds(now)):
            w = server.w if self.curve.measures else None
            self.curve.refresh(server.version, w, server.reports, server.seconds(now), server.skips)
            self._say(LOSS, self.curve.trouble)
        if now - self._flushed >= SAVE:
            self._flushed = now
            self._flush(force=self.store is None)
        if self.store is not None and now - self._tried >= SAVE and self._trace_goes_first(now):
            self.save(now)
        waited = server.seconds(now) - self._seconds0
        if server.reports == self.before:
            waited = now - self._awaited - PATIENCE
        if self.until.reached(0, 0, waited):
            self.end(f"{self.until.seconds:g} seconds have passed", done=True)
        if self.forget is not None:
            for row in self._absence.forget(now, self.forget):
                self._depart(row, now, f"not heard of for {self.forget:g} seconds")
        self._lonely(now)

    def save(self, now: float, wait: bool = False) -> None:
        """Save what has changed; what goes wrong is shown, and training goes on.

        The state carries the last lines of the trace, those that may not be on disk yet: it is never ahead of it.
        """
        if self.store is None or self.hopeless():
            return
        server = self.server
        rows = np.flatnonzero(server.changed)
        self._flush(force=wait, wait=wait)
        meta = server.meta(now) | {"trace": None if self.trace is None else self.trace.tail}
        meta |= {"curve": self.curve.saved(), "run": self.run_id}
        if self.store.save(server.arrays(), rows, meta, wait=wait):
            server.changed[rows] = False
            self._tried = now
            if self.store.problem is None:
                self._saved, self._saved_once = now, True
        self._say("saving", self.store.problem)

    def finish(self, now: float) -> None:
        """The end: last point, last save, last look."""
        self.end(self.whereabouts())  # unless it had another reason
        self.save(now, wait=True)
        self._note(now)
        if self.trace is not None:
            try:
                self.trace.close(self.server.version)
                if self.trace.tail is not None:
                    self._say("the trace", None)
            except OSError as error:
                self._say("the trace", error.strerror)
        self.watcher.show(self.snapshot(now))

    def snapshot(self, now: float) -> Any:
        """How things stand."""
        shown = self.server.snapshot(
            now,
            target=self.until.iterations,
            loss=self.curve.latest,
            saved=now - self._saved if self._saved_once else None,
            problems=self.troubles,
        )
        return replace(shown, done=self.done)

    def _depart(self, row: int, now: float, reason: str) -> None:
        """A worker has left, or counts as one that has."""
        self._departures += 1
        self.server.leave(row, now, reason)
        self._log(LEFT, row, 0, 0, now)
        self.watcher.event(f"worker {self.server.members[row].name} left: {reason}")
        self._due = 0.0

    def _keep_time(self, now: float, seconds: float) -> None:
        """The ticks that are due."""
        if self.server.reports == 0:  # time begins with the first report
            self.next_tick = now + seconds
        elif now - self.next_tick > BEHIND:  # this process was stopped, or cannot keep up
            self.next_tick = now
        self.next_tick = max(self.next_tick, now - self.server.seconds(now) + seconds)
        while not self.over and now >= self.next_tick:
            self.next_tick += seconds
            self._tick(now)
        self._due = min(self._due, self.next_tick)

    def _tick(self, now: float) -> None:
        try:
            self.server.tick(now)
        except Diverged as error:
            self._diverge(error)
        self._log(TICKED, 0, 0, 0, now)
        self._moved(now)

    def _log(self, kind: int, row: int, stamp: int, sample: int, now: float) -> None:
        """In durable mode: a line of the log without numbers."""
        if self.durable and self.store is not None:
            self.store.log(ENTRY.pack(kind, row, stamp, sample, self.server.seconds(now)))
            self._uncommitted = True

    def _log_loss(self, row: int, now: float, before: int) -> None:
        """The same, if a worker has lost its memory."""
        if self.server.fades > before:
            self._log(FORGOT, row, 0, 0, now)

    def _moved(self, now: float) -> None:
        """After a report or a step: a point of the curve, and whether this was the last."""
        server = self.server
        if server.version >= self.curve.next:
            self._note(now)
        if server.version >= self._last_version or server.reports >= self._last_report:
            self.end("as many iterations or reports as asked", done=True)

    def hopeless(self) -> bool:
        """Whether w is no use to anybody: then what was saved before is worth more."""
        try:
            self.server.look_at_w()
        except Diverged as error:
            if self.diverged < 0:
                self._diverge(error)
        return self.diverged >= 0

    def _diverge(self, error: Diverged, accepted: bool = True) -> None:
        """The session is over; the report at which that was seen is refused if it was not accepted before."""
        self.diverged = self.server.version
        self.watcher.event(f"diverged: {error}")
        self.end(str(error))
        if not accepted:
            raise Refused(str(error), blame=False) from None

    def _flush(self, force: bool = False, wait: bool = False) -> None:
        """Write the trace, and have it forced to disk if asked."""
        if self.trace is not None:
            try:
                if force:
                    self.trace.sync(wait)
                else:
                    self.trace.flush()
                self._say("the trace", None)
            except OSError as error:
                self._say("the trace", error.strerror)

    def _trace_goes_first(self, now: float) -> bool:
        """Whether the trace is on disk, or has had time enough; its way there begins when this is first asked."""
        if self.trace is None:
            return True
        if self._forced is None:
            self._forced = now
            self._flush(force=True)
            return False
        if not self.trace.settled and now - self._forced < SAVE:
            return False
        self._forced = None
        return True

    def _say(self, what: str, trouble: str | None) -> None:
        """Report a trouble once, and its end."""
        before = self._troubles.pop(what, None)
        if trouble:
            self._troubles[what] = trouble
            if trouble != before:
                self.alarm(f"problem: {what}: {trouble}; training goes on")
        elif before:
            self.alarm(f"{what}: works again")

    def event(self, text: str) -> None:
        """Make a remark to whoever watches."""
        self.watcher.event(text)

    def alarm(self, text: str) -> None:
        """Tell whoever watches that something goes wrong, or no longer does."""
        if isinstance(self.watcher, Problems):
            self.watcher.problem(text)
        else:
            self.watcher.event(text)

    def _note(self, now: float) -> None:
        """A point of the curve; after a divergence there is nothing to measure."""
        server = self.server
        measured = math.nan if self.diverged >= 0 else None
        w = server.w if measured is None and self.curve.measures else None
        self.curve.note(server.version, w, server.reports, server.seconds(now), measured, server.skips)
        self._say(LOSS, self.curve.trouble)

    def _gone(self, row: int, text: str) -> None:
        """Remember who is gone, and see at once who is left."""
        self._absence.gone(row, text)
        self._due = 0.0

    def whereabouts(self) -> str:
        """Why nobody is there."""
        states = Counter(self._absence.states)
        if set(states) == {"left"}:
            return "all workers have left"
        return "no worker is there: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items()))

    def _lonely(self, now: float) -> None:
        """With nobody there, save, wait, and end after the stated time."""
        if self.server.ledger[:-1, HERE].any():  # somebody is at work: no need to look at all of many
            self._lonely_since = None
            return
        states = self._absence.states
        if self._departures and "left" in states and all(state in GONE for state in states):
            self.end(self.whereabouts())
        if any(state == "working" for state in states):
            self._lonely_since = None
        elif self._lonely_since is None:
            self._lonely_since = now
        elif self.linger is not None and now - self._lonely_since > self.linger:
            self.end(f"no worker was there for {self.linger:g} seconds")
