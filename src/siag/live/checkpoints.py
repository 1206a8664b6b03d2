"""What is saved, and when: the trace goes to disk first, then the state that has counted its lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from siag.foundations.errors import reason_of
from siag.live.announcer import Announcer
from siag.live.durable_log import LAYOUT
from siag.live.reasons import Trouble
from siag.server.parameter_server import ParameterServer
from siag.storage.history import History
from siag.storage.store import Store
from siag.storage.trace_writer import TraceWriter

SAVE = 0.5  # seconds between two saves: with the time a save takes, at most the last second is lost


class Checkpoints:
    """Saves a server's state, and writes its trace and its log; what goes wrong is told, and training goes on."""

    def __init__(
        self,
        server: ParameterServer,
        store: Store | None,
        durable: bool,
        announcer: Announcer,
        history: History | None = None,
    ) -> None:
        self._server, self.store, self._tell = server, store, announcer.tell
        self._log = store if durable else None
        self._uncommitted = False
        self._history = history
        self.trace: TraceWriter | None = None
        self._saved: float | None = None
        self._tried = self._flushed = 0.0
        self._forced: float | None = None  # when the trace was sent to disk, ahead of the state

    def begin(self, now: float) -> None:
        """The first ones are due some time from now."""
        self._tried = self._flushed = now
        if self._history is not None:
            self._history.begin(now)

    def age(self, now: float) -> float | None:
        """Seconds since the last save; `None` if there was none."""
        return None if self._saved is None else now - self._saved

    def due(self, now: float) -> bool:
        """Write the trace if it is time; whether it is time to save as well."""
        if now - self._flushed >= SAVE:
            self._flushed = now
            self.flush(force=self.store is None)
        if self.store is None or now - self._tried < SAVE or not self.store.rested:
            return False
        return self._trace_goes_first(now)

    def save(self, now: float, more: Mapping[str, Any], wait: bool = False) -> None:
        """Save what has changed, and `more`.

        The state carries the last lines of the trace, those that may not be on disk yet: it is never ahead of it.
        """
        if self.store is None:
            return
        server = self._server
        rows = np.flatnonzero(server.changed)
        self.flush(force=wait, wait=wait)
        meta = server.meta(now) | {"trace": None if self.trace is None else self.trace.tail} | dict(more)
        blank = np.array([member.row for member in server.members if member.vacant], np.int64)
        if self.store.save(server.arrays(), rows, meta, wait=wait, blank=blank):
            server.changed[rows] = False
            self._tried = now
            if self.store.problem is None:
                self._saved = now
        if self._history is not None:
            self._history.note(server.version, server.w, now)
            self._tell(Trouble.KEEPING, self._history.problem)
        self._tell(Trouble.SAVING, self.store.problem)

    def flush(self, force: bool = False, wait: bool = False) -> None:
        """Write the trace, and have it forced to disk if asked."""
        if self.trace is not None and not self._nobody_knows(self.trace):
            with self._writing():
                if force:
                    self.trace.sync(wait)
                else:
                    self.trace.flush()

    def log(
        self, kind: int, row: int, stamp: int, sample: int, now: float, *numbers: memoryview, loss: float = math.nan
    ) -> None:
        """In durable mode: keep what was done; it is on disk after the next `commit`."""
        if self._log is not None:
            self._log.log(LAYOUT.pack(kind, row, stamp, sample, loss, self._server.seconds(now)), *numbers)
            self._uncommitted = True

    def commit(self) -> None:
        """Return when all that was logged is on disk; raise `OSError` if it cannot be."""
        if self._uncommitted and self._log is not None:
            self.flush()  # a trace must not have less than the log
            self._log.sync()
            self._uncommitted = False

    def finish(self) -> None:
        """Write the trace's last line."""
        if self.trace is not None:
            with self._writing():
                self.trace.close(self._server.version)

    def give_up(self, new: bool) -> None:
        """After an error: keep what was recorded; a new run without anything recorded leaves no trace.

        While no save is known to be on disk, the file gets no line: if there is one after all, it carries them. If
        not, the run begins anew when it is started again, and lines in the file would be in its way.
        """
        if self.trace is not None:
            if new and self._server.reports + self._server.fades == 0:
                self.trace.discard()
            elif new and self._nobody_knows(self.trace):
                self.trace.lines.clear()
            with suppress(OSError):
                self.trace.close(self._server.version)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Tell whether writing the trace works; one that was given up, and has no tail, does not work again."""
        try:
            yield
        except OSError as error:
            self._tell(Trouble.TRACE, reason_of(error))
        else:
            if self.trace is not None and self.trace.tail is not None:
                self._tell(Trouble.TRACE, None)

    def _nobody_knows(self, trace: TraceWriter) -> bool:
        """Whether no save is on disk by which a run that goes on would know its trace; too long a one cannot wait."""
        return self.store is not None and not self.store.ever and bool(trace.tail)

    def _trace_goes_first(self, now: float) -> bool:
        """Whether the trace is on disk, or has had time enough; its way there begins when this is first asked."""
        if self.trace is None:
            return True
        if self._forced is None:
            self._forced = now
            self.flush(force=True)
            return False
        if not self.trace.settled and now - self._forced < SAVE:
            return False
        self._forced = None
        return True
