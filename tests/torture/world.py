"""One run: a server, its workers, a network and a disk, in virtual time, with faults; checked after every event."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.torture.clocks import Clocks
from tests.torture.disk import Deferred, DiskFaults, SimulatedDisk
from tests.torture.machine import LOOK
from tests.torture.network import Host, Killed, Wire
from tests.torture.observed import FOLDER, SimulatedAssembly, Tap, Task, Told, Watched, expect_no_refusals
from tests.torture.options import Options
from tests.torture.shadow import ETA, FAR, Broken, Shadow, require

from siag.activity import Clock, EveryArrivals, Exponential, Tick, Trace
from siag.foundations.errors import SiagError
from siag.live.assembly import Assembly
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Action, Limits
from siag.live.protocol.worker import Phase, Worker
from siag.live.reasons import Ending, Trouble
from siag.live.security import Tokens
from siag.live.spec import Spec
from siag.live.transports.simulated.world import World
from siag.live.until import Until
from siag.methods import SIAG
from siag.problems import LeastSquares
from siag.server import DROP, KEEP, ParameterServer
from siag.simulation import simulate
from siag.steps import Constant

PATIENCE = 300.0  # virtual seconds, after faults have stopped, in which the run must end
LAST = 25  # samples of a worker whose stream ends
TRACE = Path("run.trace")
ENDS = (Ending.REACHED, Ending.REACHED_BEFORE, Ending.ALL_LEFT)


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

    limits = Limits()  # on its connections

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
        self.traced = options.traced  # until the disk makes a server give its trace up
        self._kinds = connections, store
        self._touch = server
        self.clocks = Clocks(self.world, f"clocks {options.seed}")
        self.disk = disk(random.Random(f"disk {options.seed}"), clock=self.clocks.wall)
        self.problem = LeastSquares.random(n=options.workers, d=3, p=1, noise=0.1, seed=7)
        self.method = SIAG(resum=options.resum)
        self._used = self.method if method is None else method
        self.connections: Connections | None = None
        self.assembly: Assembly | None = None
        self.arriving: Wire | None = None  # what the server is reading now
        self.quiet = self.done = False
        self._life = 0
        self._doom: int | None = None  # how many actions the server has left
        agenda = Clock(Exponential(options.compute)).begin(options.workers + options.relays, options.seed, 0)
        self.agenda = agenda
        self.shadow = self._make_shadow()
        self.hosts = [Host(self, row, self._worker(row), self.place(row), agenda) for row in range(options.workers)]
        self.delay: Callable[[], float] | None = (
            None if options.delay == 0.0 else partial(self.rng.expovariate, 1.0 / options.delay)
        )
        self._backgrounds: list[Deferred] = []

    @property
    def shards(self) -> int:
        """How many servers there are."""
        return 1

    @property
    def total(self) -> int:
        """Reports after which the run ends."""
        return self.options.total

    @property
    def names(self) -> list[str]:
        """Of all that work for the server: their numbers."""
        return [str(row) for row in range(self.options.workers)]

    def place(self, worker: int) -> Any:
        """What a worker works for."""
        return self

    def _make_shadow(self) -> Shadow:
        return Shadow(self.problem, self.method, self.options.every, self.shards)

    def connect(self, client: Any) -> Any:
        """A worker's connection to the server, if there is one."""
        return None if self.connections is None else Wire(self, client, self)

    # The run

    def run(self) -> None:
        """Let everything happen; `Broken` if a promise is."""
        options, world = self.options, self.world
        world.at(0.0, self._start)
        for row, host in enumerate(self.hosts):
            later = row >= options.workers - options.newcomers
            world.at(self.rng.uniform(0.0, options.quiet if later else 0.5), host.start, row)
            self._again(options.cuts, partial(self._cut, host))
            self._again(options.stalls, partial(self._stall, host))
            self._again(options.kills, partial(self._kill_worker, host, row))
        self._again(options.server_kills, self._doom_server)
        self._again(options.power, self._cut_power)
        self._again(options.jumps, self._jump_clock)
        self._again(options.disk_trouble, self._trouble_disk)
        world.at(options.quiet, self._calm)
        while not self.done:
            if world.now >= options.quiet + PATIENCE:
                raise Broken(f"the run does not end: {self._whereabouts()}")
            self.event()

    def event(self) -> None:
        """The next thing happens."""
        try:
            require(self.world.step(), "nothing is left to happen")
        except Killed as killed:
            killed.process.die()
        if self.dark:
            self._end_life(power=True)
        self._check()

    def _check(self) -> None:
        """What must be so is so, also if it was found while the server took a report and keeps what goes wrong."""
        failure = None if self.connections is None else self.connections.failure
        if isinstance(failure, Broken):
            raise failure
        if self.assembly is not None:
            self.shadow.check(self.assembly.server)

    @property
    def now(self) -> float:
        """What the server's clock shows."""
        return self.clocks.now

    def die(self) -> None:
        """The server's process ends without a word."""
        self._check()
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
                action.connection.place.perform(action)

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
            spec = self._spec()
            self.assembly = self._assemble(spec)
        except (SiagError, OSError) as error:
            self._not_started(error)
            self._backgrounds.clear()
            self.disk.kill()
            self.world.after(0.5, self._start)
            return
        session, server = self.assembly.session, self.assembly.server
        if session.past.recovered:
            self._recovered(server)
        else:
            acknowledged = self.options.durable and max(self.shadow.acknowledged.values(), default=-1) >= 0
            require(self.shadow.saved == 0 and not acknowledged, "what was saved or acknowledged is gone")
            self.shadow.begin_afresh()
        self._touch(server)
        self.shadow.live(session.life)
        server.trace = Tap(self, session.trace)
        expect_no_refusals(session)
        opened = {"open": True} if self.options.newcomers else {}
        self.connections = self._kinds[0](session, Tokens.none(), self.limits, now=self.now, **opened)
        self._begun()
        life = self._life
        session.begin(self.now)
        self._look(life)

    def _assemble(self, spec: Spec) -> Assembly:
        return SimulatedAssembly(self, self._kinds[1], spec)

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
        names = self.names
        expected = names[: len(names) - options.newcomers]
        joining = {"names": expected, "open": True, "max_workers": len(names)}
        given = joining if options.newcomers else {"names": names} if options.relays else {"problem": self.problem}
        return Spec(
            **given,
            w0=np.full(self.problem.d, FAR),
            method=self._used,
            step=Constant(ETA),
            until=Until(reports=self.total),
            server=Tick(0.5) if options.every == 0 else EveryArrivals(options.every),
            departed=DROP if options.drop else KEEP,
            folder=FOLDER,
            durable=options.durable,
            trace=TRACE if self.traced else None,
            progress=False,
        ).validate(serving=options.newcomers + options.relays > 0)

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
            self._check_disk(traced=self.traced and not given_up)
        else:  # it could not be written: whoever starts it again goes on from what was
            require(not self.quiet, f"the last save failed: {session.problems}")
            self._end_life(power=False)

    def _check_disk(self, traced: bool) -> None:
        """What was kept is what there was; the power does not fail any more."""
        self.disk.left = None
        spec = replace(self._spec(), trace=None)
        again = self._assemble(spec)
        self._check_all(again.server)
        again.close()
        if traced:
            self.check_trace()
        self.done = True

    def _check_all(self, server: ParameterServer) -> None:
        """What was found on disk is what there was."""
        self.shadow.check(server)

    def check_owner(self, row: int) -> int:
        """A report was taken: it must have come by the connection that has the worker's row. Whose it is."""
        owner = None if self.connections is None else self.connections.by_row.get(row)
        require(owner is not None and owner.place is self.arriving, f"row {row} was written by another connection")
        worker = self.client_of(row)
        require(self.arriving.client is self.clients[worker], f"row {row} was written by another worker")
        return worker

    def client_of(self, row: int) -> int:
        """The number of the worker that has a row."""
        return int(self.assembly.server.members[row].name)

    @property
    def clients(self) -> dict[int, Host]:
        """All that work for the server or for a relay of it, by number."""
        return dict(enumerate(self.hosts))

    def check_trace(self) -> None:
        """The trace has the reports that were taken, in order, and a replay of it ends where the run did."""
        with self.disk.read(TRACE) as stream:
            trace = Trace.parse(str(TRACE), stream.read())
        columns = (trace.version, trace.worker, trace.stamp, trace.sample)
        reports = np.isnan(trace.factor)
        found = [*zip(*(column[reports].tolist() for column in columns), strict=True)]
        require(found == self.shadow.lines, f"the trace has {len(found)} reports, not {len(self.shadow.lines)}")
        if trace.length > 0 and self.shadow.in_order:
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
        if not host.alive or host.worker.phase is Phase.AWAY:  # it is not running
            return
        link: Any = host.link
        if link is not None and self.rng.random() < self.options.half_open:
            link.break_off(noticed=False)
        host.kill(self._worker(row), self.rng.expovariate(1.0 / self.options.down))

    def _doom_server(self) -> None:
        self._doom = self.rng.randint(0, 5)

    def _cut_power(self) -> None:
        if self.rng.random() < 0.5:
            self.disk.left = self.rng.randint(0, 10)  # in the middle of what it writes next
        else:
            self._end_life(power=True)

    def _jump_clock(self) -> None:
        self.clocks.jump(self.rng.uniform(0.5, 100.0))

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
        self.note_trace()
        if power:
            self.disk.crash()
            self.clocks.restart()
        else:
            self.disk.kill()
        self._backgrounds.clear()
        was, self.assembly, self.connections = self.connections, None, None
        for connection in [] if was is None else list(was.connections):
            connection.place.gone = True
            self.world.after(self.rng.uniform(0.0, 0.1), partial(connection.place.lose_here, "the server is gone"))
        self.world.after(0.0 if self.quiet else self.rng.expovariate(1.0 / self.options.down), self._start)

    def note_trace(self) -> None:
        """If the server had to give its trace up, the run goes on without one, as its user is told to."""
        trace = None if self.assembly is None else self.assembly.session.trace
        if trace is not None and trace.tail is None:
            self.traced = False

    def _worker(self, row: int) -> Worker:
        """A worker that begins."""

        def make(*_: Any) -> Task:
            task = Task(self.problem, self.method, 0, np.full(self.problem.d, FAR))
            task.index = row
            task.last = LAST if self.options.leaver and row == 0 and self.options.workers > 1 else None
            return task

        rng = random.Random(self.rng.random())
        return Told(self.place(row).shadow, row, make=make, name=str(row), rng=rng)

    def _whereabouts(self) -> str:
        server = "there is no server" if self.assembly is None else f"version {self.assembly.server.version}"
        return f"{server}; workers: {', '.join(host.worker.phase.name for host in self.hosts)}"
