"""What a shard is: one of the servers that a model is split over, the coordinates it has, and its saves.

Every shard saves in a folder of its own, each time with a number that all shards know the save by. A save is common
when all shards have it on disk. Each save names the last common one before it, and what is needed to go back to that is
kept: after a crash all shards go back to the newest save that all have.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile, BadInput, Unsuitable
from siag.foundations.memory import check_fits, size
from siag.foundations.types import Floats
from siag.live.spec import Spec
from siag.methods import Method, shown
from siag.storage.disk import Place
from siag.storage.generations import Scan, all_saves, compare
from siag.storage.records import Arrays, layout_of
from siag.storage.store import Recovery, Store

MOST = 1000  # numbers of saves that are told


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
        raise Unsuitable(f"{name}'s server cannot be split over {shards} shards; use shards=1, or SIAG and a step")


@dataclass(frozen=True, eq=False)
class Shard:
    """One of the servers that the model of a run is split over."""

    spec: Spec  # the run, validated
    k: int  # the number of the shard; the lead's is 0
    shards: int  # how many there are

    @property
    def w0(self) -> Floats:
        """Its slice of where the run starts."""
        return slice_of(self.spec.w0, self.shards, self.k)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the lead and a follower must agree about."""
        spec = self.spec
        run = hashlib.sha256(json.dumps([spec.identity, spec.folder is not None], sort_keys=True).encode())
        run.update(np.ascontiguousarray(spec.w0).data)
        return {"shard": self.k, "shards": self.shards, "run": run.hexdigest()[:32]}

    def check_memory(self) -> int:
        """Refuse a slice that does not fit into memory; the bytes it takes, a report of each worker included."""
        method, n, width = self.spec.weighted, self.spec.n, self.w0.size
        needed = size(method.init(self.spec.w0[:1], n)) * width + 8 * n * width
        what = f"{method!r} with {n} workers, {width} coordinates of {self.spec.w0.size}"
        check_fits(needed, what, "use more shards")
        return needed


class ShardStore(Store):
    """Keeps the state of one shard.

    Args:
        folder: of the run.
        shard: whose state.
        given: as for `Store`.
    """

    def __init__(self, folder: Place, shard: Shard, **given: Any) -> None:
        identity = {**shard.spec.identity, "shard": shard.k, "shards": shard.shards}
        super().__init__(f"{os.fspath(folder)}/shard-{shard.k}", identity, **given)
        self._found: dict[int, Scan] = {}  # where the saves are that were here at the beginning, by number
        self._tried = 0  # the number of the last save

    def known(self, arrays: Arrays) -> tuple[list[int], int]:
        """The numbers of all saves that are intact, and the last that was once known to be common."""
        layout, common = layout_of(arrays), 0
        for scan in all_saves(self._folder, self._disk):
            compare(scan.path, scan.header, self._identity, layout)
            self._found[int(scan.meta["save"])] = scan
            common = max(common, int(scan.meta["common"]))
        return sorted(self._found)[-MOST:], common

    def go_back(self, number: int, arrays: Arrays) -> Recovery | None:
        """Fill the arrays from the save of a number that is known; 0: from none, and write on beside what is there."""
        found, self._found, self._tried = self._found, {}, number
        if number == 0:
            self._recovered = True
            return None
        if number not in found:
            raise BadFile(f"{self._folder}: holds no save {number}")
        self._go_on(found[number], 0, arrays)
        return Recovery(found[number].meta, [], ())

    def save_as(
        self, number: int, common: int, arrays: Arrays, changed: np.ndarray[Any, Any], meta: Mapping[str, Any]
    ) -> bool:
        """Have a save written; False if one is under way. What is needed for save `common` is kept."""
        if self.busy:
            return False
        if common == self._tried:
            self._writer.keep = self._writer.current
        self._tried = number
        return Store.save(self, arrays, changed, {**meta, "save": number, "common": common})
