"""When a server that steps in time does so."""

from __future__ import annotations

import math

BEHIND = 1.0  # seconds after which ticks that were missed are left out


class Ticks:
    """The times at which a server steps, a fixed number of seconds apart; infinity: never."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.next = math.inf

    def begin(self, now: float) -> None:
        """The first tick is one interval from now."""
        self.next = now + self._seconds

    def keep_up(self, now: float, since: float, reported: bool) -> None:
        """Before ticks are taken: the first one is an interval after the first report, `since` seconds ago.

        Ticks that the process was too slow for are left out.
        """
        if not reported:
            self.begin(now)
        elif now - self.next > BEHIND:  # this process was stopped, or is too slow
            self.next = now
        self.next = max(self.next, now - since + self._seconds)

    def take(self, now: float) -> bool:
        """Whether one is due; it is then taken."""
        due = now >= self.next
        if due:
            self.next += self._seconds
        return due
