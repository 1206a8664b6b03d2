"""One run: a server, its workers, a network and a disk, in virtual time, with faults; checked after every event."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tests.torture.options import Options
from tests.torture.shadow import ETA, FAR, Broken, Shadow, require

from siag.activity import Clock, EveryArrivals, Exponential, Tick, Trace
from siag.foundations.errors import SiagError
from siag.live import wire
from siag.live.assembly import Assembly
from siag.live.connection import Action, Limits, Reception
from siag.live.connections import Connections
from siag.live.parts import Parts
from siag.live.reasons import Ending, Trouble
from siag.live.security import Tokens
from siag.live.spec import Spec
from siag.live.task import FromProblem, StreamEnded
from siag.live.transports.virtual import Client, Link, World, perform_one
from siag.live.until import Until
from siag.live.worker import Phase, Worker
from siag.methods import SIAG
from siag.problems import LeastSquares
from siag.server import DROP, KEEP, ParameterServer
from siag.simulation import simulate
from siag.steps import Constant
from siag.storage.background import Deferred
from siag.storage.simulated_disk import DiskFaults, SimulatedDisk
from siag.storage.store import Store

LOOK = 0.1  # virtual seconds between two looks of the server at what is no message
KEEPALIVE = 30.0  # virtual seconds after which a connection that is gone is noticed in any case
PATIENCE = 300.0  # virtual seconds, after faults have stopped, in which the run must end
LAST = 25  # samples of a worker whose stream ends
FOLDER, TRACE = Path("state"), Path("run.trace")


class Process(Protocol):
    """A server's process."""

    connections: Any
    arriving: Any

    @property
    def now(self) -> float:
        """What its clock shows."""

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what it wants done, unless it dies meanwhile."""

    def die(self) -> None:
        """It ends without a word."""


class Killed(BaseException):
    """A server's process dies here."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process


class Task(FromProblem):
    """A worker of the problem, whose stream may end."""

    last: int | None = None

    def compute(self, w: Any, out: Any) -> bool:
        """The next message."""
        if self.last is not None and self.sample + 1 >= self.last:
            raise StreamEnded
        return super().compute(w, out)


class Told(Worker):
    """A worker that tells what it has read, and which of its samples were acknowledged."""

    def __init__(self, shadow: Shadow, row: int, **given: Any) -> None:
        super().__init__(**given)
        self._shadow, self._row, self._sent = shadow, row, -1

    def computed(self, send: bool, now: float) -> Any:
        """A message is sent, if there is a server."""
        number = -1 if self.task is None else self.task.sample
        actions = super().computed(send, now)
        self._sent = number if any(hasattr(action, "head") for action in actions) else -1
        return actions

    def lost(self, reason: str, now: float) -> Any:
        """Whether it has arrived is not known."""
        self._sent = -1
        return super().lost(reason, now)

    def frame(self, head: wire.Head, content: dict[str, Any], now: float) -> Any:
        """An answer."""
        if head.kind == wire.REFUSAL:
            self._sent = -1
        if head.kind == wire.MODEL and self.phase in (Phase.JOINED, Phase.WELCOMED):
            self._shadow.read(self._row, head.stamp, self._sent)
            self._sent = -1
        return super().frame(head, content, now)


class Tap:
    """Tells the shadow what a server does, and then its trace."""

    def __init__(self, torture: Torture, trace: Any) -> None:
        self._torture, self._shadow, self._trace = torture, torture.shadow, trace

    def report(self, version: int, worker: int, stamp: int, sample: int, seconds: float) -> None:
        """A report was taken."""
        self._torture.check_owner(worker)
        self._shadow.report(version, worker, stamp, sample)
        if self._trace is not None:
            self._trace.report(version, worker, stamp, sample, seconds)

    def fade(self, version: int, worker: int, factor: float, seconds: float) -> None:
        """A row counts for less."""
        self._shadow.fade(worker, factor)
        if self._trace is not None:
            self._trace.fade(version, worker, factor, seconds)

    def memory_lost(self, version: int, worker: int, seconds: float) -> None:
        """A worker has lost what it remembered."""
        if self._trace is not None:
            self._trace.memory_lost(version, worker, seconds)


class Wire(Link):
    """A connection whose messages are late, arrive in pieces, and are lost when it is cut."""

    def __init__(self, torture: Torture, client: Any, process: Process) -> None:
        self._process, self._rng, self._options = process, torture.rng, torture.options
        super().__init__(torture.world, client, process.connections, torture.delay)
        self.gone = False  # nothing arrives any more

    def to_server(self, content: bytes) -> None:
        """The worker sends something."""
        for piece in self._pieces(content):
            super().to_server(piece)

    def to_worker(self, content: bytes) -> None:
        """The server sends something."""
        for piece in self._pieces(content):
            super().to_worker(piece)

    def break_off(self, noticed: bool) -> None:
        """Nothing arrives any more; the worker finds out, and the server at once or late."""
        self.gone = True
        self._lose_here("the connection was cut")
        if noticed:
            self.lose_there()
        else:
            self._world.after(KEEPALIVE, self.lose_there)

    def abandon(self) -> None:
        """The worker has given it up; what is on its way still arrives."""
        self._lose_here("the connection was reset")
        self._world.after(self._rng.uniform(0.0, 15.0), self.lose_there)

    def stall(self, seconds: float) -> None:
        """What the worker sends from now on arrives so many seconds later."""
        self._last[0] = max(self._last[0], self._world.now) + seconds

    def _server_time(self) -> float:
        return self._process.now

    def _pieces(self, content: bytes) -> list[bytes]:
        if not self._options.pieces or len(content) < 2:
            return [content]
        ends = sorted(self._rng.sample(range(1, len(content)), min(len(content) - 1, self._rng.randint(0, 3))))
        return [content[first:last] for first, last in zip([0, *ends], [*ends, len(content)], strict=True)]

    def _arrive_there(self, content: bytes) -> None:
        if not self.gone and self._process.connections is self._reception:
            self._process.arriving = self
            try:
                super()._arrive_there(content)
            finally:
                self._process.arriving = None

    def _arrive_here(self, content: bytes) -> None:
        if not self.gone:
            super()._arrive_here(content)

    def lose_there(self) -> None:
        """The server finds the connection gone, if it is still the same."""
        if self._process.connections is self._reception:
            super().lose_there()

    def _perform(self, actions: Iterable[Action]) -> None:
        self._process.perform(actions)


class Host(Client):
    """A worker's process, on a machine with faults."""

    def __init__(self, torture: Torture, row: int, worker: Worker, agenda: Any) -> None:
        super().__init__(torture.world, row, worker, lambda: torture.connections, agenda)
        self._torture, self.down = torture, False

    def _open(self, reception: Reception) -> Link:
        return Wire(self._torture, self, self._torture)


class Watched(Store):
    """A store that tells which version is on disk."""

    def __init__(self, shadow: Shadow, *given: Any, **more: Any) -> None:
        self._shadow, self._version = shadow, 0
        super().__init__(*given, publish=self._published, **more)

    def save(self, arrays: Any, changed: Any, meta: Any, **more: Any) -> bool:
        """Have the state written."""
        if not self.busy:
            self._version = meta["version"]
        return super().save(arrays, changed, meta, **more)

    def _published(self) -> None:
        self._shadow.saved = max(self._shadow.saved, self._version)


class Torture:
    """A run and all that goes wrong in it.

    Args:
        options: what a seed stands for.
        connections: the kind of connections; a test may give one with a mistake. So for all that follow.
        store: the kind of store.
        disk: the kind of disk.
        server: called with each server that was started.
        method: the method.
    """

    def __init__(
        self,
        options: Options,
        *,
        connections: type[Connections] = Connections,
        store: type[Watched] = Watched,
        disk: type[SimulatedDisk] = SimulatedDisk,
        server: Callable[[ParameterServer], None] = lambda server: None,
        method: SIAG | None = None,
    ) -> None:
        self.options, self.rng, self.world = options, random.Random(f"world {options.seed}"), World()
        self._kinds = connections, store
        self._touch = server
        self.disk = disk(random.Random(f"disk {options.seed}"))
        self.problem = LeastSquares.random(n=options.workers, d=3, p=1, noise=0.1, seed=7)
        self.method = SIAG(resum=options.resum)
        self.shadow = Shadow(self.problem, self.method, options.every, self.shards)
        self._used = self.method if method is None else method
        self.connections: Connections | None = None
        self.assembly: Assembly | None = None
        self.arriving: Wire | None = None  # what the server is reading now
        self.quiet = self.done = False
        self._life = 0
        self._doom: int | None = None  # how many actions the server has left
        self._jump = 0.0
        agenda = Clock(Exponential(options.compute)).begin(options.workers, options.seed, 0)
        self.hosts = [self._host(row, self._worker(row), agenda) for row in range(options.workers)]
        self.delay = None if options.delay == 0.0 else partial(self.rng.expovariate, 1.0 / options.delay)
        self._backgrounds: list[Deferred] = []

    @property
    def shards(self) -> int:
        """How many servers there are."""
        return 1

    def _host(self, row: int, worker: Worker, agenda: Any) -> Host:
        return Host(self, row, worker, agenda)

    # The run

    def run(self) -> None:
        """Let everything happen; `Broken` if a promise is."""
        options, world = self.options, self.world
        world.at(0.0, self._start)
        for row, host in enumerate(self.hosts):
            world.at(self.rng.uniform(0.0, 0.5), host.start, row)
            self._again(options.cuts, partial(self._cut, host))
            self._again(options.stalls, partial(self._stall, host))
            self._again(options.kills, partial(self._kill_worker, host, row))
        self._again(options.server_kills, self._doom_server)
        self._again(options.power, self._cut_power)
        self._again(options.jumps, self._jump_clock)
        self._again(options.disk_trouble, self._trouble_disk)
        world.at(options.quiet, self._calm)
        while not self.done:
            require(world.now < options.quiet + PATIENCE, f"the run does not end: {self._whereabouts()}")
            self.event()

    def event(self) -> None:
        """The next thing happens."""
        try:
            require(self.world.step(), "nothing is left to happen")
        except Killed as killed:
            killed.process.die()
        if self.dark:
            self._end_life(power=True)
        if self.assembly is not None:
            self.shadow.check(self.assembly.server)

    @property
    def now(self) -> float:
        """What the server's clock shows."""
        return self.world.now + self._jump

    def die(self) -> None:
        """The server's process ends without a word."""
        if self.assembly is not None:
            self.shadow.check(self.assembly.server)
        self._end_life(power=self.dark)

    @property
    def dark(self) -> bool:
        """Whether the power of its machine has failed."""
        return self.disk.left is not None and self.disk.left < 0

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what the server wants done, unless it dies meanwhile."""
        for action in actions:
            self.may_die()
            if self.connections is not None:
                perform_one(self.connections, action)

    def may_die(self) -> None:
        """The server's process may die here."""
        if self._doom is not None:
            self._doom -= 1
            if self._doom < 0:
                raise Killed(self)

    # The server

    def _start(self) -> None:
        """Start a server, or try again soon if the disk does not let it."""
        if self.done or self.assembly is not None:
            return
        try:
            spec, name = self._spec(), f"run {self.options.seed}"
            self.assembly = Assembly(spec, parts=self._parts(spec), clock=lambda: self.now, run_id=name)
        except (SiagError, OSError) as error:
            self._not_started(error)
            self._backgrounds.clear()
            self.disk.kill()
            self.world.after(0.5, self._start)
            return
        session, server = self.assembly.session, self.assembly.server
        if session.recovered:
            self._recovered(server)
        else:
            acknowledged = self.options.durable and max(self.shadow.acknowledged, default=-1) >= 0
            require(self.shadow.saved == 0 and not acknowledged, "what was saved or acknowledged is gone")
            self.shadow.begin_afresh()
        self._touch(server)
        server.trace = Tap(self, session.trace)
        self.connections = self._kinds[0](session, Tokens.none(), Limits(), now=self.now)
        self._begun()
        life = self._life
        session.begin(self.now)
        self._look(life)

    def _parts(self, spec: Spec) -> Parts:
        return _Parts(self, self._kinds[1], spec)

    def _not_started(self, error: Exception) -> None:
        """It cannot be started: the disk does not let it."""
        require(not self.quiet, f"it cannot be started: {error}")

    def _recovered(self, server: ParameterServer) -> None:
        """It goes on with what it has found."""
        self.shadow.recovered(server, self.options.durable)

    def _begun(self) -> None:
        """It goes on from here."""

    def _spec(self) -> Spec:
        options = self.options
        return Spec(
            problem=self.problem,
            w0=np.full(self.problem.d, FAR),
            method=self._used,
            step=Constant(ETA),
            until=Until(reports=options.total),
            server=Tick(0.5) if options.every == 0 else EveryArrivals(options.every),
            departed=DROP if options.drop else KEEP,
            folder=FOLDER,
            durable=options.durable,
            trace=TRACE if options.traced else None,
            progress=False,
        ).validate()

    def _look(self, life: int) -> None:
        """The server looks at everything that is no message, again and again; saves go on in the background."""
        if life != self._life or self.assembly is None or self.connections is None:
            return
        session, connections = self.assembly.session, self.connections
        self.world.after(self.rng.uniform(0.5, 1.5) * LOOK, partial(self._look, life))
        session.look_after(self.now)
        self.shadow.catch_up(session.server)
        cut, actions = connections.slow(self.now)
        for connection in cut:
            connection.place.lose_there()
            connection.place.close_there()
        self.perform(actions)
        if connections.pending:
            self.perform(connections.flush(self.now))
        for background in self._backgrounds:
            if background.busy:
                self.world.after(self.rng.expovariate(10.0), partial(self._write, life, background))
        if connections.failure is not None:
            raise connections.failure
        if session.over:
            self._finish()

    def _write(self, life: int, background: Deferred) -> None:
        if life == self._life:
            background.step()

    def _finish(self) -> None:
        """The run has ended: what is on disk is what it ended with."""
        assembly, connections = self.assembly, self.connections
        if assembly is None or connections is None:
            return
        session = assembly.session
        require(session.ended is not None and session.ended.ending in ENDS, f"it ended because {session.why}")
        session.finish(self.now)
        self.perform(connections.goodbye(True, session.why))
        assembly.close()
        self.shadow.check(assembly.server)
        given_up = session.trace is not None and session.trace.tail is None
        if all(problem.what is Trouble.TRACE and given_up for problem in session.problems):
            self._check_disk(traced=self.options.traced and not given_up)
        else:  # it could not be written: whoever starts it again goes on from what was
            require(not self.quiet, f"the last save failed: {session.problems}")
            self._end_life(power=False)

    def _check_disk(self, traced: bool) -> None:
        """What was kept is what there was."""
        spec = replace(self._spec(), trace=None)
        again = Assembly(spec, parts=self._parts(spec), clock=lambda: self.now)
        self._check_all(again.server)
        again.close()
        if traced:
            self.check_trace()
        self.done = True

    def _check_all(self, server: ParameterServer) -> None:
        """What was found on disk is what there was."""
        self.shadow.check(server)

    def check_owner(self, row: int) -> None:
        """A report was taken: it must have come by the connection that has the worker's row."""
        owner = None if self.connections is None else self.connections.by_row.get(row)
        require(owner is not None and owner.place is self.arriving, f"row {row} was written by another connection")

    def check_trace(self) -> None:
        """The trace has the reports that were taken, in order, and a replay of it ends where the run did."""
        with self.disk.read(TRACE) as stream:
            trace = Trace.parse(str(TRACE), stream.read())
        columns = (trace.version, trace.worker, trace.stamp, trace.sample)
        reports = np.isnan(trace.factor)
        found = [*zip(*(column[reports].tolist() for column in columns), strict=True)]
        require(found == self.shadow.lines, f"the trace has {len(found)} reports, not {len(self.shadow.lines)}")
        if trace.length > 0:
            start, step = np.full(self.problem.d, FAR), Constant(ETA)
            run = simulate(self.problem, self.method, trace, step, iterations=trace.length, w0=start, threads=1)
            last = self.shadow.models[trace.length]
            require(run.w[0].tobytes() == last.tobytes(), f"a replay of the trace ends at {run.w[0]}, not at {last}")

    # What goes wrong

    def _again(self, mean: float, fault: Callable[[], None]) -> None:
        """Have a fault happen again and again, until it is quiet."""
        if mean == 0.0:
            return

        def happen() -> None:
            if not self.quiet:
                fault()
                self._again(mean, fault)

        self.world.after(self.rng.expovariate(1.0 / mean), happen)

    def _cut(self, host: Host) -> None:
        link: Any = host.link
        if link is not None:
            if self.rng.random() < 0.3:
                link.abandon()
            else:
                link.break_off(self.rng.random() >= self.options.half_open)

    def _stall(self, host: Host) -> None:
        link: Any = host.link
        if link is not None:
            link.stall(self.rng.uniform(1.0, 12.0))

    def _kill_worker(self, host: Host, row: int) -> None:
        if not host.alive or host.down:
            return
        link: Any = host.link
        if link is not None and self.rng.random() < self.options.half_open:
            link.break_off(noticed=False)
        host.kill(self._worker(row))
        host.down = True

        def start() -> None:
            host.down = False
            host.start()

        self.world.after(self.rng.expovariate(1.0 / self.options.down), start)

    def _doom_server(self) -> None:
        self._doom = self.rng.randint(0, 5)

    def _cut_power(self) -> None:
        if self.rng.random() < 0.5:
            self.disk.left = self.rng.randint(0, 10)  # in the middle of what it writes next
        else:
            self._end_life(power=True)

    def _jump_clock(self) -> None:
        self._jump += self.rng.uniform(0.5, 100.0)

    def _trouble_disk(self) -> None:
        self.disk.faults = self.options.disk
        self.world.after(1.0, self._mend_disk)

    def _mend_disk(self) -> None:
        self.disk.faults = DiskFaults()

    def _calm(self) -> None:
        """Faults stop."""
        self.quiet, self._doom, self.disk.left = True, None, None
        self._mend_disk()

    def _end_life(self, power: bool) -> None:
        """The server's process ends without a word; another one is started."""
        self._life += 1
        self._doom = None
        if power:
            self.disk.crash()
        else:
            self.disk.kill()
        self._backgrounds.clear()
        was, self.assembly, self.connections = self.connections, None, None
        for connection in [] if was is None else list(was.connections):
            connection.place.gone = True
            self.world.after(self.rng.uniform(0.0, 0.1), partial(connection.place._lose_here, "the server is gone"))
        self.world.after(0.0 if self.quiet else self.rng.expovariate(1.0 / self.options.down), self._start)

    def _worker(self, row: int) -> Worker:
        """A worker that begins."""

        def make(*_: Any) -> Task:
            task = Task(self.problem, self.method, 0, np.full(self.problem.d, FAR))
            task.last = LAST if self.options.leaver and row == 0 and self.options.workers > 1 else None
            return task

        rng = random.Random(self.rng.random())
        return Told(self.shadow, row, make=make, name=str(row), rng=rng)

    def _whereabouts(self) -> str:
        server = "there is no server" if self.assembly is None else f"version {self.assembly.server.version}"
        return f"{server}; workers: {', '.join(host.worker.phase.name for host in self.hosts)}"


class _Parts(Parts):
    """A session on the simulated disk."""

    def __init__(self, torture: Torture, store: type[Watched], spec: Spec) -> None:
        entropy = torture.rng.randbytes
        super().__init__(spec, disk=torture.disk, background=self._deferred, entropy=entropy)
        self._torture, self._kind = torture, store

    def _deferred(self, name: str) -> Deferred:
        made = Deferred()
        self._torture._backgrounds.append(made)
        return made

    def store(self, stack: Any, server: ParameterServer) -> Store:
        """A store that tells which version is on disk."""
        options = self._torture.options
        given: dict[str, Any] = {"durable": options.durable, "spare": options.spare, "disk": self._torture.disk}
        made = self._kind(
            self._torture.shadow,
            FOLDER,
            self.spec.identity,
            **given,
            background=self._deferred("store"),
            entropy=self.entropy,
        )
        stack.callback(made.close)
        return made


ENDS = (Ending.REACHED, Ending.REACHED_BEFORE, Ending.ALL_LEFT)


__all__ = ["Broken", "Options", "Torture"]
