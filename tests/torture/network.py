"""Processes of servers and workers, and the connections between them: late, in pieces, cut, half-open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from siag.live.protocol.reception import Action
from siag.live.protocol.worker import Actions, Worker
from siag.live.transports.simulated.world import Client, Link

if TYPE_CHECKING:
    from tests.torture.world import Torture

KEEPALIVE = 30.0  # virtual seconds after which a connection that is gone is noticed in any case


class Process(Protocol):
    """A server's process."""

    connections: Any
    arriving: Any

    @property
    def now(self) -> float:
        """What its clock shows."""

    def perform(self, actions: Iterable[Action]) -> None:
        """Carry out what it wants done, unless it dies meanwhile."""

    def die(self) -> None:
        """It ends without a word."""


class Killed(BaseException):
    """A server's process dies here."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process


class Wire(Link):
    """A connection whose messages are late, arrive in pieces, and are lost when it is cut."""

    def __init__(self, torture: Torture, client: Any, process: Process) -> None:
        self._process, self._rng, self._options = process, torture.rng, torture.options
        self.client = client
        super().__init__(torture.world, client, process.connections, torture.delay)
        self.gone = False  # nothing arrives any more

    def to_server(self, content: bytes) -> None:
        """The worker sends something."""
        for piece in self._pieces(content):
            super().to_server(piece)

    def to_worker(self, content: bytes) -> None:
        """The server sends something."""
        for piece in self._pieces(content):
            super().to_worker(piece)

    def break_off(self, noticed: bool) -> None:
        """Nothing arrives any more; the worker finds out, and the server at once or late."""
        self.gone = True
        self.lose_here("the connection was cut")
        if noticed:
            self.lose_there()
        else:
            self._world.after(KEEPALIVE, self.lose_there)

    def abandon(self) -> None:
        """The worker has given it up; what is on its way still arrives."""
        self.lose_here("the connection was reset")
        self._world.after(self._rng.uniform(0.0, 15.0), self.lose_there)

    def stall(self, seconds: float) -> None:
        """What the worker sends from now on arrives so many seconds later."""
        self._last[0] = max(self._last[0], self._world.now) + seconds

    def _server_time(self) -> float:
        return self._process.now

    def _pieces(self, content: bytes) -> list[bytes]:
        if not self._options.pieces or len(content) < 2:
            return [content]
        ends = sorted(self._rng.sample(range(1, len(content)), min(len(content) - 1, self._rng.randint(0, 3))))
        return [content[first:last] for first, last in zip([0, *ends], [*ends, len(content)], strict=True)]

    def _arrive_there(self, content: bytes) -> None:
        if not self.gone and self._process.connections is self._reception:
            self._process.arriving = self
            try:
                super()._arrive_there(content)
            finally:
                self._process.arriving = None

    def _arrive_here(self, content: bytes) -> None:
        if not self.gone:
            super()._arrive_here(content)

    def lose_there(self) -> None:
        """The server finds the connection gone, if it is still the same."""
        if self._process.connections is self._reception:
            super().lose_there()

    def _perform(self, actions: Iterable[Action]) -> None:
        self._process.perform(actions)


class Host(Client):
    """A worker's process that gives signs of life, on a machine with faults; it connects to a place."""

    def __init__(self, torture: Torture, row: int, worker: Worker, place: Any, agenda: Any) -> None:
        super().__init__(torture.world, row, worker, place.connect, agenda)
        self.place = place
        self._beating = False

    def kill(self, worker: Worker, down: float) -> None:
        """The process ends without a word."""
        self._beating = False
        super().kill(worker, down)

    def do(self, actions: Actions) -> None:
        """Carry out what the worker wants done."""
        super().do(actions)
        wakes = self.worker.wakes
        if wakes is not None and not self._beating:
            self._beating = True
            self._later(wakes - self._world.now, self._beat)

    def _beat(self) -> None:
        """It is time for a sign of life, or was before something else was said."""
        self._beating = False
        self.do(self.worker.time(self._world.now))
