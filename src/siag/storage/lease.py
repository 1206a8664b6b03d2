"""The right to write at a URL, which one run has at a time: a lock for storage that knows no locks.

At the URL there is a mark, written once, that says which run has it, and a pulse, written every few seconds, however
long an upload takes. Both go when the run ends in order. A run that finds another's mark watches for a while: if mark
or pulse change, the other is alive; if not, it is dead. No clocks are compared. Mark and pulse are two files, so that
the late pulse of a machine that slept cannot make it the owner again.
"""

from __future__ import annotations

import errno
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress

Clock = Callable[[], float]
Sleep = Callable[[float], object]

PULSE = 4.0  # seconds between two signs of life
PULSES = 3  # how many of them must be missing before a run counts as dead
LAST_PULSE = 10.0  # seconds to wait for one under way, at the end
TAKEN_OVER = "another run has taken this URL over; this one writes nothing there any more"


class Lease:
    """Marks a URL as one run's.

    Args:
        mark: the URL of the mark.
        run: a name that no other run has; the mark of the same name, left by the same run's server before it was
            started again, is taken over without a look whether it is alive.
        period, clock, sleep: seconds between two signs of life; what time it is; how to wait.
    """

    def __init__(
        self, mark: str, run: str, period: float = PULSE, clock: Clock = time.monotonic, sleep: Sleep = time.sleep
    ) -> None:
        from fsspec.core import url_to_fs

        self._system, self._mark = url_to_fs(mark)
        self._pulse, self._run = f"{self._mark}.alive", run
        self._owner = f"{run} {secrets.token_hex(16)}".encode()
        self._period, self._clock, self._sleep = period, clock, sleep
        self._lost, self._ended = False, threading.Event()
        self._heart = threading.Thread(target=self._live, name="siag-pulse", daemon=True)

    def take(self) -> bool:
        """Mark the URL, once nobody else is seen to be alive there; False if somebody is."""
        seen, since = self._look(), self._clock()
        while seen is not None and self._clock() < since + PULSES * self._period:
            self._sleep(self._period / 4)
            now = self._look()
            if now not in (None, seen) and self._look() is not None:  # else it has just ended
                return False
            seen = now
        self._system.pipe_file(self._mark, self._owner)
        self._heart.start()
        return self._content(self._mark) == self._owner  # or another run has begun at the same time

    def check(self) -> None:
        """Raise `OSError` if another run has marked the URL since."""
        self._lost = self._lost or self._content(self._mark) != self._owner
        if self._lost:
            raise OSError(errno.EBUSY, TAKEN_OVER)

    def release(self) -> None:
        """Leave the URL to others."""
        self._ended.set()
        self._heart.join(LAST_PULSE)
        with suppress(Exception):  # what is left hurts nobody for long
            self.check()
            self._system.rm_file(self._mark)
            self._system.rm_file(self._pulse)

    def _look(self) -> tuple[bytes, bytes | None] | None:
        """Another run's mark and pulse, if there is one."""
        mark = self._content(self._mark)
        if mark is None or mark.decode(errors="replace").rpartition(" ")[0] == self._run:
            return None
        return mark, self._content(self._pulse)

    def _content(self, path: str) -> bytes | None:
        try:
            return bytes(self._system.cat_file(path))
        except FileNotFoundError:
            return None

    def _live(self) -> None:
        """The thread that shows that this run is alive."""
        beats = 0
        while not self._ended.wait(self._period) and not self._lost:
            beats += 1
            with suppress(Exception):  # each driver has its own kinds; uploads fail too, and are told of
                self.check()
                self._system.pipe_file(self._pulse, b"%b %d" % (self._owner, beats))
