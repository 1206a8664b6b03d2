"""The board: what a run has told so far, for any number of browsers. A run writes to it, the page's thread reads it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from secrets import token_hex
from typing import Any

from siag.foundations.types import Floats
from siag.live.monitor.dashboard.history import Column, History
from siag.live.monitor.dashboard.messages import Events, Sender
from siag.server.status import Snapshot

KEPT = 300  # events
Read = Callable[[], "Future[Floats]"]  # has w copied, soon, by who may read it


class Board:
    """What can be seen of a run, as a watcher is told it. Nothing here waits for anybody."""

    slider = False  # whether it is over, and can be looked at as it was at any time

    def __init__(self) -> None:
        self.run = token_hex(4)  # by which a page knows that this is another one
        self.about: Mapping[str, Any] = {}
        self.latest: Snapshot | None = None
        self.ended = False
        self.read_model: Read | None = None
        self._history = History()
        self._events: deque[tuple[int, float, bool, str]] = deque(maxlen=KEPT)
        self._count = self._news = 0  # events, and all else that was told
        self._lock = threading.Lock()  # of the events alone, held for microseconds

    @property
    def columns(self) -> list[Column]:
        """The past."""
        return self._history.columns

    @property
    def events(self) -> Events:
        """The last ones."""
        with self._lock:
            return list(self._events)

    @property
    def stand(self) -> tuple[Any, ...]:
        """Another one whenever there is something new."""
        return self._news, self._count, self.ended

    def begin(self, about: Mapping[str, Any]) -> None:
        """What is run."""
        self.about = {name: value for name, value in about.items() if name != "w0"}
        self._news += 1

    def due(self, seconds: float) -> bool:
        """Whether a snapshot after so many seconds ends a column."""
        return self._history.due(seconds)

    def show(self, snapshot: Snapshot) -> None:
        """How things stand."""
        self.latest = snapshot
        self._news += 1
        self._history.add(snapshot)

    def event(self, text: str, wrong: bool = False) -> None:
        """A remark, or what goes wrong."""
        self.note(0.0 if self.latest is None else self.latest.seconds, text, wrong)

    def note(self, at: float, text: str, wrong: bool = False) -> None:
        """The same, at a time in seconds of the run."""
        with self._lock:
            self._events.append((self._count, at, wrong, text))
            self._count += 1

    def end(self) -> None:
        """Nothing more will come."""
        if self.latest is not None:
            self._history.close(self.latest)
        self.ended = True

    def next_message(self, sender: Sender) -> bytes:
        """What this browser is sent now."""
        return sender.message(self.latest, self.columns, self.events, self.about, self.more)

    @property
    def more(self) -> dict[str, Any]:
        """What the page must know of the board itself."""
        return {"run": self.run, "ended": self.ended, "model": self.read_model is not None}

    def at(self, seconds: float) -> dict[str, Any] | None:
        """All there is to see at a moment, if the board can tell."""
        return None
