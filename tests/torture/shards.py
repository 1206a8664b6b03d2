"""A run whose model is split over several servers, each a process on a machine of its own."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from tests.torture.disk import DiskFaults, SimulatedDisk
from tests.torture.followers import SECRET, Follower, Strict
from tests.torture.lines import Line, SplitLink
from tests.torture.network import KEEPALIVE, Killed
from tests.torture.observed import simulated
from tests.torture.options import Options
from tests.torture.shadow import Broken, Shadow, require
from tests.torture.world import Torture

from siag.foundations.errors import BadFile
from siag.live.protocol.reception import Actions, Connection
from siag.live.reasons import Ending
from siag.live.sharding import ShardLost
from siag.live.sharding.lead import LeadAssembly, LeadConnections, LeadStore
from siag.live.sharding.slices import ShardStore
from siag.live.spec import Spec
from siag.server import ParameterServer

RETRY = 0.2  # virtual seconds before a lead that has lost a follower begins again
READ = 0.2  # how likely the lead reads all of w when it looks after things
WAITS = 1000  # steps that a follower may take to answer


class WatchedLead(LeadStore):
    """A lead's store that tells which version all shards have on disk."""

    def __init__(self, shadow: Shadow, *given: Any, **more: Any) -> None:
        self._shadow, self._versions = shadow, dict[int, int]()
        super().__init__(*given, **more)

    def save_as(self, number: int, common: int, arrays: Any, changed: Any, meta: Any) -> bool:
        """Have a save written."""
        self._versions[number] = meta["version"]
        return super().save_as(number, common, arrays, changed, meta)

    def _settle(self) -> bool:
        settled = super()._settle()
        self._shadow.saved = max(self._shadow.saved, self._versions.get(self._common, 0))
        return settled


class StrictLead(LeadConnections):
    """A lead's connections, which note who has brought what waits."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.brought: dict[int, Any] = {}  # by row

    def _report(self, connection: Connection, row: int, *given: Any) -> Actions:
        self.brought[row] = connection.place
        return super()._report(connection, row, *given)


class ShardedTorture(Torture):
    """A run whose model is split, and all that goes wrong in it; it is the lead's process as well.

    Args:
        options: what a seed stands for.
        followers: the kind of the followers' connections; a test may give one with a mistake. So for all that follow.
        shard_store: the kind of the followers' stores.
        lead_store: the kind of the lead's.
        disk: the kind of disk.
        connections: the kind of the lead's connections.
    """

    def __init__(
        self,
        options: Options,
        *,
        followers: type[Strict] = Strict,
        shard_store: type[ShardStore] = ShardStore,
        lead_store: type[WatchedLead] = WatchedLead,
        disk: type[SimulatedDisk] = SimulatedDisk,
        connections: type[StrictLead] = StrictLead,
    ) -> None:
        self.lines: list[Line] = []  # the lead's connections
        self.senders: dict[int, SplitLink] = {}  # who has brought each report, by the number of the change that it was
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

    def check_owner(self, row: int) -> int:
        """A report was taken: it must have come by the connections that have the worker's row."""
        connections: Any = self.connections
        owner = None if connections is None else connections.by_row.get(row)
        require(owner is not None, f"row {row} is nobody's")
        require(connections.brought.get(row) is owner.place, f"row {row} was written by another connection")
        link = owner.place.client.link
        require(link.client is self.hosts[row], f"row {row} was written by another worker")
        self.senders[self.shadow.changes + 1] = link  # the followers' slices must come by the same
        return row

    def connect(self, client: Any) -> Any:
        """A worker's connections to all servers, if they are there."""
        return SplitLink(self, client) if self.up else None

    def _assemble(self, spec: Spec) -> LeadAssembly:
        return _LeadAssembly(self, spec)

    def _not_started(self, error: Exception) -> None:
        sound = all(process.disk.faults == DiskFaults() and not process.dark for process in self.processes)
        require(not (sound and isinstance(error, BadFile)), f"it cannot be started: {error}")
        if not isinstance(error, ShardLost):
            super()._not_started(error)

    def _recovered(self, server: ParameterServer) -> None:
        self.shadow.recovered(server, False, [self._slice(follower) for follower in self.followers])

    def _slice(self, follower: Follower) -> dict[str, Any] | None:
        return None if follower.server is None else follower.server.arrays

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
        if w.tobytes() != expected.tobytes():
            raise Broken(f"w of version {server.version} is {w}, and should be {expected}")
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
        self.note_trace()
        self.assembly = self.connections = None  # none of them is told that its connection is lost
        for connection in list(connections.connections):
            connection.place.close_there()
        assembly.close()
        self._life += 1
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

    def _jump_clock(self) -> None:
        self.rng.choice(self.processes).clocks.jump(self.rng.uniform(0.5, 100.0))

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


class _LeadAssembly(LeadAssembly):
    """A lead on the simulated disk, with followers in the simulated network."""

    def __init__(self, torture: ShardedTorture, spec: Spec) -> None:
        def connect(address: tuple[str, int]) -> Any:
            return Line(torture, torture.followers[address[1]])

        self._torture = torture
        addresses = [("simulated", k) for k in range(len(torture.followers))]
        super().__init__(spec, addresses, SECRET, connect, **simulated(torture))

    def make_store(self, folder: str, **writing: Any) -> LeadStore:
        """A store that tells which version is on disk."""
        torture = self._torture
        return torture.lead_store(torture.shadow, folder, self.server, spare=torture.options.spare, **writing)
