"""Virtual time: a server and its workers in one process, driven by an event queue.

The code is that of a live run: `Worker`, `Connections`, `Session`, `ParameterServer`. Only time and the network are
simulated. A connection without delay is a call; with one, bytes arrive later, in order. The user's gradient is computed
when w is read; its report arrives as many virtual seconds later as computing and travelling take.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from siag.activity.agenda import Agenda, returns, takes
from siag.foundations.last_words import last_words
from siag.live.protocol import wire
from siag.live.protocol.frame_reader import FrameReader
from siag.live.protocol.reception import Action as ServerAction
from siag.live.protocol.reception import Connection, Reception, SendModel, model_frame
from siag.live.protocol.reception import Send as ServerSend
from siag.live.protocol.worker import Actions, Connect, HangUp, Phase, Send, Worker
from siag.live.task import StreamEnded


class World:
    """Virtual time and the queue of what happens next.

    Attributes:
        now: virtual seconds since the start.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, what: Callable[[], None], order: int = 0) -> None:
        """Have something happen; of two things at the same time that of the lower order comes first."""
        self._count += 1
        heapq.heappush(self._queue, (max(time, self.now), order, self._count, what))

    def after(self, seconds: float, what: Callable[[], None], order: int = 0) -> None:
        """The same, `seconds` from now."""
        self.at(self.now + seconds, what, order)

    def step(self) -> bool:
        """Let the next thing happen; False if there is none."""
        if not self._queue:
            return False
        self.now, _, _, what = heapq.heappop(self._queue)
        what()
        return True


class Link:
    """A connection between a worker's host and a server's, in the simulated network.

    Args:
        world: whose time counts.
        client: who has opened it.
        reception: the server's.
        delay: seconds that a message takes, drawn anew for each; none by default.
    """

    def __init__(self, world: World, client: Client, reception: Reception, delay: Callable[[], float] | None) -> None:
        self._world, self._client, self._reception, self._delay = world, client, reception, delay
        self.connection: Connection = reception.open(self, self._server_time(), "simulated")
        self.reader = FrameReader(client.worker.expected)  # of what comes to the worker
        self.up = True  # whether the worker's end knows of the connection
        self._last = [0.0, 0.0]  # when the last message arrives there, and here

    def to_server(self, content: bytes) -> None:
        """The worker sends something."""
        self._travel(0, lambda: self._arrive_there(content))

    def to_worker(self, content: bytes) -> None:
        """The server sends something."""
        self._travel(1, lambda: self._arrive_here(content))

    def perform(self, action: ServerAction) -> None:
        """Carry out what the server wants done with this connection."""
        if isinstance(action, SendModel):
            self.to_worker(model_frame(self._reception, action))
        elif isinstance(action, ServerSend):
            self.to_worker(action.frame)
        else:
            self.close_there()

    def close_there(self) -> None:
        """The server hangs up, after what it has sent; the worker is told."""
        self.lose_there()
        self._travel(1, lambda: self.lose_here("the server hung up"))

    def close_here(self) -> None:
        """The worker hangs up, after what it has sent; the server is told."""
        self.up = False
        self._travel(0, self.lose_there)

    def lose_there(self) -> None:
        """The server finds the connection gone."""
        self._reception.lost(self.connection, self._server_time())

    def lose_here(self, reason: str) -> None:
        """The worker finds the connection gone."""
        if self.up:
            self.up = False
            self._client.lost(self, reason)

    def cut(self, reason: str = "the connection was cut") -> None:
        """What is on its way is lost, and both ends find the connection gone."""
        self.lose_there()
        self.lose_here(reason)

    def _server_time(self) -> float:
        """What the server's clock shows."""
        return self._world.now

    def _travel(self, way: int, arrive: Callable[[], None]) -> None:
        if self._delay is None:
            arrive()
            return
        self._last[way] = max(self._last[way], self._world.now + self._delay())
        self._world.at(self._last[way], arrive)

    def _arrive_there(self, content: bytes) -> None:
        reception, now = self._reception, self._server_time()
        self._perform(reception.feed(self.connection, content, now))
        if reception.pending:
            self._perform(reception.flush(now))

    def _perform(self, actions: Iterable[ServerAction]) -> None:
        """Carry out what the server wants done."""
        for action in actions:
            action.connection.place.perform(action)

    def _arrive_here(self, content: bytes) -> None:
        if not self.up:
            return
        try:
            actions = self._client.worker.feed(self.reader, content, self._world.now)
        except wire.BadFrame as error:
            self.cut(str(error))
        else:
            self._client.do(actions)


class Client:
    """A worker's process in virtual time.

    Args:
        world: whose time counts.
        row: its number.
        worker: what is said, and when.
        connect: opens a connection for it; `None` while there is no server.
        agenda: how long things take, and when it is there.

    Attributes:
        started: whether it is up; not before it begins, and while it is down after a crash.
    """

    def __init__(
        self, world: World, row: int, worker: Worker, connect: Callable[[Client], Link | None], agenda: Agenda
    ) -> None:
        self._world, self._row, self.worker, self._open, self._agenda = world, row, worker, connect, agenda
        self.link: Link | None = None
        self._life = 0  # what was begun before the process was killed comes to nothing
        self._computing = self.started = False

    @property
    def alive(self) -> bool:
        """Whether there is more to come from it."""
        return self.worker.phase is not Phase.ENDED

    def start(self) -> None:
        """Begin."""
        self.started = True
        self.do(self.worker.start(self._world.now))

    def kill(self, worker: Worker, down: float) -> None:
        """The process ends without a word; `down` seconds later one with this worker takes its place."""
        self._life += 1
        self._computing = self.started = False
        self._hang_up()
        self.worker = worker
        self._later(down, self.start)

    def cut(self) -> None:
        """Cut its connection, if there is one."""
        if self.link is not None:
            self.link.cut()

    def lost(self, link: Link, reason: str) -> None:
        """The connection is gone."""
        if self.link is link:
            self.link = None
            self.do(self.worker.lost(reason, self._world.now))

    def do(self, actions: Actions) -> None:
        """Carry out what the worker wants done."""
        for action in actions:
            if isinstance(action, Send):
                self._send(action.content)
            elif isinstance(action, Connect):
                self._later(action.after, self._connect)
            elif isinstance(action, HangUp):
                self._hang_up()
        if self.worker.busy and not self._computing:
            self._compute()

    def _send(self, content: bytes) -> None:
        if self.link is not None:
            self.link.to_server(content)

    def _hang_up(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.close_here()

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        life = self._life
        self._world.after(seconds, lambda: what() if life == self._life else None, self._row)

    def _connect(self) -> None:
        self.link = self._open(self)
        if self.link is None:
            self.do(self.worker.lost("there is no server", self._world.now))
        else:
            self.do(self.worker.connected(self._world.now))

    def _compute(self) -> None:
        """The worker reads w and computes, if it is there; what comes of it arrives later."""
        now = self._world.now
        back = now if self._agenda.on[self._row] == 0.0 else float(returns(self._agenda, self._row, now))
        if back > now:
            self._hang_up()
            self.worker.put_off()
            self._later(back - now, self._connect)
            return
        self._computing = True
        try:
            send = self.worker.compute()
        except StreamEnded:
            self._finish(0.0, self.worker.stream_ended)
        except Exception as error:  # whatever the user's code raises
            words = last_words(error)
            self._finish(0.0, lambda now: self.worker.failed(words, now))
        else:
            self._finish(float(takes(self._agenda, self._row)), lambda now: self.worker.computed(send, now))

    def _finish(self, seconds: float, event: Callable[[float], Actions]) -> None:
        def happen() -> None:
            self._computing = False
            self.do(event(self._world.now))

        self._later(seconds, happen)
