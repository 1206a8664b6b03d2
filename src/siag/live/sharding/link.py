"""The lead's connection to one follower: orders go there, and what it has to say comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from siag.foundations.errors import SiagError, reason_of
from siag.foundations.types import Floats
from siag.foundations.version import __version__
from siag.live.protocol import wire
from siag.live.sharding.orders import NOTE, ShardLost
from siag.live.sharding.slices import Shard, slice_of
from siag.live.transports.tcp.client import ClientConnection

Address: TypeAlias = tuple[str, int]
Connect: TypeAlias = Callable[[Address], ClientConnection]
SAID: wire.Expected = {wire.NOTE: (NOTE.size, NOTE.size), wire.SAID: wire.JSON_FROM_SERVER}


class Note(NamedTuple):
    """A follower has its slice of a report."""

    visit: int
    sample: int
    row: int
    square: float


class Link:
    """A connection to the follower that has shard k.

    The lead waits while a follower is slow. The two never wait for each other: a follower reads its orders whatever it
    has to say.

    Args:
        lead: the lead's own shard.
        k: the follower's number, from 1.
        address: where it listens.
        secret: by which it knows the lead.
        connect: opens a connection to an address.

    Attributes:
        known: the saves it has, and the last that was once known to be common; see `ShardStore.known`.
        notes: what it has noted, to be taken from the left.
        saved: the number of the save it has last tried, or gone back to, and what went wrong, if anything.
        diverged: True once its w has overflowed or become NaN.
    """

    def __init__(self, lead: Shard, k: int, address: Address, secret: str, connect: Connect) -> None:
        self.k, self._shards, self._place = k, lead.shards, f"shard {k} at {address[0]}:{address[1]}"
        self.notes: deque[Note] = deque()
        self.saved: tuple[int, str | None] = (0, None)
        self.diverged = False
        hello = {"protocol": wire.PROTOCOL, "siag": __version__, "lead": secret}
        try:
            self._connection = connect(address)
            self.fileno, self.close = self._connection.fileno, self._connection.close
            self._connection.send(wire.text(wire.HELLO, {**hello, **lead.facts, "shard": k}))
            head, payload = self._connection.receive(
                {wire.WELCOME: wire.JSON_FROM_SERVER, wire.REFUSAL: wire.JSON_FROM_SERVER}
            )
            content = wire.parse_text(payload)
        except (OSError, wire.BadFrame) as error:
            raise ShardLost(f"{self._place}: {reason_of(error)}; start it first") from None
        if head.kind != wire.WELCOME:
            self.close()
            raise SiagError(f"{self._place}: {wire.words(content.get('reason'))}")
        self.known: tuple[list[int], int] = content.get("saves", []), content.get("common", 0)

    def order(self, frame: bytes) -> None:
        """Send a frame of orders."""
        with self._or_lost():
            self._connection.send(frame)

    def hear(self) -> None:
        """Take in what has been said, without waiting."""
        with self._or_lost():
            while self._connection.waiting():
                self._next()

    def wait_saved(self, number: int) -> str | None:
        """Wait until it has tried a save, or to go back to it; what went wrong, if anything."""
        with self._or_lost():
            while self.saved[0] < number:
                self._next()
        return self.saved[1]

    def read(self, w: Floats) -> None:
        """Wait for its slice of the result, which it was ordered to show, and put it to its place in w."""
        own = slice_of(w, self._shards, self.k)
        expected = {**SAID, wire.MODEL: (own.nbytes, own.nbytes)}
        with self._or_lost():
            while self._next(expected, own) != wire.MODEL:
                pass
        self.hear()  # what has come with the answer would wake nobody

    def _next(self, expected: wire.Expected = SAID, place: Floats | None = None) -> int:
        """Receive a frame, and take in what it says; its kind."""
        head, payload = self._connection.receive(expected, place)
        if head.kind == wire.NOTE:
            self.notes.append(Note(head.stamp, head.sample, *NOTE.unpack(payload)))
        elif head.kind == wire.SAID:
            content = wire.parse_text(payload)
            self.diverged = self.diverged or bool(content.get("diverged"))
            if "saved" in content:
                self.saved = int(content["saved"]), wire.words(content.get("problem")) or None
        return head.kind

    @contextmanager
    def _or_lost(self) -> Iterator[None]:
        """`ShardLost` if the connection breaks."""
        try:
            yield
        except (OSError, wire.BadFrame) as error:
            lost = f"{self._place} is lost: {reason_of(error)}; the run can go on from its last save"
            raise ShardLost(lost) from None
