"""The lead's connection to one follower: orders go there, notes come back, and questions are answered."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from siag.foundations.errors import BadFile, SiagError, reason_of
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live import wire
from siag.live.sharding.orders import NOTE, ShardLost, frames
from siag.live.sharding.slices import bounds
from siag.live.transports.tcp.client import ClientConnection
from siag.methods import Method

Connect: TypeAlias = Callable[[tuple[str, int], ssl.SSLContext | None], ClientConnection]


class Note(NamedTuple):
    """A follower has its slice of a report."""

    visit: int
    sample: int
    row: int
    square: float


class Link:
    """A connection to the follower that has shard k.

    It waits while a follower is slow, and follower and lead never wait for each other: a follower reads its orders
    whatever it has to say.

    Args:
        address: of the follower.
        k: its number, from 1.
        shards: how many there are, the lead's included.
        d: the length of w.
        secret: by which it knows the lead.
        facts: what it must agree about: n, d, the method.
        context: for TLS.
        connect: opens the connection.

    Attributes:
        notes: what it has noted, to be taken from the left.
        saved: the number of the last save it has tried, and what went wrong, if anything.
        beyond: whether its w has left the range of numbers.
    """

    def __init__(
        self,
        address: tuple[str, int],
        k: int,
        shards: int,
        d: int,
        secret: str,
        facts: Mapping[str, Any],
        context: ssl.SSLContext | None = None,
        connect: Connect = ClientConnection,
    ) -> None:
        self.k, self._place = k, f"shard {k} at {address[0]}:{address[1]}"
        self.first, self.last = bounds(d, shards, k)
        size = 8 * (self.last - self.first)
        self._expected: wire.Expected = {
            wire.NOTE: (NOTE.size, NOTE.size),
            wire.SAID: wire.TOLD,
            wire.REPLY: (size, size),
        }
        self.notes: deque[Note] = deque()
        self.saved: tuple[int, str | None] = (0, None)
        self.beyond = False
        hello = {"protocol": wire.PROTOCOL, "siag": __version__, "lead": secret, "shard": k, "shards": shards, **facts}
        try:
            self._connection = connect(address, context)
            self._connection.greet(wire.text(wire.HELLO, hello))
            head = self._connection.receive({wire.WELCOME: wire.TOLD, wire.REFUSAL: wire.TOLD})
            content = self._connection.text(head)
        except (OSError, wire.BadFrame) as error:
            raise ShardLost(f"{self._place}: {reason_of(error)}; start it first") from None
        if head.kind != wire.WELCOME:
            self._connection.close()
            raise SiagError(f"{self._place}: {wire.words(content.get('reason'))}")

    def fileno(self) -> int:
        """Of its socket."""
        return self._connection.fileno()

    def order(self, orders: bytes | bytearray) -> None:
        """Send orders."""
        try:
            for frame in frames(orders):
                self._connection.send(frame)
        except OSError as error:
            raise self._lost(error) from None

    def hear(self) -> None:
        """Take in what has been said, without waiting."""
        try:
            while self._connection.waiting():
                self._take(self._connection.receive(self._expected))
        except (OSError, wire.BadFrame) as error:
            raise self._lost(error) from None

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        """Ask something, when all orders before have been followed; raises `BadFile` if that is the answer."""
        self._send({"what": what, **more})
        while True:
            content = self._next()
            if "reply" in content:
                reply: dict[str, Any] = content["reply"]
                if "error" in reply:
                    raise BadFile(f"shard {self.k}: {wire.words(reply['error'])}")
                return reply

    def read(self, out: Floats) -> None:
        """Its slice of the result, when all orders before have been followed, to its place in `out`."""
        self._send({"what": "w"})
        try:
            while (head := self._connection.receive(self._expected)).kind != wire.REPLY:
                self._take(head)
            self._connection.array(out[self.first : self.last])
        except (OSError, wire.BadFrame) as error:
            raise self._lost(error) from None
        self.hear()  # what has come with the answer would wake nobody

    def wait_saved(self, number: int) -> None:
        """Wait until a save was tried."""
        while self.saved[0] < number:
            self._next()

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _send(self, question: dict[str, Any]) -> None:
        try:
            self._connection.send(wire.text(wire.ASK, question))
        except OSError as error:
            raise self._lost(error) from None

    def _next(self) -> dict[str, Any]:
        """Wait for the next frame, and take it in."""
        try:
            return self._take(self._connection.receive(self._expected))
        except (OSError, wire.BadFrame) as error:
            raise self._lost(error) from None

    def _take(self, head: wire.Head) -> dict[str, Any]:
        """Take in a frame that is no array; what it says."""
        if head.kind == wire.NOTE:
            payload = bytearray(NOTE.size)
            self._connection.fill(memoryview(payload))
            self.notes.append(Note(head.stamp, head.sample, *NOTE.unpack(payload)))
            return {}
        if head.kind == wire.REPLY:
            raise wire.BadFrame("an answer to no question")
        content = self._connection.text(head)
        if "saved" in content:
            problem = content.get("problem")
            self.saved = (int(content["saved"]), None if problem is None else wire.words(problem))
        self.beyond = self.beyond or bool(content.get("beyond"))
        return content

    def _lost(self, error: Exception) -> ShardLost:
        return ShardLost(f"{self._place} is lost: {reason_of(error)}; the run can go on from its last save")


def agreed(method: Method, w0: Floats, n: int) -> dict[str, Any]:
    """What lead and followers must agree about."""
    return {
        "n": n,
        "d": int(w0.size),
        "method": wire.words(repr(method)),
        "w0": hashlib.sha256(np.ascontiguousarray(w0).data).hexdigest()[:32],
    }


def digest(content: object) -> str:
    """A few letters that stand for something longer."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
