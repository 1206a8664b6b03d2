"""Waiting without sleeping, where a core is free for it.

A process that sleeps is woken by another core, which takes tens of microseconds, often longer than what it waits for.
One that looks again and again takes a core meanwhile, so it does so for a short time only, and gives it up for a while
where it is in vain: when answers take long, or others need the core.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from siag.foundations.parallel import cores

SPIN = 1e-4  # seconds to look again and again
TRIES = 4  # times in vain in a row, after which it sleeps at once
REST = 500  # times that it does so before it tries again

Found = TypeVar("Found")


def suffice(processes: int) -> bool:
    """Whether there is a core for each of so many processes that wait for each other."""
    return processes <= cores()


class Spinner:
    """Looks for something without sleeping, as long as that is worth it.

    Args:
        able: whether there are cores for it.
    """

    def __init__(self, able: bool = False) -> None:
        self.able = able
        self._failures = self._rests = 0

    def __call__(self, look: Callable[[], Found]) -> Found | None:
        """What a look finds; nothing after a short time in vain, or at once where that is better."""
        if not self.able:
            return None
        if self._rests:
            self._rests -= 1
            return None
        clock = time.perf_counter
        until = clock() + SPIN
        while not (found := look()):
            if clock() > until:
                self._failures += 1
                if self._failures >= TRIES:
                    self._rests = REST
                return None
        self._failures = 0
        return found


class Waiter:
    """Waits until descriptors can be read from.

    Args:
        descriptors: their numbers.
        able: whether there are cores to do so without sleeping; see `suffice`.
    """

    def __init__(self, *descriptors: int, able: bool) -> None:
        self._poller = select.poll()
        for descriptor in descriptors:
            self._poller.register(descriptor, select.POLLIN)
        self._poll = self._poller.poll
        self._look = partial(self._poll, 0)
        self._spinner = Spinner(able)

    def drop(self, descriptor: int) -> None:
        """Wait for one no longer."""
        self._poller.unregister(descriptor)

    def wait(self, seconds: float | None = None) -> list[tuple[int, int]]:
        """Those that are ready, and what is up with each; none after so many seconds."""
        return self.spin() or self._poll(None if seconds is None else 1000 * seconds)

    def spin(self) -> list[tuple[int, int]]:
        """The same without sleeping: none after a short time, or at once where that is better."""
        return self._spinner(self._look) or []


class _Selector(selectors.DefaultSelector):
    """What an event loop waits with."""

    def __init__(self, spinner: Spinner) -> None:
        super().__init__()
        self._spinner, self._look = spinner, partial(super().select, 0)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Those that are ready."""
        if timeout is None or timeout > 0:
            found = self._spinner(self._look)
            if found:
                return found
        return super().select(timeout)


def event_loop(spinner: Spinner) -> asyncio.AbstractEventLoop:
    """An event loop that looks before it sleeps, where the system's way of waiting is known to suit that."""
    return asyncio.SelectorEventLoop(_Selector(spinner)) if os.name == "posix" else asyncio.new_event_loop()
