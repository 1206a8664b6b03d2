"""The lead: a parameter server of the first slice, which has the others do what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from siag.foundations.overflow import limit_of
from siag.foundations.types import Floats
from siag.live.sharding.link import Link
from siag.live.sharding.orders import Answer, Fade, Move, Order, Save, Take, pack
from siag.live.sharding.slices import bounds
from siag.methods import Method
from siag.server.admission import admit
from siag.server.guard import ACCEPTED
from siag.server.parameter_server import Diverged, ParameterServer
from siag.steps import Step


class LeadServer(ParameterServer):
    """A parameter server whose state is the first slice; orders to the followers say what it has done to it.

    Orders are gathered; `flush` sends them.

    Args:
        method: what to do with reports; one that can be split.
        step: the sizes of the moves.
        w0: (d,) where to start, all of it.
        workers: their names.
        links: to the followers.
        given: as for `ParameterServer`.

    Attributes:
        wake: called when there is something to flush, or notes to take.
    """

    def __init__(
        self, method: Method, step: Step, w0: Floats, workers: Sequence[str], links: Sequence[Link], **given: Any
    ) -> None:
        super().__init__(method, step, w0[: bounds(w0.size, len(links) + 1, 0)[1]], workers, **given)
        self.d, self.links = int(w0.size), links
        self._limit = limit_of(w0)
        self._settled: Callable[..., int] = admit
        self._admit = self._admit_and_order
        self._orders = bytearray()
        self._whole, self._whole_of, self._changes = np.empty(w0.size), -1, 0
        self.wake: Callable[[], None] = lambda: None

    @property
    def w(self) -> Floats:
        """(d,) the result so far, as all shards have it."""
        if self._whole_of != self._changes:
            self.flush()
            own = super().w
            self._whole[: own.size] = own
            for link in self.links:
                link.read(self._whole)
            self._whole_of = self._changes
            self.wake()  # notes may have come before the answer
        view: Floats = self._whole.view()
        view.setflags(write=False)
        return view

    def push_many(self, *_: Any) -> int:
        """None at once: the followers must be told of each."""
        return 0

    def restore(self, *given: Any) -> None:
        """Go on where another server was; the followers do, too."""
        super().restore(*given)
        self._whole_of = -1

    def look_at_w(self) -> None:
        """Refuse to go on with a w of which any slice is no use to anybody."""
        if any(link.beyond for link in self.links):
            raise Diverged(f"w left the range of numbers by version {self.version}; use a smaller step")
        super().look_at_w()

    def answer(self, row: int, visit: int) -> None:
        """Have the followers send their slices of w to a worker, and drop what they have of its report."""
        self._order(Answer(row, self.version, visit))

    def save(self, links: Sequence[Link], number: int, common: int) -> None:
        """Have some followers save their slices as they are now."""
        self.flush()
        for link in links:
            link.order(pack(Save(number, common)))

    def flush(self) -> None:
        """Send what was gathered."""
        if self._orders:
            orders, self._orders = self._orders, bytearray()
            for link in self.links:
                link.order(orders)

    def _order(self, order: Order) -> None:
        if not self._orders:
            self.wake()
        self._orders += pack(order)
        self._changes += not isinstance(order, Answer)

    def _admit_and_order(self, *given: Any) -> int:
        """`admit`, and then an order to do the same."""
        verdict = self._settled(*given)
        if verdict == ACCEPTED:
            if self._settled is admit:
                self._settled = admit.settled(*given)
            row, _, stamp, sample, _, version, _, go, eta = given[4:]
            self._order(Take(row, version - stamp, sample, eta, go))
        return verdict

    def _move(self, eta: float) -> None:
        super()._move(eta)
        self._order(Move(eta))

    def _fade(self, row: int, factor: float, now: float) -> None:
        super()._fade(row, factor, now)
        self._order(Fade(row, factor))
