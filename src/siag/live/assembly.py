"""Putting a session together from its description: server, saves, trace; and the run that it leaves."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile, BadInput, DivergenceWarning, SiagError, TrainingWarning, warn
from siag.foundations.memory import check_fits, size
from siag.foundations.version import __version__
from siag.live.curve import Curve
from siag.live.monitor.watch import give_result, offer_model, tell_begin
from siag.live.monitor.watching import watchers_of
from siag.live.predecessor import predecessor
from siag.live.reasons import first_of, no_progress, some
from siag.live.session import Session
from siag.live.spec import AnyPath, Spec
from siag.server.parameter_server import ParameterServer
from siag.simulation import Run
from siag.simulation.simulate import EXPLODED
from siag.storage.background import OneThread
from siag.storage.disk import LOCAL, Disk
from siag.storage.generations import generations_in
from siag.storage.history import History
from siag.storage.store import Store
from siag.storage.trace_file import check_new
from siag.storage.trace_writer import TraceWriter
from siag.storage.urls import check_url, disk_of

SPLIT = "holds the state of a model that was split over several servers"
REMEDY = "choose another folder, or run what was saved in this one"


class Assembly:
    """A session of one server, and what must be closed after it; a model that is split has an assembly of its own.

    Args:
        spec: what to run, validated.
        about: more to keep in the run and the trace.
        disk: where folder and trace are, unless they are URLs.
        background: makes, given a name, what writes while training goes on, one job at a time.
        entropy: given a number, that many random bytes.
        clock: what time it is, in seconds since any moment; the loss is timed by it, too.
        run: as for `siag.storage.remote_disk.RemoteDisk`.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        about: Mapping[str, Any] | None = None,
        disk: Disk = LOCAL,
        background: Callable[[str], Executor] = OneThread,
        entropy: Callable[[int], bytes] = os.urandom,
        clock: Callable[[], float] = time.monotonic,
        run: str | None = None,
    ) -> None:
        self.spec, self.background, self.entropy = spec, background, entropy
        self.disk, self.folder = _place("folder", spec.folder, disk, run)
        self._trace_disk, self._trace = _place("trace", spec.trace, disk, run)
        self._before = None if self.folder is None else predecessor(self.folder, self.disk, spec.identity)
        if self._before is not None:
            spec = self.spec = spec.starting_from(self._before.w)
        self._curve = Curve(spec.until, spec.record, spec.measure, clock, spec.metrics)
        self.remarks: list[str] = []  # told when it begins
        with ExitStack() as stack:
            self.server = self.make_server(stack)
            upload, download = self.traffic
            self._about = {"siag": __version__, **spec.about, **(about or {}), "upload": upload, "download": download}
            if self._before is not None or not self.used:  # refuse a mistake in a new run before anything is made
                self._look_at_start()
                if self._before is not None:
                    self._before.check(self.disk)
                if self._trace is not None:
                    check_new(self._trace, self._trace_disk)
            self.session = self._open(stack)
            past = self.session.past
            past.remarks += self.remarks
            if self._before is None:
                self.session.recover(clock())
            else:
                self._before.check(self.disk)  # once more, now that nobody else can write
                past.begin_after(self._before, {"w0": self._about["w0"]}, self.session.store)
            self._about |= past.begun
            if not past.recovered:
                self._look_at_start()
            self._about["step"] = steps_in_words(past.steps)
            if self._trace is not None:
                self.session.trace_to(self._tracer(self._trace))
                stack.callback(self.session.give_up)
            self._stack = stack.pop_all()

    # What is another for a model that is split

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

    def make_server(self, stack: ExitStack) -> ParameterServer:
        """The server; what must be closed after it goes on the stack."""
        if self.folder is not None and self.disk.stat(f"{self.folder}/shard-0") is not None:
            raise BadFile(f"{self.folder}: {SPLIT}; {REMEDY}")
        spec, method, n, d = self.spec, self.spec.weighted, self.spec.n, int(self.spec.w0.size)
        length, least = method.message(d, n), method.least
        times = max(-(-d // least), length // method.message(least, n))
        needed = size(method.init(spec.w0[:least], n)) * times + 8 * n * length
        check_fits(needed, f"{method!r} with {n} workers and d = {d}", "use fewer workers, or a smaller max_workers")
        return ParameterServer(method, spec.step, spec.w0, spec.names, **self.given)

    def make_store(self, folder: str, **writing: Any) -> Store:
        """Where its state is saved; `writing` is for the store."""
        return Store(folder, self.spec.identity, durable=self.spec.durable, **writing)

    @property
    def given(self) -> dict[str, Any]:
        """What any `ParameterServer` is given beside method, step, w0 and names."""
        spec = self.spec
        return {name: getattr(spec, name) for name in ("server", "guard", "departed", "patience", "messages", "room")}

    # Put together

    def _open(self, stack: ExitStack) -> Session:
        """The session of the server, with its store and its watcher, which are closed after it."""
        spec, store, history = self.spec, None, None
        if self.folder is not None:
            background = self.background("siag-store")
            store = self.make_store(self.folder, disk=self.disk, entropy=self.entropy, background=background)
            stack.callback(store.close)
            if spec.keep:
                writer = self.background("siag-history")
                history = History(self.folder, spec.keep, spec.keep_every, disk=self.disk, background=writer)
                stack.callback(history.close)
        self.server.warm_up()
        self._watcher = watcher = watchers_of(spec.progress, spec.dashboard)
        stack.callback(watcher.close)
        return Session(
            self.server,
            self._curve,
            watcher=watcher,
            store=store,
            durable=spec.durable,
            linger=spec.linger,
            forget=spec.forget,
            history=history,
            scales=spec.scales,
            run_id=self.entropy(8).hex(),
            life="" if spec.durable else self.entropy(4).hex(),
        )

    def _look_at_start(self) -> None:
        """The first point of the curve of a new run; a loss that raises there is a mistake."""
        if not self._curve.begun:
            self._curve.note(self.server, 0.0)

    def _tracer(self, path: str) -> TraceWriter:
        """A trace, new or that of the run that goes on."""
        session, reports = self.session, self.server.reports
        if reports > 0 and session.past.tail is None:
            allowed = "left out: the run has gone on without a trace, or had to give it up"
            remedy = "go on without one, or start anew with another folder and another trace"
            raise BadInput("trace", path, allowed, remedy)
        if reports > 0 and self._trace_disk.stat(path) is None:
            allowed = f"the trace of the run that goes on, with its {reports} reports"
            raise BadInput("trace", path, allowed, "record from the start, or not at all")
        trace = TraceWriter(
            path,
            {**self._about, "run": session.past.run_id},
            keep=reports + self.server.fades if session.past.recovered else None,
            tail=session.past.tail or (),
            disk=self._trace_disk,
            background=self.background("siag-trace"),
        )
        trace.flush()  # what was kept is on disk again
        return trace

    # Used

    def close(self) -> None:
        """Close everything, for those that do not call `run`."""
        self._stack.close()

    def run(self, carry: Callable[[Session], None], must_report: bool = False) -> Run:
        """Let a runtime carry messages until the session is over; return what it has shown.

        Args:
            carry: does so.
            must_report: whether it is an error if workers failed and none has reported anything.
        """
        spec, session = self.spec, self.session
        with self._stack:
            tell_begin(self._watcher, {**self._about, "d": int(spec.w0.size)})
            offer_model(self._watcher, session.copy_of_w)
            for doubt in spec.doubts:
                session.alarm(f"warning: {doubt}")
            carry(session)
            if must_report and session.no_progress:
                raise SiagError(no_progress(some(session.departures.failures)))
            w = self.server.w
        ending = {} if session.ended is None else {"ending": session.ended.ending.value}
        about = {**self._about, "ended": session.why, **ending, "repeats": 1}
        if session.before:
            about["before"] = session.before  # reports of the sessions that this one went on from
        wrong = [*spec.doubts, *(() if session.health is None else session.health.texts), *session.unheard]
        wrong = first_of(wrong + [failure.warning for failure in session.departures.failures])
        diverged = [session.why] if session.diverged_at >= 0 else []
        if wrong or diverged:
            about["warnings"] = wrong + diverged
        about["by_worker"] = workers_of(self.server, self._curve.seconds)
        if session.has_left:
            about["left"] = first_of(session.has_left)
        if session.departures.failures:
            about["failed"] = some(session.departures.failures)
        run = self._curve.run(w, session.diverged_at, about, self._gradients())
        give_result(self._watcher, run)
        self._warn(run, wrong)
        return run

    def _gradients(self) -> float:
        """How many gradients a report took on average, workers that take more counting as often as they reported."""
        taken = np.broadcast_to(self.spec.method.work(self.spec.n), self.spec.n)
        reports = np.array([member.reports for member in self.server.members])
        return float(taken @ reports / reports.sum() if reports.any() else taken.mean())

    def _warn(self, run: Run, wrong: list[str]) -> None:
        """Warn of what the user should know of a run that is returned all the same, and of what is wrong with it."""
        session = self.session
        first, last = float(run.error[0, 0]), float(run.error[0, -1])
        if session.diverged_at >= 0:
            warn(session.why, DivergenceWarning)
        elif last > EXPLODED * (1.0 + abs(first)):  # not beyond all numbers, but nobody would call it a result
            warn(f"from {first:.3g} to {last:.3g}; use a smaller step", DivergenceWarning)
        for problem in session.problems:
            warn(problem.warning, RuntimeWarning)
        for text in wrong:
            warn(text, TrainingWarning)


def workers_of(server: ParameterServer, seconds: float) -> list[dict[str, Any]]:
    """What a run keeps of its workers, ready for JSON."""
    shares = server.gauges.shares
    return [
        {
            "name": member.name,
            "state": str(member.state),
            "reports": member.reports,
            "rate": member.reports / seconds if seconds > 0 else 0.0,
            "mean_age": member.aged / member.reports if member.reports else None,
            "loss": member.loss if member.losses else None,
            "refused": member.refused,
            "share": None if math.isnan(shares[member.row]) else shares[member.row],
        }
        for member in server.members
        if not member.vacant
    ]


def steps_in_words(steps: Sequence[tuple[int, str]]) -> str:
    """The steps of a run that went on with others, as `siag.steps.Switched` prints.

    >>> steps_in_words([(0, "Constant(eta=0.1)"), (50, "Constant(eta=0.01)")])
    'Switched(before=Constant(eta=0.1), at=50, after=Constant(eta=0.01))'
    """
    (_, whole), *others = steps
    for at, step in others:
        whole = f"Switched(before={whole}, at={at}, after={step})"
    return whole


def _place(parameter: str, place: AnyPath | None, disk: Disk, run: str | None) -> tuple[Disk, str | None]:
    """The disk on which a folder or a trace is, and its name there, if there is one; it can be written."""
    if place is None:
        return disk, None
    check_url(parameter, place)
    return disk_of(parameter, place, disk, run)
