"""What a signal means for a while; nothing that takes long is imported here."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def meaning(number: int, handler: Handler, instead_of: object = None) -> Iterator[None]:
    """Let a signal mean this for a while, `instead_of` something else if that is given; only in the main thread."""
    here = threading.current_thread() is threading.main_thread()
    if not here or instead_of not in (None, signal.getsignal(number)):
        yield
        return
    usual = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, usual)
