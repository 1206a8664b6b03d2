"""The lead's connections: a report counts when all shards have their slice of it, and all answer it together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from siag.foundations.types import Floats
from siag.live import wire
from siag.live.connection import Action, Actions, Connection, Limits, Source
from siag.live.connections import Connections
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import Note
from siag.live.sharding.worker_slices import VISITS
from siag.server.guard import Refused
from siag.server.parameter_server import Ticket


@dataclass
class _Report:
    """A report on its way: the lead's slice, if it is here, and the squared norms of those that are."""

    sample: int
    squares: dict[int, float] = field(default_factory=dict)  # by shard
    own: tuple[Connection, wire.Head, Floats] | None = None


class LeadConnections(Connections):
    """All connections of a session whose server leads others; see `Connections`."""

    def __init__(self, session: Session, tokens: Tokens, limits: Limits, **given: Any) -> None:
        super().__init__(session, tokens, limits, **given)
        if not isinstance(self.server, LeadServer):
            raise TypeError("LeadConnections are for a LeadServer")
        self._leading, self._links = self.server, self.server.links
        self.sources = self._links
        self._meanwhile: wire.Expected = {wire.ALIVE: wire.NONE, wire.LEAVE: wire.ASKED}  # while an answer is owed
        self._visits: dict[int, int] = {}
        self._reports: dict[int, _Report] = {}
        self._norm, self._square = self._square, self._whole_square  # `Connections` asks for the norm of what it takes
        self._whole = 0.0
        self._leading.wake = self._wake

    def _wake(self) -> None:
        """There are orders to send, or notes to take; what gathers in a turn of the transport goes together."""
        self.pending = True

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone, and with it the report that was on its way."""
        if connection.row is not None and self.by_row.get(connection.row) is connection:
            self._reports.pop(connection.row, None)
        super().lost(connection, now)

    def flush(self, now: float) -> Iterator[Action]:
        """Send orders, and answers that were held back."""
        yield from super().flush(now)
        yield from self._handle_notes(now)  # that came with the answer to a question
        self._leading.flush()
        self.pending = bool(self._outbox)

    def heard(self, source: Source, now: float) -> Iterator[Action]:
        """A follower has said something."""
        for link in self._links:
            if link is source:
                link.hear()
        yield from self._handle_notes(now)

    def _compare(self, hello: dict[str, Any]) -> None:
        shards, visit = len(self._links) + 1, hello.get("visit")
        if hello.get("shards") != shards or type(visit) is not int or not 0 <= visit < 1 << VISITS:
            raise Refused(f"the model is split over {shards} servers; connect to all of them", final=True)
        super()._compare(hello)

    def _seat(self, connection: Connection, row: int, hello: dict[str, Any], now: float) -> Actions:
        self._visits[row] = hello["visit"]
        self._reports.pop(row, None)
        return super()._seat(connection, row, hello, now)

    def _welcome(self, ticket: Ticket) -> dict[str, Any]:
        d = self.server.d
        return super()._welcome(ticket) | {"message": d, "shown": d, "shards": len(self._links) + 1}

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview, now: float) -> Actions:
        message = wire.numbers(payload)
        if self._small:
            self._scratch[:] = message
            message = self._scratch.copy()
        connection.reader.expected = self._meanwhile  # nothing else may come to where a large array lies
        report = self._gathered(row, head.sample)
        report.own, report.squares[0] = (connection, head, message), self._norm(message)
        return self._complete(row, report, now)

    def _gathered(self, row: int, sample: int) -> _Report:
        """What is there of a report, if anything."""
        report = self._reports.get(row)
        if report is None or report.sample != sample:
            report = self._reports[row] = _Report(sample)
        return report

    def _noted(self, k: int, note: Note, now: float) -> Actions:
        """A follower has its slice, if the worker's connection is still the one it came with."""
        connection = self.by_row.get(note.row)
        if connection is None or self._visits.get(note.row) != note.visit:
            return ()
        report = self._gathered(note.row, note.sample)
        report.squares[k] = note.square
        try:
            return self._complete(note.row, report, now)
        except wire.BadFrame as error:
            return self.handle_garbage(connection, str(error), now)

    def _complete(self, row: int, report: _Report, now: float) -> Actions:
        """Have the session take a report of which all is there."""
        if report.own is None or len(report.squares) <= len(self._links):
            return ()
        del self._reports[row]
        connection, head, message = report.own
        self._whole = sum(report.squares[k] for k in range(len(self._links) + 1))  # in order
        return self._take(connection, row, head, now, message)

    def _whole_square(self, message: Floats) -> float:
        return self._whole

    def _deliver(self, connection: Connection, said: bytes, last: bool, now: float) -> Actions:
        actions = super()._deliver(connection, said, last, now)
        if actions and not last and connection.row is not None:
            self._leading.answer(connection.row, self._visits[connection.row])
            connection.reader.expected = self.joined
        return actions

    def _handle_notes(self, now: float) -> Iterator[Action]:
        for link in self._links:
            while link.notes:
                note = link.notes.popleft()
                if not self.session.over:
                    yield from self._noted(link.k, note, now)
            if link.beyond and not self.session.over:
                self.session.diverged()
