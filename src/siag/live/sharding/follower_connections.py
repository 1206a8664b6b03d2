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
from siag.live.security import Tokens, hash_of
from siag.live.sharding.orders import NOTE, ORDER, TOGETHER, Answer, Fade, Move, Save, Take, unpack
from siag.live.sharding.saves import ShardStore
from siag.live.sharding.slice_server import Pending, SliceServer
from siag.live.sharding.worker_slices import VISITS
from siag.server.guard import square_norm

BEAT = 10.0  # seconds after which the lead hears that a save is still being written
LEAD = -1  # the row of a connection that is no worker's


class FollowerConnections(Reception):
    """All connections of a follower.

    Args:
        make: makes its slice, as at the beginning.
        bounds: its first coordinate, and the first after it.
        facts: what the lead must agree about.
        tokens: who may have which row.
        secret: by which it knows the lead.
        limits: on connections.
        store: opens where it saves, given what the lead says the run is; `None`: it saves nothing.
        shared: whether workers may share memory with it.
    """

    def __init__(
        self,
        make: Callable[[], SliceServer],
        bounds: tuple[int, int],
        facts: dict[str, Any],
        tokens: Tokens,
        secret: str,
        limits: Limits,
        store: Callable[[str], ShardStore] | None,
        shared: bool = False,
    ) -> None:
        super().__init__(limits, {wire.HELLO: wire.ASKED})
        size = 8 * (bounds[1] - bounds[0])
        self._make, self._bounds, self._facts, self._tokens, self._secret = make, bounds, facts, tokens, secret
        self._open, self._shared = store, shared
        self._store: ShardStore | None = None
        self._server = make()
        self._unbound: wire.Expected = {wire.ALIVE: wire.NONE}
        self._bound: wire.Expected = {wire.REPORT: (size, size), wire.ALIVE: wire.NONE}
        if shared:
            self._bound = {**self._bound, wire.SHARED_REPORT: wire.NONE}
        self._led: wire.Expected = {wire.ORDERS: (ORDER.size, TOGETHER * ORDER.size), wire.ASK: wire.ASKED}
        self._lead: Connection | None = None
        self._guests: dict[int, tuple[Connection, int | None]] = {}  # by visit: who, and the row of its token
        self._by_row: dict[int, Connection] = {}
        self._visit_of: dict[Connection, int] = {}
        self._saving: tuple[int, float] | None = None  # the number of a save that is being written; when to say so
        self._beyond = False

    @property
    def shown(self) -> Floats:
        """What workers read."""
        return self._server.shown

    def end(self, now: float) -> Actions:
        """Hang up on everybody."""
        return [each for one in list(self.connections) if not one.closing for each in self.close(one, now)]

    def close_store(self) -> None:
        """Wait for what is being written."""
        if self._store is not None:
            self._store.close()
            self._store = None

    # Connections come and go

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone; what it brought may still be ordered to be taken."""
        super().lost(connection, now)
        self._guests.pop(self._visit_of.pop(connection, -1), None)
        if connection.row is not None and self._by_row.get(connection.row) is connection:
            del self._by_row[connection.row]
        if connection is self._lead:
            self._lead = None
            self.pending = True  # workers are sent away

    def flush(self, now: float) -> Iterator[Action]:
        """See whether a save is on disk; without a lead, send the workers away."""
        yield from self._look_at_save(now)
        if self._lead is None:
            yield from self._send_away("the lead is gone", now)
        self.pending = self._saving is not None

    def handle_garbage(self, connection: Connection, reason: str, now: float) -> Actions:
        """Garbage: answered, and the connection closed."""
        self.garbage += 1
        return self.refuse(connection, reason, now, final=False)

    def handle_frame(
        self, connection: Connection, head: wire.Head, payload: memoryview, now: float
    ) -> Iterable[Action]:
        """A frame has come, one that was expected."""
        if head.kind == wire.REPORT and connection.row is not None:
            return self._report(connection, connection.row, head, payload)
        if head.kind == wire.ORDERS:
            return self._follow(payload, now)
        if head.kind == wire.ASK:
            return self._answer_question(connection, wire.parse_text(payload))
        if head.kind != wire.HELLO:
            return ()
        hello = wire.parse_text(payload)
        if hello.get("protocol") != wire.PROTOCOL:
            remedy = f"this server, siag {__version__}, speaks {wire.PROTOCOL}; install the same version"
            return self.refuse(connection, f"protocol {shorten(str(hello.get('protocol')))}: {remedy}", now, final=True)
        return self._link(connection, hello, now) if "lead" in hello else self._welcome(connection, hello, now)

    def _link(self, connection: Connection, hello: dict[str, Any], now: float) -> Actions:
        """The lead calls: all begins anew, until it says what to restore."""
        trouble = self._trouble_with(hello)
        if trouble:
            self.garbage += 1
            return self.refuse(connection, trouble, now, final=True)
        actions: list[Action] = []
        if self._lead is not None:
            old, self._lead = self._lead, None
            actions += self.close(old, now)
        actions += self._send_away("there is a new lead", now)
        try:
            self.close_store()
            self._store = None if self._open is None else self._open(str(hello.get("run")))
        except (SiagError, OSError) as error:
            return [*actions, *self.refuse(connection, reason_of(error), now, final=True)]
        del self._server  # first: there may not be room for two
        self._server, self._beyond, self._saving = self._make(), False, None
        self.epoch += 1
        self._lead, connection.row, connection.due = connection, LEAD, math.inf
        connection.reader.expected, connection.trusted = self._led, True
        return [*actions, Send(connection, wire.text(wire.WELCOME, {"protocol": wire.PROTOCOL, "siag": __version__}))]

    def _trouble_with(self, hello: dict[str, Any]) -> str:
        """Why this is not the lead of this server."""
        secret = hello.get("lead")
        if not isinstance(secret, str) or not hmac.compare_digest(hash_of(secret), hash_of(self._secret)):
            return "the secret is not this server's"
        for what, here in self._facts.items():
            if hello.get(what) != here:
                return f"{what} is {here} here, {shorten(hello.get(what))} at the lead"
        if (hello.get("run") is None) != (self._open is None):
            here, there = ("no", "a") if self._open is None else ("a", "no")
            return f"it has {here} folder and the lead has {there} folder; give both the same"
        return ""

    def _welcome(self, connection: Connection, hello: dict[str, Any], now: float) -> Actions:
        """A worker calls: it is told which numbers are to come here, and must be let in by the lead."""
        visit, token = hello.get("visit"), hello.get("token")
        row = None
        if self._tokens.required:
            row = self._tokens.row_of(token if isinstance(token, str) else "")
            if row is None:
                self.garbage += 1
                what = "is not one of this server's" if token else "is missing; give the worker's .token file"
                return self.refuse(connection, f"the token {what}", now, final=True)
        shards = self._facts["shards"]
        if type(visit) is not int or not 0 <= visit < 1 << VISITS or hello.get("shards") != shards:
            reason = f"the model is split over {shards} servers, and this is not the first"
            return self.refuse(connection, reason, now, final=True)
        if self._lead is None or visit in self._guests:
            reason = "there is no lead yet" if self._lead is None else "the visit is known already"
            return self.refuse(connection, reason, now, final=False)
        self._guests[visit], self._visit_of[connection] = (connection, row), visit
        connection.reader.expected, connection.due = self._unbound, self.deadline(0, now)
        first, last = self._bounds
        memory = connection.place.offer_memory(hello, last - first, last - first) if self._shared else {}
        return [Send(connection, wire.text(wire.WELCOME, {"first": first, "last": last, **memory}))]

    def _send_away(self, reason: str, now: float) -> Actions:
        """Hang up on all workers: they have to be let in again."""
        self._guests.clear()
        self._by_row.clear()
        self._visit_of.clear()
        actions: list[Action] = []
        for connection in list(self.connections):
            if connection.row not in (None, LEAD) or connection.reader.expected is self._unbound:
                actions += self.refuse(connection, reason, now, final=False)
        return actions

    # Reports and orders

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview) -> Actions:
        message = wire.numbers(payload)
        if wire.HEADER.size + head.length <= wire.STAGE:
            aligned = np.empty(message.size)
            aligned[:] = message
            message = aligned
        connection.reader.expected = self._unbound  # nothing may come to where a large array lies until it was taken
        self._server.pending[row] = Pending(head.sample, message)
        if self._lead is None:
            return ()
        note = NOTE.pack(row, square_norm(message))
        return [Send(self._lead, wire.head(wire.NOTE, NOTE.size, self._visit_of[connection], head.sample) + note)]

    def _follow(self, orders: memoryview, now: float) -> Iterator[Action]:
        """Do what the lead has done, each order when what the one before has to be sent was sent."""
        server = self._server
        for order in unpack(orders):
            row = getattr(order, "row", 0)
            if not 0 <= row < len(server.changed):
                raise wire.BadFrame(f"an order for row {row}")
            match order:
                case Take(_, age, sample, eta, step):
                    server.take(row, sample, age, step, eta)
                case Answer(_, version, visit):
                    yield from self._show(row, version, visit, now)
                case Move(eta):
                    server.move(eta)
                case Fade(_, factor):
                    server.fade(row, factor)
                case Save(number, common):
                    yield from self._save(number, common, now)
        if server.beyond() and not self._beyond:
            self._beyond = True
            yield from self._say({"beyond": True})

    def _show(self, row: int, version: int, visit: int, now: float) -> Actions:
        """Send w to the worker that now has the row, if it is still there."""
        self._server.pending.pop(row, None)
        connection, owned = self._guests.get(visit, (None, None))
        old, actions = self._by_row.get(row), list[Action]()
        if old is not None and old is not connection:
            del self._by_row[row]
            old.row = None
            actions += self.refuse(old, "another connection has taken over this worker's row", now, final=False)
        if connection is None or connection.closing:
            return actions
        if owned not in (None, row) or connection.row not in (None, row):
            return [*actions, *self.refuse(connection, "this is another worker's row", now, final=True)]
        self._by_row[row] = connection
        connection.row, connection.due, connection.reader.expected = row, math.inf, self._bound
        return [*actions, SendModel(connection, b"", version)]

    def _save(self, number: int, common: int, now: float) -> Actions:
        """Save, and say when it is on disk; the next order to save comes after that."""
        store, server = self._store, self._server
        if store is None or not server.sound():
            return self._say({"saved": number, "problem": "it has nothing to save" if store else "it has no folder"})
        rows = np.flatnonzero(server.changed)
        if store.save_as(number, common, server.arrays, rows, {}):
            server.changed[rows] = False
        self._saving, self.pending = (number, now + BEAT), True
        return self._look_at_save(now)

    def _look_at_save(self, now: float) -> Actions:
        if self._saving is None or self._store is None:
            return ()
        number, beat = self._saving
        if not self._store.busy:
            self._saving = None
            return self._say({"saved": number, "problem": self._store.problem})
        if now < beat:
            return ()
        self._saving = number, beat + BEAT
        return self._say({"saving": number})

    def _say(self, content: dict[str, Any]) -> Actions:
        return () if self._lead is None else [Send(self._lead, wire.text(wire.SAID, content))]

    def _answer_question(self, connection: Connection, question: dict[str, Any]) -> Actions:
        """Answer the lead."""
        what, server, store = question.get("what"), self._server, self._store
        if what == "w":
            payload = server.result.astype("<f8", copy=False).tobytes()
            return [Send(connection, wire.head(wire.REPLY, len(payload))), Send(connection, payload)]
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
        except (SiagError, OSError) as error:
            reply = {"error": reason_of(error)}
        return self._say({"reply": reply})
