"""What a live server shows of itself: a snapshot, made several times a second and never changed afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
        return {
            "row": int(self.row),
            "name": self.name,
            "state": str(self.state),
            "reports": int(self.reports),
            "rate": _finite(self.rate),
            "age": int(self.age),
            "silent": _finite(self.silent),
            "refused": int(self.refused),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The server and its workers at one moment."""

    version: int  # iterations done
    target: int | None  # iterations asked for; None: open end
    reports: int  # accepted
    refused: int
    seconds: float  # since the start
    rate: float  # updates per second, recently
    ages: tuple[int, ...]  # histogram of the ages of accepted reports, bins as in age_bin
    workers: tuple[WorkerView, ...]
    loss: float | None
    saved: float | None  # seconds since the state was last saved; None: not saved at all
    problems: tuple[str, ...]  # what goes wrong while training goes on, one line each
    done: bool = False  # whether it has ended as it was to end

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, workers included, ready for JSON: null for what is not finite."""
        return {
            "version": int(self.version),
            "target": None if self.target is None else int(self.target),
            "reports": int(self.reports),
            "refused": int(self.refused),
            "seconds": _finite(self.seconds),
            "rate": _finite(self.rate),
            "ages": [int(count) for count in self.ages],
            "workers": [worker.as_dict() for worker in self.workers],
            "loss": _finite(self.loss),
            "saved": _finite(self.saved),
            "problems": list(self.problems),
        }


def age_bin(age: int) -> int:
    """The bin of an age in the histogram, whose bins are 0, 1, 2-3, 4-7, 8-15 and so on.

    >>> [age_bin(age) for age in (0, 1, 2, 3, 4, 7, 8)]
    [0, 1, 2, 2, 3, 3, 4]
    """
    return max(int(age), 0).bit_length()


def oldest(k: int) -> int:
    """The largest age in bin k."""
    return (1 << k) - 1


def bin_label(k: int) -> str:
    """The ages in bin k, in words.

    >>> [bin_label(k) for k in range(5)]
    ['0', '1', '2-3', '4-7', '8-15']
    """
    return str(k) if k < 2 else f"{oldest(k - 1) + 1}-{oldest(k)}"


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
