"""A relay's process: a server to its members, one worker of what is above it; its code is that of a live run."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.torture.disk import SimulatedDisk
from tests.torture.machine import Machine
from tests.torture.network import Host, Wire
from tests.torture.observed import simulated

from siag.activity import EveryArrivals, Tick
from siag.foundations.errors import SiagError
from siag.live.assembly import Assembly
from siag.live.protocol.reception import Limits
from siag.live.protocol.worker import Actions, Phase
from siag.live.reasons import Ending
from siag.live.relays.connections import AT_ONCE, RelayConnections
from siag.live.relays.relay import RelayAssembly, below
from siag.live.relays.root import RootWorker
from siag.live.security import Tokens
from siag.live.spec import Spec

if TYPE_CHECKING:
    from tests.torture.world import Torture

MANY = Limits(connections=1 << 30, max_weight=1e9)


class Upward(Host):
    """A relay's side to what is above it."""

    def __init__(self, torture: Torture, number: int, worker: RootWorker, place: Any, relay: Relay) -> None:
        super().__init__(torture, number, worker, place, torture.agenda)
        self._relay = relay

    def do(self, actions: Actions) -> None:
        """Carry out what the worker wants done; the members are told what has come of it."""
        self.carry(actions)
        self._relay.follow()

    def carry(self, actions: Actions) -> None:
        """The first of it."""
        super().do(actions)

    def _send(self, content: bytes) -> None:
        self._relay.may_die()
        super()._send(content)

    def _compute(self) -> None:
        """Sums are made when there is something to send."""


class Relay(Machine):
    """A relay's process, and its machine, whose clock is right.

    Args:
        torture: the run.
        number: of all that may connect.
        name: what it is called above.
        members: their names.
        above: what it works for.
        pace: when it sends its sum.
        spec: more of its own session.
        disk: the kind of disk.
        kind: the kind of its connections.
    """

    def __init__(
        self,
        torture: Torture,
        number: int,
        name: str,
        members: list[str],
        above: Any,
        *,
        pace: EveryArrivals | Tick = AT_ONCE,
        spec: Spec | None = None,
        disk: type[SimulatedDisk] = SimulatedDisk,
        kind: type[RelayConnections] = RelayConnections,
    ) -> None:
        super().__init__(torture, number, disk)
        self.number, self.name, self.members, self.pace, self._kind = number, name, members, pace, kind
        self._spec = Spec(progress=False) if spec is None else spec
        self.assembly: Assembly | None = None
        self.rng, self.above = torture.rng, above
        self.ended: Ending | None = None
        self.host = Upward(torture, number, self.worker(), above, self)

    def worker(self) -> RootWorker:
        """What it says above."""
        return RootWorker(len(self.members), name=self.name, rng=random.Random(self.rng.random()))

    def connect(self, client: Any) -> Any:
        """A member's connection to it, if it is there."""
        return None if self.connections is None else Wire(self._torture, client, self)

    @property
    def now(self) -> float:
        """What its clock shows."""
        return self._torture.world.now

    @property
    def session(self) -> Any:
        """Its own."""
        return None if self.assembly is None else self.assembly.session

    # A life

    def start(self) -> None:
        """Start a process."""
        self.host.start()

    def start_again(self, down: float) -> None:
        """Start another process, so many seconds later."""
        link: Any = self.host.link
        if link is not None and self.rng.random() < self._torture.options.half_open:
            link.break_off(noticed=False)
        self.host.kill(self.worker(), down)

    def hang_up(self) -> None:
        """Nobody is there any more."""
        self.assembly = None
        super().hang_up()

    def follow(self) -> None:
        """Something has come from above: members may come now, or are told."""
        if self.connections is None and self.ended is None and self.host.worker.phase is Phase.JOINED:
            self._open()
        if self.connections is not None:
            self.perform(self.connections.root_moved(self.now))

    def _open(self) -> None:
        """It has joined what is above: it is a server from now on."""
        root: Any = self.host.worker
        try:
            spec = below(root, replace(self._spec, names=self.members)).validate(serving=True)
            self.assembly = self.assemble(spec)
        except (SiagError, OSError) as error:
            self.not_opened(error)
            self.end_life(power=self.dark)
            return
        session = self.assembly.session
        self.opened(self.assembly)
        given: dict[str, Any] = {"root": root, "pace": self.pace, "do": self.host.carry, "now": self.now}
        self.connections = self._kind(session, Tokens.none(), MANY, **given)
        session.begin(self.now)
        session.health = None
        self.connections.time(self.now)
        self._torture.world.after(0.0, partial(self.look, self._life))

    def assemble(self, spec: Spec) -> Assembly:
        """Its session, on its disk."""
        return RelayAssembly(spec, **simulated(self))

    def not_opened(self, error: Exception) -> None:
        """Its session could not be put together."""
        raise error

    def opened(self, assembly: Assembly) -> None:
        """Its session is there, and nobody is yet."""

    def look_after(self) -> None:
        """Whatever is due."""
        session, connections = self.session, self.connections
        session.look_after(self.now)
        connections.time(self.now)
        if connections.failure is not None:
            raise connections.failure
        if session.over:
            self._finish()
        else:
            super().look_after()

    def _finish(self) -> None:
        """The root is done, or all members have left."""
        session, assembly = self.session, self.assembly
        session.finish(self.now)
        self.perform(self.connections.goodbye(True, session.why))
        self.ended = session.ended.ending
        assembly.close()
        self._life += 1
        self.connections = self.assembly = None
        if self.ended is Ending.ALL_LEFT:
            self.host.carry(self.host.worker.stream_ended(self.now))
