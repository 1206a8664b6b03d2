"""A worker's side of a model that is split, without I/O: what goes to which server, and what comes of their answers.

Text goes to the lead and comes from it; arrays are cut up and put together. Followers are greeted first: they say which
numbers are theirs. The lead is greeted when all have; it lets the worker in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from siag.foundations.types import Floats
from siag.live import wire
from siag.live.worker import BEFORE

VISITS = 53  # bits of a visit's number, which is exact in JSON


class ToServer(NamedTuple):
    """Send a frame to the server of a shard."""

    shard: int
    frame: bytes


class ToWorker(NamedTuple):
    """Tell the worker of a frame; the numbers of a MODEL are those that the servers have sent last."""

    head: wire.Head
    content: dict[str, Any]


Action: TypeAlias = ToServer | ToWorker


class Slices:
    """What a worker says to the servers of a split model, and hears from them. If any is lost, all are given up.

    Args:
        shards: how many servers there are.
        visit: a random number, by which they know that these connections are one worker's.
    """

    def __init__(self, shards: int, visit: int) -> None:
        self.extras = {"visit": visit, "shards": shards}  # of a hello
        self._hello = b""
        self._bounds: dict[int, tuple[int, int]] = {}  # the followers' slices
        self._whole = 0  # the length of w, once all slices are known
        self._stamps: dict[int, int] = {}  # of the MODELs that have come, by shard

    @property
    def divided(self) -> bool:
        """Whether it is known who has which numbers."""
        return self._whole > 0

    def slice_of(self, k: int) -> slice:
        """The numbers of shard k, once that is known."""
        return slice(0, self._bounds[1][0]) if k == 0 else slice(*self._bounds[k])

    def width(self, k: int) -> int:
        """How many numbers shard k has."""
        own = self.slice_of(k)
        return int(own.stop - own.start)

    @property
    def missing(self) -> list[int]:
        """The shards whose MODEL has not come."""
        return [k for k in range(self.extras["shards"]) if k not in self._stamps]

    def greet(self, hello: bytes) -> list[ToServer]:
        """The worker says hello: first to the followers."""
        self._hello = hello
        return [ToServer(k, hello) for k in range(1, self.extras["shards"])]

    def cut(self, head: bytes, array: Floats) -> Iterator[tuple[int, bytes, Floats]]:
        """The slices of a frame with an array, each with its header; the lead, who decides, has its own last."""
        _, kind, _, stamp, sample = wire.HEADER.unpack(head)
        for k in (*range(1, self.extras["shards"]), 0):
            yield k, wire.head(kind, 8 * self.width(k), stamp, sample), array[self.slice_of(k)]

    def expected(self, k: int, worker: wire.Expected) -> wire.Expected:
        """The frames that may come from shard k, given those that the worker expects."""
        if not self.divided:
            return BEFORE
        size = 8 * self.width(k)
        if k > 0:
            return {wire.MODEL: (size, size), wire.REFUSAL: wire.TOLD}
        if wire.MODEL not in worker:
            return worker
        if worker[wire.MODEL][0] != 8 * self._whole:
            raise wire.BadFrame(f"the shards have {self._whole} numbers, not {worker[wire.MODEL][0] // 8}")
        return {**worker, wire.MODEL: (size, size)}

    def came(self, k: int, head: wire.Head, content: dict[str, Any]) -> list[Action]:
        """A frame has come from shard k, one that was expected; `content` is its JSON, empty for a MODEL."""
        if head.kind == wire.MODEL:
            return self._model(k, head)
        if k == 0:
            return [ToWorker(head, content)]
        if head.kind == wire.WELCOME:
            if k in self._bounds:
                raise wire.BadFrame(f"shard {k}: two welcomes")
            self._bounds[k] = content.get("first"), content.get("last")  # type: ignore[assignment]  # checked below
            if len(self._bounds) < self.extras["shards"] - 1:
                return []
            self._divide()
            return [ToServer(0, self._hello)]
        if self.divided and not content.get("final"):  # the worker would take it for one of its report
            raise wire.BadFrame(f"shard {k}: {wire.words(content.get('reason')) or 'it hung up'}")
        return [ToWorker(head, content)]

    def _model(self, k: int, head: wire.Head) -> list[Action]:
        """A slice of w: the worker is told when all are there, of one version."""
        for other in self._stamps.values():
            if other != head.stamp:
                raise wire.BadFrame(f"models of versions {head.stamp} and {other} at once")
        if k in self._stamps:
            raise wire.BadFrame(f"shard {k}: two models in a row")
        self._stamps[k] = head.stamp
        if self.missing:
            return []
        self._stamps.clear()
        return [ToWorker(head._replace(length=8 * self._whole), {})]

    def _divide(self) -> None:
        """Note who has which numbers; the lead has those before the first follower's."""
        edges = [edge for k in sorted(self._bounds) for edge in self._bounds[k]]
        ends = [edges[0], *edges[1::2]]
        if any(type(edge) is not int for edge in edges) or edges[::2] != ends[:-1] or ends != sorted({*ends} - {0}):
            raise wire.BadFrame("the servers' slices of the model do not fit together")
        self._whole = ends[-1]
