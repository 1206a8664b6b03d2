"""What a session is made of: a server, and its files on some disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from siag.foundations.errors import BadFile, BadInput
from siag.foundations.memory import check_fits, size
from siag.live.session import Session
from siag.live.spec import Spec
from siag.server.parameter_server import ParameterServer
from siag.storage.background import Background, Thread
from siag.storage.disk import LOCAL, Disk
from siag.storage.generations import generations_in
from siag.storage.store import Store
from siag.storage.trace_file import check_new
from siag.storage.trace_writer import TraceWriter
from siag.storage.urls import check_url, disk_of

SPLIT = "holds the state of a model that was split over several servers"
REMEDY = "choose another folder, or run what was saved in this one"


class Parts:
    """What a session is made of: one server with its store; a model that is split has parts of its own.

    Args:
        spec: what to run, validated.
        disk: where folder and trace are, unless they are URLs.
        background: makes, given a name, what writes while training goes on.
        entropy: given a number, that many random bytes.
        clock: what time it is, in seconds since any moment; the loss is timed by it, too.
        run: as for `siag.storage.remote_disk.RemoteDisk`.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        disk: Disk = LOCAL,
        background: Callable[[str], Background] = Thread,
        entropy: Callable[[int], bytes] = os.urandom,
        clock: Callable[[], float] = time.monotonic,
        run: str | None = None,
    ) -> None:
        self.spec, self.background, self.entropy, self.clock = spec, background, entropy, clock
        self.folder: str | None = None
        self.disk = self._trace_disk = disk
        if spec.folder is not None:
            check_url("folder", spec.folder)
            self.disk, self.folder = disk_of("folder", spec.folder, disk, run)
        if spec.trace is not None:
            check_url("trace", spec.trace)
            self._trace_disk, self._trace = disk_of("trace", spec.trace, disk, run)
        self.remarks: list[str] = []

    @property
    def given(self) -> dict[str, Any]:
        """What a `ParameterServer` is given beside method, step, w0 and names."""
        spec = self.spec
        return {"server": spec.server, "guard": spec.guard, "departed": spec.departed, "patience": spec.patience}

    @property
    def run_id(self) -> str:
        """By which a new run will know its trace."""
        return self.entropy(8).hex()

    @property
    def traffic(self) -> tuple[int, int]:
        """How many numbers a worker sends and is sent."""
        return self.spec.method.traffic(int(self.spec.w0.size), self.spec.n)

    @property
    def used(self) -> bool:
        """Whether a run was saved in the folder."""
        if self.folder is not None:
            with suppress(OSError):
                return bool(generations_in(self.folder, self.disk))
        return False

    def server(self, stack: ExitStack) -> ParameterServer:
        """The server; what must be closed after it goes on the stack."""
        if self.folder is not None and self.disk.stat(f"{self.folder}/shard-0") is not None:
            raise BadFile(f"{self.folder}: {SPLIT}; {REMEDY}")
        spec, method, n, d = self.spec, self.spec.method, self.spec.n, int(self.spec.w0.size)
        length = method.message(d, n)
        needed = size(method.init(spec.w0[:1], n)) * max(d, length // method.message(1, n)) + 8 * n * length
        check_fits(needed, f"{method!r} with {n} workers and d = {d}", "use fewer workers")
        return ParameterServer(method, spec.step, spec.w0, spec.names, **self.given)

    def store(self, stack: ExitStack, server: ParameterServer) -> Store | None:
        """Where its state is saved."""
        if self.folder is None:
            return None
        store = Store(self.folder, self.spec.identity, durable=self.spec.durable, **self._writing("siag-store"))
        stack.callback(store.close)
        return store

    def _writing(self, name: str) -> dict[str, Any]:
        return {"disk": self.disk, "entropy": self.entropy, "background": self.background(name)}

    def check_new_trace(self) -> None:
        """Refuse a file that a new run's trace must not be written to."""
        if self.spec.trace is not None:
            check_new(self._trace, self._trace_disk)

    def tracer(self, session: Session, about: Mapping[str, Any]) -> TraceWriter:
        """A trace, new or that of the run that goes on."""
        path, reports, tail = self._trace, session.server.reports, session.tail
        if reports > 0 and tail is None:
            allowed = "left out: the run has gone on without a trace, or had to give it up"
            remedy = "go on without one, or start anew with another folder and another trace"
            raise BadInput("trace", path, allowed, remedy)
        if reports > 0 and self._trace_disk.stat(path) is None:
            allowed = f"the trace of the run that goes on, with its {reports} reports"
            raise BadInput("trace", path, allowed, "record from the start, or not at all")
        trace = TraceWriter(
            path,
            {**about, "run": session.run_id},
            keep=reports + session.server.fades if session.recovered else None,
            tail=tail or (),
            disk=self._trace_disk,
            background=self.background("siag-trace"),
        )
        trace.flush()  # what was kept is on disk again
        return trace
