"""Deliberate bugs of a split model; see `tests.torture.bugs`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.torture.followers import Strict
from tests.torture.shards import WatchedLead

from siag.live.protocol.reception import Action
from siag.live.sharding.orders import GoBack, frames, pack
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


SHARD_BUGS: dict[str, dict[str, Any]] = {
    "a follower answers when it has followed later orders": {"followers": AnswersLate},
    "go back to a save that not all shards have": {"lead_store": OwnNewest},
}
