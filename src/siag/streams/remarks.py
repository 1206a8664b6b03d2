"""What streams have to say while they are read: to the worker's listener, or else on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Self

PAUSE = 5.0  # seconds between two lines about the same


def _on_standard_error(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # closed, or there is none
        sys.stderr.write(f"siag: {text}\n")
        sys.stderr.flush()


_listener: ContextVar[Callable[[str], None]] = ContextVar("listener", default=_on_standard_error)


@contextmanager
def heard_by(listener: Callable[[str], None]) -> Iterator[None]:
    """Let what streams say be told to `listener`, a line at a time, also by threads that read ahead.

    Example:
        >>> with heard_by(print):
        ...     say("a line is bad")
        a line is bad
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def listen(listener: Callable[[str], None]) -> None:
    """The same from now on, in a process that is one worker's."""
    _listener.set(listener)


def say(text: str) -> None:
    """Say it in one line, without what a terminal might obey."""
    _listener.get()(_plain(text))


class Tally:
    """Counts what one loop over a stream leaves out, and decides when to say so.

    That is at the first, then when there are twice as many as when it was last said, but never more often than every
    few seconds; at the end the total is said, if it was more than one.

    Args:
        total: the last words, with {} for the count; none by default.

    Example:
        >>> with heard_by(print), Tally("{} are missing in all") as missing:
        ...     for _ in range(5):
        ...         if missing.add():
        ...             missing.say("one is missing")
        one is missing
        5 are missing in all
    """

    def __init__(self, total: str = "") -> None:
        self.count = 0
        self._total, self._said, self._due = total, 0, -PAUSE
        self._listener = _listener.get()  # a loop may be ended elsewhere

    def add(self) -> bool:
        """One more; whether to say so."""
        self.count += 1
        if self.count < 2 * self._said:
            return False
        now = time.monotonic()
        if self._said and now < self._due:
            return False
        self._said, self._due = self.count, now + PAUSE
        return True

    def say(self, text: str) -> None:
        """Say it to the listener of when the loop began."""
        self._listener(_plain(text))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.count > 1 and self._total:
            self.say(self._total.replace("{}", f"{self.count:,}"))


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "·" for letter in text)
