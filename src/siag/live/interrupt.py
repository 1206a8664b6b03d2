"""Ctrl-C ends a run in order, and code that waits can be woken by the same signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from siag.foundations.signals import meaning
from siag.live.reasons import Ending

End = Callable[[Ending, str], None]
_running: list[End] = []  # the ways to end what runs, the innermost last, each used once


@contextmanager
def interruptible(end: End) -> Iterator[None]:
    """Let the first Ctrl-C end a run in order, by `end`; the second does what the first would have done.

    Only the main thread can have it so, and a program that handles the signal itself keeps its way.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not end_in_order(Ending.INTERRUPTED):
            signal.default_int_handler(number, frame)

    _running.append(end)
    try:
        with meaning(signal.SIGINT, interrupt, instead_of=signal.default_int_handler):
            yield
    finally:
        if end in _running:
            _running.remove(end)


@contextmanager
def wakeable(wanted: Callable[[], bool]) -> Iterator[Callable[[], None]]:
    """Yield what another thread may call to have `KeyboardInterrupt` raised in this one, whatever code it waits in.

    Only the main thread can be woken, and is only as long as that is `wanted`. The signal is that of Ctrl-C, whose own
    meaning stays what it was.
    """
    thread, before = threading.current_thread(), signal.getsignal(signal.SIGINT)
    if thread is not threading.main_thread() or before is None or not hasattr(signal, "pthread_kill"):
        yield lambda: None
        return

    called: list[bool] = []

    def wake() -> None:
        called.append(True)
        signal.pthread_kill(thread.ident or 0, signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if called:
            called.clear()
            if wanted():
                raise KeyboardInterrupt
        elif callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.signal(number, before)
            signal.raise_signal(number)

    with meaning(signal.SIGINT, interrupt):
        yield wake


def end_in_order(ending: Ending, detail: str = "") -> bool:
    """Let the run of the main thread end in order; False if there is none, or it was told before."""
    if not _running:
        return False
    _running.pop()(ending, detail)
    return True
