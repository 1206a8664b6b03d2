"""Ctrl-C ends a run in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_running: list[Callable[[str], None]] = []  # the ways to end what runs, the innermost last, each used once


@contextmanager
def interruptible(end: Callable[[str], None]) -> Iterator[None]:
    """Let the first Ctrl-C end a run in order, by `end(why)`; the second does what the first would have done.

    Only the main thread can have it so, and a program that handles the signal itself keeps its way.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not end_in_order("interrupted"):
            signal.default_int_handler(number, frame)

    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    _running.append(end)
    try:
        yield
    finally:
        if usual is signal.default_int_handler:
            signal.signal(signal.SIGINT, usual)
        if end in _running:
            _running.remove(end)


def end_in_order(why: str) -> bool:
    """Let the run of the main thread end in order; False if there is none, or it was told before."""
    if not _running:
        return False
    _running.pop()(why)
    return True
