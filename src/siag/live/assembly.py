"""Putting a session together: the same parts, checked in the same way, whichever runtime carries the messages."""

from __future__ import annotations

import os
import ssl
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from siag.activity import EveryArrivals, Tick
from siag.foundations import check
from siag.foundations.errors import BadInput, DivergenceWarning, Missing
from siag.foundations.memory import check_fits, size
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live.monitor.watch import Watcher, watcher_of
from siag.live.session import LOSS, Session
from siag.live.sharding.assembled import Followers, assemble_lead
from siag.live.sharding.saves import check_folder
from siag.live.until import Curve, Until
from siag.methods import SIAG, Method, cost
from siag.server.guard import Guard
from siag.server.members import KEEP, Departed
from siag.server.parameter_server import STEP_AT_ONCE, ParameterServer
from siag.simulation import Run
from siag.simulation.simulate import EXPLODED
from siag.steps import Step
from siag.storage.generations import generations_in
from siag.storage.remote import is_url
from siag.storage.store import Store
from siag.storage.trace_file import check_new
from siag.storage.trace_writer import TraceWriter

MOST_LINES = 100  # about workers that failed, in what a run says of itself
OLD = "what is on disk is older than this run's end"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the runtimes have in common; `siag.train` says what each means."""

    server: EveryArrivals | Tick = STEP_AT_ONCE
    guard: Guard | None = None
    departed: Departed = KEEP
    loss: Callable[[Floats], float] | None = None
    record: int = 200
    folder: str | os.PathLike[str] | None = None
    durable: bool = False
    trace: str | os.PathLike[str] | None = None
    progress: bool | Watcher | None = False
    linger: float | None = None
    patience: float | None = None
    forget: float | None = None
    publish: Callable[[], None] | None = None  # makes a save known elsewhere, before it counts as one


def checked(method: Method | None, step: Step | None) -> tuple[Method, Step]:
    """The method, `SIAG()` by default, which a live server can run, and the step, which must be given."""
    method = SIAG() if method is None else method
    if step is None:
        raise Missing("step", "give step=siag.steps.Harmonic(beta, gamma), or Constant(eta)")
    for parameter, value, kind in (("method", method, Method), ("step", step, Step)):
        if not isinstance(value, kind):
            remedy = f"make one: {value.__name__}(…)" if isinstance(value, type) and issubclass(value, kind) else ""
            raise BadInput(parameter, value, f"a {kind.__name__}", remedy)
    method.serve()  # before its step: another would be of no use
    method.pair(step)
    return method, step


class Assembly:
    """A session and what must be closed after it.

    Args:
        method: what to do with reports.
        step: the sizes of the moves.
        w0: (d,) where to start.
        workers: their names.
        until: when to end.
        options: all else.
        about: what is run, in words.
        followers: the addresses of the servers that keep the other slices of a model that is split.
        secret: by which they know this one.
        context: for TLS with them.
    """

    def __init__(
        self,
        method: Method,
        step: Step,
        w0: Floats,
        workers: Sequence[str],
        until: Until,
        options: Options,
        about: dict[str, Any],
        followers: Sequence[tuple[str, int]] = (),
        secret: str = "",
        context: ssl.SSLContext | None = None,
    ) -> None:
        method.serve()
        d, n = int(w0.size), len(workers)
        self._about = {
            "siag": __version__,
            "method": repr(method),
            "step": repr(step),
            "w0": w0.tolist() if w0.any() and w0.size <= 1000 else "0" if not w0.any() else "not kept",
            "workers": n,
            **about,
        }
        _check_kinds(options)
        self._stack = ExitStack()
        self._curve = Curve(until, check.integer("record", options.record), options.loss)
        with ExitStack() as stack:
            others = Followers(followers, secret, context)
            store, remarks = self._serve(stack, method, step, w0, workers, options, others)
            self._about["upload"], self._about["download"] = (d, d) if followers else method.traffic(d, n)
            self._gradients = max(1, cost(method.recruit(w0, n)))
            self.server.warm_up()
            watcher = watcher_of(options.progress)
            stack.callback(watcher.close)
            self.session = Session(
                self.server,
                until,
                self._curve,
                watcher=watcher,
                store=store,
                durable=options.durable,
                linger=options.linger,
                forget=options.forget,
            )
            self.session.remarks += remarks
            self.session.recover(time.monotonic())
            if not self.session.recovered:
                self._look_at_start()
            if options.trace is not None:
                self.session.trace = self.server.trace = self._tracer(options.trace)
                stack.callback(self._close_trace)
            self._stack = stack.pop_all()

    def _serve(
        self,
        stack: ExitStack,
        method: Method,
        step: Step,
        w0: Floats,
        workers: Sequence[str],
        options: Options,
        followers: Followers,
    ) -> tuple[Store | None, list[str]]:
        """Make the server, or the lead of several; where its state is saved, and remarks."""
        d, n, about = int(w0.size), len(workers), self._about
        if options.durable and options.folder is None:
            raise Missing("folder", "say where a durable run is to be kept")
        if options.durable and followers.addresses:
            raise BadInput("durable", True, "False for a model that is split", "or use one server")
        folder = None if options.folder is None else Path(options.folder)
        if folder is not None:
            check_folder(folder, followers.addresses)
        identity = {"method": repr(method), "step": repr(step), "n": n, "d": d}
        identity |= {"server": repr(options.server), "workers": list(workers)}
        identity |= {what: about[what] for what in ("problem", "seed") if " at 0x" not in str(about[what])}
        given: dict[str, Any] = {"server": options.server, "guard": options.guard}
        given |= {"departed": options.departed, "patience": options.patience}
        store: Store | None = None
        if followers.addresses:
            self.server: ParameterServer
            self.server, store, remark = assemble_lead(
                stack, followers, method, step, w0, workers, given, folder, identity, options.publish
            )
            return store, [remark]
        length = method.message(d, n)
        needed = size(method.init(w0[:1], n)) * max(d, length // method.message(1, n)) + 8 * n * length
        check_fits(needed, f"{method!r} with {n} workers and d = {d}", "use fewer workers")
        self.server = ParameterServer(method, step, w0, workers, **given)
        if folder is None or not _used(folder):  # a mistake is refused before anything is made
            self._look_at_start()
            if options.trace is not None:
                check_new(options.trace)
        if folder is not None:
            store = Store(folder, identity, durable=options.durable, publish=options.publish)
            stack.callback(store.close)
        return store, []

    def _look_at_start(self) -> None:
        """The first point of the curve of a new run; a loss that raises there is a mistake."""
        if not self._curve.begun:
            self._curve.note(0, self.server.w if self._curve.measures else None, 0, 0.0)

    def run(self, carry: Callable[[Session], None]) -> Run:
        """Let a runtime carry messages until the session is over; return what it has shown."""
        with self._stack:
            carry(self.session)
            w = self.server.w
        about = {**self._about, "ended": self.session.why, "repeats": 1}
        if self.session.before:
            about["before"] = self.session.before  # reports of the sessions that this one went on from
        if self.session.failures:
            about["failed"] = _some(self.session.failures)
        run = self.session.curve.run(w, self.session.diverged, about, self._gradients)
        first, last = float(run.error[0, 0]), float(run.error[0, -1])
        if self.session.diverged >= 0:
            warnings.warn(self.session.why, DivergenceWarning, stacklevel=3)
        elif last > EXPLODED * (1.0 + abs(first)):  # not beyond all numbers, but nobody would call it a result
            warnings.warn(f"from {first:.3g} to {last:.3g}; use a smaller step", DivergenceWarning, stacklevel=3)
        for trouble in self.session.troubles:
            stale = "its points of the curve are NaN" if trouble.startswith(LOSS) else OLD
            warnings.warn(f"{trouble}; {stale}", RuntimeWarning, stacklevel=3)
        return run

    def _tracer(self, path: str | os.PathLike[str]) -> TraceWriter:
        """A trace, new or that of the run that goes on."""
        reports, tail = self.server.reports, self.session.tail
        if reports > 0 and tail is None:
            allowed = "left out: the run has gone on without a trace, or had to give it up"
            remedy = "go on without one, or start anew with another folder and another trace"
            raise BadInput("trace", os.fspath(path), allowed, remedy)
        if reports > 0 and not os.path.exists(path):
            allowed = f"the trace of the run that goes on, with its {reports} reports"
            raise BadInput("trace", os.fspath(path), allowed, "record from the start, or not at all")
        trace = TraceWriter(
            path,
            {**self._about, "run": self.session.run_id},
            keep=reports,
            fades=self.server.fades,
            again=self.session.recovered,
            tail=tail or (),
        )
        trace.flush()  # what was kept is on disk again
        return trace

    def _close_trace(self) -> None:
        """After an error: keep what was recorded; a new run without anything recorded leaves no trace."""
        if self.session.trace is None:
            return
        if not self.session.recovered and self.server.reports + self.server.fades == 0:
            self.session.trace.discard()
        with suppress(OSError):
            self.session.trace.close(self.server.version)


def worker_names(parameter: str, names: Sequence[str] | int | None, count: int | None = None) -> list[str]:
    """The workers' names; their numbers if there are none."""
    if names is None or (isinstance(names, int) and count is None):
        number = count if names is None else names
        return [str(i) for i in range(check.integer(parameter, number))]
    listed = [] if isinstance(names, str | bytes) or not isinstance(names, Iterable) else list(names)
    right = all(isinstance(name, str) and name for name in listed) and len(set(listed)) == len(listed) > 0
    if not right or (count is not None and len(listed) != count):
        allowed = "different texts" if count is None else f"{count} different texts, one for each worker"
        raise BadInput(parameter, names, allowed)
    return listed


def check_path(parameter: str, place: object) -> None:
    """Refuse what is no path, unless it is left out."""
    if place is not None and not isinstance(place, str | os.PathLike):
        raise BadInput(parameter, place, "a path", "give it as text, or leave it out")


def distance_from(optimum: Floats) -> Callable[[Floats], float]:
    """w ↦ ‖w − w*‖²."""

    def distance(w: Floats) -> float:
        with np.errstate(over="ignore"):  # a run on its way out of the range of numbers
            return float(np.square(w - optimum).sum())

    return distance


def _used(folder: Path) -> bool:
    """Whether a run was saved there."""
    with suppress(OSError):
        return bool(generations_in(folder))
    return False


def _check_kinds(options: Options) -> None:
    if options.guard is not None and not isinstance(options.guard, Guard):
        raise BadInput("guard", options.guard, "a siag.server.Guard")
    if not isinstance(options.departed, Departed):
        raise BadInput("departed", options.departed, "a siag.server.Departed")
    if options.loss is not None and not callable(options.loss):
        raise BadInput("loss", options.loss, "a function loss(w)")
    check.truth("durable", options.durable)
    for name in ("folder", "trace"):
        check_path(name, getattr(options, name))
        if is_url(getattr(options, name)):
            raise BadInput(name, getattr(options, name), "a path", "a URL goes with runtime=siag.runtimes.Ray()")
    for name, limit in (("linger", {"low": 0}), ("patience", {"above": 0}), ("forget", {"low": 0})):
        if getattr(options, name) is not None:
            check.real(name, getattr(options, name), **limit, remedy="or None")


def _some(lines: Sequence[str]) -> list[str]:
    """The first few of many lines, and how many there are beside."""
    rest = len(lines) - MOST_LINES
    return list(lines) if rest <= 0 else [*lines[:MOST_LINES], f"and {rest} more"]
