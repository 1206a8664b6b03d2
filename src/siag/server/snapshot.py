"""What a live server shows of itself: a snapshot, made several times a second and never changed afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Where a worker is, as far as its server knows."""

    EXPECTED = "expected"  # it was never here
    WORKING = "working"
    STALLED = "stalled"  # it is here, but silent for much longer than is usual for it; only ever shown
    AWAY = "away"  # its connection is gone; it may come back
    LEFT = "left"  # for good
    REFUSED = "refused"  # banned, for too many refusals


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker, as the server sees it."""

    row: int
    name: str
    state: State
    reports: int  # accepted
    rate: float  # accepted reports per second, recently
    age: int  # how many versions old the gradient in its row is; -1 if it never reported
    silent: float  # seconds since it was last heard of; inf if never
    refused: int  # reports refused
    reason: str  # of the last refusal, or why it left; "" if none

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON: null for what is not finite."""
        return _plain(self)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The server and its workers at one moment."""

    version: int  # iterations done
    reports: int  # accepted
    refused: int
    seconds: float  # since the start
    rate: float  # updates per second, recently
    ages: tuple[int, ...]  # histogram of the ages of accepted reports, in bins 0, 1, 2-3, 4-7 and so on
    workers: tuple[WorkerView, ...]
    target: int | None = None  # iterations asked for; None: open end
    loss: float | None = None
    saved: float | None = None  # seconds since the state was last saved; None: not saved at all
    problems: tuple[str, ...] = ()  # what goes wrong while training goes on, one line each
    done: bool = False  # whether it has ended as it was to end

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, workers included, ready for JSON: null for what is not finite."""
        found = _plain(self) | {"workers": [worker.as_dict() for worker in self.workers]}
        del found["done"]
        return found


def oldest(k: int) -> int:
    """The largest age in bin k."""
    return (1 << k) - 1


def bin_label(k: int) -> str:
    """The ages in bin k, in words.

    >>> [bin_label(k) for k in range(5)]
    ['0', '1', '2-3', '4-7', '8-15']
    """
    return str(k) if k < 2 else f"{oldest(k - 1) + 1}-{oldest(k)}"


def _plain(shown: WorkerView | Snapshot) -> dict[str, Any]:
    found = {each.name: getattr(shown, each.name) for each in fields(shown)}
    return {name: None if isinstance(it, float) and not math.isfinite(it) else it for name, it in found.items()}
