"""A follower's connections: the lead's, which gives orders, and the workers', which bring slices of reports."""

from __future__ import annotations

import asyncio
import hmac
import math
import ssl
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from siag.foundations.errors import SiagError, shorten
from siag.foundations.version import __version__
from siag.live import wire
from siag.live.security import Tokens, hash_of
from siag.live.sharding.lines import TICKETS
from siag.live.sharding.orders import ANSWER, FADE, MOVE, NOTE, ORDER, SAVE, TAKE, TOGETHER
from siag.live.sharding.saves import ShardStore
from siag.live.sharding.slice_server import Pending, SliceServer
from siag.live.transports.tcp.acceptor import Door
from siag.live.transports.tcp.connection import Connection, Limits
from siag.server.guard import square_norm

POLL = 0.01  # seconds between two looks at whether a save is on disk
BEAT = 10.0  # seconds after which the lead hears that it is still being written
LEAD = -1  # the row of a connection that is no worker's
UNLIMITED = 1 << 62


class FollowerHub(Door):
    """All connections of a follower.

    Args:
        make: makes its slice, as at the beginning.
        bounds: its first coordinate, and the first after it.
        facts: what the lead must agree about.
        tokens: who may have which row.
        secret: by which it knows the lead.
        limits: on connections.
        context: for TLS.
        store: opens where it saves, given what the lead says the run is; `None`: it saves nothing.
        share: whether workers may share memory with it, as in `Hub`.
    """

    def __init__(
        self,
        make: Callable[[], SliceServer],
        bounds: tuple[int, int],
        facts: dict[str, Any],
        tokens: Tokens,
        secret: str,
        limits: Limits,
        context: ssl.SSLContext | None,
        store: Callable[[str], ShardStore] | None,
        share: bool = False,
    ) -> None:
        size = 8 * (bounds[1] - bounds[0])
        super().__init__(limits, context, size)
        self._make, self._bounds, self._facts, self._tokens, self._secret = make, bounds, facts, tokens, secret
        self._open, self._share = store, share
        self._store: ShardStore | None = None
        self._server = make()
        self._unbound: wire.Expected = {wire.ALIVE: wire.NONE}
        self._bound: wire.Expected = {wire.REPORT: (size, size), wire.ALIVE: wire.NONE}
        if share:
            self._bound = {**self._bound, wire.SHARED_REPORT: wire.NONE}
        self._led: wire.Expected = {wire.ORDERS: (ORDER.size, TOGETHER * ORDER.size), wire.ASK: wire.ASKED}
        self._lead: Connection | None = None
        self._guests: dict[int, tuple[Connection, int | None]] = {}  # by ticket: who, and the row of its token
        self._by_row: dict[int, Connection] = {}
        self._ticket_of: dict[Connection, int] = {}
        self._model = (-1, b"")  # a version, and its w as bytes
        self._beyond = False

    def end(self) -> None:
        """Hang up on everybody."""
        for connection in list(self.connections):
            if not connection.closing:
                connection.hang_up()

    def close_store(self) -> None:
        """Wait for what is being written."""
        if self._store is not None:
            self._store.close()
            self._store = None

    # Connections come and go

    def lost(self, connection: Connection) -> None:
        """A connection is gone; what it brought may still be ordered to be taken."""
        super().lost(connection)
        self._guests.pop(self._ticket_of.pop(connection, -1), None)
        if connection.row is not None and self._by_row.get(connection.row) is connection:
            del self._by_row[connection.row]
        if connection is self._lead:
            self._lead = None
            self._send_away("the lead is gone")

    def bad_frame(self, connection: Connection, reason: str) -> None:
        """Garbage: answered, and the connection closed."""
        self.garbage += 1
        connection.refuse(reason, final=False)

    def heed(self, connection: Connection, head: wire.Head, payload: memoryview) -> None:
        """A frame has come, one that was expected."""
        if head.kind == wire.REPORT and connection.row is not None:
            self._report(connection, connection.row, head, payload)
        elif head.kind == wire.ORDERS:
            self._follow(payload)
        elif head.kind == wire.ASK:
            self._reply(connection, wire.parse_text(payload))
        elif head.kind == wire.HELLO:
            hello = wire.parse_text(payload)
            if hello.get("protocol") != wire.PROTOCOL:
                remedy = f"this server, siag {__version__}, speaks {wire.PROTOCOL}; install the same version"
                connection.refuse(f"protocol {shorten(str(hello.get('protocol')))}: {remedy}", final=True)
            elif "lead" in hello:
                self._link(connection, hello)
            else:
                self._welcome(connection, hello)

    def _link(self, connection: Connection, hello: dict[str, Any]) -> None:
        """The lead calls: all begins anew, until it says what to restore."""
        secret = hello.get("lead")
        if not isinstance(secret, str) or not hmac.compare_digest(hash_of(secret), hash_of(self._secret)):
            self.garbage += 1
            connection.refuse("the secret is not this server's", final=True)
            return
        for what, here in self._facts.items():
            if hello.get(what) != here:
                connection.refuse(f"{what} is {here} here, {shorten(hello.get(what))} at the lead", final=True)
                return
        run = hello.get("run")
        if (run is None) != (self._open is None):
            here, there = ("no", "a") if self._open is None else ("a", "no")
            connection.refuse(f"it has {here} folder and the lead has {there} folder; give both the same", final=True)
            return
        if self._lead is not None:
            old, self._lead = self._lead, None
            old.hang_up()
        self._send_away("there is a new lead")
        try:
            self.close_store()
            self._store = None if self._open is None else self._open(str(run))
        except SiagError as error:
            connection.refuse(str(error), final=True)
            return
        del self._server  # first: there may not be room for two
        self._server, self._beyond, self._model = self._make(), False, (-1, b"")
        self._lead, connection.row, connection.due, connection.expected = connection, LEAD, math.inf, self._led
        connection.transport.set_write_buffer_limits(high=UNLIMITED)  # or it might wait for us and we for it
        connection.transport.write(wire.text(wire.WELCOME, {"protocol": wire.PROTOCOL, "siag": __version__}))

    def _welcome(self, connection: Connection, hello: dict[str, Any]) -> None:
        """A worker calls: it is told which numbers are to come here, and must be let in by the lead."""
        ticket, token = hello.get("ticket"), hello.get("token")
        row = None
        if self._tokens.required:
            row = self._tokens.row_of(token if isinstance(token, str) else "")
            if row is None:
                self.garbage += 1
                what = "is not one of this server's" if token else "is missing; give the worker's .token file"
                connection.refuse(f"the token {what}", final=True)
                return
        shards = self._facts["shards"]
        if type(ticket) is not int or not 0 <= ticket < 1 << TICKETS or hello.get("shards") != shards:
            connection.refuse(f"the model is split over {shards} servers, and this is not the first", final=True)
        elif self._lead is None or ticket in self._guests:
            connection.refuse("there is no lead yet" if self._lead is None else "the ticket is taken", final=False)
        else:
            self._guests[ticket], self._ticket_of[connection] = (connection, row), ticket
            connection.expected, connection.due = self._unbound, self.deadline(0)
            first, last = self._bounds
            memory = connection.offer_memory(hello, last - first, last - first) if self._share else {}
            connection.transport.write(wire.text(wire.WELCOME, {"first": first, "last": last, **memory}))

    def _send_away(self, reason: str) -> None:
        """Hang up on all workers: they have to be let in again."""
        self._guests.clear()
        self._by_row.clear()
        self._ticket_of.clear()
        for connection in list(self.connections):
            if connection.row not in (None, LEAD) or connection.expected is self._unbound:
                connection.refuse(reason, final=False)

    # Reports and orders

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview) -> None:
        message = wire.numbers(payload)
        if wire.HEADER.size + head.length <= wire.STAGE:
            aligned = np.empty(message.size)
            aligned[:] = message
            message = aligned
        connection.expected = self._unbound  # nothing may come to where a large array lies until it was taken
        self._server.pending[row] = Pending(head.sample, message)
        if self._lead is not None:
            note = NOTE.pack(row, square_norm(message))
            self._lead.transport.write(wire.head(wire.NOTE, NOTE.size, self._ticket_of[connection], head.sample) + note)

    def _follow(self, orders: memoryview) -> None:
        """Do what the lead has done."""
        if len(orders) % ORDER.size:
            raise wire.BadFrame("orders that are none")
        server = self._server
        for what, go, _, row, a, b, x in ORDER.iter_unpack(orders):
            if not 0 <= row < len(server.changed):
                raise wire.BadFrame(f"an order for row {row}")
            if what == TAKE:
                server.take(row, b, a, go, x)
            elif what == ANSWER:
                self._answer(row, a, b)
            elif what == MOVE:
                server.move(x)
            elif what == FADE:
                server.fade(row, x)
            elif what == SAVE:
                self._save(a, b)
            else:
                raise wire.BadFrame(f"an order of kind {what}")
        if server.beyond() and not self._beyond:
            self._beyond = True
            self._say({"beyond": True})

    def _answer(self, row: int, version: int, ticket: int) -> None:
        """Send w to the worker that now has the row, if it is still there."""
        self._server.pending.pop(row, None)
        connection, owned = self._guests.get(ticket, (None, None))
        old = self._by_row.get(row)
        if old is not None and old is not connection:
            del self._by_row[row]
            old.row = None
            old.refuse("another connection has taken over this worker's row", final=False)
        if connection is None or connection.closing:
            return
        if owned not in (None, row) or connection.row not in (None, row):
            connection.refuse("this is another worker's row", final=True)
            return
        self._by_row[row] = connection
        connection.row, connection.due, connection.expected = row, math.inf, self._bound
        if connection.show(b"", version, self._server.shown):
            return
        if self._model[0] != version:
            self._model = (version, self._server.shown.astype("<f8", copy=False).tobytes())
        head = wire.head(wire.MODEL, len(self._model[1]), version)
        if len(self._model[1]) < wire.STAGE:
            connection.transport.write(head + self._model[1])
        else:
            connection.transport.write(head)
            connection.transport.write(self._model[1])

    def _save(self, number: int, common: int) -> None:
        """Save, and say when it is on disk; the next order to save comes after that."""
        store, server = self._store, self._server
        if store is None or not server.sound():
            self._say({"saved": number, "problem": "it has nothing to save" if store else "it has no folder"})
            return
        rows = np.flatnonzero(server.changed)
        if store.save_as(number, common, server.arrays, rows, {}):
            server.changed[rows] = False
        self._look_at_save(number, store, time.monotonic() + BEAT)

    def _look_at_save(self, number: int, store: ShardStore, beat: float) -> None:
        if store is not self._store:
            return
        if not store.busy:
            self._say({"saved": number, "problem": store.problem})
            return
        if time.monotonic() >= beat:
            beat += BEAT
            self._say({"saving": number})
        asyncio.get_running_loop().call_later(POLL, self._look_at_save, number, store, beat)

    def _say(self, content: dict[str, Any]) -> None:
        if self._lead is not None:
            self._lead.transport.write(wire.text(wire.SAID, content))

    def _reply(self, connection: Connection, question: dict[str, Any]) -> None:
        """Answer the lead."""
        what, server, store = question.get("what"), self._server, self._store
        if what == "w":
            payload = server.result.astype("<f8", copy=False).tobytes()
            connection.transport.write(wire.head(wire.REPLY, len(payload)))
            connection.transport.write(payload)
            return
        reply: dict[str, Any] = {}
        try:
            if store is None:
                reply = {"error": "it has no folder"}
            elif what == "saves":
                saves, common = store.known(server.arrays)
                reply = {"saves": saves, "common": common}
            elif what == "restore":
                remarks = store.recover_at(int(question["number"]), server.arrays).remarks
                reply = {"remarks": list(remarks)}
            elif what == "afresh":
                store.begin_afresh()
            else:
                reply = {"error": "a question it does not know"}
        except SiagError as error:
            reply = {"error": str(error)}
        self._say({"reply": reply})
