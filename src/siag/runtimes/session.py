"""A session: a parameter server and all that goes on around it, whichever way its messages travel."""

from __future__ import annotations

import struct
import sys
from typing import Any

import numpy as np

from siag.activity import Tick
from siag.foundations.types import Floats
from siag.runtimes.until import Curve, Until
from siag.runtimes.watch import Quiet, Watcher
from siag.server.guard import Refused
from siag.server.parameter_server import Diverged, ParameterServer
from siag.server.store import Store

SHOW = 0.25  # seconds between two looks at the server
SAVE = 0.5  # seconds between two saves: with the time a save takes, at most the last second is lost
PATIENCE = 60.0  # seconds for a first report to come, before the time of `Until` is counted all the same
GONE = ("left", "refused")
ENTRY = struct.Struct(
    "<Bqqqd"
)  # kind, row, stamp, sample, seconds: a line of the durable log; a report's numbers follow
REPORTED, TICKED, LEFT = range(3)


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
    ) -> None:
        self.server, self.until, self.curve = server, until, curve
        self.watcher: Watcher = Quiet() if watcher is None else watcher
        self.store, self.durable, self.linger = store, durable, linger
        self.over, self.why = False, ""
        self.diverged = -1
        self.next_tick = 0.0
        self.remarks: list[str] = []
        self._uncommitted = False
        self._shown = self._saved = self._flushed = 0.0
        self._saved_once = False
        self._lonely_since: float | None = None
        self._began = self._seconds0 = 0.0
        self._trouble = ""
        self._last_version = until.iterations if until.iterations is not None else sys.maxsize
        self._last_report = until.reports if until.reports is not None else sys.maxsize

    def recover(self, now: float) -> None:
        """Go on where the last session with this store was, if there was one."""
        if self.store is None:
            return
        found = self.store.recover(self.server.arrays())
        if found is None:
            return
        self.server.restore(found.meta, now)
        self.remarks += found.remarks
        trace, self.server.trace = self.server.trace, None
        for entry in found.entries:
            self._redo(entry, now)
        self.server.trace = trace
        self.remarks.append(f"went on from version {self.server.version}, {self.server.reports} reports")

    def begin(self, now: float) -> None:
        """The clock starts."""
        server = self.server
        self._seconds0, self._began = server.seconds(now), now
        if isinstance(server.server, Tick):
            self.next_tick = now + server.server.seconds
        self._shown = self._saved = self._flushed = now
        self.curve.note(server.version, server.w, server.reports, server.seconds(now))
        for remark in self.remarks:
            self.watcher.event(remark)
        if self.until.reached(server.version, server.reports, 0.0):
            self.end("it had been reached before")

    def end(self, why: str) -> None:
        """Let the session be over."""
        if not self.over:
            self.over, self.why = True, why

    def push(
        self, row: int, stamp: int, message: Floats, sample: int, now: float, square: float | None = None
    ) -> None:
        """A report; see `ParameterServer.push`."""
        server = self.server
        try:
            server.push(row, stamp, message, sample, now, square)
        except Diverged as error:
            self._diverge(error)
        if self.durable and self.store is not None:
            self.store.log(ENTRY.pack(REPORTED, row, stamp, sample, server.seconds(now)), message.data.cast("B"))
            self._uncommitted = True
        self._moved(now)

    def commit(self) -> None:
        """In durable mode: what was accepted is on disk when this returns. Call it before answering."""
        if self._uncommitted and self.store is not None:
            self.store.sync()
            self._uncommitted = False

    def refused(self, row: int, refusal: Refused) -> None:
        """A report was refused."""
        name = self.server.members[row].name
        end = "; it is disconnected" if refusal.final else ""
        self.watcher.event(f"worker {name}: refused: {refusal.reason}{end}")

    def left(self, row: int, now: float, reason: str) -> None:
        """A worker has left for good."""
        self.server.leave(row, now, reason)
        if self.durable and self.store is not None:
            self.store.log(ENTRY.pack(LEFT, row, 0, 0, self.server.seconds(now)))
            self._uncommitted = True
        self.watcher.event(f"worker {self.server.members[row].name} left: {reason}")

    def failed(self, row: int, reason: str) -> None:
        """A worker's own code raised an error; the others go on."""
        self.server.away(row, reason)
        self.watcher.event(f"worker {self.server.members[row].name} failed: {reason}; the others go on")

    def died(self, row: int, reason: str) -> None:
        """A worker is gone without a word; its row stays."""
        if self.server.members[row].state not in GONE:
            self.server.away(row, reason)
            self.watcher.event(f"worker {self.server.members[row].name} is gone: {reason}; its row stays")

    def look_after(self, now: float) -> None:
        """Ticks, views, saves, ends: whatever is due. To be called every now and then."""
        server = self.server
        if isinstance(server.server, Tick):
            while not self.over and now >= self.next_tick:
                self.next_tick += server.server.seconds
                self._tick(now)
        if now - self._shown >= SHOW:
            self._shown = now
            self.watcher.show(self.snapshot(now))
        if now - self._flushed >= SAVE:
            self._flushed = now
            self._flush()
        if self.store is not None and now - self._saved >= SAVE:
            self.save(now)
        waited = now - self._began - PATIENCE if server.reports == 0 else server.seconds(now) - self._seconds0
        if self.until.reached(0, 0, waited):
            self.end(f"{self.until.seconds:g} seconds have passed")
        self._lonely(now)

    def save(self, now: float, wait: bool = False) -> None:
        """Save what has changed; what goes wrong is shown, and training goes on."""
        if self.store is None:
            return
        server = self.server
        rows = np.flatnonzero(server.changed)
        self._flush()
        if self.store.save(server.arrays(), rows, server.meta(now), wait=wait):
            server.changed[rows] = False
            self._saved, self._saved_once = now, True
        self._say(self.store.problem)

    def finish(self, now: float) -> None:
        """The end: last point, last save, last look."""
        server = self.server
        self.curve.note(server.version, server.w, server.reports, server.seconds(now))
        self.save(now, wait=True)
        if server.trace is not None:
            server.trace.close(server.version)
        self.watcher.show(self.snapshot(now))

    def snapshot(self, now: float) -> Any:
        """How things stand."""
        problem = self.store.problem if self.store is not None else None
        return self.server.snapshot(
            now,
            target=self.until.iterations,
            loss=self.curve.latest,
            saved=now - self._saved if self._saved_once else None,
            problems=(f"saving: {problem}",) if problem else (),
        )

    def _tick(self, now: float) -> None:
        try:
            self.server.tick(now)
        except Diverged as error:
            self._diverge(error)
        if self.durable and self.store is not None:
            self.store.log(ENTRY.pack(TICKED, 0, 0, 0, self.server.seconds(now)))
            self._uncommitted = True
        self._moved(now)

    def _moved(self, now: float) -> None:
        """After a report or a step: a point of the curve, and whether this was the last."""
        server = self.server
        if server.version >= self.curve.next:
            self.curve.note(server.version, server.w, server.reports, server.seconds(now))
        if server.version >= self._last_version or server.reports >= self._last_report:
            self.end("as many iterations or reports as asked")

    def _diverge(self, error: Diverged) -> None:
        self.diverged = self.server.version
        self.watcher.event(f"diverged: {error}")
        self.end(str(error))

    def _redo(self, entry: bytes, now: float) -> None:
        """Do again what the durable log says was done."""
        kind, row, stamp, sample, seconds = ENTRY.unpack_from(entry)
        at = now + seconds - self.server.seconds(now)
        if kind == REPORTED:
            message = np.frombuffer(entry, np.float64, offset=ENTRY.size)
            self.server.push(row, stamp, message, sample, at)
            self.server.members[row].state = "away"
        elif kind == TICKED:
            self.server.tick(at)
        else:
            self.server.leave(row, at, "it had left before")

    def _flush(self) -> None:
        if self.server.trace is not None:
            try:
                self.server.trace.flush()
            except OSError as error:
                self._say(f"the trace cannot be written: {error.strerror}")

    def _say(self, trouble: str | None) -> None:
        """Report a trouble once, and its end."""
        if trouble and trouble != self._trouble:
            self.watcher.event(f"problem: {trouble}; training goes on")
        self._trouble = trouble or ""

    def _lonely(self, now: float) -> None:
        """With nobody there, save, wait, and end after the stated time."""
        states = [member.state for member in self.server.members]
        if all(state in GONE for state in states):
            self.end("all workers have left")
        if any(state == "working" for state in states):
            self._lonely_since = None
        elif self._lonely_since is None:
            self._lonely_since = now
        elif self.linger is not None and now - self._lonely_since > self.linger:
            self.end(f"no worker was there for {self.linger:g} seconds")
