"""The driver of a run on a Ray cluster: starts servers and workers, watches them, and fetches the result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
import ray

from siag.foundations.errors import SiagError, warn
from siag.live.announcer import Announcer
from siag.live.interrupt import interruptible
from siag.live.monitor.watch import give_result, offer_model, tell_begin
from siag.live.monitor.watching import watchers_of
from siag.live.ray.actors import Secrets
from siag.live.ray.cluster import connected
from siag.live.ray.processes import Servers, Workers
from siag.live.ray.resources import Needs
from siag.live.ray.server_actor import Outcome, ServerSpec
from siag.live.reasons import Ended, Ending
from siag.live.spec import Spec
from siag.server.status import Snapshot
from siag.simulation import Run
from siag.simulation.run import ARRAYS
from siag.streams import Part, Rows, split
from siag.streams.parts import dismiss

if TYPE_CHECKING:
    from siag.live.ray.runtime import Ray

LOOK = 0.25  # seconds between two looks at the server
PAUSE = 0.05  # the same while the servers start
CROWDED = 10.0  # seconds that Ray may have no room for a server before workers make some
GRACE = 3.0  # seconds for workers to end in order


def run_on_cluster(options: Ray, spec: Spec, dataset: Any) -> Run:
    """Connect to the cluster, and drive a run there.

    Args:
        options: of the run, which has been checked against them.
        spec: what to run, validated.
        dataset: what is to be split among the workers, a Ray Dataset, if they have no streams of their own.
    """
    shards, reads = options.shards, any(isinstance(each, Rows | Part) and each.streamed for each in spec.per_worker)
    needs = Needs(options.server_resources, shards, options.resources, spec.n, reads)
    with ExitStack() as stack:
        watcher = watchers_of(spec.progress, spec.dashboard)
        stack.callback(watcher.close)
        ours = stack.enter_context(connected(options.address, needs.total(spec.n)))
        needs.check(ray.cluster_resources(), options.fewest)
        announcer = Announcer(watcher)
        mention_size(announcer, spec.n, spec.w0.size, shards, ours)
        if dataset is not None:
            parts = split(dataset, spec.n)
            stack.callback(dismiss, parts)
            spec = replace(spec, streams=parts)
        nodes = sum(node["Alive"] for node in ray.nodes())
        about = spec.about | {"activity": f"{spec.about['activity']} on Ray, {nodes} node{'s' * (nodes > 1)}"}
        tell_begin(watcher, {**about, "d": int(spec.w0.size)})
        spec = replace(spec, progress=False, dashboard=None, described=(about, spec.identity))
        secrets, name = Secrets.new(spec.n, options.tls), token_hex(3)
        given = ServerSpec(spec.without_data(), secrets, "127.0.0.1" if ours else None, options.port, shards)
        servers = Servers(given, options.server_resources, name)
        offer_model(watcher, servers.model)
        workers = Workers(spec, secrets, options.resources, name)
        run = Driver(needs, options.fewest or spec.n, options.start_timeout, announcer, servers, workers).run()
    give_result(watcher, run)
    return run


def mention_size(watcher: Announcer, n: int, d: int, shards: int, ours: bool) -> None:
    """Say how large the table is, and if a cluster of this machine has more processes than cores."""
    table = f"a table of {n} × {d} numbers, {8 * n * d:,} bytes"
    watcher.event(f"starting on Ray: {n} workers; {table}, on {shards} server{'s' * (shards > 1)}")
    cores = os.cpu_count() or 1
    if ours and n + shards > cores:
        what = f"{n + shards} processes share the {cores} core{'s' * (cores > 1)} of this machine"
        watcher.event(f"{what}, and each takes memory of its own; use fewer workers, or a cluster's address")


@dataclass
class Driver:
    """A run, from the first actor to the last."""

    needs: Needs
    fewest: int  # how many workers must be up for the run to begin
    start_timeout: float  # seconds for the servers to come up, and then for the workers
    watcher: Announcer
    servers: Servers
    workers: Workers
    clock: Callable[[], float] = time.monotonic
    _why: Ended | None = None  # the run is to end
    _shown: Snapshot | None = None
    _unplaced: float | None = None  # since when a server has no room

    def run(self) -> Run:
        """Start, watch and remove all actors; return the run, or raise what the server raised."""
        try:
            with interruptible(self.end):
                self._start_servers()
                if not self.servers.over():
                    self._start_workers()
                outcome = self._watch()
            self.workers.finish(GRACE)
            self.servers.finish()
        finally:
            self.workers.remove()
            self.servers.remove()
        for category, text in outcome.warnings:
            warn(text, category)
        if outcome.run is None:
            raise ray.cloudpickle.loads(outcome.error) from None
        copies: dict[str, Any] = {name: np.array(getattr(outcome.run, name)) for name in ARRAYS}  # Ray's go with it
        return replace(outcome.run, **copies)

    def end(self, ending: Ending, detail: str = "") -> None:
        """Let the run end in order; the server is told at the next look."""
        self._why = Ended(ending, detail)

    def _start_servers(self) -> None:
        until = self.clock() + self.start_timeout
        self.servers.start()
        while not (self.servers.placed and self._ask()) and not self.servers.over(PAUSE):
            if self._why is not None:  # there is no server to be told
                raise KeyboardInterrupt
            if self.clock() > until:
                what = "was not ready" if self.servers.placed else "could not be placed"
                raise SiagError(f"the server {what} within {self._state()}; wait, or raise start_timeout=")

    def _start_workers(self) -> None:
        workers, n = self.workers, self.needs.workers
        until = self.clock() + self.start_timeout
        workers.keep(self._room())
        while len(workers.up) < self.fewest and self._why is None and not self.servers.over():
            if self.clock() > until:
                up = len(workers.up)
                remedy = f"wait, ask for less with resources=, or start with some by fewest={max(up, 1)}"
                raise SiagError(f"{up} of {n} workers were there after {self._state()}; {remedy}")
            workers.look(LOOK)
            self._ask()
        if len(workers.up) < n:
            self.watcher.event(f"{len(workers.up)} of {n} workers are there; the others wait for room")
        workers.work(self.servers.first)

    def _state(self) -> str:
        free = self.needs.part_of(ray.available_resources())
        return f"{self.start_timeout:g} seconds: the cluster is busy (free: {free})"

    def _watch(self) -> Outcome:
        """Until the run is over: pass on what the server says, and tell it what it cannot know."""
        while not self.servers.over(LOOK):
            self.workers.look()
            self._ask()
            self._make_room()
        outcome = self.servers.outcome()
        with suppress(SiagError):  # the outcome is here, whatever has become of the server since
            for _ in range(2):  # the first answer may be to an earlier question
                self._ask()
        return outcome

    def _ask(self) -> bool:
        """Ask the server how things stand, and show that; tell it what it cannot know. Return whether it listens."""
        known = self.servers.missed
        look = self.servers.look(self._why, self.workers.gone)
        if look is None:
            if self.servers.missed:
                self._note_missed(known)
            return False
        for problem, text in look.lines:
            (self.watcher.alarm if problem else self.watcher.event)(text)
        if (snapshot := look.snapshot) is not None and snapshot != self._shown:
            self._shown = snapshot
            self.watcher.show(lambda: snapshot)
        return look.ready

    def _note_missed(self, known: bool) -> None:
        """Say, unless it is known, that the server is gone; a run that is to end does not wait until it is back."""
        if self._why is not None:
            what = f"{self._why.text} while the server is away"
            self.watcher.alarm(f"problem: {what}: the run ends at once; its last save is kept")
            raise KeyboardInterrupt
        if not known:
            self.watcher.alarm("problem: the server is gone; Ray restarts it, from its last save")

    def _room(self) -> int:
        """How many workers to start: all, which Ray places as it can; with Datasets as many as leave a CPU to read."""
        return self.needs.room(ray.cluster_resources()) if self.needs.reads else self.needs.workers

    def _make_room(self) -> None:
        """If Ray has had no room for a server for a while, end all workers until it has.

        Ray never ends one actor for another. Workers can do nothing without the servers, so nothing is lost.
        """
        if self.servers.placed:
            self._unplaced = None
            self.workers.keep(self._room())
        elif self._unplaced is None:
            self._unplaced = self.clock()
        elif self.clock() - self._unplaced >= CROWDED and self.workers.keep(0):
            self.watcher.alarm("problem: there is no room for a server; the workers make room until it has some")
