"""The clocks of a machine, which do not show what they should."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siag.live.transports.simulated.world import World

YEARS = 1e9  # seconds by which a wall clock may be wrong


class Clocks:
    """What `time.monotonic` and `time.time` show on a server's machine.

    The first never goes back while the machine is up, and that is relied on: it jumps only forwards, and begins
    anywhere when the machine starts again. The second jumps both ways. Of all that torture drives, only a disk reads
    it, for the times of files: leases count by the first, and there are no certificates here.

    Args:
        world: whose time it really is.
        seed: decides what they show.
    """

    def __init__(self, world: World, seed: str) -> None:
        self._world, self._rng = world, random.Random(seed)
        self._ahead = self._wall = 0.0

    @property
    def now(self) -> float:
        """What `time.monotonic` shows."""
        return self._world.now + self._ahead

    def wall(self) -> float:
        """What `time.time` shows."""
        return self._world.now + self._wall

    def jump(self, seconds: float) -> None:
        """The machine has slept for so long, or seems to have; somebody sets its clock."""
        self._ahead += seconds
        self._wall = self._rng.uniform(-YEARS, YEARS)

    def restart(self) -> None:
        """The machine starts again."""
        self._ahead = self._rng.uniform(0.0, 1000.0) - self._world.now
        self._wall = self._rng.uniform(-YEARS, YEARS)
