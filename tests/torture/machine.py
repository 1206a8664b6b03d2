"""A server's process on a machine of its own: its clock, its disk, and how it dies and comes back."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.torture.clocks import Clocks
from tests.torture.disk import Deferred, SimulatedDisk
from tests.torture.network import Killed

from siag.live.protocol.reception import Action

if TYPE_CHECKING:
    from tests.torture.world import Torture

LOOK = 0.1  # virtual seconds between two looks of a server at what is no message


class Machine(ABC):
    """A process that has connections, and dies.

    Args:
        torture: the run.
        label: tells its machine from others.
        disk: the kind of disk.

    Attributes:
        connections: `None` while it is down.
        arriving: the connection that it is reading now.
        doom: how many actions it has left; `None`: any number.
    """

    def __init__(self, torture: Torture, label: int, disk: type[SimulatedDisk]) -> None:
        self._torture = torture
        self.clocks = Clocks(torture.world, f"clocks {torture.options.seed} {label}")
        self.disk = disk(random.Random(f"disk {torture.options.seed} {label}"), clock=self.clocks.wall)
        self.connections: Any = None
        self.arriving: Any = None
        self.doom: int | None = None
        self._life = 0
        self._backgrounds: list[Deferred] = []

    @abstractmethod
    def start(self) -> None:
        """Start a process."""

    @property
    def now(self) -> float:
        """What its clock shows."""
        return self.clocks.now

    @property
    def dark(self) -> bool:
        """Whether its power has failed."""
        return self.disk.left is not None and self.disk.left < 0

    def may_die(self) -> None:
        """It may die here."""
        if self.doom is not None:
            self.doom -= 1
            if self.doom < 0:
                raise Killed(self)

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what it wants done, unless it dies meanwhile."""
        for action in actions:
            self.may_die()
            if self.connections is None or self.dark:
                return
            action.connection.place.perform(action)

    def die(self) -> None:
        """It ends without a word."""
        self.end_life(power=False)

    def end_life(self, power: bool, down: float | None = None) -> None:
        """It ends without a word; another one is started, after so many seconds or as many as chance says."""
        self._life += 1
        self.doom = None
        if power:
            self.disk.crash()
            self.clocks.restart()
        else:
            self.disk.kill()
        self._backgrounds.clear()
        self.hang_up()
        torture = self._torture
        if down is None:
            down = 0.0 if torture.quiet else torture.rng.expovariate(1.0 / torture.options.down)
        self.start_again(down)

    def start_again(self, down: float) -> None:
        """Start another process, so many seconds later."""
        self._torture.world.after(down, self.start)

    def hang_up(self) -> None:
        """Nobody is there any more; whoever was connected finds out soon."""
        was, self.connections = self.connections, None
        for connection in [] if was is None else list(was.connections):
            connection.place.gone = True
            lose = partial(connection.place.lose_here, "the server is gone")
            self._torture.world.after(self._torture.rng.uniform(0.0, 0.1), lose)

    def look(self, life: int) -> None:
        """It looks at everything that is no message, again and again."""
        if life != self._life or self.connections is None:
            return
        world, rng = self._torture.world, self._torture.rng
        world.after(rng.uniform(0.5, 1.5) * LOOK, partial(self.look, life))
        self.look_after()
        for background in self._backgrounds:
            if background.busy:
                world.after(rng.expovariate(10.0), partial(self._write, life, background))

    def look_after(self) -> None:
        """Cut off who is too slow; do what was put off."""
        cut, actions = self.connections.slow(self.now)
        for connection in cut:
            connection.place.close_there()
        self.perform(actions)
        self.flush()

    def flush(self) -> None:
        """Do what was put off."""
        if self.connections is not None and self.connections.pending:
            self.perform(self.connections.flush(self.now))

    def _write(self, life: int, background: Deferred) -> None:
        if life == self._life:
            background.step()
