"""Ways to watch a live server: on the terminal, as lines of JSON, problems only, not at all, or several at once.

A watcher is handed snapshots and remarks while training goes on. One that has a method `begin(about)` is told first
what is run, in words; one that has `model(read)` is given what copies w: called from any thread, it returns a future
of it. One that has `result(run)` is given what came of it, after `close`; and one that has `problem(text)` is told
there, instead of by `event`, what goes wrong. One that has `wants(seconds)` is asked first whether it is to be shown a
snapshot after so many seconds of the run: in virtual time a quarter of a second passes thousands of times a second.

Training must not suffer from it: a terminal that went away or a reader that closed its pipe silences the watcher and
raises nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from siag.foundations.errors import BadInput
from siag.foundations.types import Floats
from siag.server.status import Snapshot

if TYPE_CHECKING:
    from rich.console import Console

PAUSE = 5.0  # seconds between summaries where no live view is possible


class Watcher(Protocol):
    """Is shown how training goes, by one thread. A method that a subclass leaves out does nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Take a snapshot of the server; called several times a second."""
        return

    def event(self, text: str) -> None:
        """Take a remark in one line: a worker joined, left, was refused."""
        return

    def close(self) -> None:
        """End: nothing more will come. Safe to call twice."""
        return


Progress: TypeAlias = bool | Watcher | list[Any] | None
"""Who is told how a run goes, as `siag.train` says."""


class Quiet(Watcher):
    """Shows nothing."""


class Problems(Quiet):
    """Says what goes wrong, in one line each on standard error, and nothing else."""

    def problem(self, text: str) -> None:
        """Say it; raises nothing."""
        from siag.live.monitor.view import clean

        with suppress(OSError, ValueError, AttributeError):  # closed, or there is none
            sys.stderr.write(f"siag: {clean(text)}\n")
            sys.stderr.flush()


class Several(Watcher):
    """Passes everything on to several watchers, in their order."""

    def __init__(self, watchers: Iterable[Watcher]) -> None:
        self.watchers = tuple(watchers)

    def wants(self, seconds: float) -> bool:
        """Whether any of them wants to be shown a snapshot."""
        return any(looks(watcher, seconds) for watcher in self.watchers)

    def show(self, snapshot: Snapshot) -> None:
        """Show it to all."""
        for watcher in self.watchers:
            watcher.show(snapshot)

    def event(self, text: str) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.event(text)

    def begin(self, about: Mapping[str, Any]) -> None:
        """Tell all that want to know."""
        for watcher in self.watchers:
            tell_begin(watcher, about)

    def problem(self, text: str) -> None:
        """Tell all."""
        for watcher in self.watchers:
            tell_problem(watcher, text)

    def model(self, read: Callable[[], Future[Floats]]) -> None:
        """Give it to all that want it."""
        for watcher in self.watchers:
            offer_model(watcher, read)

    def result(self, run: Any) -> None:
        """Give it to all that want it."""
        for watcher in self.watchers:
            give_result(watcher, run)

    def close(self) -> None:
        """Close all, also if one of them fails to."""
        with ExitStack() as stack:
            for watcher in reversed(self.watchers):
                stack.callback(watcher.close)


def looks(watcher: Watcher, seconds: float | None = None) -> bool:
    """Whether a watcher is to be shown how things stand after so many seconds of the run; `None`: at its end."""
    if getattr(type(watcher), "show", None) is Watcher.show:  # an instance may have its own
        return False
    wants = getattr(watcher, "wants", None)
    return wants is None or seconds is None or bool(wants(seconds))


def tell_begin(watcher: Watcher, about: Mapping[str, Any]) -> None:
    """What is run, to a watcher that wants to know."""
    getattr(watcher, "begin", lambda _: None)(about)


def offer_model(watcher: Watcher, read: Callable[[], Future[Floats]]) -> None:
    """What copies w, to a watcher that wants it."""
    getattr(watcher, "model", lambda _: None)(read)


def tell_problem(watcher: Watcher, text: str) -> None:
    """What goes wrong: a remark, to most."""
    getattr(watcher, "problem", watcher.event)(text)


def give_result(watcher: Watcher, run: Any) -> None:
    """What came of it, to a watcher that wants it."""
    getattr(watcher, "result", lambda _: None)(run)


def watcher_of(progress: Progress) -> Watcher:
    """What the user gave: a watcher; `True` for the terminal, `False` for none; `None` for what suits standard error.

    That is a view if it is a terminal, and otherwise a line for each problem. A list has several of these.
    """
    if isinstance(progress, list):
        return Several([watcher_of(each) for each in progress])
    if progress is None:
        with suppress(AttributeError, ValueError):  # there is none, or it is closed
            return Terminal() if sys.stderr.isatty() else Problems()
        return Quiet()
    if isinstance(progress, bool):
        return Terminal() if progress else Quiet()
    if not all(callable(getattr(progress, name, None)) for name in ("show", "event", "close")):
        raise BadInput("progress", progress, "True, False, a watcher, or a list of these")
    return progress


class JsonLines(Watcher):
    """One JSON document per line: {"seconds": …, "snapshot": {…}} or {"seconds": …, "event": "…"}.

    `seconds` counts from the start of training, for events too; NaN and infinity are null. Every line is flushed. A
    stream that cannot be written any more is left alone from then on; the caller closes it.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream: IO[str] | None = stream
        self._start = time.monotonic()

    def show(self, snapshot: Snapshot) -> None:
        """Write it as one line."""
        document = snapshot.as_dict()
        if document["seconds"] is not None:
            self._start = time.monotonic() - document["seconds"]
        self._write({"seconds": document["seconds"], "snapshot": document})

    def event(self, text: str) -> None:
        """Write it as one line, with the time that has passed."""
        self._write({"seconds": round(time.monotonic() - self._start, 3), "event": text})

    def close(self) -> None:
        """Stop writing; everything is flushed already."""
        self._stream = None

    def _write(self, document: dict[str, Any]) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(json.dumps(document, allow_nan=False) + "\n")
            self._stream.flush()
        except (OSError, ValueError) as error:  # a closed file is a ValueError
            if isinstance(error, BrokenPipeError):
                _drain(self._stream)
            self._stream = None


class Terminal(Watcher):
    """A live view on the terminal; without one, a line of summary every few seconds. `view.py` has its looks.

    Args:
        console: where to draw; standard error if not given.
    """

    def __init__(self, console: Console | None = None) -> None:
        from rich.live import Live  # here, since Rich takes long to import

        from siag.live.monitor import view

        self._view = view
        self._console = view.Screen(stderr=True) if console is None else console
        beside = self._console.stderr  # then what others print there appears above the view, too
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=beside)
        self._latest: Snapshot | None = None
        self._summed: Snapshot | None = None  # the last one of which a summary was printed
        self._open = True

    def show(self, snapshot: Snapshot) -> None:
        """Draw it; raises nothing."""
        self._latest = snapshot
        if self._console.is_interactive:
            self._attempt(lambda: self._draw(snapshot))
        elif self._summed is None or snapshot.seconds >= self._summed.seconds + PAUSE:
            self._attempt(lambda: self._summarise(snapshot))

    def event(self, text: str) -> None:
        """Print it above the live view; raises nothing."""
        said, fold = self._view.remark(text, self._latest), self._console.is_interactive
        self._attempt(lambda: self._console.print(said, soft_wrap=not fold))

    def close(self) -> None:
        """Leave the last state on the screen, and the terminal as it was; raises nothing."""
        last = self._latest
        if last is not None and self._live.is_started:
            self._attempt(lambda: self._draw(last, final=True))
        elif last is not None and last is not self._summed:
            self._attempt(lambda: self._summarise(last))
        self._stop()

    def _draw(self, snapshot: Snapshot, final: bool = False) -> None:
        self._live.start()
        view = self._view.view(snapshot, self._console, final)
        self._live.update(view, refresh=not final)  # to stop is to draw once more

    def _summarise(self, snapshot: Snapshot) -> None:
        self._summed = snapshot
        self._console.print(self._view.summary(snapshot), soft_wrap=True)

    def _attempt(self, draw: Callable[[], None]) -> None:
        """Draw; what cannot be drawn is left out, and a terminal that cannot be written is left alone from then on."""
        if not self._open:
            return
        try:
            draw()
        except (OSError, UnicodeError, SystemExit):  # rich leaves the program when a pipe breaks
            self._stop()
        except Exception:  # training goes on, for any reason
            if getattr(self._console.file, "closed", False):
                self._stop()

    def _stop(self) -> None:
        self._open = False
        with suppress(Exception, SystemExit):
            self._live.stop()


def _drain(stream: IO[str]) -> None:
    """Let what is left in the buffer of a broken pipe go nowhere, or closing it would fail again at exit."""
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
