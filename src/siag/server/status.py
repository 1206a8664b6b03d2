"""What a live server shows of itself: a snapshot, made several times a second and never changed afterwards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

LOOK = 0.2  # seconds between two looks at a rate


class State(StrEnum):
    """Where a worker is, as far as its server knows."""

    EXPECTED = "expected"  # it was never here
    WORKING = "working"
    STALLED = "stalled"  # it is here, but silent for much longer than is usual for it; only ever shown
    AWAY = "away"  # its connection is gone; it may come back
    LEFT = "left"  # for good
    REFUSED = "refused"  # banned, for too many refusals


class WorkerView(NamedTuple):
    """One worker, as the server sees it. A tuple, since there may be ten thousand, made several times a second."""

    row: int
    name: str
    state: State
    reports: int  # accepted
    rate: float  # accepted reports per second, recently
    age: int  # how many versions old the gradient in its row is; -1 if it never reported
    silent: float  # seconds since it was last heard of; inf if never
    refused: int  # reports refused
    reason: str  # of the last refusal, or why it left; "" if none
    loss: float | None = None  # of its recent samples, each before the model has learned from it; None: not told
    mean_age: float = math.nan  # of its reports, in versions
    norm: float = math.nan  # of its recent gradients, the mean
    share: float = math.nan  # of the objective: how much it counts for in the steps
    weight: float = 1.0  # what it counts for beside others; that of a relay is that of its workers


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The server and its workers at one moment."""

    version: int  # iterations done
    reports: int  # accepted
    refused: int
    seconds: float  # since the start
    rate: float  # updates per second, recently
    ages: tuple[int, ...]  # histogram of the ages of accepted reports, in bins 0, 1, 2-3, 4-7 and so on
    workers: tuple[WorkerView, ...] = field(repr=False)
    target: int | None = None  # iterations asked for; None: open end
    loss: float | None = None
    progressive: float | None = None  # the mean of the workers' recent losses; None: they tell none
    metrics: Mapping[str, float] = field(default_factory=dict)  # the user's own, as last evaluated
    saved: float | None = None  # seconds since the state was last saved; None: not saved at all
    problems: tuple[str, ...] = ()  # what goes wrong while training goes on, one line each
    warnings: tuple[str, ...] = ()  # what seems to be wrong with the training, one line each
    done: bool = False  # whether it has ended as it was to end
    alike: bool = True  # whether workers count for their weights, however often they report
    weights: str = ""  # "given" if these are not all the same, "samples" if they are numbers of reports
    step: float | None = None  # the size of recent steps
    length: float | None = None  # ‖w‖; None: w is too long to look at, or in several parts

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, workers included, ready for JSON: null for what is not finite."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "done"}
        return _plain(found) | {"workers": [_plain(worker._asdict()) for worker in self.workers]}


def oldest(k: int) -> int:
    """The largest age in bin k."""
    return (1 << k) - 1


def bin_label(k: int) -> str:
    """The ages in bin k, in words.

    >>> [bin_label(k) for k in range(5)]
    ['0', '1', '2-3', '4-7', '8-15']
    """
    return str(k) if k < 2 else f"{oldest(k - 1) + 1}-{oldest(k)}"


def _plain(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _for_json(it) for name, it in shown.items()}


def _for_json(value: Any) -> Any:
    """Null for what is not finite."""
    if isinstance(value, Mapping):
        return {name: _for_json(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
