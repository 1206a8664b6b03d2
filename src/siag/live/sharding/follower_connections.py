"""A follower's connections: the lead's, which gives orders, and the workers', which bring slices of reports. No I/O."""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from siag.foundations.errors import SiagError, reason_of, shorten
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live import wire
from siag.live.connection import Action, Actions, Connection, Limits, Reception, Send, SendModel
from siag.live.connections import check_hello
from siag.live.security import Tokens, hash_of
from siag.live.sharding.orders import MOST, NOTE, Answer, GoBack, Save, Show, unpack
from siag.live.sharding.saves import ShardStore
from siag.live.sharding.slice_server import SliceServer
from siag.live.sharding.slices import Shard
from siag.live.sharding.worker_slices import check_visit
from siag.methods import answer
from siag.server.guard import Refused, square_norm

BEAT = 10.0  # seconds after which the lead hears that a save is still being written
LEAD = -1  # the row of a connection that is no worker's
LED: wire.Expected = {wire.ORDERS: (1, MOST)}
SILENT: wire.Expected = {wire.ALIVE: wire.NONE}  # of a worker that may not report


class FollowerConnections(Reception):
    """All connections of a follower.

    Args:
        shard: whose.
        tokens: who may have which row.
        secret: by which it knows the lead.
        limits: on connections.
        store: opens where it saves; `None`: it saves nothing.
        share: whether workers may share memory with it.
        make: makes its slice, as at the beginning.
    """

    def __init__(
        self,
        shard: Shard,
        tokens: Tokens,
        secret: str,
        limits: Limits,
        *,
        store: Callable[[], ShardStore] | None = None,
        share: bool = False,
        make: Callable[[Shard], SliceServer] = SliceServer,
    ) -> None:
        super().__init__(limits, {wire.HELLO: wire.ASKED})
        self._shard, self._tokens, self._secret = shard, tokens, secret
        self._open, self._share, self._make = store, share, make
        self._store: ShardStore | None = None
        self.server = make(shard)
        size = self.server.shown.nbytes
        self._joined: wire.Expected = {**SILENT, wire.REPORT: (size, size)}
        if share:
            self._joined = {**self._joined, wire.SHARED_REPORT: wire.NONE}
        self._lead: Connection | None = None
        self._visits: dict[Connection, int] = {}  # of workers; each has a row once the lead has let it in
        self._by_visit: dict[int, Connection] = {}
        self._by_row: dict[int, Connection] = {}
        self._saving: tuple[int, float] | None = None  # the number of a save that is being written; when to say so

    @property
    def shown(self) -> Floats:
        """What workers read."""
        return self.server.shown

    def close_store(self) -> None:
        """Wait for what is being written."""
        if self._store is not None:
            self._store.close()
            self._store = None

    # Connections come and go

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone; what it brought may still be ordered to be taken."""
        super().lost(connection, now)
        self._forget(connection)
        if connection is self._lead:
            self._lead = None
            self.pending = True  # workers are sent away

    def _forget(self, connection: Connection) -> None:
        """A worker's connection is no longer one."""
        self._by_visit.pop(self._visits.pop(connection, -1), None)
        if connection.row is not None and self._by_row.get(connection.row) is connection:
            del self._by_row[connection.row]

    def _send_away(self, reason: str, now: float) -> Iterator[Action]:
        """Hang up on all workers: they have to be let in again."""
        for connection in list(self._visits):
            self._forget(connection)
            yield from self.refuse(connection, reason, now, final=False)

    def flush(self, now: float) -> Iterator[Action]:
        """See whether a save is on disk; without a lead, send the workers away."""
        yield from self._look_at_save(now)
        if self._lead is None:
            yield from self._send_away("the lead is gone", now)
        self.pending = self._saving is not None

    # Frames

    def handle_frame(
        self, connection: Connection, head: wire.Head, payload: memoryview, now: float
    ) -> Iterable[Action]:
        """A frame has come, one that was expected."""
        if head.kind == wire.REPORT and connection.row is not None:
            return self._report(connection, connection.row, head, payload)
        if head.kind == wire.ORDERS:
            return self._follow(payload, now)
        if head.kind == wire.HELLO:
            return self._hello(connection, wire.parse_text(payload), now)
        return ()

    def _hello(self, connection: Connection, hello: dict[str, Any], now: float) -> Actions:
        try:
            if "lead" in hello:
                return self._begin(connection, hello, now)
            return self._welcome(connection, hello, now)
        except Refused as refused:
            self.garbage += refused.final
            return self.refuse(connection, refused.reason, now, final=refused.final)

    def _begin(self, connection: Connection, hello: dict[str, Any], now: float) -> Actions:
        """The lead calls: all begins anew, until it says which save to go back to."""
        check_hello(hello, Tokens.none())
        secret = hello["lead"]
        if not isinstance(secret, str) or not hmac.compare_digest(hash_of(secret), hash_of(self._secret)):
            raise Refused("the secret is not this server's", final=True)
        for what, here in self._shard.facts.items():
            if hello.get(what) != here:
                there = shorten(hello.get(what)).strip("'")
                raise Refused(f"{what} is {here} here, {there} at the lead", final=True)
        actions: list[Action] = [] if self._lead is None else list(self.close(self._lead, now))
        self._lead = None
        actions += self._send_away("there is a new lead", now)
        del self.server  # first: there may not be room for two
        self.server, self._saving = self._make(self._shard), None
        self.epoch += 1
        welcome: dict[str, Any] = {"protocol": wire.PROTOCOL, "siag": __version__}
        try:
            self.close_store()
            if self._open is not None:
                self._store = self._open()
                welcome["saves"], welcome["common"] = self._store.known(self.server.arrays)
        except (SiagError, OSError) as error:
            return [*actions, *self.refuse(connection, reason_of(error), now, final=True)]
        self._lead, connection.row, connection.due = connection, LEAD, math.inf
        connection.reader.expected, connection.trusted = LED, True
        return [*actions, *self._tell(wire.text(wire.WELCOME, welcome))]

    def _welcome(self, connection: Connection, hello: dict[str, Any], now: float) -> Actions:
        """A worker calls: it may stay if the lead lets it in."""
        check_hello(hello, self._tokens)
        visit = check_visit(hello, self._shard.shards)
        if self._lead is None:
            raise Refused("there is no lead yet")
        if visit in self._by_visit:
            raise Refused("the visit is known already")
        self._visits[connection], self._by_visit[visit] = visit, connection
        connection.reader.expected, connection.due = SILENT, self.deadline(0, now)
        size = self.shown.size
        memory = connection.place.offer_memory(hello, size, size) if self._share else {}
        return [Send(connection, wire.text(wire.WELCOME, {"shard": self._shard.k, **memory}))]

    # Reports and orders

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview) -> Actions:
        message = wire.numbers(payload)
        if wire.HEADER.size + head.length <= wire.STAGE:  # there it may lie anywhere; compiled code wants it aligned
            message = np.array(message)
        connection.reader.expected = SILENT  # nothing may come to where a large array lies until it was taken
        self.server.pending[row] = head.sample, message
        note = wire.head(wire.NOTE, NOTE.size, self._visits[connection], head.sample)
        return self._tell(note + NOTE.pack(row, square_norm(message)))

    def _follow(self, orders: memoryview, now: float) -> Iterator[Action]:
        """Do what the lead has done, each order when what the one before has to be sent was sent."""
        for order in unpack(orders):
            if not 0 <= getattr(order, "row", 0) < len(self.server.changed):
                raise wire.BadFrame(f"an order for a row that does not exist: {order}")
            match order:
                case Answer(row, version, visit):
                    yield from self._answer(row, version, visit, now)
                case Save(number, common):
                    yield from self._save(number, common, now)
                case GoBack(number):
                    yield from self._go_back(number)
                case Show():
                    result = answer(self.server.state).astype("<f8", copy=False).tobytes()
                    yield from self._tell(wire.head(wire.MODEL, len(result)), result)
                case _:
                    self.server.follow(order)
        if self.server.diverged():
            yield from self._say(diverged=True)

    def _answer(self, row: int, version: int, visit: int, now: float) -> Iterator[Action]:
        """Send w to the worker that now has the row, if it is still there."""
        self.server.pending.pop(row, None)
        connection, old = self._by_visit.get(visit), self._by_row.get(row)
        if old is not None and old is not connection:
            self._forget(old)
            old.row = None
            yield from self.refuse(old, "another connection has taken over this worker's row", now, final=False)
        if connection is None or connection.closing:
            return
        if connection.row not in (None, row):
            yield from self.refuse(connection, "this is another worker's row", now, final=True)
            return
        self._by_row[row] = connection
        connection.row, connection.due, connection.reader.expected = row, math.inf, self._joined
        yield SendModel(connection, b"", version)

    def _save(self, number: int, common: int, now: float) -> Actions:
        """Save, and say when it is on disk; the next order to save comes after that."""
        server, store = self.server, self._store
        if store is None or not server.in_range():
            return self._say(saved=number, problem="it has nothing to save")
        rows = np.flatnonzero(server.changed)
        if not store.save_as(number, common, server.arrays, rows, {}):  # a lead that loses another shard asks again
            return self._say(saved=number, problem="it is still at the save before")
        server.changed[rows] = False
        self._saving, self.pending = (number, now + BEAT), True
        return self._look_at_save(now)

    def _look_at_save(self, now: float) -> Actions:
        if self._saving is None or self._store is None:
            return ()
        number, beat = self._saving
        if not self._store.busy:
            self._saving = None
            return self._say(saved=number, problem=self._store.problem)
        if now < beat:
            return ()
        self._saving = number, beat + BEAT
        return self._say(saving=number)

    def _go_back(self, number: int) -> Actions:
        """Go back to a save."""
        try:
            if self._store is not None:
                self._store.go_back(number, self.server.arrays)
        except (SiagError, OSError) as error:
            return self._say(saved=number, problem=reason_of(error))
        return self._say(saved=number, problem=None)

    def _say(self, **content: Any) -> Actions:
        return self._tell(wire.text(wire.SAID, content))

    def _tell(self, *frames: bytes) -> Actions:
        return () if self._lead is None else [Send(self._lead, frame) for frame in frames]
