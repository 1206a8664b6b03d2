"""What a run has to say while it goes on: to whoever watches it, and to the log named `siag`."""

from __future__ import annotations

import logging

from siag.live.monitor.watch import Problems as Alarms
from siag.live.monitor.watch import Quiet, Watcher
from siag.live.reasons import Problem, Problems, Trouble
from siag.server.snapshot import Snapshot

log = logging.getLogger("siag")


class Announcer:
    """Tells remarks and problems; a problem once, and its end.

    Args:
        watcher: who is shown how it goes; nobody by default.
    """

    def __init__(self, watcher: Watcher | None = None) -> None:
        self._watcher: Watcher = Quiet() if watcher is None else watcher
        self._problems = Problems()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now."""
        return self._problems.now

    def show(self, snapshot: Snapshot) -> None:
        """Show how things stand."""
        self._watcher.show(snapshot)

    def event(self, text: str) -> None:
        """Remark something."""
        log.info(text)
        self._watcher.event(text)

    def alarm(self, text: str) -> None:
        """Tell that something goes wrong, or no longer does."""
        log.warning(text)
        if isinstance(self._watcher, Alarms):
            self._watcher.problem(text)
        else:
            self._watcher.event(text)

    def tell(self, what: Trouble, reason: str | None) -> None:
        """Something does not work for this reason, or works if there is none."""
        text = self._problems.note(what, reason)
        if text is not None:
            self.alarm(text)
