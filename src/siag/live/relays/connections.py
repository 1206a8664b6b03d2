"""A relay without I/O: its members' connections, and when the root is sent what they have sent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from siag.activity import EveryArrivals, Tick
from siag.live.protocol.connections import Connections, Reply
from siag.live.protocol.reception import Action, Actions, Connection, Limits
from siag.live.protocol.welcome import Dismissed
from siag.live.protocol.worker import End, GaveUp, Phase
from siag.live.reasons import Ending
from siag.live.relays.root import Do, RootWorker
from siag.live.relays.server import RelayServer
from siag.live.security import Tokens
from siag.live.session import Session
from siag.server.guard import Refused
from siag.server.parameter_server import Ticket
from siag.server.status import State
from siag.server.sums import Sum

REFILL = 10.0  # seconds that a relay which was started again waits for members it has not heard of yet
LEAST = 0.001  # seconds between two looks at whether a sum is due
AT_ONCE = EveryArrivals(1)
WENT_BACK = "the root has gone back to an earlier version"


class RelayConnections(Connections):
    """The members of a relay, and how it stands with the root.

    Reports are summed as they come. With a pace of `EveryArrivals(1)` each is passed on as soon as the root has
    answered the one before, and its worker is answered when the root has: with one report at a time that is what the
    root would do with the workers themselves; what comes meanwhile goes together. With any other pace, and while
    there is no connection to the root, workers are answered at once, with the w that was read last.

    A transport calls `root_moved` whenever it has told the worker something, and carries out what both return.

    Args:
        session: of the relay's server.
        tokens: of its members.
        limits: on their connections.
        root: the worker that it is to the root.
        pace: after how many reports, or how many seconds, the root is sent the sum.
        do: carries out what the worker wants done.
        now: the time.
    """

    server: RelayServer

    def __init__(
        self,
        session: Session,
        tokens: Tokens,
        limits: Limits,
        *,
        root: RootWorker,
        pace: EveryArrivals | Tick = AT_ONCE,
        do: Do,
        now: float,
    ) -> None:
        super().__init__(session, tokens, limits, now=now)
        self.root, self.pace, self._do = root, pace, do
        self._method, self._life = root.description, root.life
        self._held: list[Reply] = []  # answers to reports that the root has not been sent, …
        self._on_their_way: list[Reply] = []  # … and to those that it has not answered
        self._reports, self._fades, self._weight = self.server.reports, self.server.fades, math.nan
        self._sent_at = now
        self._full_by = -math.inf
        root.server = self.server
        self.server.read(root.w, root.stamp)
        self.server.go_back()  # the root may have, since these rows were saved
        if root.samples > 0 and self.server.reports == 0:  # another has reported in its place, whose rows are lost
            self.server.empty(now)
            self._fades, self._full_by = self.server.fades, now + REFILL

    # The root

    def root_moved(self, now: float) -> Iterator[Action]:
        """The worker was told something: read w, answer members, send the next sum, end; whatever follows."""
        root = self.root
        if root.end is not None:
            self._ended(*root.end)
        elif root.phase is not Phase.JOINED:
            yield from self._release(now)
        elif root.fresh:
            root.fresh = False
            self._weight = math.nan
            self.server.read(root.w, root.stamp)
            if root.life != self._life:
                yield from self._begin_anew(now)
            answered, self._on_their_way = self._on_their_way, []
            yield from self._answer(answered, now)
        self._forward(now)

    def time(self, now: float) -> None:
        """Some time has passed."""
        self._forward(now)

    def wait(self, now: float) -> float:
        """After how many seconds `time` should be called again."""
        if not isinstance(self.pace, Tick):
            return REFILL / 10
        return max(LEAST, self._sent_at + self.pace.seconds - now)

    @property
    def alone(self) -> bool:
        """Whether there is no connection to the root."""
        return self.root.phase is not Phase.JOINED

    def due(self, now: float) -> bool:
        """Whether to send the root what there is."""
        server, root = self.server, self.root
        if self.alone or not root.busy or self.session.over:
            return False
        reports, faded = server.reports - self._reports, server.fades != self._fades
        if now < self._full_by and server.rows.gone.any():
            return False
        if isinstance(self.pace, Tick):
            return (reports > 0 or faded) and now >= self._sent_at + self.pace.seconds
        return reports >= self.pace.k or (faded and server.reports > 0)

    def _forward(self, now: float) -> None:
        """Send the root the sum if it is time; before the first one, what it will count for."""
        root, server = self.root, self.server
        if self.due(now):
            self._reports, self._fades, self._sent_at = server.reports, server.fades, now
            self._on_their_way += self._held
            self._held = []
            passes = [self.session.passes[each.row] for each in server.members if each.state != State.LEFT]
            send = root.compute()
            if root.task is not None:
                root.task.passes = int(min(passes, default=0))
            self._do(root.computed(send, now))
        elif not self.alone and root.samples == 0 and root.reports == 0 and server.weight != self._weight:
            self._weight = server.weight
            self._do([root.weigh(Sum(self._weight, 0, 0))])

    def _release(self, now: float) -> Iterator[Action]:
        """There is no connection to the root: members go on with the w that was read last."""
        answered = self._on_their_way + self._held
        self._on_their_way, self._held = [], []
        yield from self._answer(answered, now)

    def _answer(self, replies: list[Reply], now: float) -> Iterator[Action]:
        for reply in replies:
            reply.connection.owed = False
            yield from self._deliver(*reply, now)

    def _begin_anew(self, now: float) -> Iterator[Action]:
        """Versions mean other w's from now on: members are to read w anew, and to drop what they compute."""
        self._life = self.root.life
        self.server.go_back()
        for connection in [each for each in self.connections if each.row is not None]:
            yield from self.refuse(connection, WENT_BACK, now, final=False)

    def _ended(self, end: End, reason: str) -> None:
        """The root is done, or does not want this relay."""
        if end is End.DONE:
            self.session.end(Ending.ROOT_DONE, reason)
        elif end in (End.DISMISSED, End.GAVE_UP):
            self.failure = (GaveUp if end is End.GAVE_UP else Dismissed)(reason)

    # The members

    def flush(self, now: float) -> Iterator[Action]:
        """Pass on what has come."""
        yield from super().flush(now)
        self.pending = False
        self._forward(now)

    def _compare(self, hello: dict[str, Any]) -> None:
        if hello.get("problem") is not None or hello.get("seed") is not None:
            remedy = "give workers behind a relay a gradient and a stream"
            raise Refused(f"a relay does not know which of a problem's workers these are; {remedy}", final=True)

    def _welcome(self, ticket: Ticket) -> dict[str, Any]:
        """As the root's, but for who its workers are."""
        return super()._welcome(ticket) | {"life": self._life}

    def _reply(self, connection: Connection, said: bytes, last: bool, now: float) -> Actions:
        """Answer at once, or when the root has."""
        self.pending = True
        if said or last or self.alone or self.pace != AT_ONCE or now < self._full_by:
            return super()._reply(connection, said, last, now)
        connection.owed = True
        self._held.append(Reply(connection, said, last))
        return ()

    def lost(self, connection: Connection, now: float) -> None:
        """As of any server; nobody waits for its answer."""
        super().lost(connection, now)
        self.pending = True
