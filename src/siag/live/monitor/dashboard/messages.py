"""What a browser is sent: the newest figures each time, and of all else what has changed, as far as there is room."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from siag.live.monitor.dashboard.history import SHOWN, Column, figures_of, plain
from siag.server.status import Snapshot, WorkerView

EVERY = 0.25  # seconds between two messages, at least: four a second
ROOM = 12_000  # bytes of a message, but for a longest line: with four a second less than 50 kB/s
TEXTS, LONG = 20, 500  # warnings that are sent, and letters of each
SPARE = 200  # bytes for what frames a message

_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # `dumps` would make one each time

Events = list[tuple[int, float, bool, str]]  # number, seconds, whether it is a problem, text


class Sender:
    """What one browser has been sent so far, and what it is sent next."""

    def __init__(self) -> None:
        self._texts: Any = None
        self._about: Any = None
        self._event = -1  # the last one that was sent
        self._rows: dict[int, tuple[Any, ...]] = {}  # as they were sent
        self._next = 0  # the row to go on with
        self._columns: set[int] = set()  # that were sent
        self.behind = False  # whether there was more than fitted into the last message

    def message(
        self,
        snapshot: Snapshot | None,
        columns: list[Column],
        events: Events,
        about: Mapping[str, Any],
        more: Mapping[str, Any],
    ) -> bytes:
        """The next one: JSON of at most `ROOM` bytes, but for a few longest lines of all."""
        told: dict[str, Any] = dict(more)
        if about is not self._about:
            self._about = about
            told["about"] = {name: clipped(value) for name, value in about.items()}
        if snapshot is not None:
            told["now"] = now_of(snapshot)
            texts = [clipped(text) for text in snapshot.warnings], [clipped(text) for text in snapshot.problems]
            if texts != self._texts:
                self._texts = texts
                told["warnings"], told["problems"] = (first(each) for each in texts)
        room = ROOM - SPARE - len(_json(told))
        self._add_events(told, events, room // 3)
        room = ROOM - SPARE - len(_json(told))
        if snapshot is not None:
            told["rows"], all_rows = fitting(self._changed(snapshot.workers), room // 2)
            room -= len(_json(told["rows"]))
            self.behind |= not all_rows
        told["columns"], all_columns = fitting(self._unsent(columns), room)
        self.behind |= not all_columns
        return f"data: {_json(told)}\n\n".encode()

    def _add_events(self, told: dict[str, Any], events: Events, room: int) -> None:
        new = [[number, plain(at), wrong, clipped(text)] for number, at, wrong, text in events if number > self._event]
        sent, whole = fitting(new, room)
        self.behind = not whole
        if sent:
            self._event = sent[-1][0]
            told["events"] = sent

    def _changed(self, workers: tuple[WorkerView, ...]) -> Iterator[list[Any]]:
        """Rows that are not as they were sent, from where the last message stopped; what is taken counts as sent."""
        count = min(len(workers), SHOWN)
        start = self._next if self._next < count else 0
        for k in range(count):
            worker = workers[(start + k) % count]
            new, old = row_of(worker), self._rows.get(worker.row)
            if new != old:
                words = [] if old is not None and new[-2:] == old[-2:] else list(new[-2:])
                yield [worker.row, *new[:-2], *words]
                self._rows[worker.row] = new  # only if it was taken
                self._next = (start + k + 1) % count

    def _unsent(self, columns: list[Column]) -> Iterator[dict[str, Any]]:
        """The newest first."""
        self._columns &= {column.number for column in columns}
        for column in reversed(columns):
            if column.number not in self._columns:
                yield column.packed
                self._columns.add(column.number)


def now_of(snapshot: Snapshot) -> dict[str, Any]:
    """The figures of a moment."""
    version, reports, rate, progressive, loss, age, norm, step = (plain(value) for value in figures_of(snapshot))
    return {
        "seconds": plain(round(snapshot.seconds, 2)),
        "version": version,
        "target": snapshot.target,
        "reports": reports,
        "refused": snapshot.refused,
        "rate": rate,
        "progressive": progressive,
        "loss": loss,
        "age": age,
        "norm": norm,
        "step": step,
        "length": plain(snapshot.length),
        "saved": plain(snapshot.saved),
        "metrics": {name[:40]: plain(value) for name, value in list(snapshot.metrics.items())[:8]},
        "states": Counter(str(worker.state) for worker in snapshot.workers),
        "workers": len(snapshot.workers),
        "alike": snapshot.alike,
        "weights": snapshot.weights,
        "done": snapshot.done,
    }


def row_of(worker: WorkerView) -> tuple[Any, ...]:
    """A worker's line of the table; its words last."""
    return (
        str(worker.state),
        worker.reports,
        short(worker.rate),
        worker.age,
        short(worker.loss),
        short(worker.mean_age),
        short(worker.norm),
        short(worker.share),
        short(worker.weight),
        worker.refused,
        clipped(worker.name),
        clipped(worker.reason),
    )


def short(value: float | None) -> float | None:
    """Three digits are enough for a table; more would change all the time."""
    found = plain(value)
    return found if found is None else float(f"{found:.3g}")


def fitting(parts: Iterable[Any], room: int) -> tuple[list[Any], bool]:
    """The first of these that fit into as many bytes, the very first in any case; and whether that is all."""
    used, found = 0, list[Any]()
    for part in parts:
        size = len(_json(part)) + 1
        if found and used + size > room:
            return found, False
        used += size
        found.append(part)
    return found, True


def first(texts: list[str]) -> list[str]:
    """The first of many, and how many there are beside."""
    return texts if len(texts) <= TEXTS else [*texts[:TEXTS], f"and {len(texts) - TEXTS} more"]


def clipped(value: Any) -> str:
    """In one line that is not too long."""
    text = " ".join(str(value).split())
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
