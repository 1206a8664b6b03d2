"""A run whose model is split over several servers, each a process on a machine of its own."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.torture.lines import Line, SplitLink
from tests.torture.options import Options
from tests.torture.shadow import require
from tests.torture.world import FOLDER, KEEPALIVE, LOOK, Broken, Host, Killed, Shadow, Torture

from siag.foundations.errors import BadFile
from siag.live.connection import Action, Actions, Connection, Limits, Reception
from siag.live.reasons import Ending
from siag.live.security import Tokens
from siag.live.sharding import ShardLost, bounds
from siag.live.sharding.assembled import Followers, SplitParts
from siag.live.sharding.connections import LeadConnections
from siag.live.sharding.follower_connections import LEAD, FollowerConnections
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import agreed
from siag.live.sharding.saves import LeadStore, ShardStore
from siag.live.sharding.slice_server import SliceServer
from siag.live.spec import Spec
from siag.live.transports.virtual import perform_one
from siag.live.worker import Worker
from siag.server import ParameterServer
from siag.storage.background import Deferred
from siag.storage.simulated_disk import DiskFaults, SimulatedDisk

SECRET = "a secret of the servers"
RETRY = 0.2  # virtual seconds before a lead that has lost a follower begins again
READ = 0.2  # how likely the lead reads all of w when it looks after things
WAITS = 1000  # steps that a follower may take to answer


class Counted(SliceServer):
    """A slice that counts its changes."""

    changes = 0

    def take(self, *given: Any) -> None:
        """Receive a report."""
        super().take(*given)
        self.changes += 1

    def move(self, eta: float) -> None:
        """Step."""
        super().move(eta)
        self.changes += 1

    def fade(self, row: int, factor: float) -> None:
        """Let a row count for less."""
        super().fade(row, factor)
        self.changes += 1


class WatchedLead(LeadStore):
    """A lead's store that tells which version all shards have on disk."""

    def __init__(self, shadow: Shadow, *given: Any, **more: Any) -> None:
        self._shadow, self._versions = shadow, dict[int, int]()
        super().__init__(*given, **more)

    def save_as(self, number: int, common: int, arrays: Any, changed: Any, meta: Any) -> bool:
        """Have a save written."""
        self._versions[number] = meta["version"]
        return super().save_as(number, common, arrays, changed, meta)

    def _settle(self) -> None:
        super()._settle()
        self._shadow.saved = max(self._shadow.saved, self._versions.get(self._common, 0))


class Strict(FollowerConnections):
    """A follower's connections; whatever the lead says must make sense."""

    def handle_garbage(self, connection: Connection, reason: str, now: float) -> Actions:
        """Garbage."""
        require(connection.row != LEAD, f"a follower does not understand its lead: {reason}")
        return super().handle_garbage(connection, reason, now)


class Follower:
    """A follower's process, and its machine.

    Args:
        torture: the run.
        k: the shard.
        kind: the kind of connections.
        store: the kind of store.
        disk: the kind of disk.
    """

    def __init__(
        self,
        torture: ShardedTorture,
        k: int,
        kind: type[Strict],
        store: type[ShardStore],
        disk: type[SimulatedDisk],
    ) -> None:
        self._torture, self._k, self._kind, self._kind_of_store = torture, k, kind, store
        self.disk = disk(random.Random(f"disk {torture.options.seed} {k}"))
        self.connections: FollowerConnections | None = None
        self.arriving: Any = None
        self.server: Counted | None = None
        self._watched: Counted | None = None  # the slice that is known to follow the lead there is, or was
        self._first = 0  # how many changes had made it what it was when it began to follow
        self._seen = -1
        self.doom: int | None = None
        self._life = 0
        self._backgrounds: list[Deferred] = []

    @property
    def now(self) -> float:
        """What its clock shows."""
        return self._torture.world.now

    def start(self) -> None:
        """Start a process."""
        if self.connections is not None:
            return
        torture, spec = self._torture, self._torture.spec
        first, last = bounds(spec.w0.size, torture.shards, self._k)

        def make() -> SliceServer:
            self.server = Counted(spec.method, spec.w0, spec.n, first, last)
            return self.server

        facts = {"shard": self._k, "shards": torture.shards, **agreed(spec.method, spec.w0, spec.n)}
        given = Tokens.none(), SECRET, Limits(), self._store
        self.connections = self._kind(make, (first, last), facts, *given)
        self._look(self._life)

    def _store(self, run: str) -> ShardStore:
        torture, background = self._torture, Deferred()
        self._backgrounds.append(background)
        writing: dict[str, Any] = {"disk": self.disk, "background": background, "entropy": torture.rng.randbytes}
        identity = {"n": torture.spec.n, "run": run}
        spare = torture.options.spare
        return self._kind_of_store(FOLDER, identity, self._k, torture.shards, spare=spare, **writing)

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what it wants done, unless it dies meanwhile."""
        try:
            for action in actions:
                if self.doom is not None:
                    self.doom -= 1
                    if self.doom < 0:
                        raise Killed(self)
                if self.connections is None or self.dark:
                    return
                perform_one(self.connections, action)
        except OSError as error:
            if not self.dark:
                raise Broken(f"shard {self._k} fails: {error}") from error

    @property
    def dark(self) -> bool:
        """Whether its power has failed."""
        return self.disk.left is not None and self.disk.left < 0

    def die(self) -> None:
        """It ends without a word."""
        self.end_life(power=False)

    def end_life(self, power: bool) -> None:
        """It ends without a word; another one is started."""
        torture, rng = self._torture, self._torture.rng
        self._life += 1
        self.doom = None
        if power:
            self.disk.crash()
        else:
            self.disk.kill()
        self._backgrounds.clear()
        was, self.connections = self.connections, None
        for connection in [] if was is None else list(was.connections):
            connection.place.gone = True
            torture.world.after(rng.uniform(0.0, 0.1), partial(connection.place._lose_here, "the server is gone"))
        torture.world.after(0.0 if torture.quiet else rng.expovariate(1.0 / torture.options.down), self.start)

    def go_on(self) -> None:
        """While the lead waits for it: it writes what it has to, and says so."""
        for background in self._backgrounds:
            background.step()
        if self.connections is not None and self.connections.pending:
            self.perform(self.connections.flush(self.now))

    def _look(self, life: int) -> None:
        """It looks at everything that is no message, again and again."""
        if life != self._life or self.connections is None:
            return
        world, rng = self._torture.world, self._torture.rng
        world.after(rng.uniform(0.5, 1.5) * LOOK, partial(self._look, life))
        cut, actions = self.connections.slow(self.now)
        for connection in cut:
            connection.place.lose_there()
            connection.place.close_there()
        self.perform(actions)
        if self.connections is not None and self.connections.pending:
            self.perform(self.connections.flush(self.now))
        for background in self._backgrounds:
            if background.busy:
                world.after(rng.expovariate(10.0), partial(self._write, life, background))

    def _write(self, life: int, background: Deferred) -> None:
        if life == self._life:
            background.step()

    def follows(self, changes: int) -> None:
        """It follows a lead from here, after so many changes."""
        self._watched, self._first, self._seen = self.server, changes, -1

    def check(self) -> None:
        """Its slice is what it must be, after the changes that it has heard of."""
        server = self.server
        if server is not None and server is self._watched and server.changes != self._seen:
            self._seen = server.changes
            self._torture.shadow.check_slice(self._k, self._first + server.changes, server.arrays)


class SplitHost(Host):
    """A worker's process, with connections to all servers."""

    def __init__(self, torture: ShardedTorture, row: int, worker: Worker, agenda: Any) -> None:
        super().__init__(torture, row, worker, agenda)
        self._split = torture
        self._reception = lambda: torture.connections if torture.up else None

    def _open(self, reception: Reception) -> Any:
        return SplitLink(self._split, self)


class ShardedTorture(Torture):
    """A run whose model is split, and all that goes wrong in it; it is the lead's process as well.

    Args:
        options: what a seed stands for.
        followers: the kind of the followers' connections; a test may give one with a mistake. So for all that follow.
        shard_store: the kind of the followers' stores.
        lead_store: the kind of the lead's.
        disk: the kind of disk.
    """

    def __init__(
        self,
        options: Options,
        *,
        followers: type[Strict] = Strict,
        shard_store: type[ShardStore] = ShardStore,
        lead_store: type[WatchedLead] = WatchedLead,
        disk: type[SimulatedDisk] = SimulatedDisk,
        connections: type[LeadConnections] = LeadConnections,
    ) -> None:
        self.lines: list[Line] = []  # the lead's connections
        self._lines_opened = 0
        super().__init__(options, connections=connections, disk=disk)
        self.spec, self.lead_store = self._spec(), lead_store
        self.followers = [Follower(self, k, followers, shard_store, disk) for k in range(1, options.shards)]
        self.delay = self.delay or (lambda: 0.0)  # a lead that waits hears nothing from anybody else

    @property
    def shards(self) -> int:
        """How many servers there are."""
        return self.options.shards

    @property
    def processes(self) -> list[Any]:
        """Of all servers."""
        return [self, *self.followers]

    @property
    def up(self) -> bool:
        """Whether all servers listen."""
        return all(process.connections is not None for process in self.processes)

    def number_of_line(self) -> int:
        """Another one each time."""
        self._lines_opened += 1
        return self._lines_opened

    def run(self) -> None:
        """Let everything happen."""
        for follower in self.followers:
            self.world.at(self.rng.uniform(0.0, 0.5), follower.start)
        self._again(self.options.link_cuts, self._cut_line)
        super().run()

    def event(self) -> None:
        """The next thing happens."""
        try:
            super().event()
        except ShardLost:
            try:
                self._lose_session()
            except Killed as killed:
                killed.process.die()
        for follower in self.followers:
            if follower.dark:
                follower.end_life(power=True)
            follower.check()

    # The lead

    def wait_for(self, line: Line) -> None:
        """The lead waits for a follower; nothing else happens but there, unless one of the two dies."""
        follower = line.follower
        for _ in range(WAITS):
            self.may_die()
            try:
                if not line.wire.pump():
                    follower.go_on()
            except Killed as killed:
                killed.process.die()
            if follower.dark:
                follower.end_life(power=True)
            if line.wire.gone:
                line.lost(line.wire, "it is gone")
            if line.readable:
                return
        raise Broken(f"the lead waits for ever for {follower}")

    def may_die(self) -> None:
        """The lead's process may die here; whatever is called on its way out changes nothing any more."""
        try:
            super().may_die()
            if self.dark:
                raise Killed(self)
        except Killed:
            for background in self._backgrounds:
                background.drop()
            self.disk.life += 1
            raise

    def hear(self, line: Line) -> None:
        """A follower has said something."""
        connections = self.connections
        for source in () if connections is None else connections.sources:
            if connections is not None and source.fileno() == line.fileno():
                self.perform(connections.heard(source, self.now))
                if connections.pending:
                    self.perform(connections.flush(self.now))

    def check_owner(self, row: int) -> None:
        """A report was taken: somebody must have the worker's row."""
        require(self.connections is not None and row in self.connections.by_row, f"row {row} is nobody's")

    def _host(self, row: int, worker: Worker, agenda: Any) -> Host:
        return SplitHost(self, row, worker, agenda)

    def _parts(self, spec: Spec) -> SplitParts:
        return _SplitParts(self, spec)

    def _not_started(self, error: Exception) -> None:
        sound = all(process.disk.faults == DiskFaults() and not process.dark for process in self.processes)
        require(not (sound and isinstance(error, BadFile)), f"it cannot be started: {error}")
        if not isinstance(error, ShardLost):
            super()._not_started(error)

    def _recovered(self, server: ParameterServer) -> None:
        self.shadow.recovered(server, False, [self._slice(follower) for follower in self.followers])

    def _slice(self, follower: Follower) -> dict[str, Any] | None:
        return None if follower.connections is None or follower.server is None else follower.server.arrays

    def _begun(self) -> None:
        for follower in self.followers:
            follower.follows(self.shadow.changes)

    def _look(self, life: int) -> None:
        super()._look(life)
        assembly = self.assembly
        if life == self._life and assembly is not None and not assembly.session.over and self.rng.random() < READ:
            self._check_w(assembly.server)

    def _check_w(self, server: ParameterServer) -> None:
        """All of w, as the servers have it."""
        w, expected = server.w, self.shadow.models[server.version]
        require(w.tobytes() == expected.tobytes(), f"w of version {server.version} is {w}, and should be {expected}")
        if self.connections is not None and self.connections.pending:
            self.perform(self.connections.flush(self.now))

    def _lose_session(self) -> None:
        """A follower is lost: the lead ends its session as well as it can, and begins again with another."""
        assembly, connections = self.assembly, self.connections
        if assembly is None or connections is None:
            return
        session = assembly.session
        self.shadow.check(session.server)
        session.end(Ending.SERVER_ERROR)
        with suppress(ShardLost):
            session.finish(self.now)
        self.perform(connections.goodbye(False, session.why))
        for connection in list(connections.connections):
            connection.place.close_there()
        assembly.close()
        self._life += 1
        self.assembly = self.connections = None
        self._backgrounds.clear()
        self.world.after(RETRY, self._start)

    def _check_disk(self, traced: bool) -> None:
        self._calm()
        self.assembly = self.connections = None
        try:
            super()._check_disk(traced)
        except ShardLost:
            self.world.after(RETRY, partial(self._check_disk, traced))

    def _check_all(self, server: ParameterServer) -> None:
        self.shadow.check(server)
        for follower in self.followers:
            found = self._slice(follower)
            if found is not None:
                self.shadow.check_slice(follower._k, self.shadow.changes, found)

    # What goes wrong

    def _cut_line(self) -> None:
        if self.lines:
            self.rng.choice(self.lines).wire.break_off(self.rng.random() >= self.options.half_open)

    def _doom_server(self) -> None:
        process = self.rng.choice(self.processes)
        if process is self:
            super()._doom_server()
        else:
            process.doom = self.rng.randint(0, 5)

    def _cut_power(self) -> None:
        process = self.rng.choice(self.processes)
        if process is self:
            super()._cut_power()
        elif self.rng.random() < 0.5:
            process.disk.left = self.rng.randint(0, 10)
        else:
            process.end_life(power=True)

    def _trouble_disk(self) -> None:
        for process in self.processes:
            if self.rng.random() < 0.5:
                process.disk.faults = self.options.disk
        self.world.after(1.0, self._mend_disk)

    def _mend_disk(self) -> None:
        for process in self.processes:
            process.disk.faults = DiskFaults()

    def _calm(self) -> None:
        super()._calm()
        for follower in self.followers:
            follower.doom = follower.disk.left = None

    def _end_life(self, power: bool) -> None:
        lines, self.lines = self.lines, []
        for line in lines:
            if power or self.rng.random() < 0.5:  # what is on its way does not arrive
                line.wire.gone, line.wire.up = True, False
                self.world.after(self.rng.choice((0.1, KEEPALIVE)), line.wire.lose_there)
            else:
                line.close()
        super()._end_life(power)


def torture_of(seed: int) -> Torture:
    """The run that a seed stands for."""
    options = Options.draw(seed)
    return Torture(options) if options.shards == 1 else ShardedTorture(options)


def torment(seed: int) -> None:
    """Drive a run through what a seed stands for; `Broken` if a promise is."""
    torture_of(seed).run()


class _SplitParts(SplitParts):
    """A lead on the simulated disk, with followers in the simulated network."""

    def __init__(self, torture: ShardedTorture, spec: Spec) -> None:
        def connect(address: tuple[str, int], context: Any) -> Any:
            return Line(torture, torture.followers[address[1]])

        def deferred(name: str) -> Deferred:
            torture._backgrounds.append(made := Deferred())
            return made

        addresses = [("simulated", k) for k in range(len(torture.followers))]
        writing: dict[str, Any] = {"disk": torture.disk, "background": deferred, "entropy": torture.rng.randbytes}
        super().__init__(spec, Followers(addresses, SECRET, None, connect), clock=lambda: torture.now, **writing)
        self._torture = torture

    def make_store(self, folder: Path, server: LeadServer, **given: Any) -> LeadStore:
        """A store that tells which version is on disk."""
        torture = self._torture
        identity, spare = self.spec.identity, torture.options.spare
        return torture.lead_store(torture.shadow, folder, identity, server, self._clock, spare=spare, **given)
