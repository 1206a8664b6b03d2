"""A worker's side of a model that is split, without I/O: what goes to which server, and what comes of their answers.

Text goes to the lead and comes from it; arrays are cut up and put together. Followers are greeted first. The lead is
greeted when all of them have welcomed the worker; it lets the worker in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from siag.foundations.encodings import ENCODINGS, FLOAT64
from siag.foundations.types import Floats
from siag.live.protocol import wire
from siag.live.protocol.worker import BEFORE
from siag.live.sharding.slices import bounds
from siag.server.guard import Refused

VISITS = 53  # bits of a visit's number, which is exact in JSON


def check_visit(hello: dict[str, Any], shards: int) -> int:
    """The visit that a hello names; refuse a worker that does not know of all servers."""
    visit = hello.get("visit")
    if type(visit) is not int or not 0 <= visit < 1 << VISITS or hello.get("shards") != shards:
        raise Refused(f"the model is split over {shards} servers; connect to all of them", final=True)
    return visit


class Slices:
    """What a worker says to the servers of a split model, and hears from them. If any is lost, all are given up.

    Args:
        shards: how many servers there are.
        visit: a random number, by which they know that these connections are one worker's.
    """

    def __init__(self, shards: int, visit: int) -> None:
        self.extras: dict[str, Any] = {"visit": visit, "shards": shards}  # of a hello
        self._shards, self._hello = shards, b""
        self._welcomes: set[int] = set()  # the shards that have welcomed the worker
        self._encoding = FLOAT64  # until the lead says otherwise
        self._stamps: dict[int, int] = {}  # of the MODELs that have come, by shard

    @property
    def awaited(self) -> list[int]:
        """The shards to listen to: the followers until all have welcomed, then the lead, then all for their MODELs."""
        if len(self._welcomes) < self._shards:
            return [k for k in range(1, self._shards) if k not in self._welcomes] or [0]
        return [k for k in range(self._shards) if k not in self._stamps]

    def cut(self, head: bytes, array: Floats | None) -> Iterator[tuple[int, bytes, Floats | None]]:
        """What a frame is for the shards: a hello for the followers, another text for the lead, a slice of an array.

        The lead, who decides, has its slice last.
        """
        _, kind, _, *rest = wire.HEADER.unpack_from(head)
        followers = range(1, self._shards)
        if kind == wire.HELLO:
            self._hello = head
            yield from ((k, head, None) for k in followers)
        elif array is None:
            yield 0, head, None
        else:
            count = self._encoding.count(array.size)
            for k in (*followers, 0):
                part = self._encoding.cut(array, *bounds(count, self._shards, k))
                yield k, wire.head(kind, part.nbytes, *rest), part

    def expected(self, k: int, worker: wire.Expected) -> wire.Expected:
        """The frames that may come from shard k, given those that the worker expects."""
        if k not in self._welcomes:
            return BEFORE
        own = worker if k == 0 else {wire.REFUSAL: wire.JSON_FROM_SERVER}
        if wire.MODEL not in worker:
            return own
        kind = self._encoding.model
        first, last = bounds(worker[wire.MODEL][0] // kind.size(1), self._shards, k)
        size = kind.size(last - first)
        return {**own, wire.MODEL: (size, size)}

    def came(self, k: int, head: wire.Head, content: dict[str, Any]) -> tuple[bool, bytes]:
        """A frame has come from shard k, one that was expected; `content` is its JSON, empty for a MODEL.

        Returns:
            Whether the worker is to be told of it, of a MODEL when all servers have sent theirs; what to send to the
            lead, if anything.
        """
        if head.kind == wire.MODEL:
            return self._model(k, head.stamp), b""
        if head.kind == wire.WELCOME:
            self._welcomes.add(k)
            if k > 0:
                if content.get("shard") != k:
                    raise wire.BadFrame(f"shard {k}: it is another one; give the addresses of the servers in order")
                return False, self._hello if self.awaited == [0] else b""
            self._encoding = ENCODINGS.get(str(content.get("messages")), FLOAT64)
        elif k in self._welcomes and k > 0 and not content.get("final"):  # the worker would take it for its report's
            raise wire.BadFrame(f"shard {k}: {wire.words(content.get('reason')) or 'it hung up'}")
        return True, b""

    def _model(self, k: int, stamp: int) -> bool:
        """A slice of w: whether all are there, which must be of one version."""
        if k in self._stamps:
            raise wire.BadFrame(f"shard {k}: two models in a row")
        self._stamps[k] = stamp
        if len(versions := set(self._stamps.values())) > 1:
            raise wire.BadFrame(f"models of versions {' and '.join(map(str, sorted(versions)))} at once")
        if len(self._stamps) < self._shards:
            return False
        self._stamps.clear()
        return True
