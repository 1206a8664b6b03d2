"""A worker's connections to all servers of a model that is split, used as if they were one."""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from siag.foundations.types import Floats
from siag.live import wire
from siag.live.sharding.slices import bounds, slice_of
from siag.live.sharding.worker_slices import VISITS, Slices
from siag.live.transports.tcp.client import ANSWER, ClientConnection, WorkerConnection, readable


def connect(addresses: Sequence[tuple[str, int]], context: ssl.SSLContext | None) -> WorkerConnection:
    """A connection to the one server there is, or to all that a model is split over."""
    return ClientConnection(addresses[0], context) if len(addresses) == 1 else ShardedConnection(addresses, context)


class ShardedConnection:
    """One connection to the lead and one to each follower; carries what `Slices` says. See `WorkerConnection`.

    Args:
        addresses: of the lead, then of the followers in order.
        context: for TLS.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], context: ssl.SSLContext | None) -> None:
        self._all: list[ClientConnection] = []
        try:
            for address in addresses:
                self._all.append(ClientConnection(address, context))
        except BaseException:
            self.close()
            raise
        self._lead = lead = self._all[0]
        self.beat, self.waiting, self.drain = lead.beat, lead.waiting, lead.drain  # the lead alone sees who is there
        self._slices = Slices(len(addresses), secrets.randbits(VISITS))
        self.extras: dict[str, Any] = self._slices.extras
        self._content: dict[str, Any] = {}  # of the frame that came last
        self._offers: dict[int, object] = {}  # of memory that the servers would share

    @property
    def whole(self) -> bool:
        """Whether the lead has got all of what was sent last."""
        return self._lead.whole

    def greet(self, hello: bytes) -> None:
        """Send a hello, whose answer comes as any frame does."""
        for k in self._slices.greet(hello):
            self._all[k].send(hello)

    def share(self, path: object, message: int, shown: int) -> None:
        """Share memory with every server that has offered it."""
        for k, connection in enumerate(self._all):
            first, last = bounds(shown, len(self._all), k)
            connection.share(self._offers[k], last - first, last - first)

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame: to the lead, or a slice of its array to each."""
        if array is None:
            self._lead.send(head)
            return
        for k, each, part in self._slices.cut(head, array):
            self._all[k].send(each, part)

    def receive(self, expected: wire.Expected) -> wire.Head:
        """The next header; of a model, when all servers have sent theirs."""
        until = time.monotonic() + ANSWER
        while True:
            waiting = [k for k in self._slices.awaited if self._all[k].waiting()]
            for k in waiting:
                head = self._all[k].receive(self._slices.expected(k, expected))
                if self._tells(k, head):
                    return head
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("it does not answer")
            if not waiting:
                readable([self._all[k] for k in self._slices.awaited], left)

    def _tells(self, k: int, head: wire.Head) -> bool:
        """Take in a frame of shard k, but for the numbers of a model; whether the worker is to be told of it."""
        self._content = {} if head.kind == wire.MODEL else self._all[k].text(head)
        if head.kind == wire.WELCOME:
            self._offers[k] = self._content.get("memory")
        told, to_lead = self._slices.came(k, head, self._content)
        if to_lead:
            self._lead.send(to_lead)
        return told

    def array(self, out: Floats) -> None:
        """The numbers of a model, from all of them."""
        for k, connection in enumerate(self._all):
            connection.array(slice_of(out, len(self._all), k))

    def text(self, head: wire.Head) -> dict[str, Any]:
        """The JSON that follows a header."""
        return self._content

    def close(self) -> None:
        """Hang up."""
        for each in self._all:
            with suppress(OSError):
                each.close()
