"""A worker's connections to all servers of a model that is split, used as if they were one."""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Sequence

from siag.foundations.encodings import Encoding
from siag.foundations.types import Floats
from siag.live.protocol import wire
from siag.live.sharding.slices import bounds, slice_of
from siag.live.sharding.worker_slices import VISITS, Slices
from siag.live.transports.tcp.client import ANSWER, ClientConnection, poller


def connect(addresses: Sequence[tuple[str, int]], context: ssl.SSLContext | None) -> ClientConnection:
    """A connection to the one server there is, or to all that a model is split over."""
    return ClientConnection(addresses[0], context) if len(addresses) == 1 else ShardedConnection(addresses, context)


class ShardedConnection(ClientConnection):
    """The connection to the lead, which alone sees who is there, and one to each follower; carries what `Slices` says.

    Args:
        addresses: of the lead, then of the followers in order.
        context: for TLS.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], context: ssl.SSLContext | None) -> None:
        super().__init__(addresses[0], context)
        self._followers: list[ClientConnection] = []
        try:
            for address in addresses[1:]:
                self._followers.append(ClientConnection(address, context))
        except BaseException:
            self.close()
            raise
        self._shards = len(addresses)
        self._slices = Slices(self._shards, secrets.randbits(VISITS))
        self.extras = self._slices.extras
        self._offers: dict[int, object] = {}  # of memory that the servers would share

    def _to(self, k: int) -> ClientConnection:
        """The connection to shard k; for the lead this one, whose own `send` and `receive` are for all."""
        return self if k == 0 else self._followers[k - 1]

    def agree(self, encoding: Encoding) -> None:
        """The same for every server."""
        for each in (self, *self._followers):
            each.encoding = encoding

    def share(self, path: object, message: int, shown: int) -> None:
        """Share memory with every server that has offered it."""
        for k, offer in self._offers.items():
            first, last = bounds(shown, self._shards, k)
            self._to(k).encoding = self.encoding.after(first)  # the lead's is the whole message's, so far as it goes
            ClientConnection.share(self._to(k), offer, last - first, last - first)

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame to those it is for; a slice of an array to each."""
        for k, each, part in self._slices.cut(head, array):
            ClientConnection.send(self._to(k), each, part)

    def receive(self, expected: wire.Expected, place: Floats | None = None) -> tuple[wire.Head, memoryview]:
        """The next frame; a model when all servers have sent their slices of it."""
        until = time.monotonic() + ANSWER
        while True:
            waiting = [k for k in self._slices.awaited if self._to(k).waiting()]
            for k in waiting:
                part = None if place is None else slice_of(place, self._shards, k)
                head, payload = ClientConnection.receive(self._to(k), self._slices.expected(k, expected), part)
                if self._tells(k, head, payload):
                    return head, payload
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("it does not answer")
            if not waiting:
                poller(*(self._to(k).fileno() for k in self._slices.awaited))(1000 * left)

    def _tells(self, k: int, head: wire.Head, payload: memoryview) -> bool:
        """Take in a frame of shard k; whether the worker is to be told of it."""
        content = {} if head.kind == wire.MODEL else wire.parse_text(payload)
        if head.kind == wire.WELCOME:
            self._offers[k] = content.get("memory")
        told, to_lead = self._slices.came(k, head, content)
        if to_lead:
            super().send(to_lead)
        return told

    def close(self) -> None:
        """Hang up."""
        for each in self._followers:
            each.close()
        super().close()
