"""Virtual time: a server and its workers in one process, driven by an event queue.

The code is that of a live run: `Worker`, `Connections`, `Session`, `ParameterServer`. Only time and the network are
simulated. A connection without delay is a call; with one, bytes arrive later, in order. The user's gradient is computed
when w is read; its report arrives as many virtual seconds later as computing and travelling take.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from siag.activity.agenda import Agenda, returns, takes
from siag.live import wire
from siag.live.connection import Action as ServerAction
from siag.live.connection import Connection, Reception, SendModel, model_frame
from siag.live.connection import Send as ServerSend
from siag.live.frame_reader import FrameReader
from siag.live.task import StreamEnded, last_words
from siag.live.worker import Actions, Connect, HangUp, Phase, Send, SendReport, Worker


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
        """The same, so many seconds from now."""
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

    Attributes:
        extras: what a hello has to say of the connection itself.
    """

    extras: Mapping[str, Any] = {}  # never changed

    def __init__(self, world: World, client: Client, reception: Reception, delay: Callable[[], float] | None) -> None:
        self._world, self._client, self._reception, self._delay = world, client, reception, delay
        self.connection: Connection = reception.open(self, self._server_time(), "simulated")
        self.reader = FrameReader(client.worker.expected)  # of what comes to the worker
        self.up = self.heard = True  # whether the worker's end, and the server's, know of the connection
        self._last = [0.0, 0.0]  # when the last message arrives there, and here

    def to_server(self, content: bytes) -> None:
        """The worker sends something."""
        self._travel(0, lambda: self._arrive_there(content))

    def to_worker(self, content: bytes) -> None:
        """The server sends something."""
        self._travel(1, lambda: self._arrive_here(content))

    def close_there(self) -> None:
        """The server hangs up, after what it has sent; the worker is told."""
        self._travel(1, lambda: self._lose_here("the server hung up"))

    def close_here(self) -> None:
        """The worker hangs up, after what it has sent; the server is told."""
        self.up = False
        self._travel(0, self.lose_there)

    def lose_there(self) -> None:
        """The server finds the connection gone."""
        if self.heard:
            self.heard = False
            self._reception.lost(self.connection, self._server_time())

    def cut(self) -> None:
        """What is on its way is lost, and both ends find the connection gone."""
        self.lose_there()
        self._lose_here("the connection was cut")

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
        if self.heard:
            self._perform(reception.feed(self.connection, content, now))
        if reception.pending:
            self._perform(reception.flush(now))

    def _perform(self, actions: Iterable[ServerAction]) -> None:
        perform(self._reception, actions)

    def _arrive_here(self, content: bytes) -> None:
        if not self.up:
            return
        try:
            actions = self._client.worker.feed(self.reader, content, self._world.now)
        except wire.BadFrame as error:
            self.lose_there()
            self._lose_here(str(error))
        else:
            self._client.do(actions)

    def _lose_here(self, reason: str) -> None:
        if self.up:
            self.up = False
            self._client.lost(self, reason)


def perform(reception: Reception, actions: Iterable[ServerAction]) -> None:
    """Carry out what a server wants done."""
    for action in actions:
        perform_one(reception, action)


def perform_one(reception: Reception, action: ServerAction) -> None:
    """Carry out one action."""
    link: Link = action.connection.place
    if isinstance(action, SendModel):
        link.to_worker(model_frame(reception, action))
    elif isinstance(action, ServerSend):
        link.to_worker(action.frame)
    else:
        link.lose_there()
        link.close_there()


class Client:
    """A worker's process in virtual time.

    Args:
        world: whose time counts.
        row: its number.
        worker: what is said, and when.
        reception: where it finds its server; `None` while there is none.
        agenda: how long things take, and when it is there.
        delay: as for `Link`.
    """

    def __init__(
        self,
        world: World,
        row: int,
        worker: Worker,
        reception: Callable[[], Reception | None],
        agenda: Agenda,
        delay: Callable[[], float] | None = None,
    ) -> None:
        self._world, self._row, self.worker, self._reception = world, row, worker, reception
        self._agenda, self._delay = agenda, delay
        self.link: Link | None = None
        self._life = 0  # what was begun before the process was killed comes to nothing
        self._computing = self._beating = False

    @property
    def alive(self) -> bool:
        """Whether there is more to come from it."""
        return self.worker.phase is not Phase.ENDED

    def start(self) -> None:
        """Begin."""
        self.do(self.worker.start(self._world.now))

    def kill(self, worker: Worker) -> None:
        """The process ends without a word; one with this worker takes its place when it is started."""
        self._life += 1
        self._computing = self._beating = False
        link, self.link = self.link, None
        if link is not None:
            link.close_here()
        self.worker = worker

    def start_after(self, seconds: float) -> None:
        """Begin after a while, unless it is killed before."""
        self._later(seconds, self.start)

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
            if isinstance(action, SendReport):
                self._send(self.worker.report(action))
            elif isinstance(action, Send):
                self._send(action.frame)
            elif isinstance(action, Connect):
                self._later(action.after, self._connect)
            elif isinstance(action, HangUp):
                link, self.link = self.link, None
                if link is not None and link.up:
                    link.close_here()
        if self.worker.busy and not self._computing:
            self._compute()
        wakes = self.worker.wakes
        if wakes is not None and wakes < math.inf and not self._beating:
            self._beating = True
            self._later(wakes - self._world.now, self._beat)

    def _beat(self) -> None:
        """It is time for a sign of life, or was before something else was said."""
        self._beating = False
        self.do(self.worker.time(self._world.now))

    def _send(self, content: bytes) -> None:
        if self.link is not None:
            self.link.to_server(content)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        life = self._life
        self._world.after(seconds, lambda: what() if life == self._life else None, self._row)

    def _connect(self) -> None:
        reception = self._reception()
        if reception is None:
            self.do(self.worker.lost("there is no server", self._world.now))
            return
        self.link = self._open(reception)
        self.do(self.worker.connected(self._world.now, dict(self.link.extras)))

    def _open(self, reception: Reception) -> Link:
        return Link(self._world, self, reception, self._delay)

    def _compute(self) -> None:
        """The worker reads w and computes, if it is there; what comes of it arrives later."""
        now = self._world.now
        back = now if self._agenda.on == 0.0 else float(returns(self._agenda, self._row, now))
        if back > now:
            self._go_away(back)
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

    def _go_away(self, back: float) -> None:
        """Hang up, and come again when it is back."""
        link, self.link = self.link, None
        if link is not None:
            link.close_here()
        self.worker.put_off()
        self._later(back - self._world.now, self._connect)
