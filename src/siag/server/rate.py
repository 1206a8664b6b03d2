"""A rate for the view: how often something happened recently."""

from __future__ import annotations

import math

LOOK = 0.2  # seconds between two looks at a rate


class Rate:
    """Events per second, averaged over the last seconds with weights that fall exponentially.

    Args:
        over: the number of seconds.
        at_once: whether the first events count in full, instead of leading slowly away from 0.
    """

    def __init__(self, over: float, at_once: bool = False) -> None:
        self._over, self._at_once = over, at_once
        self.restart(0, -math.inf)

    def restart(self, count: int, now: float) -> None:
        """Only events from now on count; there were `count` before."""
        self._rate, self._count, self._at = 0.0, count, now

    def of(self, count: int, now: float) -> float:
        """The rate, now that there were `count` events in all; looked at anew after 0.2 seconds at the earliest."""
        passed = now - self._at
        if passed >= LOOK:
            rate = (count - self._count) / passed  # 0 at the first look, for ever after nothing
            at_once = self._at_once and self._rate == 0.0
            self._rate += (1.0 if at_once else 1.0 - math.exp(-passed / self._over)) * (rate - self._rate)
            self._count, self._at = count, now
        return self._rate
