"""The driver of a run on a Ray cluster: starts servers and workers, watches them, and fetches the result."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.foundations.errors import SiagError
from siag.live.announcer import Announcer
from siag.live.interrupt import interruptible
from siag.live.ray.resources import free
from siag.live.ray.server_actor import Look, Orders, Outcome
from siag.live.ray.servers import Servers
from siag.live.ray.workers import Workers
from siag.live.reasons import Ended, Ending
from siag.live.spec import Spec
from siag.simulation import Run
from siag.simulation.run import ARRAYS

if TYPE_CHECKING:
    from siag.live.ray.runtime import Ray

PAUSE = 0.05  # seconds between two looks while the servers start
LOOK = 0.25  # seconds between two looks at the server
ROUND = 1.0  # seconds between two looks at who has room
CROWDED = 10.0  # seconds that Ray may have no room for a server before workers make some
GRACE = 3.0  # seconds for workers to end in order


class Driver:
    """A run, from the first actor to the last.

    Args:
        runtime: how to run it.
        spec: what to run.
        watcher: who is shown how it goes.
        servers: not started yet.
        workers: not started yet.
        clock: seconds, from any point in time on.
    """

    def __init__(
        self,
        runtime: Ray,
        spec: Spec,
        watcher: Announcer,
        servers: Servers,
        workers: Workers,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime, self._spec, self._watcher = runtime, spec, watcher
        self._servers, self._workers, self._clock = servers, workers, clock
        self._look: Look | None = None
        self._why: Ended | None = None  # the run is to end
        self._missed = False  # whether it was said that the server is gone
        self._unplaced = 0.0  # since when a server has no room; 0: all have

    def run(self) -> Run:
        """All of it."""
        try:
            with interruptible(self.end):
                self._start_servers()
                if not self._servers.over:
                    self._start_workers()
                outcome = self._watch()
            self._workers.finish(GRACE)
            self._servers.finish()
        finally:
            self._workers.remove()
            self._servers.remove()
        for category, text in outcome.warnings:
            warnings.warn(text, category, stacklevel=4)
        if outcome.run is None:
            from ray import cloudpickle

            raise cloudpickle.loads(outcome.error) from None
        copies: dict[str, Any] = {name: np.array(getattr(outcome.run, name)) for name in ARRAYS}  # Ray's go with it
        return replace(outcome.run, **copies)

    def end(self, ending: Ending, detail: str = "") -> None:
        """Let the run end in order; the server is told at the next look."""
        self._why = Ended(ending, detail)

    # Beginning

    def _start_servers(self) -> None:
        runtime, servers = self._runtime, self._servers
        servers.start()
        until = self._clock() + runtime.patience
        while not servers.over and not (servers.placed and self._ask()):
            if self._why is not None:  # there is no server to be told
                raise KeyboardInterrupt
            if self._clock() > until:
                what = "was not ready" if servers.placed else "could not be placed"
                state = f"the cluster is busy ({free(runtime.server_resources)}); wait, or raise patience="
                raise SiagError(f"the server {what} within {runtime.patience:g} seconds: {state}")
            servers.wait(PAUSE)

    def _start_workers(self) -> None:
        runtime, workers, n = self._runtime, self._workers, self._spec.n
        workers.start()
        fewest = n if runtime.fewest is None else runtime.fewest
        until = self._clock() + runtime.patience
        while len(workers.up) < fewest and self._why is None and not self._servers.over:
            if self._clock() > until:
                up = len(workers.up)
                what = f"{up} of {n} workers were there after {runtime.patience:g} seconds"
                remedy = f"wait, ask for less with resources=, or start with some by fewest={max(up, 1)}"
                raise SiagError(f"{what}: the cluster is busy ({free(runtime.resources)}); {remedy}")
            workers.meet(LOOK)
            self._ask()
        if len(workers.up) < n:
            self._watcher.event(f"{len(workers.up)} of {n} workers are there; the others wait for room")
        workers.work(self._servers.first)

    # Going on

    def _watch(self) -> Outcome:
        """Until the run is over: pass on what the server says, and tell it what it cannot know."""
        round_ = self._clock()
        while not self._servers.over:
            self._workers.note_ends()
            self._ask()
            now = self._clock()
            if now - round_ >= ROUND:
                round_ = now
                self._workers.meet()
                self._make_room(now)
            self._servers.wait(LOOK)
        outcome = self._servers.outcome()
        with suppress(SiagError):  # the outcome is here, whatever has become of the server since
            self._ask()
        return outcome

    def _ask(self) -> bool:
        """Look at the server, tell it what it cannot know, and show what is to be seen; whether it listens."""
        before = self._look
        life, known = ("", 0) if before is None else (before.life, before.told)
        look = self._servers.look(life, known, Orders(self._why, self._workers.gone))
        if look is None:
            self._note_missed()
            return False
        self._look, self._missed = look, False
        for problem, text in look.lines:
            (self._watcher.alarm if problem else self._watcher.event)(text)
        if look.snapshot is not None and (before is None or before.snapshot != look.snapshot):
            self._watcher.show(look.snapshot)
        return look.ready

    def _note_missed(self) -> None:
        """Say once that the server is gone; a run that is to end does not wait until it is back."""
        if not self._servers.missed:
            return
        if self._why is not None:
            what = f"{self._why.text} while the server is away"
            self._watcher.alarm(f"problem: {what}: the run ends at once; its last save is kept")
            raise KeyboardInterrupt
        if not self._missed:
            self._missed = True
            self._watcher.alarm("problem: the server is gone; Ray restarts it, from its last save")

    def _make_room(self, now: float) -> None:
        """If Ray has no room for a server, end all workers until it has.

        Ray never ends one actor for another. Workers can do nothing without the servers, so nothing is lost.
        """
        if self._servers.placed:
            self._unplaced = 0.0
            if self._workers.paused:
                self._workers.start()
            self._workers.adjust()
            return
        self._unplaced = self._unplaced or now
        if now - self._unplaced >= CROWDED and not self._workers.paused:
            self._watcher.alarm("problem: there is no room for a server; the workers make room until it has some")
            self._workers.pause()
