"""What a run has to say while it goes on: to its watcher, and to the log named `siag`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from siag.live.monitor.watch import Quiet, Watcher, looks, tell_problem
from siag.live.reasons import Problem, Trouble
from siag.server.status import Snapshot

log = logging.getLogger("siag")


class Announcer:
    """Tells remarks and problems; a problem once, and its end."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self._watcher: Watcher = Quiet() if watcher is None else watcher
        self._wrong: dict[Trouble, Problem] = {}

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now."""
        return tuple(self._wrong.values())

    def show(self, snapshot: Callable[[], Snapshot], seconds: float | None = None) -> None:
        """Show how things stand, if anybody wants to look after so many seconds of the run; `None`: at its end."""
        if looks(self._watcher, seconds):
            self._watcher.show(snapshot())

    def event(self, text: str) -> None:
        """Remark something."""
        log.info(text)
        self._watcher.event(text)

    def alarm(self, text: str) -> None:
        """Tell that something goes wrong, or no longer does."""
        log.warning(text)
        tell_problem(self._watcher, text)

    def tell(self, what: Trouble, reason: str | None) -> None:
        """Something does not work for this reason, or works if there is none."""
        before = self._wrong.pop(what, None)
        if reason:
            self._wrong[what] = problem = Problem(what, reason)
            if problem != before:
                self.alarm(problem.alarm)
        elif before is not None:
            self.alarm(before.end)
