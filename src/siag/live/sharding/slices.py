"""What a shard is: one of the servers that a model is split over, and the coordinates it has."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.memory import check_fits, size
from siag.foundations.types import Floats
from siag.live import wire
from siag.live.spec import Spec
from siag.methods import Method, shown


def bounds(d: int, shards: int, k: int) -> tuple[int, int]:
    """The first coordinate of shard k, and the first after it; sizes differ by at most one.

    >>> [bounds(10, 3, k) for k in range(3)]
    [(0, 4), (4, 7), (7, 10)]
    """
    base, rest = divmod(d, shards)
    first = k * base + min(k, rest)
    return first, first + base + (1 if k < rest else 0)


def slice_of(array: Floats, shards: int, k: int) -> Floats:
    """Shard k's part of an array, not copied."""
    return array[slice(*bounds(array.size, shards, k))]


def check_split(method: Method, w0: Floats, n: int, shards: int) -> None:
    """Refuse more shards than coordinates, and a method that cannot be split."""
    if shards > w0.size:
        raise BadInput("shards", shards, f"at most {w0.size}, the length of w0", "use fewer")
    if not method.split or method.message(1, n) != 1 or shown(method.init(w0[:1], n)).size != 1:
        name = type(method).__name__
        raise Unsuitable(f"{name}'s server cannot be split over {shards} shards; use shards=1, or SIAG")


@dataclass(frozen=True, eq=False)
class Shard:
    """One of the servers that the model of a run is split over.

    Args:
        spec: the run, validated.
        k: the number of the shard; the lead's is 0.
        shards: how many there are.
    """

    spec: Spec
    k: int
    shards: int

    def __post_init__(self) -> None:
        check.integer("k", self.k, low=0, high=check.integer("shards", self.shards, low=2) - 1)
        check_split(self.spec.method, self.spec.w0, self.spec.n, self.shards)

    @property
    def w0(self) -> Floats:
        """Its slice of where the run starts."""
        return slice_of(self.spec.w0, self.shards, self.k)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the lead and a follower must agree about."""
        spec = self.spec
        return {
            "shard": self.k,
            "shards": self.shards,
            "n": spec.n,
            "d": int(spec.w0.size),
            "method": wire.words(repr(spec.method)),
            "w0": _digest(np.ascontiguousarray(spec.w0).data),
            "run": _digest(json.dumps(spec.identity, sort_keys=True).encode()),
            "folder": "not given" if spec.folder is None else "given",
        }

    def check_memory(self) -> int:
        """Refuse a slice that does not fit into memory; the bytes it takes, a report of each worker included."""
        method, n, width = self.spec.method, self.spec.n, self.w0.size
        needed = size(method.init(self.spec.w0[:1], n)) * width + 8 * n * width
        what = f"{method!r} with {n} workers, {width} coordinates of {self.spec.w0.size}"
        check_fits(needed, what, "use more shards")
        return needed


def _digest(content: bytes | memoryview) -> str:
    """A few letters that stand for something longer."""
    return hashlib.sha256(content).hexdigest()[:32]
