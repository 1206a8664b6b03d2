"""`SharedMemory`, the runtime by default, and the server's side: it starts processes, takes reports, answers."""

from __future__ import annotations

import math
import os
import signal
import sys
import time
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Floats, Integers
from siag.live.by_value import ByValue, sendable
from siag.live.protocol.outbox import Outbox
from siag.live.runtime import Runtime
from siag.live.session import Session
from siag.live.task import Task
from siag.live.transports.shared_memory.memory import (
    GO,
    PASSES,
    REFUSED,
    ROW,
    SAMPLE,
    STAMP,
    STOP,
    UNMEASURED,
    Memory,
    Ring,
)
from siag.live.transports.shared_memory.worker import work
from siag.live.transports.waiting import Waiter
from siag.server.guard import Refused

PAUSE = 0.05  # seconds the server waits at most before it looks after other things
GRACE = 2.0  # seconds a process has to end by itself
TOGETHER = 5.0  # seconds the first to report wait at most for the others' first reports
MOST_WORKERS = 1000  # processes
SCRIPT = "a script calls siag.train under if __name__ == '__main__': and defines what its workers need before that"
NO_FORKSERVER = (
    f"worker processes need Python's start method forkserver, which {sys.platform} does not have; use Linux (or WSL), "
    "or rehearse with runtime=siag.Simulated()"
)
FILES, SPARE_FILES = 4, 50  # open files for each worker, and for all else


class SharedMemory(Runtime):
    """The runtime by default: worker processes on this machine.

    Args:
        preload: names of modules that are imported once, before workers start, each of which then has them.
    """

    def __init__(self, *, preload: Sequence[str] = ()) -> None:
        if isinstance(preload, str | bytes) or not isinstance(preload, Iterable):
            raise BadInput("preload", preload, "a list of names of modules")
        for name in preload:
            if not isinstance(name, str) or not name or find_spec(name.partition(".")[0]) is None:
                raise BadInput("preload", name, "the name of a module that can be imported")
        self._preload = tuple(preload)

    def check_workers(self, workers: int) -> None:
        """Refuse more processes, or more open files, than there can be, and systems where there can be none."""
        if "forkserver" not in get_all_start_methods():
            raise Unsuitable(NO_FORKSERVER)
        if workers > MOST_WORKERS:
            raise BadInput("workers", workers, f"at most {MOST_WORKERS} on one machine", "use siag serve and siag work")
        if sys.platform != "win32":
            import resource

            files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            room = (files - SPARE_FILES) // FILES
            if files != resource.RLIM_INFINITY and workers > room:
                allowed = f"at most {room} with {files} files open at a time"
                raise BadInput("workers", workers, allowed, "raise the limit: ulimit -n")

    def describe(self, workers: int) -> str:
        """Processes."""
        return f"live, {workers} process{'es' * (workers > 1)} on one machine"

    def carry(self, session: Session, tasks: list[Task]) -> None:
        """Start the processes, serve them, and end them."""
        Embedded(session, tasks, self._preload).run()


@contextmanager
def _without_the_script(sent: Any) -> Iterator[None]:
    """Spare a worker from importing the script that was started, unless what is sent to it lives there.

    Importing it takes time, and runs it again if it has no guard against that. multiprocessing decides by what it finds
    under the name `__main__`.
    """
    if not isinstance(sent, ByValue) and b"__main__" in bytes(ForkingPickler.dumps(sent)):
        yield
        return
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@compiled
def hand_out(whole: Floats, version: int, places: Floats, notes: Integers, rung: Integers) -> None:
    """Give the workers that have rung the current w, rounded on the way if they read short numbers, and its version."""
    for code in rung:
        i = code & ROW
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
        self._context: Any = get_context("forkserver")
        modules = (*preload, *(module for task in tasks[:1] for module in task.modules))  # all have the same
        self._context.set_forkserver_preload(["siag.live.transports.shared_memory.preload", *modules])
        server = session.server
        sizes = server.n, server.message_size, server.shown.size
        self._memory = Memory.shared(self._context, *sizes, server.encoding)
        self._memory.notes[:, PASSES] = session.passes
        session.passes, session.first.told = self._memory.notes[:, PASSES], self._memory.first
        self._bell, self._ring = self._context.Pipe(duplex=False)
        rung = np.frombuffer(bytes(4), np.int32)  # cannot be written to, as what is read from a pipe
        arguments: Any = server.shown, server.version, self._memory.w, self._memory.notes, rung
        hand_out(*arguments)
        self._hand_out = hand_out.bare(*arguments)
        if not session.durable:  # or it takes reports one by one
            server.warm_up_many()
        self._outbox: Outbox[tuple[Integers, bytes]] = Outbox(session)
        self._here = set(range(len(tasks)))  # the rows of those that work
        self._awaited = set(self._here)  # the rows of those that have not reported yet; empty once all go on
        self._early: list[Integers] = []  # the reports whose answers wait for them
        self._wait_until = math.inf
        self._answers: list[Connection] = []
        self._descriptors: list[int] = []
        self._processes: list[Any] = []

    def run(self) -> None:
        """Run until the session is over; then end all processes."""
        try:
            self._start()
            with self._session.running(time.monotonic):
                self._attend()
        finally:
            self._stop()

    def _start(self) -> None:
        for row, task in enumerate(self._tasks):
            answers, answer = self._context.Pipe(duplex=False)
            name = f"siag-worker-{self._session.server.members[row].name}"
            sent = sendable(task)
            sizes = self._session.server.d, self._session.server.gradient_size
            arguments = (self._memory, row, sizes, sent, self._ring, answers)
            process = self._context.Process(target=work, args=arguments, name=name, daemon=True)
            with _without_the_script(sent):
                process.start()
            answers.close()
            self._answers.append(answer)
            self._descriptors.append(answer.fileno())
            self._processes.append(process)

    def _attend(self) -> None:
        """One loop: rings, deaths, and now and then everything else."""
        session, outbox, clock = self._session, self._outbox, time.monotonic
        bell = self._bell.fileno()
        sentinels = {process.sentinel: row for row, process in enumerate(self._processes)}
        waiter = Waiter(bell, *sentinels)
        while self._here and not session.over:
            pause = min(PAUSE, session.next_tick - clock())
            for descriptor, _ in waiter.wait(max(0.0, pause)):
                if descriptor == bell:
                    rung: Any = np.frombuffer(os.read(bell, 1 << 16), np.int32)
                    self._take(rung, clock())
                else:
                    waiter.drop(descriptor)
                    self._miss(sentinels[descriptor])
            now = clock()
            for answer in outbox.release(now):
                self._answer(*answer)
            if self._early:
                self._begin_together(now)
            session.look_after(now)

    def _take(self, rung: Integers, now: float) -> None:
        """Do what workers ring for: many reports at once where that is possible, all else one by one."""
        memory, push_many = self._memory, self._session.push_many
        while (taken := push_many(rung, memory.sent, memory.notes, memory.figures, now)) < rung.size:
            if taken:  # in durable mode none is
                self._answer(rung[:taken], GO)
            else:
                taken = 1
                self._handle(rung[:taken], now)
            rung = rung[taken:]
        if taken:
            self._answer(rung, GO)

    def _handle(self, rung: Integers, now: float) -> None:
        """Do what one worker rings for; the answer may wait until that is on disk."""
        session, memory = self._session, self._memory
        code = rung.item()
        row, kind = code & ROW, code & ~ROW
        if kind == Ring.SAID:
            text = memory.said(row)
            memory.say(row, "")
            if text:  # else it was told before
                session.said(row, text)
            return
        reply = GO
        if kind == Ring.ENDED:
            session.left(row, now, "its stream ended")
            reply = STOP
        elif kind == Ring.FAILED:
            session.failed(row, memory.said(row, last=True))
            reply = STOP
        elif session.over:
            reply = STOP
        else:
            try:
                self._let_in(row, kind, now)
            except Refused as refusal:
                session.refused(row, refusal)
                reply = STOP if refusal.final else REFUSED
        if reply == STOP:
            self._here.discard(row)
        self._outbox.put((rung, reply))

    def _let_in(self, row: int, kind: int, now: float) -> None:
        """Have the session take a worker, its report, or that it has nothing to send."""
        session, memory = self._session, self._memory
        stamp, sample, _ = memory.notes[row].tolist()
        if kind == Ring.JOIN:
            memory.notes[row, SAMPLE] = session.join(row, now).samples
        elif kind == Ring.REPORT:
            square, loss = memory.figures[row].tolist()
            known = None if square == UNMEASURED else square
            session.push(row, stamp, memory.sent[row], sample, now, known, loss)
        else:
            session.push(row, stamp, None, sample, now)

    def _answer(self, rung: Integers, reply: bytes) -> None:
        """Give these workers the current w, and tell them whether to go on."""
        if self._awaited and reply == GO and rung[0] & ~ROW != Ring.JOIN:
            self._early.append(rung)
            return
        server, memory = self._session.server, self._memory
        self._hand_out(server.shown, server.version, memory.w, memory.notes, rung)
        for code in rung.tolist():
            try:  # noqa: SIM105  # suppress() would take longer
                os.write(self._descriptors[code & ROW], reply)
            except BrokenPipeError:  # it has ended, or its death is about to be noticed
                pass

    def _begin_together(self, now: float) -> None:
        """Answer first reports when all workers have sent theirs, or have had time enough.

        A worker may need a while before its first gradient, to import and compile what it uses. Without this, a short
        run could be over before it has reported, and the model would not know its data.
        """
        self._awaited &= self._here
        self._awaited.difference_update(*((rung & ROW).tolist() for rung in self._early))
        self._wait_until = min(self._wait_until, now + TOGETHER)
        if not self._awaited or now >= self._wait_until:
            self._awaited.clear()
            self._answer(check.read_only(np.concatenate(self._early)), GO)
            self._early.clear()

    def _miss(self, row: int) -> None:
        """A process is gone: tell why, unless it has said that it ends."""
        if row not in self._here:
            return
        self._here.discard(row)
        process = self._processes[row]
        process.join(GRACE)
        code = process.exitcode
        if code is not None and code < 0:
            known = {number.value: number.name for number in signal.Signals}
            reason = f"killed by {known.get(-code, f'signal {-code}')}"
        else:
            hint = f"; {SCRIPT}" if code == 1 else ""
            reason = f"its process ended with status {code}{hint}"
        self._session.died(row, reason)

    def _stop(self) -> None:
        """End all processes: ask, wait a little, insist."""
        for process in self._processes:
            process.terminate()
        until = time.monotonic() + GRACE
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for pipe in (*self._answers, self._bell, self._ring):
            pipe.close()
