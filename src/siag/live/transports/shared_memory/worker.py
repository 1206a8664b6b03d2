"""The life of a worker process: compute, ring, wait for the answer."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import Any

from siag.foundations.last_words import last_words
from siag.foundations.types import Floats
from siag.live.first_loss import enter
from siag.live.task import UNKNOWN, StreamEnded, Task
from siag.live.transports.shared_memory.memory import GO, PASSES, REFUSED, SAMPLE, STAMP, UNMEASURED, Memory, Ring
from siag.live.transports.waiting import Waiter
from siag.server.guard import square_norm
from siag.streams.remarks import listen

UNREAD = 0.5  # seconds a worker's words may wait for the server, before others take their place


def _get_ready() -> None:
    """Leave Ctrl-C to the parent, lose nothing that is printed, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if isinstance(sys.stdout, TextIOWrapper):  # SIGTERM ends this process, and what waits to be printed is lost
        sys.stdout.reconfigure(line_buffering=True)
    _live_with(parent_process())


def _live_with(parent: Any) -> None:
    """End this process when the one that has started it is gone, whatever this process is doing."""

    def watch() -> None:
        parent.join()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _teller(memory: Memory, row: int, ring: int, code: bytes) -> Callable[[str], None]:
    """What tells the server the words of a worker's stream, from any thread."""
    speaking = threading.Lock()

    def tell(text: str) -> None:
        until = time.monotonic() + UNREAD
        with speaking, suppress(BrokenPipeError):
            while memory.said(row) and time.monotonic() < until:  # what was said before has not been heard yet
                time.sleep(0.001)
            memory.say(row, text)
            os.write(ring, code)

    return tell


def _measure(packed: bool, out: Floats, measured: int) -> Callable[[Floats, int], float]:
    """What finds the squared norm of a message."""
    if packed:
        return lambda out, measured: UNMEASURED
    square_norm(out, measured)
    return square_norm.bare(out, measured)


def work(memory: Memory, row: int, sizes: tuple[int, int], task: Task, bell: Connection, answers: Connection) -> None:
    """The life of a worker process; `sizes` are d, and how many numbers of a message are a gradient."""
    _get_ready()
    ring, answer, (d, measured) = bell.fileno(), answers.fileno(), sizes
    w, out, notes, figures = memory.w[row], memory.sent[row], memory.notes[row], memory.figures[row]
    w.setflags(write=False)
    codes = {kind: (kind | row).to_bytes(4, sys.byteorder) for kind in Ring.ALL}
    report, skip = codes[Ring.REPORT], codes[Ring.SKIP]
    listen(_teller(memory, row, ring, codes[Ring.SAID]))
    try:
        os.write(ring, codes[Ring.JOIN])
        if os.read(answer, 1) != GO:
            return
        task.begin(row, len(memory.notes), d, int(notes[SAMPLE]), memory.encoding)
        square, compute, read, write = _measure(memory.encoding.packed, out, measured), task.compute, os.read, os.write
        spin = Waiter(answer).spin
        loss, passes, counts, settle = None, 0, task.counts, task.settle
        while True:
            if counts:
                task.version = notes.item(STAMP)
            send = compute(w, out)
            notes[SAMPLE] = task.sample
            figures[0] = square(out, measured)  # here, where it costs the server nothing
            if task.loss is not loss:
                figures[1] = loss = task.loss
            if task.first is not UNKNOWN:
                enter(memory.first[row], task.first, task.loss)
            if task.passes != passes:
                notes[PASSES] = passes = task.passes
            write(ring, report if send else skip)
            spin()
            reply = read(answer, 1)
            if reply == REFUSED:
                task.forget()
            elif reply != GO:
                return
            if settle is not None:
                settle(reply == GO)
    except StreamEnded:
        os.write(ring, codes[Ring.ENDED])
    except BrokenPipeError:
        return
    except BaseException as error:  # whatever a user's code raises
        memory.say(row, last_words(error), last=True)
        os.write(ring, codes[Ring.FAILED])
