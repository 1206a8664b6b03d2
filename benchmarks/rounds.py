"""Rounds in which all sides take turns: how noisy the machine is meanwhile, and as many as a verdict takes."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator

LOOP = 100_000  # additions of the fixed loop: some two milliseconds
MORE = 3  # times the rounds, at most, until it is known whether a target is reached

_beats: list[float] = []


def beat() -> None:
    """Time a fixed loop in plain Python: whatever else the machine does makes it slower."""
    began = time.perf_counter()
    sum(range(LOOP))
    _beats.append(time.perf_counter() - began)


def rounds(least: int, undecided: Callable[[], bool] = lambda: False) -> Iterator[int]:
    """0, 1, 2 and so on, so many times; up to three times as many while a target may or may not be reached."""
    beat()
    for k in range(MORE * least):
        if k >= least and not undecided():
            return
        yield k
        beat()


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the rounds' ratios: what is slow for a while is slow on both sides."""
    return statistics.median(ratios(over, under))


def ratios(over: list[float], under: list[float]) -> list[float]:
    """Round by round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def interval(found: list[float]) -> tuple[float, float]:
    """What holds the median 19 times of 20, or more often, whatever the distribution: by counting signs.

    With fewer than six rounds nothing does.

    >>> interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    (2.0, 8.0)
    """
    n, out, beyond = len(found), 0, 0.5 ** len(found)
    while 2.0 * beyond <= 0.05:  # that so many or fewer are on one side of the median
        out += 1
        beyond += math.comb(n, out) * 0.5**n
    ordered = sorted(found)
    return (ordered[out - 1], ordered[n - out]) if out else (-math.inf, math.inf)


def undecided(found: list[float], asked: float) -> bool:
    """Whether the rounds leave it open on which side of what was asked the median is."""
    low, high = interval(found)
    return low <= asked <= high


def noise() -> str:
    """How much the fixed loop was slowed down since this was last asked, in a sentence; "" if nothing was measured."""
    beats = _beats[:]
    _beats.clear()
    if len(beats) < 2:
        return ""
    middle = statistics.median(beats)
    slow = statistics.quantiles(beats, n=10)[-1]
    return (
        f"How noisy the machine was: a fixed loop, timed {len(beats)} times in between, took {1e3 * middle:.2f} ms, "
        f"{min(beats) / middle - 1:+.0%} at best, {slow / middle - 1:+.0%} once in ten, {max(beats) / middle - 1:+.0%} "
        "at worst."
    )
