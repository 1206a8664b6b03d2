"""The connections of a session, without I/O: who has which row, and what workers are answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.errors import shorten
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live.protocol import wire
from siag.live.protocol.outbox import Outbox
from siag.live.protocol.reception import (
    BEFORE,
    TAKEN_OVER,
    Action,
    Actions,
    Connection,
    Limits,
    Reception,
    Send,
    SendModel,
    refusal,
)
from siag.live.protocol.welcome import described
from siag.live.reasons import Trouble
from siag.live.security import ANY, GUEST, Tokens
from siag.live.session import Session
from siag.server.guard import Refused
from siag.server.parameter_server import ParameterServer, Ticket
from siag.server.status import State
from siag.server.sums import Sum

OCCUPIED = 5.0  # seconds of silence after which a row may be taken over by a new connection
LONGEST_NAME = 60  # letters of the name of a worker that was not expected
QUIET = 1.0  # seconds between two remarks about workers that were turned away


class Reply(NamedTuple):
    """What a worker is told, before w or, if it is the last it hears, before the end."""

    connection: Connection
    said: bytes
    last: bool


class Connections(Reception):
    """All connections of a session.

    Args:
        session: whose they are.
        tokens: who may have which row.
        limits: on connections.
        origin: the problem and the seed of its samples, in words, if workers must have the same.
        share: whether workers may share memory with the server, which a connection's place offers them.
        open: whether workers may join that were not expected; with tokens, one for guests decides that.
        now: the time.
    """

    def __init__(
        self,
        session: Session,
        tokens: Tokens,
        limits: Limits,
        *,
        origin: dict[str, Any] | None = None,
        share: bool = False,
        open: bool = False,  # the word that users have
        now: float,
    ) -> None:
        super().__init__(limits)
        self.session, self.tokens, self._open = session, tokens, open
        self.server: ParameterServer = session.server
        self._origin, self._share = origin or {}, share
        sent = self.encoding.size(self.server.message_size)
        self.joined: wire.Expected = {
            wire.REPORT: (sent, sent),
            wire.SKIP: wire.NONE,
            wire.ALIVE: wire.NONE,
            wire.LEAVE: wire.JSON_FROM_WORKER,
        }
        if share:
            self.joined = {**self.joined, wire.SHARED_REPORT: wire.NONE}
        self.by_row: dict[int, Connection] = {}
        self._rows = {member.name: member.row for member in self.server.members if member.name}
        self._lost = {member.row: now for member in self.server.members if member.state == State.AWAY}
        self._method = described(self.server.method)
        self._outbox: Outbox[Reply] = Outbox(session)
        self._scratch = np.zeros(self.encoding.length(self.server.message_size), self.encoding.dtype)
        self._small = sent + wire.HEADER.size <= wire.STAGE
        self._remarked = -math.inf

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone; the worker's row stays."""
        super().lost(connection, now)
        row = connection.row
        if row is not None and self.by_row.get(row) is connection:
            del self.by_row[row]
            self._lost[row] = now
            self.session.died(row, "its connection was lost")

    def goodbye(self, done: bool, reason: str) -> Actions:
        """Tell everybody that the server ends, for good or for now: one that goes on from an older save needs them."""
        self.by_row.clear()
        unsaved = any(problem.what is Trouble.SAVING for problem in self.session.problems)
        frame = wire.text(wire.GOODBYE, {"done": done and not unsaved, "reason": wire.words(reason)})
        return [Send(connection, frame) for connection in self.connections if not connection.closing]

    def flush(self, now: float) -> Iterator[Action]:
        """Send what was held back, if all that it acknowledges is on disk."""
        for reply in self._outbox.release(now):
            reply.connection.owed = False
            yield from self._deliver(*reply, now)
        self.pending = bool(self._outbox)

    # Frames

    def receive(self, connection: Connection, count: int, now: float) -> Iterable[Action]:
        """`count` bytes have come, almost always one whole frame; see `Reception.receive`."""
        if connection.row is None or connection.paused or connection.closing:  # there is more to think of
            return super().receive(connection, count, now)
        try:
            frame = connection.reader.whole(count)
            if frame is None:
                return super().receive(connection, 0, now)
            connection.due, connection.large = math.inf, False
            return self.handle_frame(connection, *frame, now)
        except wire.BadFrame as error:
            return self.handle_garbage(connection, str(error), now)

    def handle_frame(self, connection: Connection, head: wire.Head, payload: memoryview, now: float) -> Actions:
        """A frame has come, one that was expected."""
        if self.session.over:
            return ()  # goodbye is on its way
        row = connection.row
        if connection.owed and head.kind != wire.ALIVE:
            raise wire.BadFrame(f"{wire.NAMES[head.kind]}: the answer to the frame before must be waited for")
        if row is None:
            return self._hello(connection, wire.parse_text(payload), now)
        if head.kind == wire.REPORT:
            return self._report(connection, row, head, payload, now)
        if head.kind == wire.SKIP:
            return self._take(connection, row, head, now)
        if head.kind == wire.LEAVE:
            return self._leave(connection, row, wire.parse_text(payload), now)
        self.server.members[row].heard = now  # a sign of life that is no report
        return self._aside(connection, row, head, now)

    def _aside(self, connection: Connection, row: int, head: wire.Head, now: float) -> Actions:
        """What is said between reports, and not answered."""
        if head.kind == wire.WEIGHT:
            return self._weigh(connection, row, head, now)
        if 0 < head.sample < wire.SAMPLES:
            self.session.passes[row] = head.sample
        if abs(head.loss) < math.inf:
            connection.first = head.loss
        return ()

    def handle_garbage(self, connection: Connection, reason: str, now: float) -> Actions:
        """Garbage: counted, answered, and the connection closed; nothing more on it can be believed."""
        self.garbage += 1
        refused = Refused(reason)
        if connection.row is not None:
            self.server.strike(connection.row, refused, now)
            self.session.refused(connection.row, refused)
        return self.refuse(connection, reason, now, final=refused.final)

    def _hello(self, connection: Connection, hello: dict[str, Any], now: float) -> Actions:
        try:
            owned = check_hello(hello, self.tokens)
            self._compare(hello)
            row = self._row_of(hello, owned, now)
            claimed = self._claimed(hello, row)
            ticket = self.session.join(row, now)
        except Refused as refused:
            if refused.final:  # else it may come again
                self.garbage += 1
                self._remark(connection, refused.reason, now)
            return self.refuse(connection, refused.reason, now, final=refused.final)
        actions = self._seat(connection, row, hello, now)
        if claimed is not None:
            self._seat_relay(connection, row, claimed, now)
        self.session.event(f"worker {self.server.members[row].name} joined, row {row}")
        welcome = self._welcome(ticket)
        if self._share:
            welcome |= connection.place.offer_memory(hello, self.server.message_size, self.server.shown.size)
        return [*actions, *self._reply(connection, wire.text(wire.WELCOME, welcome), False, now)]

    def _seat(self, connection: Connection, row: int, hello: dict[str, Any], now: float) -> Actions:
        """A connection has the row from now on, also if another had it before."""
        old = self.by_row.pop(row, None)
        actions: Actions = ()
        if old is not None:
            old.row = None
            actions = self.refuse(old, TAKEN_OVER, now, final=False)
        connection.row, connection.due, connection.reader.expected = row, math.inf, self.joined
        self.by_row[row] = connection
        self.server.members[row].claimed |= hello.get("worker") is not None or self.tokens.required
        self._lost.pop(row, None)
        return actions

    def _claimed(self, hello: dict[str, Any], row: int) -> float | None:
        """What a relay wants to count for; `None` if it is a worker. Refused if it may not, or no relay can be here."""
        claimed = hello.get("weight")
        if claimed is None:
            return None
        if self.server.no_relays:
            raise Refused(f"no relays here: {self.server.no_relays}", final=True)
        return self._allowed(claimed, row)

    def _allowed(self, weight: object, row: int) -> float:
        """The weight, if the row may have it."""
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise Refused("weight of an unknown kind: must be a number of at least 0", final=True)
        most = self._most(row)
        if not weight >= 0.0:
            raise Refused(f"weight {weight:g}: must be a number of at least 0", final=True)
        if weight > most:
            remedy = "start the server with a larger max-weight, or make it a token with one (siag certs)"
            name = self.server.members[row].name
            raise Refused(f"weight {weight:g}: worker {name} may count for at most {most:g}; {remedy}", final=True)
        return float(weight)

    def _most(self, row: int) -> float:
        """What the worker of a row may count for."""
        own = self.tokens.max_weight(row)
        return self.limits.max_weight if own is None else own

    def _seat_relay(self, connection: Connection, row: int, weight: float, now: float) -> None:
        """The connection is a relay's; it counts for so much until its first report."""
        connection.most = self._most(row)
        connection.reader.expected = {**self.joined, wire.WEIGHT: wire.NONE}
        self._weigh_first(row, weight, now)

    def _weigh_first(self, row: int, weight: float, now: float) -> None:
        """A relay that has reported nothing counts for as many zeros."""
        if self.server.members[row].reports == 0:
            self.session.weigh(row, weight, now)

    def _weigh(self, connection: Connection, row: int, head: wire.Head, now: float) -> Actions:
        """A relay says what its next report is the sum of."""
        try:
            weight = self._allowed(head.loss, row)
        except Refused as refused:
            self.server.strike(row, refused, now)
            self.session.refused(row, refused)
            return self.refuse(connection, refused.reason, now, final=True)
        connection.sum = Sum(weight, head.stamp, head.sample)
        self._weigh_first(row, weight, now)
        return ()

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
            "messages": self.encoding.name,
            "samples": ticket.samples,
            "life": self.session.life,
            "method": self._method,
        }

    def _compare(self, hello: dict[str, Any]) -> None:
        """Refuse a worker with another problem or seed: a replay of the trace would not be this run."""
        for what, remedy in (("problem", "give both ends the same one"), ("seed", "give both ends the same seed")):
            here, there = self._origin.get(what), hello.get(what)
            if here is not None and there != here:
                theirs = "none" if there is None else wire.words(str(there))
                raise Refused(f"the server's {what} is {here}, this worker's {theirs}; {remedy}", final=True)

    def _row_of(self, hello: dict[str, Any], row: int | None, now: float) -> int:
        """The row a worker asks for and may have, given that of its token."""
        asked, guest = hello.get("worker"), row == ANY
        if guest and asked is None:
            raise Refused("this token is for workers that say their name; give the worker one", final=True)
        if asked is not None:
            named = self._rows.get(asked) if isinstance(asked, str) else None
            if named is None and (guest or (self._open and row is None)):
                return self._admit(asked, now)
            if named is None or (self.tokens.owns(named) if guest else row is not None and named != row):
                what = wire.words(asked)[:60] if isinstance(asked, str) else "of an unknown kind"
                raise Refused(f"worker {what}: not among this server's, or another's row", final=True)
            row = named
        if row is None:
            return self._free_row(now)
        if row in self.by_row and now - self.server.members[row].heard < OCCUPIED:
            raise Refused(f"worker {self.server.members[row].name} is connected already")
        return row

    def _admit(self, name: Any, now: float) -> int:
        """A row for a worker that was not expected."""
        if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name == wire.words(name) and name != GUEST):
            raise Refused(f"a worker's name must be a text of 1 to {LONGEST_NAME} visible letters", final=True)
        row = self.session.admit(name, now)
        self._rows[name] = row
        return row

    def _free_row(self, now: float) -> int:
        """A row for a worker that does not mind which: a new one, or that of a worker who does not come back.

        Never that of a worker which has said who it is.
        """
        others = [member for member in self.server.members if not (member.claimed or member.vacant)]
        unclaimed = [member for member in others if member.row not in self.by_row]
        away = [member.row for member in unclaimed if member.state == State.AWAY]
        free = [member.row for member in unclaimed if member.state == State.EXPECTED]
        free += [row for row in away if now - self._lost.get(row, -math.inf) >= OCCUPIED]
        free += [member.row for member in unclaimed if member.state == State.LEFT]
        if free:
            return free[0]
        if self._open and self.session.departures.more:
            row = self.session.admit("", now)
            self._rows[self.server.members[row].name] = row
            return row
        if away:
            raise Refused("all rows are taken, some by workers that may come back; they are free in a few seconds")
        if not others:
            raise Refused("all rows are those of workers with names; give the worker its name", final=True)
        raise Refused("all rows are taken; give more workers to the server")

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview, now: float) -> Actions:
        if self._small:  # on the stage it may lie anywhere; compiled code wants it aligned
            self.encoding.copy(payload, self._scratch)
            message = self._scratch
        else:
            message = self.encoding.read(payload)
        return self._take(connection, row, head, now, message)

    def _take(
        self,
        connection: Connection,
        row: int,
        head: wire.Head,
        now: float,
        message: Floats | None = None,
        square: float | None = None,
    ) -> Actions:
        """Have the session take a report, or that there is nothing to send; answer."""
        if head.sample >= wire.SAMPLES:
            raise wire.BadFrame(f"sample {head.sample}: fewer than {wire.SAMPLES} are allowed")
        first, connection.first = connection.first, None
        what, connection.sum = connection.sum, None
        if what is None and message is not None and (connection.most or row in self.server.relays):
            if connection.most:
                raise wire.BadFrame("REPORT: a relay says WEIGHT before it")
            what = Sum(1.0, head.stamp, head.stamp)  # of a worker that has come in a relay's place
        try:
            self.session.push(row, head.stamp, message, head.sample, now, square, head.loss, what)
        except Refused as refused:
            self.session.refused(row, refused)
            return self._reply(connection, refusal(refused.reason, refused.final), refused.final, now)
        except Exception as error:  # not the worker's fault: the message was accepted
            self.failure = error
            return ()
        if first is not None:
            self.session.first.add(row, first, head.loss)
        return self._reply(connection, b"", False, now)

    def _leave(self, connection: Connection, row: int, content: dict[str, Any], now: float) -> Actions:
        """A worker leaves, for good or because its own code failed; its connection ends once that is noted."""
        reason = wire.words(content.get("reason"))
        connection.row, connection.reader.expected = None, BEFORE
        del self.by_row[row]
        if content.get("failed"):
            self.session.failed(row, reason)
        else:
            self.session.left(row, now, reason)
        return self._reply(connection, b"", True, now)

    # Answers

    def _reply(self, connection: Connection, said: bytes, last: bool, now: float) -> Actions:
        """Answer at once, or in durable mode when all that was accepted is on disk."""
        if not self.session.durable:
            return self._deliver(connection, said, last, now)
        connection.owed = self.pending = True
        self._outbox.put(Reply(connection, said, last))
        return ()

    def _deliver(self, connection: Connection, said: bytes, last: bool, now: float) -> Actions:
        if connection.closing:
            return ()
        if not last:
            return (SendModel(connection, said, self.server.version),)
        connection.closing = True
        ending = self.close(connection, now)
        return [Send(connection, said), *ending] if said else ending

    def _remark(self, connection: Connection, reason: str, now: float) -> None:
        """Tell the watcher of a worker that was turned away; once a second is enough."""
        if now - self._remarked >= QUIET:
            self._remarked = now
            shown = f" from {connection.peer}" if connection.peer else ""
            self.session.event(f"a worker{shown} was turned away: {reason}")


def check_hello(hello: dict[str, Any], tokens: Tokens) -> int | None:
    """Refuse another version of the protocol, and a token that is not known; the row of the token, if one is needed."""
    protocol, token = hello.get("protocol"), hello.get("token")
    if protocol != wire.PROTOCOL:
        said = shorten(protocol) if isinstance(protocol, int | float | str | None) else "of an unknown kind"
        remedy = f"this server, siag {__version__}, speaks {wire.PROTOCOL}; install the same version"
        raise Refused(f"protocol {said}: {remedy}", final=True)
    if not tokens.required:
        return None
    row = tokens.row_of(token if isinstance(token, str) else "")
    if row is None:
        what = "is not one of this server's" if token else "is missing; give the worker's .token file"
        raise Refused(f"the token {what}", final=True)
    return row
