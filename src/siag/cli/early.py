"""What Ctrl-C and SIGTERM mean before there is a run that they could end; nothing that takes long is imported here."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType

from siag.foundations.signals import meaning

INTERRUPTED = 130
STOPPED = ("serve", "train")  # commands that SIGTERM stops in order, with status 0
NOT_BEGUN = "ended by SIGTERM before it began"


class Terminated(KeyboardInterrupt):
    """SIGTERM came where nothing could be ended in order."""


class NotBegun(Terminated):
    """It came before there was anything to end."""


def stoppable() -> AbstractContextManager[None]:
    """Let SIGTERM end a command that it stops in order, even before it has begun; not where the signal is ignored."""
    stopped = sys.argv[1:2] and sys.argv[1] in STOPPED
    return meaning(signal.SIGTERM, _not_begun, signal.SIG_DFL) if stopped else nullcontext()


@contextmanager
def at_once() -> Iterator[None]:
    """While modules are imported, let a signal end the process with a line: an exception may get lost in there."""
    with (
        meaning(signal.SIGINT, lambda *_: _leave("interrupted", INTERRUPTED), signal.default_int_handler),
        meaning(signal.SIGTERM, lambda *_: _leave(NOT_BEGUN, 0), _not_begun),
    ):
        yield


def _not_begun(number: int, frame: FrameType | None) -> None:
    raise NotBegun


def _leave(words: str, status: int) -> None:
    os.write(2, f"siag: {words}\n".encode())
    os._exit(status)
