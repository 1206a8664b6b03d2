"""Putting a session together from its description: server, saves, trace; and the run that it leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from siag.foundations.errors import DivergenceWarning, SiagError
from siag.foundations.version import __version__
from siag.live.curve import Curve
from siag.live.monitor.watch import watcher_of
from siag.live.parts import Parts
from siag.live.reasons import no_progress, some
from siag.live.session import Session
from siag.live.spec import Spec
from siag.methods import cost
from siag.simulation import Run
from siag.simulation.simulate import EXPLODED


class Assembly:
    """A session and what must be closed after it.

    Args:
        spec: what to run, validated.
        parts: what the session is made of; one server by default.
        about: more to keep in the run and the trace.
    """

    def __init__(self, spec: Spec, *, parts: Parts | None = None, about: Mapping[str, Any] | None = None) -> None:
        parts = Parts(spec) if parts is None else parts
        self._spec = spec
        self._gradients = max(1, cost(spec.method.recruit(spec.w0, spec.n)))
        upload, download = parts.traffic
        self._about = {"siag": __version__, **spec.about, **(about or {}), "upload": upload, "download": download}
        self._curve = Curve(spec.until, spec.record, spec.measure, parts.clock)
        self._stack = ExitStack()
        with ExitStack() as stack:
            self.server = parts.server(stack)
            self._check_new(parts)
            store = parts.store(stack, self.server)
            self.server.warm_up()
            watcher = watcher_of(spec.progress)
            stack.callback(watcher.close)
            self.session = Session(
                self.server,
                spec.until,
                self._curve,
                watcher=watcher,
                store=store,
                durable=spec.durable,
                linger=spec.linger,
                forget=spec.forget,
                run_id=parts.run_id,
                life="" if spec.durable else parts.entropy(4).hex(),
            )
            self.session.remark(*parts.remarks)
            self.session.recover(parts.clock())
            if not self.session.recovered:
                self._look_at_start()
            if spec.trace is not None:
                self.session.trace_to(parts.tracer(self.session, self._about))
                stack.callback(self.session.give_up)
            self._stack = stack.pop_all()

    def _check_new(self, parts: Parts) -> None:
        """Refuse a mistake in a new run before anything is made."""
        if parts.folder is None or not parts.used:
            self._look_at_start()
            parts.check_new_trace()

    def _look_at_start(self) -> None:
        """The first point of the curve of a new run; a loss that raises there is a mistake."""
        if not self._curve.begun:
            self._curve.note(self.server, 0.0)

    def close(self) -> None:
        """Close everything, for those that do not call `run`."""
        self._stack.close()

    def run(self, carry: Callable[[Session], None], fruitful: bool = False) -> Run:
        """Let a runtime carry messages until the session is over; return what it has shown.

        Args:
            carry: does so.
            fruitful: whether it is an error if workers failed and none has reported anything.
        """
        session = self.session
        with self._stack:
            carry(session)
            if fruitful and session.no_progress:
                raise SiagError(no_progress(session.failures))
            w = self.server.w
        ending = {} if session.ended is None else {"ending": session.ended.ending.value}
        about = {**self._about, "ended": session.why, **ending, "repeats": 1}
        if session.before:
            about["before"] = session.before  # reports of the sessions that this one went on from
        if session.failures:
            about["failed"] = some(session.failures)
        run = session.curve.run(w, session.diverged_at, about, self._gradients)
        self._warn(run)
        return run

    def _warn(self, run: Run) -> None:
        """Warn of what the user should know of a run that is returned all the same."""
        session, level = self.session, 5
        first, last = float(run.error[0, 0]), float(run.error[0, -1])
        if session.diverged_at >= 0:
            warnings.warn(session.why, DivergenceWarning, stacklevel=level)
        elif last > EXPLODED * (1.0 + abs(first)):  # not beyond all numbers, but nobody would call it a result
            warnings.warn(f"from {first:.3g} to {last:.3g}; use a smaller step", DivergenceWarning, stacklevel=level)
        for problem in session.problems:
            warnings.warn(problem.warning, RuntimeWarning, stacklevel=level)
