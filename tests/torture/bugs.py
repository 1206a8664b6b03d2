"""Deliberate bugs, one at a time: torture must find each of them. Each is put around the package here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from tests.torture.disk import SimulatedDisk
from tests.torture.observed import Watched
from tests.torture.options import Options
from tests.torture.relay_bugs import RELAY_BUGS
from tests.torture.relays import RelayedTorture
from tests.torture.runs import kind_of
from tests.torture.shadow import Broken
from tests.torture.shard_bugs import FIRST, SHARD_BUGS
from tests.torture.shards import ShardedTorture
from tests.torture.world import Torture

from siag.foundations.types import Floats
from siag.live.protocol.connections import Connections
from siag.live.protocol.outbox import Outbox
from siag.live.protocol.reception import Actions, Connection
from siag.live.session import Session
from siag.methods import SIAG
from siag.server import ParameterServer
from siag.server.ledger import SAMPLES
from siag.storage import generations, store
from siag.storage.disk import Place


@dataclass(frozen=True)
class Bug:
    """A mistake somebody might make.

    Args:
        name: what it is.
        kinds: what `Torture` is given to have it.
        patch: what has to be patched meanwhile, where there is no other way.
        run: the kind of run that shows it; others need not be tried.
        first: the seed to begin with; one that has found it is tried early, which saves time.
    """

    name: str
    kinds: dict[str, Any] = field(default_factory=dict)
    patch: Callable[[], AbstractContextManager[Any]] = nullcontext
    run: type[Torture] = Torture
    first: int = 0


class Hasty(Outbox[Any]):
    """Gives answers away before what they acknowledge is on disk."""

    def release(self, now: float) -> list[Any]:
        """All of them."""
        held, self._held = self._held, []
        return held


class AcknowledgesEarly(Connections):
    """Answers before what it acknowledges is on disk."""

    def __init__(self, session: Any, *given: Any, **more: Any) -> None:
        super().__init__(session, *given, **more)
        self._outbox = Hasty(session)


class ForgetfulFolder(SimulatedDisk):
    """A server that does not force the names of a folder to disk."""

    def force_folder(self, folder: Place) -> None:
        """Do nothing."""


class ForgetfulFile(SimulatedDisk):
    """A server that renames a file before its content is on disk."""

    def replace(self, source: Place, target: Place) -> None:
        """Rename it, and lose sight of what was forced."""
        content = self._content(source)
        content.forced, content.same = bytearray(), 0
        super().replace(source, target)


def counts_twice(server: ParameterServer) -> None:
    """Have a server forget which samples a worker has reported, when the worker joins."""
    join = server.join

    def forgetful(name: Any, now: float) -> Any:
        ticket = join(name, now)
        server.ledger[ticket.row, SAMPLES] = 0
        return (
            ticket._replace(samples=0) if hasattr(ticket, "_replace") else type(ticket)(ticket.row, ticket.version, 0)
        )

    server.join = forgetful  # type: ignore[method-assign]  # the bug


class HandsOutHalf(Connections):
    """Hands out w in the middle of a step: the first half is of this version, the rest of the one before."""

    _before: Floats | None = None
    _now: Floats | None = None

    def sent(self, version: int) -> Floats:
        """What workers are sent."""
        whole = self.server.shown
        if self._now is None or not np.array_equal(self._now, whole):
            self._before, self._now = self._now, whole.copy()
        mixed = whole.copy()
        if self._before is not None:
            mixed[mixed.size // 2 :] = self._before[mixed.size // 2 :]
        return mixed


class StaleTakeover(Connections):
    """Goes on to take reports by a connection whose row another one has."""

    def _seat(self, connection: Connection, row: int, hello: dict[str, Any], now: float) -> Actions:
        old = self.by_row.pop(row, None)
        actions = super()._seat(connection, row, hello, now)
        if old is not None:
            old.row, old.closing = row, False
        return actions


class LosesLastEntry(Watched):
    """Loses the last entry that was logged while a new generation was being written."""

    def _write(self, *given: Any) -> bool:
        if self._writer._carried:
            del self._writer._carried[-1:]
        return super()._write(*given)


class OldRows(Watched):
    """Saves fewer rows than have changed."""

    def save(self, arrays: Any, changed: Any, meta: Any, **more: Any) -> bool:
        """Leave the first one out."""
        return super().save(arrays, np.asarray(changed)[1:], meta, **more)


class Whatever:
    """Equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


def believes_anything() -> AbstractContextManager[Any]:
    """Have recovery apply what was saved whatever its checksum is."""

    def read(stream: Any, length: int, checksum: int) -> Whatever:
        stream.read(length)
        return Whatever()

    return mock.patch.object(generations, "checksum_of", read)


def believes_times() -> AbstractContextManager[Any]:
    """Have recovery take the file that was written last, by the time it bears, for the newest."""

    def scans(found: Mapping[int, str], disk: Any, *given: Any) -> Any:
        newest = max(found, key=lambda number: (disk.stat(found[number]).modified, number))
        return generations.good_scans({k: path for k, path in found.items() if k <= newest}, disk, *given)

    return mock.patch.object(store, "good_scans", scans)


def forgets_newcomers() -> AbstractContextManager[Any]:
    """Have a durable session not log who was given a row."""

    def admit(session: Session, name: str, now: float) -> int:
        return session.server.admit(name)

    return mock.patch.object(Session, "admit", admit)


class GivesRowsTwice(Connections):
    """A newcomer is given the first row, whoever has it."""

    def _admit(self, name: Any, now: float) -> int:
        row = super()._admit(name, now)
        return 0 if self.server.members[0].name else row


BUGS: Sequence[Bug] = (
    Bug("acknowledge before force", {"connections": AcknowledgesEarly}),
    Bug("skip the folder's force", {"disk": ForgetfulFolder}),
    Bug("rename before the content is forced", {"disk": ForgetfulFile}),
    Bug("count a sample twice", {"server": counts_twice}),
    Bug("hand out w in the middle of a step", {"connections": HandsOutHalf}),
    Bug("forget to re-sum", {"method": SIAG(resum=10**9)}),
    Bug("accept a stale takeover", {"connections": StaleTakeover}, first=1420),
    Bug("lose the log's last entry on rotation", {"store": LosesLastEntry}, first=180),
    Bug("save fewer rows than have changed", {"store": OldRows}),
    Bug("apply a torn record", patch=believes_anything, first=250),
    Bug("believe the times of files", patch=believes_times, first=65),
    Bug("do not log who has joined", patch=forgets_newcomers),
    Bug("give a newcomer another's row", {"connections": GivesRowsTwice}),
    *(Bug(name, kinds, run=ShardedTorture, first=FIRST.get(name, 0)) for name, kinds in SHARD_BUGS.items()),
    *(Bug(name, kinds, run=RelayedTorture) for name, kinds in RELAY_BUGS.items()),
)


def found_by(bug: Bug, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first of these seeds that finds a bug, and what it says; `None` if none does."""
    with bug.patch():
        for seed in seeds:
            options = Options.draw(seed)
            if bug.run is not kind_of(options):
                continue
            run: Callable[..., Torture] = bug.run
            try:
                run(options, **bug.kinds).run()
            except Broken as error:
                return seed, str(error)
            except Exception as error:  # code that believes garbage may fail anyhow, which is a finding, too
                return seed, f"{type(error).__name__}: {error}"
    return None
