"""Ctrl-C ends a run in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible(end: Callable[[str], None]) -> Iterator[None]:
    """Let the first Ctrl-C end a run in order, by `end(why)`; the second does what the first would have done.

    Only the main thread can have it so, and a program that handles the signal itself keeps its way.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, usual)
        end("interrupted")

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
