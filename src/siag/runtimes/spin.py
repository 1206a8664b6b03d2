"""Waiting without sleeping, where a core is free for it.

A process that sleeps is woken by another core, which takes tens of microseconds, often longer than what it waits for.
One that looks again and again takes a core meanwhile, so it does so for a short time only, and gives it up for a while
where it is in vain: when answers take long, or others need the core.
"""

from __future__ import annotations

import select
import time

from siag.foundations.parallel import cores

SPIN = 1e-4  # seconds to look again and again
TRIES = 4  # times in vain in a row, after which it sleeps at once
REST = 500  # times that it does so before it tries again


class Waiter:
    """Waits until descriptors can be read from.

    Args:
        descriptors: their numbers.
        processes: how many processes wait for each other; if these are more than there are cores, it sleeps at once.
    """

    def __init__(self, *descriptors: int, processes: int) -> None:
        self._poller = select.poll()
        self._poll = self._poller.poll
        for descriptor in descriptors:
            self._poller.register(descriptor, select.POLLIN)
        self._able = processes <= cores()
        self._failures, self._rests = 0, int(not self._able)

    def drop(self, descriptor: int) -> None:
        """Wait for one no longer."""
        self._poller.unregister(descriptor)

    def wait(self, seconds: float | None = None) -> list[tuple[int, int]]:
        """Those that are ready, and what is up with each; none after so many seconds."""
        return self.spin() or self._poll(None if seconds is None else 1000 * seconds)

    def spin(self) -> list[tuple[int, int]]:
        """The same without sleeping: none after a short time, or at once where that is better."""
        if self._rests:
            self._rests -= self._able
            return []
        poll, clock = self._poll, time.perf_counter
        until = clock() + SPIN
        while not (found := poll(0)):
            if clock() > until:
                self._failures += 1
                if self._failures >= TRIES:
                    self._rests = REST
                return []
        self._failures = 0
        return found
