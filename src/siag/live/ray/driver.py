"""The driver of a run on a Ray cluster: starts servers and workers, watches them, and fetches the result."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.foundations.errors import SiagError
from siag.live.interrupt import interruptible
from siag.live.monitor.watch import Problems, Watcher
from siag.live.plan import Plan
from siag.live.ray.cluster import free
from siag.live.ray.server_actor import Look, Orders, Outcome
from siag.live.ray.servers import PAUSE, Servers
from siag.live.ray.workers import Workers
from siag.simulation import Run
from siag.simulation.run import ARRAYS

if TYPE_CHECKING:
    from siag.live.ray.runtime import Ray

LOOK = 0.25  # seconds between two looks at the server
ROUND = 1.0  # seconds between two looks at who has room
CROWDED = 10.0  # seconds that Ray may have no room for a server before workers make some
FIRST = 20.0  # seconds without a report after which it is said that no Dataset has given any rows
HEARING = 5.0  # seconds for the server to hear that the run is to end
GRACE = 3.0  # seconds for workers to end in order


class Driver:
    """A run, from the first actor to the last.

    Args:
        runtime: how to run it.
        plan: what to run.
        watcher: who is shown how it goes.
        servers: not started yet.
        workers: not started yet.
        ours: whether the cluster is on this machine, started for the run.
        reads: whether Datasets are read meanwhile.
        clock: seconds, from any point in time on.
    """

    def __init__(
        self,
        runtime: Ray,
        plan: Plan,
        watcher: Watcher,
        servers: Servers,
        workers: Workers,
        *,
        ours: bool,
        reads: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime, self._plan, self._watcher, self._ours = runtime, plan, watcher, ours
        self._servers, self._workers, self._clock = servers, workers, clock
        self._unread = reads  # whether it may have to be said that there are no rows yet
        self._look: Look | None = None
        self._known = 0  # remarks of the server's that were passed on
        self._why = ""  # the run is to end
        self._heard = False  # whether the server knows
        self._deaf = 0.0  # since when it is waited for to hear; 0: it has, or need not
        self._missed = False  # whether it was said that the server is gone
        self._unplaced = 0.0  # since when a server has no room; 0: all have

    def run(self) -> Run:
        """All of it."""
        try:
            with interruptible(self._end):
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

    def _end(self, why: str) -> None:
        """Let the run end in order; the server is told at the next look."""
        self._why = why

    # Beginning

    def _start_servers(self) -> None:
        plan, shards = self._plan, self._runtime.shards
        d, n = plan.w0.size, len(plan.own)
        table = f"a table of {n} × {d} numbers, {8 * n * d:,} bytes"
        self._watcher.event(f"starting on Ray: {n} workers; {table}, on {shards} server{'s' * (shards > 1)}")
        self._mention_cores()
        self._servers.start(self._check_end)
        while not self._ask() and not self._servers.over:
            self._check_end()
            self._servers.check_patience()
            self._servers.wait(PAUSE)

    def _check_end(self) -> None:
        """While there is no server to be told, Ctrl-C ends the run at once."""
        if self._why:
            raise KeyboardInterrupt

    def _mention_cores(self) -> None:
        """Say so if a cluster of this machine has more processes than cores."""
        processes, cores = len(self._plan.own) + self._runtime.shards, os.cpu_count() or 1
        if self._ours and processes > cores:
            what = f"{processes} processes share the {cores} core{'s' * (cores > 1)} of this machine"
            self._watcher.event(f"{what}, and each takes memory of its own; use fewer workers, or a cluster's address")

    def _start_workers(self) -> None:
        runtime, workers, n = self._runtime, self._workers, len(self._plan.own)
        workers.start()
        fewest = n if runtime.fewest is None else runtime.fewest
        until = self._clock() + runtime.patience
        while len(workers.up) < fewest and not self._why and not self._servers.over:
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
        begun = round_ = self._clock()
        while True:
            self._workers.note_ends()
            self._ask()
            if self._servers.over:
                outcome = self._servers.outcome()
                with suppress(SiagError):  # the outcome is here, whatever has become of the server since
                    self._ask()
                return outcome
            now = self._clock()
            if now - round_ >= ROUND:
                round_ = now
                self._workers.meet()
                self._make_room(now)
            if now - begun > FIRST:
                self._mention_rows()
            self._check_heard(now)
            self._servers.wait(LOOK)

    def _ask(self) -> bool:
        """Look at the server, tell it what it cannot know, and show what is to be seen; whether it listens."""
        before, ended = self._look, self._workers.ended
        orders = Orders(self._why, ended, len(ended) == len(self._plan.own))
        look = self._servers.look("" if before is None else before.life, self._known, orders)
        if self._servers.missed and not self._missed:
            self._say("problem: the server is gone; Ray restarts it, from its last save", True)
        self._missed = self._servers.missed
        self._heard = self._heard and not self._missed
        if look is None:
            return False
        self._look, self._heard = look, bool(orders.why)
        if before is None or before.life != look.life:
            self._known = 0
        for problem, text in look.lines[max(0, self._known - look.after) :]:
            self._say(text, problem)
        self._known = look.after + len(look.lines)
        if look.snapshot is not None and (before is None or before.snapshot != look.snapshot):
            self._watcher.show(look.snapshot)
        return look.ready

    def _make_room(self, now: float) -> None:
        """If Ray has no room for a server, end all workers until it has.

        Ray never ends one actor for another. Workers can do nothing without the servers, so nothing is lost.
        """
        if self._servers.placed or self._why:
            self._unplaced = 0.0
            if self._workers.paused and not self._why:
                self._workers.start()
            self._workers.adjust()
            return
        self._unplaced = self._unplaced or now
        if now - self._unplaced >= CROWDED and not self._workers.paused:
            self._say("problem: there is no room for a server; the workers make room until it has some", True)
            self._workers.pause()

    def _mention_rows(self) -> None:
        """Say once if no Dataset has given any rows; what else takes so long the user knows better."""
        snapshot = None if self._look is None else self._look.snapshot
        if self._unread and (snapshot is None or not snapshot.reports):
            remedy = "reading needs a free CPU; use fewer workers, or materialize() it"
            self._say(f"waiting for the Dataset's first rows ({free(self._runtime.resources)}; {remedy})", False)
        self._unread = False

    def _check_heard(self, now: float) -> None:
        """Wait no longer for a server that does not hear that the run is to end."""
        self._deaf = 0.0 if self._heard or not self._why else self._deaf or now
        if self._deaf and now - self._deaf > HEARING:
            kept = self._plan.options.folder is not None
            rest = "start it again with the same folder to go on from its last save" if kept else "it has no result"
            self._say(f"problem: {self._why} while the server is away: the run ends at once; {rest}", True)
            raise KeyboardInterrupt

    def _say(self, text: str, problem: bool) -> None:
        if problem and isinstance(self._watcher, Problems):
            self._watcher.problem(text)
        else:
            self._watcher.event(text)
