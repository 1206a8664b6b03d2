"""What a seed stands for: everything that is left to chance before a run begins, in words."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace

from tests.torture.disk import DiskFaults


@dataclass(frozen=True, kw_only=True)
class Options:
    """A run and what goes wrong in it; times are mean virtual seconds, 0 for never."""

    seed: int
    workers: int
    every: int  # the server steps after so many reports; 0: every half second
    durable: bool
    traced: bool
    drop: bool  # rows of workers that have left: dropped, or kept
    leaver: bool  # whether a worker's stream ends
    resum: int  # the sum of the table is summed anew after so many reports a worker
    spare: int  # bytes that a file of the state may grow by
    compute: float  # a gradient takes
    delay: float  # a message takes
    pieces: bool  # messages arrive in pieces
    cuts: float  # between two cuts of a worker's connection
    stalls: float  # between two times in which what a worker sends is held up
    half_open: float  # how likely the server does not notice that a connection is gone
    kills: float  # between two deaths of a worker's process
    server_kills: float  # between two deaths of the server's process, in the middle of whatever it does
    power: float  # between two failures of the power: what was not forced to disk is lost
    down: float  # until a process that died is back
    jumps: float  # between two jumps of a server's clocks
    disk: DiskFaults
    disk_trouble: float  # between the beginnings of times in which the disk fails, a second each
    quiet: float  # when faults stop
    shards: int = 1  # servers that the model is split over; then it is not durable
    link_cuts: float = 0.0  # between two cuts of the lead's connection to a follower
    newcomers: int = 0  # of those that work for the server, so many are not expected, and join an open one
    behind: tuple[int, ...] = ()  # for each worker the number of the relay it works for; -1: the server itself
    chained: bool = False  # whether the second relay works for the first
    relay_every: int = 1  # relays pass on each so manieth report; 0: twice a second
    relay_folder: bool = False  # whether relays save their rows
    relay_kills: float = 0.0  # between two deaths of a relay's process, or failures of its power

    @property
    def relays(self) -> int:
        """How many there are."""
        return max(self.behind, default=-1) + 1

    @property
    def total(self) -> int:
        """Reports after which the run ends: it would without faults, some seconds after they stop."""
        rate = self.workers / (self.compute + 2.0 * self.delay)
        return max(10, min(150 // self.shards, int(rate * (self.quiet + 3.0))))

    @classmethod
    def draw(cls, seed: int) -> Options:
        """All that a seed stands for."""
        rng = random.Random(f"options {seed}")

        def maybe(probability: float, low: float, high: float) -> float:
            return rng.uniform(low, high) if rng.random() < probability else 0.0

        disk = DiskFaults(
            short_write=maybe(0.5, 0.01, 0.3),
            no_space=maybe(0.4, 0.01, 0.5),
            write_error=maybe(0.3, 0.01, 0.3),
            force_error=maybe(0.3, 0.01, 0.3),
            folder_error=maybe(0.2, 0.01, 0.3),
            replace_error=maybe(0.2, 0.01, 0.3),
        )
        whole = cls(
            seed=seed,
            workers=rng.randint(1, 4),
            every=rng.choice((1, 1, 1, 2, 3, 0)),
            durable=rng.random() < 0.6,
            traced=rng.random() < 0.6,
            drop=rng.random() < 0.3,
            leaver=rng.random() < 0.2,
            resum=rng.choice((1, 4, 64)),
            spare=rng.choice((0, 500, 5000)),
            compute=rng.uniform(0.05, 0.5),
            delay=maybe(0.8, 0.001, 0.2),
            pieces=rng.random() < 0.5,
            cuts=maybe(0.6, 0.5, 5.0),
            stalls=maybe(0.4, 0.5, 5.0),
            half_open=maybe(0.5, 0.1, 1.0),
            kills=maybe(0.4, 1.0, 8.0),
            server_kills=maybe(0.5, 1.0, 6.0),
            power=maybe(0.5, 1.0, 6.0),
            down=rng.uniform(0.01, 1.0),
            jumps=maybe(0.2, 1.0, 5.0),
            disk=disk,
            disk_trouble=maybe(0.5, 1.0, 5.0),
            quiet=rng.uniform(2.0, 10.0),
        )
        shards = rng.choice((1, 1, 1, 1, 2, 3))
        if shards == 1:
            whole = replace(whole, newcomers=rng.randint(0, whole.workers) if rng.random() < 0.4 else 0)
            return whole.relayed(rng) if rng.random() < 0.3 else whole
        return replace(whole, shards=shards, durable=False, link_cuts=maybe(0.5, 1.0, 6.0))

    def relayed(self, rng: random.Random) -> Options:
        """The same with relays; it goes on until faults have stopped, so that there must not be much of it."""
        relays = rng.randint(1, min(3, self.workers))
        behind = *range(relays), *(rng.randint(-1, relays - 1) for _ in range(self.workers - relays))
        chained = relays > 1 and rng.random() < 0.4
        return replace(
            self,
            behind=behind,
            chained=chained,
            relay_every=rng.choice((1, 1, 2, 3, 0)),
            relay_folder=rng.random() < 0.5,
            relay_kills=rng.uniform(1.0, 6.0) if rng.random() < 0.6 else 0.0,
            newcomers=min(self.newcomers, relays - chained + behind.count(-1)),
            compute=max(0.2, self.compute),
            quiet=min(6.0, self.quiet),
        )

    def __str__(self) -> str:
        return "\n".join(f"  {each.name:<13} {getattr(self, each.name)}" for each in fields(self))
