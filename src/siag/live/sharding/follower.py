"""A follower: a server that keeps a later slice of the model, and does what the lead says."""

from __future__ import annotations

import asyncio
import hmac
import math
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from siag.foundations.errors import SiagError, reason_of, shorten
from siag.foundations.version import __version__
from siag.live.protocol import wire
from siag.live.protocol.connections import check_hello
from siag.live.protocol.reception import TAKEN_OVER, Action, Actions, Connection, Limits, Reception, Send, SendModel
from siag.live.security import Tokens, hash_of
from siag.live.sharding.orders import MOST, NOTE, Answer, GoBack, Save, Show, SliceServer, unpack
from siag.live.sharding.slices import Shard, ShardStore
from siag.live.sharding.worker_slices import check_visit
from siag.live.transports.tcp.endpoint import Endpoint, listen
from siag.methods import answer
from siag.server.guard import Refused
from siag.storage.urls import disk_of

PAUSE = 0.01  # seconds between two looks at saves under way, and at who is too slow
BEAT = 10.0  # seconds after which the lead hears that a save is still being written
LEAD = -1  # the row of a connection that is no worker's
LED: wire.Expected = {wire.ORDERS: (1, MOST)}
SILENT: wire.Expected = {wire.ALIVE: wire.NONE}  # of a worker that may not report


class FollowerConnections(Reception):
    """A follower's connections, without I/O: the lead's, which gives orders, and those of workers, which bring slices.

    Args:
        shard: whose.
        limits: on connections.
        tokens: who may have which row.
        secret: by which it knows the lead.
        store: opens where it saves; `None`: it saves nothing.
        share: whether workers on this machine, all trusted, may share memory with it.
    """

    kind_of_slice = SliceServer

    def __init__(
        self,
        shard: Shard,
        limits: Limits,
        *,
        tokens: Tokens,
        secret: str,
        store: Callable[[], ShardStore] | None = None,
        share: bool = False,
    ) -> None:
        super().__init__(limits)
        self._shard, self._tokens, self._secret = shard, tokens, secret
        self._open, self._share = store, share
        self._store: ShardStore | None = None
        self.server: SliceServer = self.kind_of_slice(shard)
        size = self.encoding.size(self.server.shown.size)
        self._joined: wire.Expected = {**SILENT, wire.REPORT: (size, size)}
        if share:
            self._joined = {**self._joined, wire.SHARED_REPORT: wire.NONE}
        self._lead: Connection | None = None
        self._guests: dict[int, Connection] = {}  # workers, by visit; each has a row once the lead has let it in
        self._visits: dict[int, int] = {}  # of the worker that was last let in, by row
        self._saving: tuple[int, float] | None = None  # the number of a save that is being written; when to say so

    def close_store(self) -> None:
        """Wait for what is being written."""
        if self._store is not None:
            self._store.close()
            self._store = None

    # Connections come and go

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone; what it brought may still be ordered to be taken."""
        super().lost(connection, now)
        self._guests = {visit: guest for visit, guest in self._guests.items() if guest is not connection}
        if connection is self._lead:
            self._lead = None
            self.pending = True  # workers are sent away

    def _send_away(self, reason: str, now: float) -> Iterator[Action]:
        """Hang up on all workers: they have to be let in again."""
        guests, self._guests = self._guests, {}
        for guest in guests.values():
            yield from self.refuse(guest, reason, now, final=False)

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
        self.server, self._saving = self.kind_of_slice(self._shard), None
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
        if visit in self._guests:
            raise Refused("the visit is known already")
        self._guests[visit] = connection
        connection.reader.expected, connection.due = SILENT, self.deadline(0, now)
        size = self.server.shown.size
        memory = connection.place.offer_memory(hello, size, size) if self._share else {}
        return [Send(connection, wire.text(wire.WELCOME, {"shard": self._shard.k, **memory}))]

    # Reports and orders

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview) -> Actions:
        message = self.encoding.read(payload)
        if wire.HEADER.size + head.length <= wire.STAGE:  # there it may lie anywhere; compiled code wants it aligned
            message = np.array(message)
        connection.reader.expected = SILENT  # nothing may come to where a large array lies until it was taken
        square = self.server.keep(row, head.sample, message)
        note = wire.head(wire.NOTE, NOTE.size, self._visits[row], head.sample)
        return self._tell(note + NOTE.pack(row, square))

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
        before = self._visits.get(row, visit)
        if before != visit and (old := self._guests.pop(before, None)) is not None:
            old.row = None
            yield from self.refuse(old, TAKEN_OVER, now, final=False)
        connection = self._guests.get(visit)
        if connection is None or connection.closing:
            return
        if connection.row not in (None, row):
            yield from self.refuse(connection, "this is another worker's row", now, final=True)
            return
        self._visits[row] = visit
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


class Follower:
    """The server of a later shard of a model that is split.

    It listens from the beginning on, lets a lead in that knows the secret, and begins anew with each: a lead says which
    save to go back to. Workers are let in when the lead says so.

    Args:
        shard: which; it uses a folder in that of its run.
        host: the address to listen on.
        port: the port; 0 for any that is free.
        context: for TLS.
        run: as for `siag.storage.remote_disk.RemoteDisk`.
        given: tokens, secret and share, as for `FollowerConnections`.

    Attributes:
        address: where it listens.
    """

    def __init__(
        self,
        shard: Shard,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        context: ssl.SSLContext | None = None,
        run: str | None = None,
        **given: Any,
    ) -> None:
        shard.check_memory()
        SliceServer.warm_up(shard.spec.weighted, shard.spec.messages)
        limits = Limits.for_workers(shard.spec.n)
        store = None
        if shard.spec.folder is not None:
            disk, folder = disk_of("folder", shard.spec.folder, run=run)
            store = partial(ShardStore, folder, shard, disk=disk)
        self._connections = FollowerConnections(shard, limits, store=store, **given)
        self._context, self._over = context, False
        self._listeners = listen(host, port)
        self.address: tuple[str, int] = self._listeners[0].getsockname()[:2]

    def run(self) -> None:
        """Follow until `stop` is called."""
        try:
            asyncio.run(self._follow())
        finally:
            for listener in self._listeners:
                listener.close()

    def stop(self) -> None:
        """Have `run` return soon; from any thread."""
        self._over = True

    async def _follow(self) -> None:
        connections, endpoint = self._connections, Endpoint(self._connections, self._context)
        accepting = [asyncio.create_task(endpoint.accept(listener)) for listener in self._listeners]
        try:
            while not self._over:
                await asyncio.sleep(PAUSE)
                endpoint.look_after(time.monotonic())
        finally:
            for task in accepting:
                task.cancel()
            for connection in list(connections.connections):
                endpoint.perform(connections.close(connection, time.monotonic()))
            await endpoint.close()
            connections.close_store()
