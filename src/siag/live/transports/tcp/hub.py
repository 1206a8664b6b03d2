"""The network runtime, server side: all connections of a session, who has which row, what they are answered."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from siag.foundations.errors import reason_of, shorten
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live import wire
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.transports.tcp.acceptor import PAUSE, Door
from siag.live.transports.tcp.connection import Connection, Limits, refusal
from siag.live.transports.waiting import Spinner
from siag.live.wire import STAGE
from siag.methods import Method
from siag.server.guard import Refused, square_norm
from siag.server.parameter_server import Ticket

OCCUPIED = 5.0  # seconds of silence after which a row may be taken over by a new connection


class Hub(Door):
    """All connections of a session.

    Args:
        session: whose they are.
        tokens: who may have which row.
        limits: on connections.
        context: for TLS.
        origin: the problem and the seed of its samples, in words, if workers must have the same.
        share: whether workers on this machine may share memory with the server, so that large arrays are not sent. Only
            if all are trusted: one could change its numbers after the guard has seen them.
        spinner: what the event loop looks with before it sleeps.
    """

    def __init__(
        self,
        session: Session,
        tokens: Tokens,
        limits: Limits,
        context: ssl.SSLContext | None = None,
        origin: dict[str, Any] | None = None,
        share: bool = False,
        spinner: Spinner | None = None,
    ) -> None:
        sent, shown = 8 * session.server.message_size, 8 * session.server.shown.size
        super().__init__(limits, context, shown, spinner)
        self._origin, self._share = origin or {}, share
        self.session, self.tokens = session, tokens
        self.server = session.server
        self.after: wire.Expected = {
            wire.REPORT: (sent, sent),
            wire.SKIP: wire.NONE,
            wire.ALIVE: wire.NONE,
            wire.LEAVE: wire.ASKED,
        }
        if share:
            self.after = {**self.after, wire.SHARED_REPORT: wire.NONE}
        self.by_row: dict[int, Connection] = {}
        self.failure: Exception | None = None  # an error that is nobody's message: of the user's loss, say
        self._rows = {member.name: member.row for member in self.server.members}
        now = time.monotonic()
        self._lost = {member.row: now for member in self.server.members if member.state == "away"}
        self._method = described(self.server.method)
        self._scratch = np.zeros(self.server.message_size)
        square_norm(self._scratch)
        self._square = square_norm.settled(self._scratch)
        self._small = sent + wire.HEADER.size <= STAGE
        self._at_once = shown + wire.HEADER.size <= STAGE and wire.NATIVE
        self._shown = self.server.shown.data
        self._model = (-1, memoryview(b""))  # a version, and its w as bytes
        self._answers: list[tuple[Connection, bytes, bool]] = []
        self._trouble = ""
        self._remarked = -math.inf

    def lost(self, connection: Connection) -> None:
        """A connection is gone; the worker's row stays."""
        super().lost(connection)
        row = connection.row
        if row is not None and self.by_row.get(row) is connection:
            del self.by_row[row]
            self._lost[row] = time.monotonic()
            self.session.died(row, "its connection was lost")

    def goodbye(self, done: bool, reason: str) -> None:
        """Tell everybody that the server ends, for good or for now."""
        for connection in self.connections:
            if not connection.closing:
                connection.transport.write(wire.text(wire.GOODBYE, {"done": done, "reason": wire.words(reason)}))
        self.by_row.clear()

    # Frames

    def heed(self, connection: Connection, head: wire.Head, payload: memoryview) -> None:
        """A frame has come, one that was expected."""
        if self.session.over:
            return  # goodbye is on its way
        now, row = time.monotonic(), connection.row
        if connection.waits and head.kind != wire.ALIVE:
            raise wire.BadFrame(f"{wire.NAMES[head.kind]}: the answer to the frame before must be waited for")
        if row is None:
            self._hello(connection, wire.parse_text(payload), now)
        elif head.kind == wire.REPORT:
            self._report(connection, row, head, payload, now)
        elif head.kind == wire.SKIP:
            self._take(connection, row, head, now, None)
        elif head.kind == wire.ALIVE:
            self.server.alive(row, now)
        else:
            self._leave(connection, row, wire.parse_text(payload), now)

    def bad_frame(self, connection: Connection, reason: str) -> None:
        """Garbage: counted, answered, and the connection closed; nothing more on it can be believed."""
        self.garbage += 1
        refused = Refused(reason)
        if connection.row is not None:
            self.server.strike(connection.row, refused, time.monotonic())
            self.session.refused(connection.row, refused)
        connection.refuse(reason, final=refused.final)

    def _hello(self, connection: Connection, hello: dict[str, Any], now: float) -> None:
        protocol = hello.get("protocol")
        try:
            if protocol != wire.PROTOCOL:
                said = shorten(protocol) if isinstance(protocol, int | float | str | None) else "of an unknown kind"
                remedy = f"this server, siag {__version__}, speaks {wire.PROTOCOL}; install the same version"
                raise Refused(f"protocol {said}: {remedy}", final=True)
            self._compare(hello)
            row = self._row_of(hello, now)
            ticket = self.session.join(row, now)
        except Refused as refused:
            self.garbage += 1
            self._remark(connection, refused.reason, now)
            connection.refuse(refused.reason, final=True)
            return
        except _Busy as busy:
            connection.refuse(str(busy), final=False)
            return
        self._seat(connection, row, hello)
        self.session.event(f"worker {self.server.members[row].name} joined, row {row}")
        welcome = self._welcome(ticket)
        if self._share:
            welcome |= connection.offer_memory(hello, self.server.message_size, self.server.shown.size)
        self._answer(connection, wire.text(wire.WELCOME, welcome))

    def _seat(self, connection: Connection, row: int, hello: dict[str, Any]) -> None:
        """A connection has the row from now on, whoever had it before."""
        self._take_over(row)
        connection.row, connection.due, connection.expected = row, math.inf, self.after
        self.by_row[row] = connection
        self._lost.pop(row, None)

    def _welcome(self, ticket: Ticket) -> dict[str, Any]:
        """What a worker is told first."""
        return {
            "protocol": wire.PROTOCOL,
            "siag": __version__,
            "row": ticket.row,
            "name": self.server.members[ticket.row].name,
            "workers": self.server.n,
            "d": self.server.d,
            "message": self.server.message_size,
            "shown": self.server.shown.size,
            "samples": ticket.samples,
            "method": self._method,
        }

    def _compare(self, hello: dict[str, Any]) -> None:
        """Refuse a worker with another problem or seed: a replay of the trace would not be this run."""
        for what, remedy in (("problem", "give both ends the same one"), ("seed", "give both ends the same --seed")):
            here, there = self._origin.get(what), hello.get(what)
            if here is not None and there != here:
                theirs = "none" if there is None else wire.words(str(there))
                raise Refused(f"the server's {what} is {here}, this worker's {theirs}; {remedy}", final=True)

    def _row_of(self, hello: dict[str, Any], now: float) -> int:
        """The row a worker asks for and may have."""
        asked, token = hello.get("worker"), hello.get("token")
        row: int | None = None
        if self.tokens.required:
            row = self.tokens.row_of(token if isinstance(token, str) else "")
            if row is None:
                what = "is not one of this server's" if token else "is missing; give the worker's .token file"
                raise Refused(f"the token {what}", final=True)
        if asked is not None:
            named = self._rows.get(asked) if isinstance(asked, str) else None
            if named is None or (row is not None and named != row):
                what = wire.words(asked)[:60] if isinstance(asked, str) else "of an unknown kind"
                raise Refused(f"worker {what}: not among this server's, or another's row", final=True)
            row = named
        if row is None:
            return self._free_row(now)
        if row in self.by_row and now - self.server.members[row].heard < OCCUPIED:
            raise _Busy(f"worker {self.server.members[row].name} is connected already")
        return row

    def _free_row(self, now: float) -> int:
        """A row for a worker that does not mind which: a new one, or that of a worker who does not come back."""
        vacant = [member for member in self.server.members if member.row not in self.by_row]
        away = [member.row for member in vacant if member.state == "away"]
        free = [member.row for member in vacant if member.state == "expected"]
        free += [row for row in away if now - self._lost.get(row, -math.inf) >= OCCUPIED]
        free += [member.row for member in vacant if member.state == "left"]
        if free:
            return free[0]
        if away:
            raise _Busy("all rows are taken, some by workers that may come back; they are free in a few seconds")
        raise _Busy("all rows are taken; give more workers to the server")

    def _take_over(self, row: int) -> None:
        """Another connection has the row from now on."""
        old = self.by_row.pop(row, None)
        if old is not None:
            old.row = None
            if not old.closing:
                old.refuse("another connection has taken over this worker's row", final=False)

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview, now: float) -> None:
        if self._small:
            self._scratch[:] = wire.numbers(payload)  # on the stage it may lie anywhere; compiled code wants it aligned
            message = self._scratch
        else:
            message = wire.numbers(payload)
        self._take(connection, row, head, now, message)

    def _take(self, connection: Connection, row: int, head: wire.Head, now: float, message: Floats | None) -> None:
        """Have the session take a report, or that there is nothing to send; answer."""
        if head.sample >= wire.SAMPLES:
            raise wire.BadFrame(f"sample {head.sample}: fewer than {wire.SAMPLES} are allowed")
        try:
            if message is None:
                self.session.skip(row, head.stamp, head.sample, now)
            else:
                self.session.push(row, head.stamp, message, head.sample, now, self._square(message))
        except Refused as refused:
            self.session.refused(row, refused)
            self._answer(connection, refusal(refused.reason, refused.final), last=refused.final)
        except Exception as error:  # not the worker's fault: the message was accepted
            self.failure = error
        else:
            self._answer(connection)

    def _leave(self, connection: Connection, row: int, content: dict[str, Any], now: float) -> None:
        """A worker leaves, for good or because its own code failed; its connection ends once that is noted."""
        reason = wire.words(content.get("reason"))
        connection.row, connection.expected = None, self.before
        del self.by_row[row]
        if content.get("failed"):
            self.session.failed(row, reason)
        else:
            self.session.left(row, now, reason)
        self._answer(connection, last=True)

    # Answers

    def _answer(self, connection: Connection, said: bytes = b"", *, last: bool = False) -> None:
        """Say something, then send the current w, or hang up: at once, or in durable mode when all this is on disk."""
        if not self.session.durable:
            self._deliver(connection, said, last)
            return
        connection.waits = True
        if not self._answers:
            asyncio.get_running_loop().call_soon(self._commit)
        self._answers.append((connection, said, last))

    def _commit(self) -> None:
        """All that came in this turn of the loop goes to disk together."""
        try:
            self.session.commit()
        except OSError as error:
            trouble = reason_of(error)
            if trouble != self._trouble:
                self.session.event(f"problem: {trouble}; nothing is acknowledged until it is on disk")
            self._trouble = trouble
            asyncio.get_running_loop().call_later(2 * PAUSE, self._commit)
            return
        if self._trouble:
            self._trouble = ""
            self.session.event("what was reported is on disk again; training goes on")
        answers, self._answers = self._answers, []
        for connection, said, last in answers:
            connection.waits = False
            self._deliver(connection, said, last)

    def _deliver(self, connection: Connection, said: bytes, last: bool) -> None:
        if connection.closing:
            return
        write = connection.transport.write
        if last:
            if said:
                write(said)
            connection.hang_up()
            return
        version = self.server.version
        if connection.show(said, version, self.server.shown):
            return
        said += wire.head(wire.MODEL, self._shown.nbytes, version)
        if self._at_once:
            write(said + self._shown)
            return
        if self._model[0] != version:  # one copy for all who get it: w moves on while it is on its way
            self._model = (version, memoryview(self.server.shown.astype("<f8", copy=False).tobytes()))
        write(said)
        write(self._model[1])

    def _remark(self, connection: Connection, reason: str, now: float) -> None:
        """Tell whoever watches of a worker that was turned away; once a second is enough."""
        if now - self._remarked >= 1.0:
            self._remarked = now
            place = connection.transport.get_extra_info("peername")
            shown = f" from {place[0]}" if place else ""
            self.session.event(f"a worker{shown} was turned away: {reason}")


class _Busy(Exception):
    """Not now, but perhaps later."""


def described(method: object) -> dict[str, Any]:
    """A method in words that a worker can make it from again; just its name, if its parameters have no words."""
    kind = {"kind": type(method).__name__}
    content: dict[str, Any] = {}
    if is_dataclass(method) and not isinstance(method, type):
        given = {field.name: getattr(method, field.name) for field in fields(method)}
        content = {name: described(value) if isinstance(value, Method) else value for name, value in given.items()}
    with suppress(TypeError, ValueError):
        if len(wire.text(wire.WELCOME, content)) < STAGE:
            return {**kind, **content}
    return kind
