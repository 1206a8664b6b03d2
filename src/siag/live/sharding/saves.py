"""Saves of a split model: every shard in a folder of its own, each save with a number that all shards know it by.

A save is common when all shards have it on disk. Each save names the last common one before it, and what is needed to
go back to that is kept: after a crash all shards go back to the newest save that all have.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile
from siag.live.sharding.lead import LeadServer
from siag.live.sharding.slices import Shard
from siag.storage.disk import Place
from siag.storage.generations import Scan, all_saves, compare
from siag.storage.records import Arrays, layout_of
from siag.storage.store import Recovery, Store

MOST = 1000  # numbers of saves that are told
NOT_SPLIT = "holds the state of a server whose model was not split"


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
        for scan, meta in all_saves(self._folder, self._disk):
            compare(scan.path, scan.header, self._identity, layout)
            self._found[int(meta["save"])] = scan
            common = max(common, int(meta["common"]))
        return sorted(self._found)[-MOST:], common

    def go_back(self, number: int, arrays: Arrays) -> Recovery | None:
        """Fill the arrays from the save of a number that is known; 0: from none, and write on beside what is there."""
        found, self._found, self._tried = self._found, {}, number
        if number == 0:
            self._recovered = True
            return None
        if number not in found:
            raise BadFile(f"{self._folder}: holds no save {number}")
        return Recovery(self._go_on(found[number], 0, arrays), [], ())

    def save_as(
        self, number: int, common: int, arrays: Arrays, changed: np.ndarray[Any, Any], meta: Mapping[str, Any]
    ) -> bool:
        """Have a save written; False if one is under way. What is needed for save `common` is kept."""
        if self.busy:
            return False
        if common == self._tried:
            self._keep = self._writer.current
        self._tried = number
        return Store.save(self, arrays, changed, {**meta, "save": number, "common": common})


class LeadStore(ShardStore):
    """Keeps the state of the lead's shard, and has the followers keep theirs; used as a `Store` is.

    Args:
        folder: of the run.
        server: the lead.
        given: as for `Store`.
    """

    def __init__(self, folder: Place, server: LeadServer, **given: Any) -> None:
        super().__init__(folder, server.shard, **given)
        self._server, self._links = server, server.links
        self._number = self._asked = self._common = 0  # the last save: begun, that all were asked for, that all have
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """What goes wrong with saving, at any shard."""
        self._settle()
        return self._problem

    @property
    def ever(self) -> bool:
        """Whether there is a save that all shards have on disk."""
        self._settle()
        return self._common > 0

    def recover(self, arrays: Arrays) -> Recovery | None:
        """Have all shards go back to the newest save that all have; `None` if there never was one."""
        known = [self.known(arrays), *(link.known for link in self._links)]
        self._number = max(max(saves, default=0) for saves, _ in known)
        self._common = max(set.intersection(*(set(saves) for saves, _ in known)), default=0)
        once = max(common for _, common in known)
        if once and not self._common:
            which = ", ".join(str(k) for k, (saves, _) in enumerate(known) if once not in saves)
            remedy = "put back a copy of all shards' folders, or move them all away to start afresh"
            raise BadFile(f"{os.path.dirname(self._folder)}: save {once} is missing in shard {which}; {remedy}")
        self._server.go_back(self._common)
        found = self.go_back(self._common, arrays)
        if found is None or self._common >= once:
            return found
        return Recovery(found.meta, [], (f"save {once} is not intact in all shards; used save {self._common}",))

    def save(
        self, arrays: Arrays, changed: np.ndarray[Any, Any], meta: Mapping[str, Any], *, wait: bool = False
    ) -> bool:
        """Have all shards save what they have now; False if one is still at the save before."""
        if wait:
            self._wait()
        if not self._settle():
            return False
        self._number += 1
        self._server.save(self._number, self._common)
        self._asked = self._number  # now: nobody is waited for who was not asked because another is lost
        self.save_as(self._number, self._common, arrays, changed, meta)
        if wait:
            self._wait()
        return not wait or (self._settle() and self._common == self._number)

    def _wait(self) -> None:
        """Wait until all shards have tried the save that they were last asked for."""
        self._background.wait()
        for link in self._links:
            link.wait_saved(self._asked)

    def _settle(self) -> bool:
        """Whether all shards have tried the save that they were last asked for; if so, note how it went."""
        if self.busy or any(link.saved[0] < self._asked for link in self._links):
            return False
        problems = {0: super().problem} | {link.k: link.saved[1] for link in self._links}
        self._problem = next((f"shard {k}: {text}" for k, text in problems.items() if text), None)
        if self._problem is None:
            self._common = max(self._common, self._asked)
        return True
