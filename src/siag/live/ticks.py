"""When a server that steps in time does so."""

from __future__ import annotations

BEHIND = 1.0  # seconds after which ticks that were missed are left out


class Ticks:
    """The times at which a server steps, a fixed number of seconds apart.

    Args:
        seconds: between two of them.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.next = 0.0

    def begin(self, now: float) -> None:
        """The first one is so many seconds from now."""
        self.next = now + self._seconds

    def keep_up(self, now: float, since: float, reported: bool) -> None:
        """Before ticks are taken: none is due before the first report, or if the process could not keep up.

        Args:
            now: the time.
            since: seconds since the first report.
            reported: whether there was one.
        """
        if not reported:
            self.next = now + self._seconds
        elif now - self.next > BEHIND:  # this process was stopped, or is too slow
            self.next = now
        self.next = max(self.next, now - since + self._seconds)

    def take(self, now: float) -> bool:
        """Whether one is due; it is then taken."""
        due = now >= self.next
        self.next += self._seconds * due
        return due
