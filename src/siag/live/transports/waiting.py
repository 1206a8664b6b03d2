"""Waiting without sleeping, as long as that is worth it.

A process that sleeps has to be woken, which takes tens of microseconds, the other's time and its own, often longer than
what it waits for. One that looks again and again takes a core meanwhile. So it lets every other process run between two
looks, looks for a short time only, and gives it up where it is in vain: when answers take long, or when others that
need the cores have kept it from looking. After each time in vain it is given up for twice as long.
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

SPIN = 5e-4  # seconds to look again and again
TRIES = 4  # times in vain in a row, after which it sleeps at once
# Times that it does so before it tries again. One that rests is woken by its server, on the server's core: with rests a
# hundred times as long, four workers on two cores had 20 % fewer answers over TCP and 30 % fewer over TLS.
FIRST_REST, LONGEST_REST = 5, 50

Found = TypeVar("Found")

let_others_run: Callable[[], object] = getattr(os, "sched_yield", partial(time.sleep, 0))


class Spinner:
    """Looks for something without sleeping.

    Args:
        able: whether what is looked for may come so soon; it can be changed.
    """

    def __init__(self, able: bool = True) -> None:
        self.able = able
        self._failures = self._rests = 0
        self._rest = FIRST_REST

    def __call__(self, look: Callable[[], Found]) -> Found | None:
        """What a look finds; nothing after a short time in vain, or at once where that is better."""
        if not self.able:
            return None
        if self._rests:
            self._rests -= 1
            return None
        clock = time.perf_counter
        until = clock() + SPIN
        while not (found := look()) and clock() < until:
            let_others_run()
        if clock() < until:
            self._failures, self._rest = 0, FIRST_REST
        else:
            self._failures += 1
            if self._failures >= TRIES:
                self._rests, self._rest = self._rest, min(2 * self._rest, LONGEST_REST)
        return found


class Waiter:
    """Waits until descriptors can be read from.

    Args:
        descriptors: their numbers.
    """

    def __init__(self, *descriptors: int) -> None:
        self._poller = select.poll()
        for descriptor in descriptors:
            self._poller.register(descriptor, select.POLLIN)
        self._poll = self._poller.poll
        self._look, self._spinner = partial(self._poll, 0), Spinner()

    def drop(self, descriptor: int) -> None:
        """Wait for one no longer."""
        self._poller.unregister(descriptor)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Those that are ready, and what is up with each; none after `seconds`."""
        return (self.spin() if seconds > SPIN else None) or self._poll(1000 * seconds)

    def spin(self) -> list[tuple[int, int]] | None:
        """The same without sleeping: none after a short time, or at once where that is better."""
        return self._spinner(self._look)


class _Selector(selectors.DefaultSelector):
    """What an event loop waits with."""

    def __init__(self, spinner: Spinner) -> None:
        super().__init__()
        self._spinner, self._look = spinner, partial(super().select, 0)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Those that are ready."""
        found = self._spinner(self._look) if timeout is None or timeout > SPIN else None
        return found or super().select(timeout)


def event_loop(spinner: Spinner) -> asyncio.AbstractEventLoop:
    """An event loop that looks before it sleeps, where the system's own way of waiting allows it."""
    return asyncio.SelectorEventLoop(_Selector(spinner)) if os.name == "posix" else asyncio.new_event_loop()
