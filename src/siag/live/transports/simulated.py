"""`Simulated`: a run of `train` in virtual time, in one process, to the bit the same each time."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from siag.activity import Clock, Exponential, Fixed, OnOff, Tick
from siag.activity.times import Arrivals, Times, duration
from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.rng import CLOCK, fresh
from siag.live.connection import Limits
from siag.live.connections import Connections
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.task import Task
from siag.live.transports.virtual import Client, World
from siag.live.worker import Worker

LOOK = 0.05  # virtual seconds between two looks at everything that is no message
NEVER = float("inf")
EVERYBODY = Limits(connections=1 << 30)
ONE_SECOND = Exponential(1.0)
NO_TIME = Fixed(0.0)


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong, and how often, in virtual seconds; the seed of `Simulated` says when.

    Args:
        crashes: mean time between two crashes of a worker's process; `None`: none. One that was killed begins anew, as
            one that is started again does.
        cuts: mean time between two cuts of a worker's connection, at which what is on its way is lost; `None`: none.
        delay: how long each message takes, on top of `Simulated.travel`; `None`: no time.
        down: seconds until a process that was killed is back.
    """

    crashes: float | None = None
    cuts: float | None = None
    delay: Times | None = None
    down: float = 1.0

    def __post_init__(self) -> None:
        for name in ("crashes", "cuts"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check.real(name, getattr(self, name), above=0, remedy="or None"))
        object.__setattr__(self, "down", check.real("down", self.down, low=0))
        if self.delay is not None and (not isinstance(self.delay, Times) or isinstance(self.delay, Arrivals)):
            raise BadInput("delay", self.delay, "a distribution of times, such as Exponential(0.1)")


NO_FAULTS = Faults()


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Train in virtual time: `siag.train(…, runtime=siag.Simulated(times=siag.activity.Exponential(1.0), seed=1))`.

    The same call, with any gradient and streams, runs in this process; no time passes but that of the computations. The
    times are those of `siag.activity.Clock`: with the same seed, and a problem, `siag.simulate` takes the same steps.

    Args:
        times: how long a gradient takes.
        travel: how long the ways there and back take together.
        slowness: by how much a worker's times are longer; one number, or one for each worker.
        availability: `OnOff(on, off)`, or `None` if workers are always there. One that goes away finishes first.
        seed: of all times and faults.
        faults: what goes wrong.
    """

    times: Times = ONE_SECOND
    travel: Times = NO_TIME
    slowness: float | Sequence[float] = 1.0
    availability: OnOff | None = None
    seed: int = 0
    faults: Faults = NO_FAULTS

    def __post_init__(self) -> None:
        if isinstance(self.times, Arrivals):
            raise BadInput("times", self.times, "a distribution", "siag.simulate takes recorded arrivals")
        try:
            self.clock()
        except BadInput as error:
            name = {"compute": "times"}.get(error.parameter, error.parameter)
            raise BadInput(name, error.value, error.allowed, error.remedy) from None
        object.__setattr__(self, "seed", check.seed(self.seed))
        if not isinstance(self.faults, Faults):
            raise BadInput("faults", self.faults, "a siag.runtimes.Faults")

    def clock(self) -> Clock:
        """The same times for `siag.simulate`."""
        return Clock(self.times, self.travel, slowness=self.slowness, availability=self.availability)

    def carry(self, session: Session, tasks: Sequence[Task]) -> None:
        """Run workers and server until the session is over."""
        Rehearsal(self, session, tasks).run()


class Rehearsal:
    """A run in virtual time.

    Args:
        runtime: how long things take, and what goes wrong.
        session: the server and what belongs to it.
        tasks: one for each worker.
    """

    def __init__(self, runtime: Simulated, session: Session, tasks: Sequence[Task]) -> None:
        self._faults, self._session, self._world = runtime.faults, session, World()
        self._rng = random.Random(runtime.seed)
        self._connections = Connections(session, Tokens.none(), EVERYBODY, now=0.0)
        self._tasks = [_again(task) if self._faults.crashes is not None else _once(task) for task in tasks]
        self._agenda = agenda = runtime.clock().begin(len(tasks), runtime.seed, 0)
        draws = fresh(runtime.seed, 1, CLOCK)
        law = None if self._faults.delay is None else self._faults.delay.law()
        delay = None if law is None else lambda: float(duration(draws, law))
        self._clients = [
            Client(self._world, row, self._worker(row), lambda: self._connections, agenda, delay)
            for row in range(len(tasks))
        ]

    def run(self) -> None:
        """Let everything happen."""
        world, session = self._world, self._session
        session.begin(world.now)
        for time, row in zip(self._agenda.when.tolist(), self._agenda.who.tolist(), strict=True):
            world.at(time, self._clients[row].start, row)
        for row, client in enumerate(self._clients):
            self._plan(self._faults.crashes, partial(self._crash, client, row))
            self._plan(self._faults.cuts, client.cut)
        try:
            self._happen()
        except Exception:
            session.end("an error of the server's")
            session.finish(world.now)
            raise
        session.finish(world.now)

    def _happen(self) -> None:
        world, session, look, tick = self._world, self._session, 0.0, -1.0
        ticking = isinstance(session.server.pace, Tick)
        while not session.over and any(client.alive for client in self._clients):
            if ticking and tick < session.next_tick < NEVER:
                tick = session.next_tick
                world.at(tick, lambda: session.look_after(world.now), len(self._clients))
            if not world.step():
                break
            if self._connections.failure is not None:
                raise self._connections.failure
            if world.now >= look:
                look = world.now + LOOK
                session.look_after(world.now)

    def _worker(self, row: int) -> Worker:
        """A worker that begins."""
        name, task = self._session.server.members[row].name, self._tasks[row]
        return Worker(lambda *_: task(), name=name, heartbeat=NEVER, rng=random.Random(self._rng.random()))

    def _plan(self, mean: float | None, fault: Callable[[], None]) -> None:
        """Have a fault happen again and again."""
        if mean is None:
            return

        def happen() -> None:
            fault()
            self._plan(mean, fault)

        self._world.after(self._rng.expovariate(1.0 / mean), happen)

    def _crash(self, client: Client, row: int) -> None:
        """Kill a worker's process; it is started again."""
        if client.alive:
            client.kill(self._worker(row))
            self._world.after(self._faults.down, client.start, row)


def _once(task: Task) -> Callable[[], Task]:
    """The task itself: its worker never begins anew."""
    return lambda: task


def _again(task: Task) -> Callable[[], Task]:
    """The task as it is now, before it has begun, as often as it is wanted."""
    try:
        kept = copy.deepcopy(task)
    except TypeError as error:
        remedy = "give a function that makes the stream"
        raise BadInput("streams", "one that cannot be read twice", f"able to begin anew ({error})", remedy) from None
    return lambda: copy.deepcopy(kept)
