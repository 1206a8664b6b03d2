"""The lead: a parameter server of the first slice, which has the others do what it does; its connections and saves.

A report counts when all shards have their slice of it, and all answer it together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile
from siag.foundations.overflow import limit_of
from siag.foundations.types import Floats, Integers
from siag.live.assembly import REMEDY, Assembly
from siag.live.protocol import wire
from siag.live.protocol.connections import Connections
from siag.live.protocol.reception import Action, Actions, Connection, Limits
from siag.live.security import Tokens
from siag.live.session import Session
from siag.live.sharding.link import Address, Connect, Link, Note
from siag.live.sharding.orders import Answer, Fade, GoBack, Move, Order, Save, Show, Take, frames, pack
from siag.live.sharding.slices import Shard, ShardStore
from siag.live.sharding.worker_slices import check_visit
from siag.live.spec import Spec
from siag.server.parameter_server import Diverged, ParameterServer, Ticket
from siag.storage.disk import Place
from siag.storage.records import Arrays
from siag.storage.store import NONE, Recovery

NOT_SPLIT = "holds the state of a server whose model was not split"


class LeadServer(ParameterServer):
    """A parameter server whose state is the first slice; orders to the followers say what it has done to it.

    Orders are gathered; `flush` sends them.

    Args:
        shard: the lead's.
        links: to the followers.
        given: as for `ParameterServer`.

    Attributes:
        wake: called when there is something to flush, or notes to take.
    """

    def __init__(self, shard: Shard, links: Sequence[Link], **given: Any) -> None:
        spec = shard.spec
        super().__init__(spec.weighted, spec.step, shard.w0, spec.names, **given)
        self.shard, self.links, self.d = shard, links, int(spec.w0.size)
        self._limit = limit_of(spec.w0)
        self.no_relays = "a model that is split takes no relays; connect the workers to its servers"
        self._orders: list[bytes] = []
        self.wake: Callable[[], None] = lambda: None

    @property
    def w(self) -> Floats:
        """(d,) the result so far, as all shards have it."""
        self.order(Show())
        self.flush()
        own, whole = super().w, np.empty(self.d)
        whole[: own.size] = own
        for link in self.links:
            link.read(whole)
        whole.setflags(write=False)
        self.wake()  # notes may have come before the answer
        return whole

    def look_at_w(self) -> None:
        """Refuse to go on with a w of which any slice has overflowed or become NaN."""
        if any(link.diverged for link in self.links):
            raise Diverged(f"w left the range of numbers by version {self.version}; use a smaller step")
        super().look_at_w()

    def order(self, order: Order) -> None:
        """Have the followers do this, in the order of the calls."""
        if not self._orders:
            self.wake()
        self._orders.append(pack(order))

    def flush(self) -> None:
        """Send what was gathered."""
        orders, self._orders = self._orders, []
        for frame in frames(orders):
            for link in self.links:
                link.order(frame)

    def _taken(self, row: int, stamp: int, sample: int, go: bool, eta: float) -> None:
        self.order(Take(row, self.version - stamp, sample, eta, int(go)))

    def _move(self, eta: float) -> None:
        super()._move(eta)
        self.order(Move(eta))

    def _fade(self, row: int, factor: float, now: float) -> None:
        super()._fade(row, factor, now)
        self.order(Fade(row, factor))


class LeadStore(ShardStore):
    """Keeps the state of the lead's shard, and has the followers keep theirs; used as a `Store` is.

    Args:
        folder: of the run.
        server: the lead.
        given: as for `Store`.
    """

    def __init__(self, folder: Place, server: LeadServer, **given: Any) -> None:
        super().__init__(folder, server.shard, **given)
        self._server, self._links = server, server.links
        self._number = self._asked = self._common = 0  # the last save: begun, that all were asked for, that all have
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """What goes wrong with saving, at any shard."""
        self._settle()
        return self._problem

    @property
    def ever(self) -> bool:
        """Whether there is a save that all shards have on disk."""
        self._settle()
        return self._common > 0

    def recover(self, arrays: Arrays) -> Recovery | None:
        """Have all shards go back to the newest save that all have; `None` if there never was one."""
        known = [self.known(arrays), *(link.known for link in self._links)]
        self._number = max(max(saves, default=0) for saves, _ in known)
        self._common = max(set.intersection(*(set(saves) for saves, _ in known)), default=0)
        once = max(common for _, common in known)
        if once and not self._common:
            which = ", ".join(str(k) for k, (saves, _) in enumerate(known) if once not in saves)
            remedy = "put back a copy of all shards' folders, or move them all away to start afresh"
            raise BadFile(f"{os.path.dirname(self._folder)}: save {once} is missing in shard {which}; {remedy}")
        self._order(GoBack(self._common))
        for link in self._links:
            if problem := link.wait_saved(self._common):
                raise BadFile(f"shard {link.k}: {problem}")
        found = self.go_back(self._common, arrays)
        if found is None or self._common >= once:
            return found
        return Recovery(found.meta, [], (f"save {once} is not intact in all shards; used save {self._common}",))

    def save(
        self,
        arrays: Arrays,
        changed: np.ndarray[Any, Any],
        meta: Mapping[str, Any],
        *,
        wait: bool = False,
        blank: Integers = NONE,
    ) -> bool:
        """Have all shards save what they have now; False if one is still at the save before."""
        if wait:
            self.wait()
        if not self._settle():
            return False
        self._number += 1
        self._order(Save(self._number, self._common))
        self._asked = self._number  # now: nobody is waited for who was not asked because another is lost
        self.save_as(self._number, self._common, arrays, changed, meta)
        if wait:
            self.wait()
        return not wait or (self._settle() and self._common == self._number)

    def _order(self, order: Save | GoBack) -> None:
        """Have the followers do this to their slices as they are now."""
        self._server.order(order)
        self._server.flush()

    def wait(self) -> None:
        """Wait until all shards have tried the save that they were last asked for."""
        super().wait()
        for link in self._links:
            link.wait_saved(self._asked)

    def _settle(self) -> bool:
        """Whether all shards have tried the save that they were last asked for; if so, note how it went."""
        if self.busy or any(link.saved[0] < self._asked for link in self._links):
            return False
        problems = {0: super().problem} | {link.k: link.saved[1] for link in self._links}
        self._problem = next((f"shard {k}: {text}" for k, text in problems.items() if text), None)
        if self._problem is None:
            self._common = max(self._common, self._asked)
        return True


class LeadConnections(Connections):
    """All connections of a session whose server leads others; see `Connections`."""

    server: LeadServer

    def __init__(self, session: Session, tokens: Tokens, limits: Limits, **given: Any) -> None:
        super().__init__(session, tokens, limits, **given)
        self.sources = self._links = self.server.links
        self._meanwhile: wire.Expected = {
            wire.ALIVE: wire.NONE,
            wire.LEAVE: wire.JSON_FROM_WORKER,
        }  # while an answer is owed
        self._visits: dict[int, int] = {}  # by row
        self._own: dict[int, tuple[Connection, wire.Head, Floats]] = {}  # the lead's slices of reports, by row
        self._notes: dict[tuple[int, int], Note] = {}  # of the followers' slices, by shard and row
        self.server.wake = self._wake

    def _wake(self) -> None:
        """There are orders to send, or notes to take; what gathers in a turn of the transport goes together."""
        self.pending = True

    def flush(self, now: float) -> Iterator[Action]:
        """Send orders, and answers that were held back."""
        yield from super().flush(now)
        yield from self._handle_notes(now)  # that came with the answer to a question
        self.server.flush()
        self.pending = bool(self._outbox)

    def heard(self, source: object, now: float) -> Iterator[Action]:
        """A follower has said something."""
        if isinstance(source, Link):
            source.hear()
        yield from self._handle_notes(now)

    def _compare(self, hello: dict[str, Any]) -> None:
        check_visit(hello, self.server.shard.shards)
        super()._compare(hello)

    def _seat(self, connection: Connection, row: int, hello: dict[str, Any], now: float) -> Actions:
        self._visits[row] = hello["visit"]
        return super()._seat(connection, row, hello, now)

    def _welcome(self, ticket: Ticket) -> dict[str, Any]:
        d = self.server.d
        return super()._welcome(ticket) | {"message": d, "shown": d, "shards": self.server.shard.shards}

    def _report(self, connection: Connection, row: int, head: wire.Head, payload: memoryview, now: float) -> Actions:
        message = self.encoding.read(payload)
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
            return self._take(connection, row, head, now, message, sum([self.server.square(message), *squares]))
        except wire.BadFrame as error:
            return self.handle_garbage(connection, str(error), now)

    def _deliver(self, connection: Connection, said: bytes, last: bool, now: float) -> Actions:
        actions = super()._deliver(connection, said, last, now)
        if actions and not last and connection.row is not None:
            row = connection.row
            self.server.order(Answer(row, self.server.version, self._visits[row]))
            connection.reader.expected = self.joined
        return actions


class LeadAssembly(Assembly):
    """A session whose model is split: a lead that is connected to its followers, and its saves.

    Args:
        spec: what to run, validated.
        addresses: of the followers, in the order of their slices.
        secret: by which they know the lead.
        connect: opens a connection to one.
        given: as for `Assembly`.
    """

    server: LeadServer

    def __init__(self, spec: Spec, addresses: Sequence[Address], secret: str, connect: Connect, **given: Any) -> None:
        self._addresses, self._secret, self._connect = addresses, secret, connect
        super().__init__(spec, **given)

    @property
    def traffic(self) -> tuple[int, int]:
        """All of w, wherever it is."""
        return int(self.spec.w0.size), int(self.spec.w0.size)

    @property
    def used(self) -> bool:
        """Only the saves of all together can tell."""
        return self.folder is not None

    def make_server(self, stack: ExitStack) -> LeadServer:
        """The lead."""
        if super().used:
            raise BadFile(f"{self.folder}: {NOT_SPLIT}; {REMEDY}")
        shard = Shard(self.spec, 0, len(self._addresses) + 1)
        share = shard.check_memory()
        self.remarks.append(f"the model is split over {shard.shards} servers, {share / 2**20:.1f} MiB in each")
        links = []
        for k, address in enumerate(self._addresses, start=1):
            links.append(stack.enter_context(closing(Link(shard, k, address, self._secret, self._connect))))
        return LeadServer(shard, links, **self.given)

    def make_store(self, folder: str, **writing: Any) -> LeadStore:
        """Where the saves of all are counted."""
        return LeadStore(folder, self.server, **writing)
