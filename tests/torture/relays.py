"""A run with relays between some of its workers and the server, each a process on a machine of its own."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tests.torture.disk import DiskFaults, SimulatedDisk
from tests.torture.observed import Tap, Told, Watched, expect_no_refusals, simulated
from tests.torture.options import Options
from tests.torture.relay import MANY, Relay
from tests.torture.relay_shadow import RelayShadow
from tests.torture.shadow import Shadow, require
from tests.torture.world import Torture

from siag.activity import EveryArrivals, Tick
from siag.foundations.types import Floats
from siag.live.assembly import Assembly
from siag.live.protocol.reception import Action, SendModel
from siag.live.protocol.worker import Phase, Send
from siag.live.reasons import Ending
from siag.live.relays.connections import AT_ONCE, RelayConnections
from siag.live.relays.relay import RelayAssembly
from siag.live.relays.root import RootWorker
from siag.live.relays.server import RelayServer
from siag.live.spec import Spec
from siag.server import DROP, KEEP
from siag.server.sums import Sum
from siag.storage.store import Store

MOST = 10**9


class ToldRelay(Told, RootWorker):
    """A relay that tells what it sends, what it has read, and what was acknowledged."""

    def __init__(self, own: RelayShadow, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._own = own

    def weigh(self, what: Sum) -> Send:
        """It says what its next report is the sum of."""
        self._own.claim(what)
        return super().weigh(what)

    def sends(self, stamp: int, sample: int, message: Floats, now: float) -> None:
        """A sum is sent."""
        self._own.send_sum(sample, message, now)


class WatchedRelay(Relay):
    """A relay that is compared with what it must be.

    Args:
        shadow: what it must be.
        server: the kind of its server.
        given: as for `Relay`.
    """

    def __init__(self, torture: RelayedTorture, shadow: RelayShadow, server: type[RelayServer], **given: Any) -> None:
        self.shadow, self.server_kind, self.torture = shadow, server, torture
        super().__init__(torture, **given)

    def worker(self) -> RootWorker:
        """What it says above."""
        given: dict[str, Any] = {"name": self.name, "rng": random.Random(self.torture.rng.random())}
        return ToldRelay(self.shadow, self.above.shadow, self.number, weight=len(self.members), **given)

    def assemble(self, spec: Spec) -> Assembly:
        """Its session, on its disk."""
        return WatchedAssembly(self, spec)

    def not_opened(self, error: Exception) -> None:
        """Its disk does not let it."""
        sound = self.disk.faults == DiskFaults() and not self.dark
        require(not sound, f"a relay cannot be started: {error}")

    def opened(self, assembly: Assembly) -> None:
        """Its session is there, and nobody is yet."""
        session, shadow, worker = assembly.session, self.shadow, self.host.worker
        if session.past.recovered:
            shadow.recovered(session.server, durable=False)
        else:
            require(shadow.saved == 0, "what a relay has saved is gone")
            shadow.begin_afresh()
        session.server.trace = Tap(self, None)
        expect_no_refusals(session)
        assert isinstance(worker, RootWorker)
        shadow.serves(session.server, self._life_below, self.now, worker.samples > 0)

    def _life_below(self) -> str:
        """The root's life, as far as members have been told."""
        worker: Any = self.host.worker
        return worker.life if self.connections is None else self.connections._life

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what it wants done; a member is answered when what is above has answered."""

        def checked() -> Iterable[Action]:
            for action in actions:
                if isinstance(action, SendModel) and not action.before:
                    self._check_answer(action)
                yield action

        super().perform(checked())

    def _check_answer(self, action: SendModel) -> None:
        connections: Any = self.connections
        waits = self.pace == AT_ONCE and not connections.alone and self.now >= connections._full_by
        if waits and action.connection.row is not None:
            self.shadow.check_answer(action.connection.row)

    def check_owner(self, row: int) -> int:
        """A report was taken: it must have come by the connection that has the row. The number of its worker."""
        return self.torture.owner(self, row)

    def client_of(self, row: int) -> int:
        """The number of the worker whose row this is."""
        return int(self.members[row])

    def check(self) -> None:
        """It is what it must be."""
        if self.assembly is not None:
            self.shadow.check(self.assembly.server)


class WatchedAssembly(RelayAssembly):
    """A relay's session on the simulated disk."""

    def __init__(self, relay: WatchedRelay, spec: Spec) -> None:
        self._relay = relay
        super().__init__(spec, **simulated(relay))

    def make_server(self, stack: Any) -> RelayServer:
        """A server that takes no steps."""
        spec = self.spec
        return self._relay.server_kind(spec.method, spec.step, spec.w0, spec.names, **self.given)

    def make_store(self, folder: str, **writing: Any) -> Store:
        """A store that tells which version is on disk."""
        shadow, options = self._relay.shadow, self._relay.torture.options
        return Watched(shadow, folder, self.spec.identity, durable=False, spare=options.spare, **writing)


class RelayedTorture(Torture):
    """A run with relays, and all that goes wrong in it. It goes on until faults have stopped and all were heard again.

    Args:
        options: what a seed stands for.
        relay_connections: the kind of the relays' connections; a test may give one with a mistake. So for the next.
        relay_server: the kind of their servers.
        given: as for `Torture`.
    """

    limits = MANY

    def __init__(
        self,
        options: Options,
        *,
        relay_connections: type[RelayConnections] = RelayConnections,
        relay_server: type[RelayServer] = RelayServer,
        **given: Any,
    ) -> None:
        self._relay_kinds = relay_connections, relay_server
        self._sends_at_calm: dict[int, int] = {}
        self._disk = given.get("disk", SimulatedDisk)
        self._first = options.workers  # the number of the first relay
        self.relays: list[WatchedRelay] = []
        super().__init__(options, **given)
        self.delay = self.delay or (lambda: 0.0)  # processes do not call each other

    # Who works for whom

    def members(self, relay: int) -> list[str]:
        """The names of a relay's members, -1 being the server: their numbers."""
        names = [str(row) for row, k in enumerate(self.options.behind) if k == relay]
        above = [-1 if k == 0 or not self.options.chained or k > 1 else 0 for k in range(self.options.relays)]
        return names + [str(self._first + k) for k, place in enumerate(above) if place == relay]

    @property
    def names(self) -> list[str]:
        """Of all that work for the server."""
        return self.members(-1)

    def place(self, worker: int) -> Any:
        """What a worker works for."""
        relay = self.options.behind[worker]
        return self if relay < 0 else self.relays[relay]

    @property
    def clients(self) -> dict[int, Any]:
        """All that work for the server or for a relay, by number."""
        return super().clients | {relay.number: relay.host for relay in self.relays}

    def owner(self, process: Any, row: int) -> int:
        """A process has taken a report for a row: whose it is; it came by the connection that has the row."""
        owner = None if process.connections is None else process.connections.by_row.get(row)
        require(owner is not None and owner.place is process.arriving, f"row {row} was written by another connection")
        number: int = process.client_of(row)
        require(process.arriving.client is self.clients[number], f"row {row} was written by another worker")
        return number

    def _make_shadow(self) -> Shadow:
        shadows: dict[int, RelayShadow] = {}
        for k in reversed(range(self.options.relays)):  # those behind others first
            members = self.members(k)
            within = {number: each for number, each in shadows.items() if str(number) in members}
            shadows[self._first + k] = RelayShadow(self.problem, len(members), within)
        shadow = Shadow(self.problem, self.method, self.options.every, rows=len(self.names), relays=shadows)
        for each in shadows.values():
            each.lives = shadow.lives
        self.shadow = shadow
        for k in range(self.options.relays):
            self.relays.append(self._relay(k, shadows[self._first + k]))
        return shadow

    def _relay(self, k: int, shadow: RelayShadow) -> WatchedRelay:
        options, number, every = self.options, self._first + k, self.options.relay_every
        kind, server = self._relay_kinds
        folder = {"folder": "state"} if options.relay_folder else {}
        return WatchedRelay(
            self,
            shadow,
            server,
            number=number,
            name=str(number),
            members=self.members(k),
            above=self.relays[0] if str(number) not in self.names else self,
            pace=EveryArrivals(every) if every else Tick(0.5),
            spec=Spec(progress=False, departed=DROP if options.drop else KEEP, **folder),
            disk=self._disk,
            kind=kind,
        )

    # The run

    def run(self) -> None:
        """Let everything happen."""
        options = self.options
        for relay in self.relays:
            self.world.at(self.rng.uniform(0.0, 0.5), relay.start)
            self._again(options.cuts, lambda relay=relay: self._cut(relay.host))
            self._again(options.stalls, lambda relay=relay: self._stall(relay.host))
            self._again(options.relay_kills, lambda relay=relay: self._kill_relay(relay))
        super().run()

    def event(self) -> None:
        """The next thing happens."""
        super().event()
        for relay in self.relays:
            if relay.dark:
                relay.end_life(power=True)
            relay.check()

    @property
    def total(self) -> int:
        """More than there will be: it ends when all were heard."""
        return MOST

    def _look(self, life: int) -> None:
        if self.quiet and self.assembly is not None and self._all_heard():
            self._check_whole()
            self.assembly.session.end(Ending.REACHED)
        super()._look(life)

    def _all_heard(self) -> bool:
        """Whether the server has a report of each worker that is there, made since faults have stopped."""
        there = [row for row, host in enumerate(self.hosts) if host.worker.phase is not Phase.ENDED]
        contents = self.shadow.contents
        return all(contents.get(row, 0) > self._sends_at_calm.get(row, 0) for row in there)

    def _check_whole(self) -> None:
        """If nobody has left, each relay counts for all that are behind it."""
        if self.options.leaver:
            return
        weights = self.shadow.weights
        for member in self.assembly.server.members if self.assembly is not None else ():
            number = int(member.name)
            behind = 1 if number < self._first else len(self._all_behind(number - self._first))
            require(weights[member.row] == behind, f"{member.name} counts for {weights[member.row]:g}, not {behind}")

    def _all_behind(self, relay: int) -> list[str]:
        names = self.members(relay)
        more = [self._all_behind(int(name) - self._first) for name in names if int(name) >= self._first]
        return [name for name in names if int(name) < self._first] + [name for each in more for name in each]

    # What goes wrong

    def _kill_relay(self, relay: WatchedRelay) -> None:
        if relay.ended is not None or not relay.host.started:
            return
        what = self.rng.random()
        if what < 0.6:
            relay.doom = self.rng.randint(0, 5)
        elif what < 0.8:
            relay.disk.left = self.rng.randint(0, 10)
        else:
            relay.end_life(power=True)

    def _trouble_disk(self) -> None:
        super()._trouble_disk()
        for relay in self.relays:
            relay.disk.faults = self.options.disk

    def _mend_disk(self) -> None:
        super()._mend_disk()
        for relay in self.relays:
            relay.disk.faults = DiskFaults()

    def _calm(self) -> None:
        super()._calm()
        self._sends_at_calm = {row: self.place(row).shadow.sends[row] for row in range(self._first)}
        for relay in self.relays:
            relay.doom = relay.disk.left = None
