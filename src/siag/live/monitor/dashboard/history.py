"""What has happened so far, in a bounded number of columns of time; two become one when there are too many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from siag.foundations.types import Floats, Integers
from siag.server.status import Snapshot, State

BEGUN = 1.0  # seconds after which a run that is seen for the first time has not just begun
SPAN = 0.25  # seconds of the first columns
MOST, FEWEST = 240, 60  # columns, for few workers and for many
CELLS = 60_000  # columns × workers, about, between the two
SHOWN = 2000  # workers that have lanes; of more of them the first
ORDER = (State.WORKING, State.EXPECTED, State.LEFT, State.AWAY, State.STALLED, State.REFUSED)  # the last shows most
MARKS = np.frombuffer(b".elasr", np.uint8)  # of each of these, in a lane; one that works has its level instead
LEVELS = 9  # of how often a worker reported, each twice as often as the one below
DIGITS = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_", np.uint8)
NOTHING = ord(" ")
FINE = 64 * 64 - 1  # steps between the lowest and the highest loss of a column


@dataclass(frozen=True, eq=False)
class Column:
    """What happened from `start` to `end`, in seconds of the run."""

    number: int  # no other has it
    start: float
    end: float
    figures: tuple[Any, ...]  # version, reports, rate, progressive loss, loss, mean age, norm of gradients, step
    counts: Integers  # (workers,) reports
    states: Integers  # (workers,) the place of its state in `ORDER`
    ages: Floats  # (workers,) of its gradient, at the end; −1: none
    losses: Floats  # (workers,) at the end; NaN: not told

    def joined(self, other: Column, number: int) -> Column:
        """This and the next one as one; more workers may be there by then."""
        new = (0, len(other.counts) - len(self.counts))
        states = np.pad(self.states, new, constant_values=ORDER.index(State.EXPECTED))
        return Column(
            number,
            self.start,
            other.end,
            other.figures,
            np.pad(self.counts, new) + other.counts,
            np.maximum(states, other.states),
            other.ages,
            other.losses,
        )

    @cached_property
    def packed(self) -> dict[str, Any]:
        """For the page: one letter for what a worker did, one for its age, and two for its loss."""
        busiest = int(self.counts.max(initial=0))
        low, high, fine = _fine(self.losses)
        return {
            "k": self.number,
            "t": [round(self.start, 3), round(self.end, 3)],
            "f": [plain(value) for value in self.figures],
            "most": busiest,
            "lane": _text(np.where(self.states == 0, DIGITS[_levels(self.counts, busiest)], MARKS[self.states])),
            "age": _text(_logarithms(self.ages)),
            "loss": fine,
            "low": plain(low),
            "high": plain(high),
        }


class History:
    """Columns of time, oldest first; a snapshot costs next to nothing unless it ends one."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self._numbers = count()
        self._span, self._end = SPAN, 0.0
        self._reports: Integers | None = None

    def add(self, snapshot: Snapshot) -> None:
        """A look at the server; times never go back, or what does is left out."""
        seconds = snapshot.seconds
        if not self._end <= seconds < math.inf:
            return
        if self._reports is None:
            self._reports = reports_of(snapshot)
            if seconds > BEGUN:  # it goes on: what was before is not known
                self._end = seconds
                return
            self._reports = np.zeros_like(self._reports)
        if self.due(seconds):
            self.close(snapshot)

    def due(self, seconds: float) -> bool:
        """Whether a look after so many seconds ends a column."""
        return seconds - self._end >= self._span

    def close(self, snapshot: Snapshot) -> None:
        """End a column here, if any time has passed."""
        if self._reports is None or not self._end < snapshot.seconds < math.inf:
            return
        before, self._reports = self._reports, reports_of(snapshot)
        workers = snapshot.workers[:SHOWN]
        before = np.pad(before, (0, len(workers) - len(before)))  # some may be new
        self.append(
            snapshot.seconds,
            figures_of(snapshot),
            np.maximum(self._reports - before, 0),
            np.array([ORDER.index(State(worker.state)) for worker in workers], np.int64),
            np.array([worker.age for worker in workers], float),
            np.array([np.nan if worker.loss is None else worker.loss for worker in workers], float),
        )

    def append(
        self,
        end: float,
        figures: tuple[Any, ...],
        counts: Integers,
        states: Integers,
        ages: Floats,
        losses: Floats,
    ) -> None:
        """One more column; see `Column`."""
        new = Column(next(self._numbers), self._end, end, figures, counts, states, ages, losses)
        self._end = end
        columns = [*self.columns, new]
        if len(columns) > most_columns(len(counts)):
            self._span *= 2
            pairs = zip(columns[0::2], columns[1::2], strict=False)
            odd = columns[-1:] if len(columns) % 2 else []
            columns = [first.joined(second, next(self._numbers)) for first, second in pairs] + odd
        self.columns = columns  # at once: another thread reads it


def most_columns(workers: int) -> int:
    """How many there are at most, for so many workers."""
    return int(np.clip(CELLS // max(workers, 1), FEWEST, MOST))


def reports_of(snapshot: Snapshot) -> Integers:
    """(workers,) of each worker that is shown."""
    return np.array([worker.reports for worker in snapshot.workers[:SHOWN]], np.int64)


def figures_of(snapshot: Snapshot) -> tuple[Any, ...]:
    """What the curves are of."""
    reported = [worker for worker in snapshot.workers if worker.reports]
    norms = [worker.norm for worker in reported if worker.norm < np.inf]
    ages = [worker.age for worker in reported if worker.state != State.LEFT]
    age = float(np.mean(ages)) if ages else None
    return (
        snapshot.version,
        snapshot.reports,
        snapshot.rate,
        snapshot.progressive,
        snapshot.loss,
        age,
        float(np.mean(norms)) if norms else None,
        snapshot.step,
    )


def plain(value: Any) -> Any:
    """A number for JSON, with five digits; null for what is not finite."""
    if value is None or isinstance(value, int | bool | str):
        return value
    rounded = float(f"{float(value):.5g}")
    return rounded if math.isfinite(rounded) else None


def _levels(counts: Integers, busiest: int) -> Integers:
    """0 for no report; 9 for as many as the busiest, one less for each half."""
    halvings = np.floor(np.log2(max(busiest, 1) / np.maximum(counts, 1))).astype(np.int64)
    return np.where(counts > 0, np.clip(LEVELS - halvings, 1, LEVELS), 0)


def _logarithms(ages: Floats) -> Integers:
    """A digit for 4 log₂(1 + age); a space for none."""
    digits = np.clip(np.rint(4 * np.log2(1.0 + np.maximum(ages, 0.0))), 0, 63).astype(np.int64)
    return np.where(ages >= 0, DIGITS[digits], NOTHING)


def _fine(losses: Floats) -> tuple[float | None, float | None, str]:
    """The lowest and the highest, and two digits for where between them each is; "" if nobody tells any."""
    known = np.isfinite(losses)
    if not known.any():
        return None, None, ""
    low, high = float(losses[known].min()), float(losses[known].max())
    place = np.where(known, losses - low, 0.0) / ((high - low) or 1.0)
    steps = np.rint(np.clip(place, 0, 1) * FINE).astype(np.int64)
    both = np.stack([DIGITS[steps // 64], DIGITS[steps % 64]], axis=1)
    both[~known] = NOTHING
    return low, high, _text(both)


def _text(letters: Any) -> str:
    return np.ascontiguousarray(letters, np.uint8).tobytes().decode()
