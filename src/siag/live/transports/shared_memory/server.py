"""The server's side: starts the worker processes, takes what they report, answers, and ends them."""

from __future__ import annotations

import os
import signal
import sys
import time
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_all_start_methods, get_context
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.types import Floats, Integers
from siag.live.outbox import Outbox
from siag.live.session import Session
from siag.live.task import Task
from siag.live.transports.shared_memory.memory import (
    ANSWERS,
    ENDED,
    GO,
    JOIN,
    NOTHING,
    REFUSED,
    REPORT,
    ROW,
    SAID,
    SAMPLE,
    SKIP,
    STAMP,
    STOP,
    Memory,
)
from siag.live.transports.shared_memory.worker import work
from siag.live.transports.waiting import Waiter
from siag.server.guard import Refused

PAUSE = 0.05  # seconds the server waits at most before it looks after other things
GRACE = 2.0  # seconds a worker has to end by itself


@contextmanager
def _without_the_script(task: Task) -> Iterator[None]:
    """Spare a worker from importing the script that was started, unless what is sent to it lives there.

    Importing it takes time, and runs it again if it has no guard against that. multiprocessing decides by what it finds
    under the name `__main__`.
    """
    if b"__main__" in bytes(ForkingPickler.dumps(task)):
        yield
        return
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@compiled
def hand_out(whole: Floats, version: int, places: Floats, notes: Integers, rows: Integers) -> None:
    """Give these workers the current w, and its version."""
    for i in rows:
        notes[i, STAMP] = version
        for j in range(whole.size):
            places[i, j] = whole[j]


class Embedded:
    """Runs a session with workers as processes of this machine.

    Args:
        session: the server and what belongs to it.
        tasks: one for each worker.
        preload: modules that are imported once, before workers start.
    """

    def __init__(self, session: Session, tasks: list[Task], preload: Sequence[str] = ()) -> None:
        self._session, self._tasks = session, tasks
        methods = get_all_start_methods()
        self._context: Any = get_context("forkserver" if "forkserver" in methods else "spawn")
        if "forkserver" in methods:
            self._context.set_forkserver_preload(["siag.live.transports.shared_memory.preload", *preload])
        server = session.server
        self._memory = Memory(self._context, server.n, server.message_size, server.shown.size)
        self._bell, self._ring = self._context.Pipe(duplex=False)
        self._notes, self._sent, self._w = (
            list(rows) for rows in (self._memory.notes, self._memory.sent, self._memory.w)
        )
        rows = np.zeros(1, np.int32)
        rows.setflags(write=False)  # as those that are read from a pipe
        arguments: Any = server.shown, server.version, self._memory.w, self._memory.notes, rows
        hand_out(*arguments)
        self._hand_out = hand_out.settled(*arguments)
        self._answers: list[connection.Connection] = []
        self._descriptors: list[int] = []
        self._processes: list[Any] = []

    def run(self) -> None:
        """Run until the session is over; then end all processes."""
        try:
            self._start()
            self._serve()
        finally:
            self._stop()

    def _start(self) -> None:
        life_of_child, self._life = self._context.Pipe(duplex=False)
        for row, task in enumerate(self._tasks):
            answers, answer = self._context.Pipe(duplex=False)
            name = f"siag-worker-{self._session.server.members[row].name}"
            sizes = len(self._tasks), self._session.server.d
            arguments = (self._memory, row, *sizes, task, self._ring, answers, life_of_child)
            process = self._context.Process(target=work, args=arguments, name=name, daemon=True)
            with _without_the_script(task):
                process.start()
            answers.close()
            self._answers.append(answer)
            self._descriptors.append(answer.fileno())
            self._processes.append(process)
        life_of_child.close()

    def _serve(self) -> None:
        """Serve until the end."""
        with self._session.running(time.monotonic):
            self._attend()

    def _attend(self) -> None:
        """One loop: rings, deaths, and now and then everything else."""
        session = self._session
        bell = self._bell.fileno()
        sentinels = {process.sentinel: row for row, process in enumerate(self._processes)}
        waiter = Waiter(bell, *sentinels)
        here = set(range(len(self._processes)))
        clock = time.monotonic
        outbox: Outbox[tuple[int, bytes]] = Outbox(session)
        while here and not session.over:
            pause = min(PAUSE, session.next_tick - clock())
            for descriptor, _ in waiter.wait(max(0.0, pause)):
                if descriptor == bell:
                    rung: Any = np.frombuffer(os.read(bell, 1 << 16), np.int32)
                    now = clock()
                    rest = rung if outbox else rung[self._answer_at_once(rung, now) :]
                    if rest.size:
                        replies = self._handle_all(rest, now)
                        here.difference_update(row for row, reply in replies if reply not in ANSWERS)
                        for reply in replies:
                            outbox.put(reply)
                else:
                    row = sentinels[descriptor]
                    waiter.drop(descriptor)
                    if row in here:
                        here.discard(row)
                        session.died(row, self._death(row))
            now = clock()
            for row, answer in outbox.release(now):
                self._answer(row, answer)
            session.look_after(now)

    def _answer_at_once(self, rung: Integers, now: float) -> int:
        """Take the first of these reports, and answer them; return how many. In durable mode none can be."""
        memory, server = self._memory, self._session.server
        taken = self._session.push_many(rung, memory.sent, memory.notes, memory.squares, now)
        if taken:
            rows = rung[:taken]
            self._hand_out(server.shown, server.version, memory.w, memory.notes, rows)
            for row in rows.tolist():
                try:  # noqa: SIM105  # suppress() would take longer
                    os.write(self._descriptors[row], GO)
                except BrokenPipeError:  # its death is about to be noticed
                    pass
        return taken

    def _handle_all(self, rung: Integers, now: float) -> list[tuple[int, bytes]]:
        """Do what workers ring for, reports at once where that is possible; return what to answer whom."""
        session, memory = self._session, self._memory
        codes, replies, at = rung.tolist(), [], 0
        while at < len(codes):
            taken = session.push_many(rung[at:], memory.sent, memory.notes, memory.squares, now)
            replies += [(row, GO) for row in codes[at : at + taken]]
            at += taken
            if at < len(codes):
                row, kind = codes[at] & ROW, codes[at] & ~ROW
                if kind == SAID:
                    text = memory.said(row)
                    memory.say(row, "")
                    if text:  # else it was told before
                        session.said(row, text)
                else:
                    replies.append((row, self._handle(row, kind, now)))
                at += 1
        return replies

    def _handle(self, row: int, kind: int, now: float) -> bytes:
        """Do what a worker rings for; return what to answer, nothing if it has ended."""
        session, memory = self._session, self._memory
        reply = GO
        if kind in (REPORT, SKIP):
            if session.over:
                return STOP
            stamp, sample = self._notes[row].tolist()
            try:
                if kind == REPORT:
                    session.push(row, stamp, self._sent[row], sample, now, float(memory.squares[row]))
                else:
                    session.skip(row, stamp, sample, now)
            except Refused as refusal:
                session.refused(row, refusal)
                reply = STOP if refusal.final else REFUSED
        elif kind == JOIN:
            try:
                memory.notes[row, SAMPLE] = session.join(row, now).samples
            except Refused as refusal:
                session.refused(row, refusal)
                return STOP
        elif kind == ENDED:
            session.left(row, now, "its stream ended")
            return NOTHING
        else:
            session.failed(row, memory.said(row, last=True))
            return NOTHING
        return reply

    def _answer(self, row: int, reply: bytes) -> None:
        """Give a worker the current w, and let it go on."""
        if reply == NOTHING:
            return
        self._notes[row][STAMP] = self._session.server.pull(self._w[row])
        with suppress(BrokenPipeError):  # its death is about to be noticed
            os.write(self._descriptors[row], reply)

    def _death(self, row: int) -> str:
        """Why a process that said nothing is gone."""
        process = self._processes[row]
        process.join(GRACE)
        code = process.exitcode
        if code is not None and code < 0:
            known = {number.value: number.name for number in signal.Signals}
            return f"killed by {known.get(-code, f'signal {-code}')}"
        hint = "; a script must call siag.train under if __name__ == '__main__':" if code == 1 else ""
        return f"its process ended with status {code}{hint}"

    def _stop(self) -> None:
        """End all processes: ask, wait a little, insist."""
        for answer in self._answers:
            with suppress(OSError):
                os.write(answer.fileno(), STOP)
            answer.close()
        if hasattr(self, "_life"):
            self._life.close()
        until = time.monotonic() + GRACE
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._bell.close()
        self._ring.close()
