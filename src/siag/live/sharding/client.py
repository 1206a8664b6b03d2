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
from siag.live.transports.tcp.client import ANSWER, ClientConnection, WorkerConnection, readable
from siag.live.worker import BEFORE

VISITS = 53  # bits of a visit's number, which is exact in JSON


def connect(addresses: Sequence[tuple[str, int]], context: ssl.SSLContext | None) -> WorkerConnection:
    """A connection to the one server there is, or to all that a model is split over."""
    return ClientConnection(addresses[0], context) if len(addresses) == 1 else ShardedConnection(addresses, context)


class ShardedConnection:
    """One connection to the lead and one to each follower, which have the later slices of every array.

    Text goes to the lead and comes from it; arrays are cut up and put together. If any breaks, all are given up.

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
        self._lead, self._followers = self._all[0], self._all[1:]
        self._visit = secrets.randbits(VISITS)
        self._refusal: tuple[wire.Head, dict[str, Any]] | None = None  # a follower's answer to our hello
        self._ends = [0] * len(self._all)  # of the slices
        self._asked: wire.Expected = {}
        self._expected: wire.Expected = {}

    @property
    def extras(self) -> dict[str, Any]:
        """By which the servers know that these connections are one worker's."""
        return {"visit": self._visit, "shards": len(self._all)}

    @property
    def whole(self) -> bool:
        """Whether the lead has got all of what was sent last."""
        return self._lead.whole

    def greet(self, hello: bytes) -> None:
        """Send a hello to the followers, then to the lead, who lets us in; a follower's refusal is the answer, too."""
        for each in self._followers:
            each.send(hello)
        slices, offers = [], []
        for each in self._followers:
            head = each.receive(BEFORE)
            content = each.text(head)
            if head.kind != wire.WELCOME:
                self._refusal = head, content
                return
            slices.append((content.get("first"), content.get("last")))
            offers.append(content.get("memory"))
        self._divide(slices)
        for each, offer, first, last in zip(self._followers, offers, self._ends, self._ends[1:], strict=False):
            each.share(offer, last - first, last - first)
        self._lead.send(hello)

    def share(self, path: object, message: int, shown: int) -> None:
        """Share memory with the lead, if it can be had; with the followers it is, or is not, since their welcome."""
        self._lead.share(path, self._ends[0], self._ends[0])

    def send(self, head: bytes, array: Floats | None = None) -> None:
        """Send a frame: a slice of its array to each, the lead being the last."""
        if array is None:
            self._lead.send(head)
            return
        _, kind, _, stamp, sample = wire.HEADER.unpack(head)
        first = self._ends[0]
        for each, last in zip(self._followers, self._ends[1:], strict=True):
            each.send(wire.head(kind, 8 * (last - first), stamp, sample), array[first:last])
            first = last
        self._lead.send(wire.head(kind, 8 * self._ends[0], stamp, sample), array[: self._ends[0]])

    def receive(self, expected: wire.Expected) -> wire.Head:
        """The next header from the lead; of a model, when all followers have sent theirs, of the same version."""
        if self._refusal is not None:
            return self._refusal[0]
        self._wait()
        if expected is not self._asked:
            self._asked, size = expected, 8 * self._ends[0]
            self._expected = {**expected, wire.MODEL: (size, size)} if wire.MODEL in expected else expected
        head = self._lead.receive(self._expected)
        if head.kind == wire.MODEL:
            first = self._ends[0]
            for each, last in zip(self._followers, self._ends[1:], strict=True):
                other = each.receive({wire.MODEL: (8 * (last - first), 8 * (last - first))})
                if other.stamp != head.stamp:
                    raise wire.BadFrame(f"models of versions {head.stamp} and {other.stamp} at once")
                first = last
        return head

    def array(self, out: Floats) -> None:
        """The numbers of a model, from all of them."""
        if out.size != self._ends[-1]:
            raise wire.BadFrame(f"the shards have {self._ends[-1]} numbers, not {out.size}")
        first = 0
        for each, last in zip(self._all, self._ends, strict=True):
            each.array(out[first:last])
            first = last

    def text(self, head: wire.Head) -> dict[str, Any]:
        """The JSON that follows a header."""
        return self._lead.text(head) if self._refusal is None else self._refusal[1]

    def waiting(self) -> bool:
        """Whether the lead has said something unasked; never waits."""
        return self._refusal is not None or self._lead.waiting()

    def beat(self) -> None:
        """Send the lead a sign of life."""
        self._lead.beat()

    def drain(self, seconds: float) -> None:
        """Wait until the lead hangs up."""
        self._lead.drain(seconds)

    def close(self) -> None:
        """Hang up."""
        for each in self._all:
            with suppress(OSError):
                each.close()

    def _divide(self, slices: Sequence[tuple[object, object]]) -> None:
        """Note who has which numbers; the lead has those before the first follower's."""
        ends = [end for end in (slices[0][0], *(last for _, last in slices)) if type(end) is int and end > 0]
        if len(ends) <= len(slices) or [first for first, _ in slices] != ends[:-1] or ends != sorted(set(ends)):
            raise wire.BadFrame("the servers' slices of the model do not fit together")
        self._ends = ends

    def _wait(self) -> None:
        """Wait until the lead has said something; a follower that is gone is noticed, or the lead would wait for it."""
        quiet, until = list(self._followers), time.monotonic() + ANSWER
        while not self._lead.waiting():
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("it does not answer")
            ready = readable([self._lead, *quiet], left)
            quiet = [each for each in quiet if each.fileno() not in ready or not each.waiting()]
