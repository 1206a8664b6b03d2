"""Deliberate bugs of a split model; see `tests.torture.bugs`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.torture.followers import Strict
from tests.torture.shards import StrictLead, WatchedLead

from siag.live.protocol.reception import Action, Connection
from siag.live.sharding.orders import GoBack, SliceServer, Take, frames, pack
from siag.server.parameter_server import Ticket
from siag.storage.store import Recovery


class AnswersLate(Strict):
    """Follows all orders that have come before it answers."""

    def _follow(self, orders: memoryview, now: float) -> Iterator[Action]:
        yield from list(super()._follow(orders, now))


class OwnNewest(WatchedLead):
    """Has each shard go back to the newest save it has, whether all have it or not."""

    def recover(self, arrays: Any) -> Recovery | None:
        """Go on where the last lead was."""
        saves, _ = self.known(arrays)
        self._number = self._common = max(saves, default=0)
        for link in self._links:
            found = max(link.known[0], default=0) if saves else 0
            for frame in frames([pack(GoBack(found))]):
                link.order(frame)
            link.wait_saved(found)
        return self.go_back(self._common, arrays)


class OthersRow(StrictLead):
    """Has its workers' names in another order than its rows."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._names = list(self._rows)[::-1]
        self._rows = {name: row for row, name in enumerate(self._names)}

    def _welcome(self, ticket: Ticket) -> dict[str, Any]:
        return super()._welcome(ticket) | {"name": self._names[ticket.row]}


class ForgetsGuest(Strict):
    """Goes on to take slices by a connection whose row another one has."""

    def _answer(self, row: int, *given: Any) -> Iterator[Action]:
        self._visits.pop(row, None)
        yield from super()._answer(row, *given)


class TakesUntold(Strict):
    """Takes the slices that wait when its lead is gone, which can say no more that they are refused."""

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone."""
        if connection is self._lead:
            for row, (sample, _) in list(self.server.pending.items()):
                SliceServer.follow(self.server, Take(row, 0, sample, 0.0, 0))
        super().lost(connection, now)


SHARD_BUGS: dict[str, dict[str, Any]] = {
    "a follower answers when it has followed later orders": {"followers": AnswersLate},
    "go back to a save that not all shards have": {"lead_store": OwnNewest},
    "let a worker have another's row": {"connections": OthersRow},
    "a follower takes what comes by a connection whose row another one has": {"followers": ForgetsGuest},
    "a follower takes a slice without its lead": {"followers": TakesUntold},
}
FIRST = {"a follower takes what comes by a connection whose row another one has": 1000}  # the seed to begin with
