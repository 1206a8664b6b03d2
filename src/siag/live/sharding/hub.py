"""The lead's connections: a report counts when all shards have their slice of it, and all answer it together."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from siag.foundations.types import Floats
from siag.live import wire
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.lines import TICKETS
from siag.live.sharding.link import Link, Note
from siag.live.transports.tcp.connection import Connection
from siag.live.transports.tcp.hub import Hub
from siag.server.guard import Refused
from siag.server.parameter_server import Ticket


@dataclass
class _Report:
    """A report on its way: the lead's slice, if it is here, and the squared norms of those that are."""

    sample: int
    squares: dict[int, float] = field(default_factory=dict)  # by shard
    own: tuple[Connection, wire.Head, Floats] | None = None


class LeadHub(Hub):
    """All connections of a session whose server leads others; see `Hub`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        if not isinstance(self.server, LeadServer):
            raise TypeError("a LeadHub is for a LeadServer")
        self._leading, self._links = self.server, self.server.links
        self._meanwhile: wire.Expected = {wire.ALIVE: wire.NONE, wire.LEAVE: wire.ASKED}  # while an answer is owed
        self._tickets: dict[int, int] = {}
        self._reports: dict[int, _Report] = {}
        self._norm, self._square = self._square, self._whole_square  # `Hub` asks for the norm of what it takes
        self._whole = 0.0
        self._flushing = False
        self._loop = asyncio.get_running_loop()
        self._leading.wake = self._flush_soon
        for link in self._links:
            self._loop.add_reader(link.fileno(), self._listen, link)

    async def close(self) -> None:
        """Hang up on the workers."""
        for link in self._links:
            with suppress(ValueError, OSError):  # closed already
                self._loop.remove_reader(link.fileno())
        self._leading.wake = _nothing  # there is no loop any more
        await super().close()

    def lost(self, connection: Connection) -> None:
        """A connection is gone, and with it the report that was on its way."""
        if connection.row is not None and self.by_row.get(connection.row) is connection:
            self._reports.pop(connection.row, None)
        super().lost(connection)

    def _compare(self, hello: dict[str, Any]) -> None:
        shards, ticket = len(self._links) + 1, hello.get("ticket")
        if hello.get("shards") != shards or type(ticket) is not int or not 0 <= ticket < 1 << TICKETS:
            raise Refused(f"the model is split over {shards} servers; connect to all of them", final=True)
        super()._compare(hello)

    def _seat(self, connection: Connection, row: int, hello: dict[str, Any]) -> None:
        super()._seat(connection, row, hello)
        self._tickets[row] = hello["ticket"]
        self._reports.pop(row, None)

    def _welcome(self, ticket: Ticket) -> dict[str, Any]:
        d = self.server.d
        return super()._welcome(ticket) | {"message": d, "shown": d, "shards": len(self._links) + 1}

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview, now: float) -> None:
        message = wire.numbers(payload)
        if self._small:
            self._scratch[:] = message
            message = self._scratch.copy()
        connection.expected = self._meanwhile  # nothing else may come to where a large array lies
        report = self._gathered(row, head.sample)
        report.own, report.squares[0] = (connection, head, message), self._norm(message)
        self._complete(row, report, now)

    def _gathered(self, row: int, sample: int) -> _Report:
        """What is there of a report, if anything."""
        report = self._reports.get(row)
        if report is None or report.sample != sample:
            report = self._reports[row] = _Report(sample)
        return report

    def _noted(self, k: int, note: Note) -> None:
        """A follower has its slice, if the worker's connection is still the one it came with."""
        row = note.row
        connection = self.by_row.get(row)
        if connection is None or self._tickets.get(row) != note.ticket:
            return
        report = self._gathered(row, note.sample)
        report.squares[k] = note.square
        now = self._loop.time()
        try:
            self._complete(row, report, now)
        except wire.BadFrame as error:
            self.bad_frame(connection, str(error))

    def _complete(self, row: int, report: _Report, now: float) -> None:
        """Have the session take a report of which all is there."""
        if report.own is None or len(report.squares) <= len(self._links):
            return
        del self._reports[row]
        connection, head, message = report.own
        self._whole = sum(report.squares[k] for k in range(len(self._links) + 1))  # in order
        self._take(connection, row, head, now, message)

    def _whole_square(self, message: Floats) -> float:
        return self._whole

    def _deliver(self, connection: Connection, said: bytes, last: bool) -> None:
        super()._deliver(connection, said, last)
        row = connection.row
        if not last and row is not None:
            self._leading.answer(row, self._tickets[row])
            connection.expected = self.after

    def _listen(self, link: Link) -> None:
        """A follower has said something."""
        try:
            link.hear()
            self._heed_notes()
        except Exception as error:
            self._loop.remove_reader(link.fileno())
            self.failure = self.failure or error

    def _heed_notes(self) -> None:
        for link in self._links:
            while link.notes:
                note = link.notes.popleft()
                if not self.session.over:
                    self._noted(link.k, note)
            if link.beyond and not self.session.over:
                self.session.diverged()

    def _flush_soon(self) -> None:
        """All orders of a turn of the loop go together."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        try:
            self._leading.flush()
            self._heed_notes()  # that came with the answer to a question
        except Exception as error:
            self.failure = self.failure or error


def _nothing() -> None:
    """Nobody is woken."""
