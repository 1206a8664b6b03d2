"""`Simulated`: a run of `train` in virtual time, in one process, to the bit the same each time."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from siag.activity import Clock, Exponential, Fixed, OnOff
from siag.activity.times import Arrivals, Times, duration
from siag.foundations import check
from siag.foundations.errors import BadInput, Missing
from siag.foundations.rng import CLOCK, fresh
from siag.foundations.types import Integers
from siag.live.interrupt import interruptible
from siag.live.monitor.watch import Quiet
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Limits
from siag.live.protocol.worker import Worker
from siag.live.runtime import Runtime
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.spec import Spec
from siag.live.task import Task
from siag.live.transports.simulated.world import Client, Link, World
from siag.simulation import Run
from siag.storage.background import Inline

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
        server: mean time between two crashes of the server, which goes on from the run's folder; `None`: none.
        cuts: mean time between two cuts of a worker's connection, at which what is on its way is lost; `None`: none.
        delay: how long each message takes, on top of `Simulated.travel`; `None`: no time.
        down: seconds until a process that was killed is back.
    """

    crashes: float | None = None
    server: float | None = None
    cuts: float | None = None
    delay: Times | None = None
    down: float = 1.0

    def __post_init__(self) -> None:
        for name in ("crashes", "server", "cuts"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check.real(name, getattr(self, name), above=0, remedy="or None"))
        object.__setattr__(self, "down", check.real("down", self.down, low=0))
        if self.delay is not None and (not isinstance(self.delay, Times) or isinstance(self.delay, Arrivals)):
            raise BadInput("delay", self.delay, "a distribution of times, such as Exponential(0.1)")


NO_FAULTS = Faults()


@dataclass(frozen=True, kw_only=True)
class Simulated(Runtime):
    """Train in virtual time: `siag.train(…, runtime=siag.Simulated(times=siag.activity.Exponential(1.0), seed=1))`.

    The same call, with any gradient and streams, runs in this process; no time passes but that of the computations. The
    times are those of `siag.activity.Clock`: with the same seed, and a problem, `siag.simulate` takes the same steps.

    Args:
        times: how long a gradient takes.
        travel: how long the ways there and back take together.
        slowness: by how much a worker's times are longer; one number, or one for each worker.
        availability: `OnOff(on, off)`, for all workers or with a number for each, or `None` if they are always there.
            One that goes away finishes first.
        seed: of all times and faults.
        faults: what goes wrong.

    Example:
        >>> import siag
        >>> runtime = siag.Simulated(times=siag.activity.Exponential(1.0), slowness=[1, 10], seed=1)
        >>> streams = [iter([1.0] * 100), iter([3.0] * 100)]
        >>> run = siag.train(lambda w, x: w - x, streams, [0.0], step=siag.steps.Harmonic(2.0, 10), runtime=runtime)
        >>> int(run.samples[0, -1]), bool(run.time[0, -1] > 800)
        (200, True)
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
            self.activity()
        except BadInput as error:
            name = {"compute": "times"}.get(error.parameter, error.parameter)
            raise BadInput(name, error.value, error.allowed, error.remedy) from None
        object.__setattr__(self, "seed", check.seed(self.seed))
        if not isinstance(self.faults, Faults):
            raise BadInput("faults", self.faults, "a siag.runtimes.Faults")

    def activity(self) -> Clock:
        """The same times for `siag.simulate`."""
        return Clock(self.times, self.travel, slowness=self.slowness, availability=self.availability)

    def check_sendable(self, parameter: str, value: object, remedy: str) -> None:
        """Nothing is sent anywhere."""

    def prepare(self, spec: Spec) -> None:
        """Refuse what has no meaning in virtual time; machine code is made when it is first needed."""
        if any(spec.pauses or ()):
            raise BadInput("pauses", list(spec.pauses), "left out in virtual time", "Simulated has slowness=")
        if self.faults.server is not None and spec.folder is None:
            raise Missing("folder", "a server that crashes goes on from there")

    def describe(self, workers: int) -> str:
        """Where the workers run, in words."""
        return f"live, {workers} worker{'s' * (workers > 1)} in virtual time"

    def run(self, spec: Spec, tasks: list[Task]) -> Run:
        """Run it to its end; after a crash of the server in another session, which goes on where that one was."""
        if spec.progress is None:
            spec = replace(spec, progress=Quiet())  # who is away, and back again, is as planned
        rehearsal = Rehearsal(self, tasks, spec.names, spec.method.work(spec.n))
        while True:
            own = {"clock": lambda: rehearsal.world.now, "entropy": rehearsal.entropy}
            # Inline: what is saved is on disk before anything else happens.
            assembly = self.assemble(spec, background=lambda name: Inline(), **own)
            with suppress(ServerCrashed), interruptible(assembly.session.end):
                return assembly.run(rehearsal.serve, must_report=True)
            rehearsal.wait(self.faults.down)


class ServerCrashed(BaseException):
    """The server has been killed, and nothing can be saved; its workers are still there."""


class Rehearsal:
    """Workers and a network in virtual time, which outlive their server.

    Args:
        runtime: how long things take, and what goes wrong.
        tasks: one for each worker.
        names: of the workers.
        gradients: how many a report takes; one number, or one for each worker.

    Attributes:
        world: what happens, and when.
        entropy: given a number, that many random bytes.
    """

    def __init__(
        self, runtime: Simulated, tasks: Sequence[Task], names: Sequence[str], gradients: int | Integers = 1
    ) -> None:
        self._faults, self._tasks, self._names, self.world = runtime.faults, tasks, names, World()
        self._rng, self.entropy = random.Random(runtime.seed), random.Random(f"entropy {runtime.seed}").randbytes
        self._connections: Connections | None = None
        agenda = runtime.activity().paced(gradients).begin(len(tasks), runtime.seed, 0)
        draws = fresh(runtime.seed, 1, CLOCK)
        law = None if self._faults.delay is None else self._faults.delay.law()
        self._delay = None if law is None else lambda: float(duration(draws, law))
        rows = range(len(tasks))
        self._clients = [Client(self.world, row, self._worker(row), self._connect, agenda) for row in rows]
        for time, row in zip(agenda.when.tolist(), agenda.who.tolist(), strict=True):
            self.world.at(time, self._clients[row].start, row)
        for row, client in enumerate(self._clients):
            self._plan(self._faults.crashes, partial(self._crash, client, row))
            self._plan(self._faults.cuts, client.cut)
        self._plan(self._faults.server, self._crash_server)

    def serve(self, session: Session) -> None:
        """Let everything happen until the session is over, or the server is killed."""
        now = self.world.now
        self._connections = Connections(session, Tokens.none(), EVERYBODY, now=now)
        with session.running(lambda: self.world.now):
            self._happen(session, self._connections)

    def wait(self, seconds: float) -> None:
        """Let so much time pass, in which there is no server to connect to."""
        until = self.world.now + seconds
        self.world.at(until, lambda: None)
        while self.world.now < until and self.world.step():
            pass

    def _happen(self, session: Session, connections: Connections) -> None:
        world, look, tick = self.world, self.world.now, -1.0
        while not session.over and any(client.alive for client in self._clients):
            if tick < session.next_tick < NEVER:
                tick = session.next_tick
                world.at(tick, lambda: session.look_after(world.now), len(self._clients))
            if not world.step():
                break
            if connections.failure is not None:
                raise connections.failure
            if world.now >= look:
                look = world.now + LOOK
                session.look_after(world.now)

    def _connect(self, client: Client) -> Link | None:
        """A connection to the server, if there is one."""
        return None if self._connections is None else Link(self.world, client, self._connections, self._delay)

    def _worker(self, row: int) -> Worker:
        """A worker that begins; one that may crash has its task as it was before it began."""
        task, rng = self._tasks[row], random.Random(self._rng.random())
        if self._faults.crashes is not None:
            task = _copy(task)
        return Worker(lambda *_: task, name=self._names[row], heartbeat=NEVER, rng=rng)

    def _plan(self, mean: float | None, fault: Callable[[], None]) -> None:
        """Have a fault happen again and again."""
        if mean is None:
            return

        def happen() -> None:
            try:
                fault()
            finally:
                self._plan(mean, fault)

        self.world.after(self._rng.expovariate(1.0 / mean), happen)

    def _crash(self, client: Client, row: int) -> None:
        """Kill a worker's process, unless it is down already; it is started again."""
        if client.alive and client.started:
            client.kill(self._worker(row), self._faults.down)

    def _crash_server(self) -> None:
        """Kill the server, if there is one: its connections break."""
        connections, self._connections = self._connections, None
        if connections is not None:
            for connection in list(connections.connections):
                connection.place.cut()
            raise ServerCrashed


def _copy(task: Task) -> Task:
    """The same task, which has not begun."""
    try:
        return copy.deepcopy(task)
    except TypeError as error:
        remedy = "give a function that makes the stream"
        raise BadInput("streams", "one that cannot be read twice", f"able to begin anew ({error})", remedy) from None
