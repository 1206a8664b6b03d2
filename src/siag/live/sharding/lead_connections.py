"""The lead's connections: a report counts when all shards have their slice of it, and all answer it together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from siag.foundations.types import Floats
from siag.live import wire
from siag.live.connection import Action, Actions, Connection, Limits, Source
from siag.live.connections import Connections
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.link import Note
from siag.live.sharding.worker_slices import check_visit
from siag.server.parameter_server import Ticket


class LeadConnections(Connections):
    """All connections of a session whose server leads others; see `Connections`."""

    def __init__(self, session: Session, tokens: Tokens, limits: Limits, **given: Any) -> None:
        super().__init__(session, tokens, limits, **given)
        if not isinstance(self.server, LeadServer):
            raise TypeError("LeadConnections are for a LeadServer")
        self._leading, self._links = self.server, self.server.links
        self.sources = self._links
        self._meanwhile: wire.Expected = {wire.ALIVE: wire.NONE, wire.LEAVE: wire.ASKED}  # while an answer is owed
        self._visits: dict[int, int] = {}  # by row
        self._own: dict[int, tuple[Connection, wire.Head, Floats]] = {}  # the lead's slices of reports, by row
        self._notes: dict[tuple[int, int], Note] = {}  # of the followers' slices, by shard and row
        self._leading.wake = self._wake

    def _wake(self) -> None:
        """There are orders to send, or notes to take; what gathers in a turn of the transport goes together."""
        self.pending = True

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
        check_visit(hello, self._leading.shard.shards)
        super()._compare(hello)

    def _seat(self, connection: Connection, row: int, hello: dict[str, Any], now: float) -> Actions:
        self._visits[row] = hello["visit"]
        return super()._seat(connection, row, hello, now)

    def _welcome(self, ticket: Ticket) -> dict[str, Any]:
        d = self.server.d
        return super()._welcome(ticket) | {"message": d, "shown": d, "shards": self._leading.shard.shards}

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview, now: float) -> Actions:
        message = wire.numbers(payload)
        connection.reader.expected = self._meanwhile  # nothing else may come to where a large array lies
        self._own[row] = connection, head, np.array(message) if self._small else message
        return self._complete(row, now)

    def _handle_notes(self, now: float) -> Iterator[Action]:
        for link in self._links:
            while link.notes:
                note = link.notes.popleft()
                self._notes[link.k, note.row] = note
                if not self.session.over:
                    yield from self._complete(note.row, now)
            if link.diverged and not self.session.over:
                self.session.diverged()

    def _complete(self, row: int, now: float) -> Actions:
        """Have the session take a report if all slices of it are there, and come from the worker that is there now."""
        own = self._own.get(row)
        if own is None or self.by_row.get(row) is not own[0]:
            return ()
        connection, head, message = own
        notes = [self._notes.get((link.k, row)) for link in self._links]
        squares = [note.square for note in notes if note and note[:2] == (self._visits[row], head.sample)]
        if len(squares) < len(self._links):
            return ()
        del self._own[row]
        for link in self._links:
            del self._notes[link.k, row]
        try:
            return self._take(connection, row, head, now, message, sum([self._square(message), *squares]))
        except wire.BadFrame as error:
            return self.handle_garbage(connection, str(error), now)

    def _deliver(self, connection: Connection, said: bytes, last: bool, now: float) -> Actions:
        actions = super()._deliver(connection, said, last, now)
        if actions and not last and connection.row is not None:
            self._leading.answer(connection.row, self._visits[connection.row])
            connection.reader.expected = self.joined
        return actions
