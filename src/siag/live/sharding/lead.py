"""The lead: a parameter server of the first slice, which has the others do what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile
from siag.foundations.overflow import limit_of
from siag.foundations.types import Floats
from siag.live.sharding.link import Link
from siag.live.sharding.orders import Answer, Change, Fade, GoBack, Move, Order, Save, Show, Take, frames, pack
from siag.live.sharding.slices import Shard
from siag.server.parameter_server import Diverged, ParameterServer


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
        super().__init__(spec.method, spec.step, shard.w0, spec.names, **given)
        self.shard, self.links, self.d = shard, links, int(spec.w0.size)
        self._limit = limit_of(spec.w0)
        self._orders: list[bytes] = []
        self._whole, self._current = np.empty(self.d), False  # the result of all shards, and whether it is that of now
        self.wake: Callable[[], None] = lambda: None

    @property
    def w(self) -> Floats:
        """(d,) the result so far, as all shards have it."""
        if not self._current:
            self._order(Show())
            self.flush()
            own = super().w
            self._whole[: own.size] = own
            for link in self.links:
                link.read(self._whole)
            self._current = True
            self.wake()  # notes may have come before the answer
        view: Floats = self._whole.view()
        view.setflags(write=False)
        return view

    def push_many(self, *_: Any) -> int:
        """None at once: the followers must be told of each."""
        return 0

    def look_at_w(self) -> None:
        """Refuse to go on with a w of which any slice has overflowed or become NaN."""
        if any(link.diverged for link in self.links):
            raise Diverged(f"w left the range of numbers by version {self.version}; use a smaller step")
        super().look_at_w()

    def answer(self, row: int, visit: int) -> None:
        """Have the followers send their slices of w to a worker, and drop what they have of its report."""
        self._order(Answer(row, self.version, visit))

    def save(self, number: int, common: int) -> None:
        """Have the followers save their slices as they are now."""
        self._order(Save(number, common))
        self.flush()

    def go_back(self, number: int) -> None:
        """Have the followers go back to a save, and wait until they have."""
        self._order(GoBack(number))
        self.flush()
        self._current = False
        for link in self.links:
            link.wait_saved(number)
            if link.saved[1] is not None:
                raise BadFile(f"shard {link.k}: {link.saved[1]}")

    def flush(self) -> None:
        """Send what was gathered."""
        orders, self._orders = self._orders, []
        for frame in frames(orders):
            for link in self.links:
                link.order(frame)

    def _order(self, order: Order) -> None:
        if not self._orders:
            self.wake()
        self._orders.append(pack(order))
        self._current = self._current and not isinstance(order, Change)

    def _taken(self, row: int, stamp: int, sample: int, go: bool, eta: float) -> None:
        self._order(Take(row, self.version - stamp, sample, eta, int(go)))

    def _move(self, eta: float) -> None:
        super()._move(eta)
        self._order(Move(eta))

    def _fade(self, row: int, factor: float, now: float) -> None:
        super()._fade(row, factor, now)
        self._order(Fade(row, factor))
