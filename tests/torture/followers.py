"""A follower of a split model: its process, on a machine of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.torture.disk import Deferred, SimulatedDisk
from tests.torture.machine import Machine
from tests.torture.observed import FOLDER
from tests.torture.shadow import Broken, require

from siag.live.protocol.reception import TOO_SLOW, Action, Actions, Connection, Limits
from siag.live.security import Tokens
from siag.live.sharding.follower import LEAD, FollowerConnections
from siag.live.sharding.orders import Order, SliceServer, Take
from siag.live.sharding.slices import Shard, ShardStore

if TYPE_CHECKING:
    from tests.torture.shards import ShardedTorture

SECRET = "a secret of the servers"


class Done(NamedTuple):
    """A change of a slice: a report that was taken, and by which connection it came; or another."""

    report: tuple[int, int] | None  # row and sample
    by: Any


class Noted(SliceServer):
    """A slice that notes its changes."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard)
        self.done: list[Done] = []
        self.brought: dict[int, Any] = {}  # by row, the connection that has brought what waits

    def follow(self, order: Order) -> None:
        """Do what the lead has done."""
        super().follow(order)
        if isinstance(order, Take):
            self.done.append(Done((order.row, order.sample), self.brought.get(order.row)))
        else:
            self.done.append(Done(None, None))


class Strict(FollowerConnections):
    """A follower's connections; whatever the lead says must make sense."""

    kind_of_slice = Noted
    server: Noted

    def _report(self, connection: Connection, row: int, *given: Any) -> Actions:
        self.server.brought[row] = connection.place
        return super()._report(connection, row, *given)

    def handle_garbage(self, connection: Connection, reason: str, now: float) -> Actions:
        """Garbage, or half a frame for too long: a clock that jumps forward makes it so."""
        require(connection.row != LEAD or reason == TOO_SLOW, f"a follower does not understand its lead: {reason}")
        return super().handle_garbage(connection, reason, now)


class Follower(Machine):
    """A follower's process, and its machine.

    Args:
        torture: the run.
        k: the shard.
        kind: the kind of connections.
        store: the kind of store.
        disk: the kind of disk.
    """

    _torture: ShardedTorture

    def __init__(
        self,
        torture: ShardedTorture,
        k: int,
        kind: type[Strict],
        store: type[ShardStore],
        disk: type[SimulatedDisk],
    ) -> None:
        super().__init__(torture, k, disk)
        self._k, self._kind, self._kind_of_store = k, kind, store
        self._watched: Noted | None = None  # the slice that is known to follow the lead there is, or was
        self._first = 0  # how many changes had made it what it was when it began to follow
        self._checked = 0  # how many changes since then are known to be right

    def start(self) -> None:
        """Start a process."""
        if self.connections is not None:
            return
        shard = Shard(self._torture.spec, self._k, self._torture.shards)
        store = partial(self._store, shard)
        self.connections = self._kind(shard, Limits(), tokens=Tokens.none(), secret=SECRET, store=store)
        self.look(self._life)

    @property
    def server(self) -> Noted | None:
        """Its slice."""
        made: Any = None if self.connections is None else self.connections.server
        return made

    def _store(self, shard: Shard) -> ShardStore:
        torture, background = self._torture, Deferred()
        self._backgrounds.append(background)
        writing: dict[str, Any] = {"disk": self.disk, "background": background, "entropy": torture.rng.randbytes}
        return self._kind_of_store(FOLDER, shard, spare=torture.options.spare, **writing)

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what it wants done, unless it dies meanwhile."""
        try:
            super().perform(actions)
        except OSError as error:
            if not self.dark:
                raise Broken(f"shard {self._k} fails: {error}") from error

    def go_on(self) -> None:
        """While the lead waits for it: it writes what it has to, and says so."""
        for background in self._backgrounds:
            background.step()
        self.flush()

    def follows(self, changes: int) -> None:
        """It follows a lead from here, after so many changes."""
        self._watched, self._first, self._checked = self.server, changes, 0

    def check(self) -> None:
        """Its slice is what it must be after the changes that it has heard of, and they are the lead's."""
        server, torture = self.server, self._torture
        if server is None or server is not self._watched:
            return
        for report, by in server.done[self._checked :]:
            self._checked += 1
            change = self._first + self._checked
            expected = torture.shadow.change(change)
            require(report == expected, f"shard {self._k} has taken {report}, and the lead {expected}, as {change}")
            if report is not None:
                require(by is torture.senders[change].wires[self._k], f"shard {self._k}: {report} came by another way")
        torture.shadow.check_slice(self._k, self._first + self._checked, server.arrays)
