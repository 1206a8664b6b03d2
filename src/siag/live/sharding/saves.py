"""Saves of a split model: every shard in a folder of its own, each save with a number that all shards know it by.

A save is whole when all shards have it. Which one that last was is written into the next, and what is needed to go back
to it is kept until then: after a crash all shards go back to the newest that is whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile, reason_of
from siag.live.sharding.lead import LeadServer
from siag.storage.disk import Place
from siag.storage.generations import Scan, all_saves, compare
from siag.storage.records import Arrays, layout_of
from siag.storage.store import Recovery, Store

MOST = 1000  # numbers of saves that are told
NOT_SPLIT = "holds the state of a server whose model was not split"
RETRY = 0.5  # seconds before a shard that could not save is asked again
NUMBER, COMMON = "save", "common"  # in what is saved with the arrays


class ShardStore(Store):
    """Keeps the state of one shard.

    Args:
        folder: of the run.
        identity: what the state is of.
        k: the shard.
        shards: how many there are.
        given: as for `Store`.
    """

    def __init__(self, folder: Place, identity: Mapping[str, Any], k: int, shards: int, **given: Any) -> None:
        super().__init__(f"{os.fspath(folder)}/shard-{k}", {**identity, "shard": k, "shards": shards}, **given)
        self._found: dict[int, Scan] = {}  # by number: where it is; later saves of the same file left out
        self._places: dict[int, int] = {}  # the generations of saves, by number
        self._tried = 0

    def known(self, arrays: Arrays) -> tuple[list[int], int]:
        """The numbers of all saves that are intact, and the last that was once known to be whole."""
        layout, common = layout_of(arrays), 0
        self._found.clear()
        for scan, meta in all_saves(self._folder, self._disk):
            compare(scan.path, scan.header, self._identity, layout)
            self._found[int(meta[NUMBER])] = scan
            common = max(common, int(meta[COMMON]))
        return sorted(self._found)[-MOST:], common

    def recover_at(self, number: int, arrays: Arrays) -> Recovery:
        """Fill the arrays from the save of a number that is known."""
        if number not in self._found:
            raise BadFile(f"{self._folder}: holds no save {number}")
        scan = self._found[number]
        meta = self._go_on(scan, 0, arrays)
        self._found.clear()
        self._places = {number: scan.number}
        return Recovery(meta, [], ())

    def begin_afresh(self) -> None:
        """Nothing that is here was ever whole: write on beside it."""
        self._recovered = True

    def save_as(
        self, number: int, common: int, arrays: Arrays, changed: np.ndarray[Any, Any], meta: Mapping[str, Any]
    ) -> bool:
        """Have a save written; False if one is under way. What is needed for save `common` is kept."""
        if self.busy:
            return False
        if self._tried and self._error is None and self._writer.current is not None:
            self._places[self._tried] = self._writer.current
        self._places = {past: place for past, place in self._places.items() if past >= common}
        self._keep, self._tried = self._places.get(common), number
        return Store.save(self, arrays, changed, {**meta, NUMBER: number, COMMON: common})


class LeadStore(ShardStore):
    """Keeps the state of the lead's shard, and has the followers keep theirs; used as a `Store` is.

    Args:
        folder: of the run.
        identity: what the state is of.
        server: the lead.
        clock: what time it is, in seconds since any moment.
        given: as for `Store`.
    """

    def __init__(
        self,
        folder: Place,
        identity: Mapping[str, Any],
        server: LeadServer,
        clock: Callable[[], float] = time.monotonic,
        **given: Any,
    ) -> None:
        super().__init__(folder, identity, 0, len(server.links) + 1, **given)
        self._server, self._links, self._clock = server, server.links, clock
        self._number = self._common = 0
        self._asked: tuple[int, ...] = ()  # the shards that try the current number
        self._problems: dict[int, str] = {}
        self._retry = 0.0

    @property
    def problem(self) -> str | None:
        """What goes wrong with saving, at any shard."""
        self._settle()
        return next((f"shard {k}: {text}" for k, text in sorted(self._problems.items())), None)

    @property
    def ever(self) -> bool:
        """Whether there is a save that all shards have on disk."""
        self._settle()
        return self._common > 0

    def recover(self, arrays: Arrays) -> Recovery | None:
        """Have all shards go back to the newest save that all have; `None` if there never was one."""
        known = [self.known(arrays)]
        for link in self._links:
            reply = link.ask("saves")
            known.append((reply["saves"], reply["common"]))
        self._number = max((max(saves, default=0) for saves, _ in known), default=0)
        whole = set.intersection(*(set(saves) for saves, _ in known))
        once = max(common for _, common in known)
        if not whole:
            if once:
                which = ", ".join(str(k) for k, (saves, _) in enumerate(known) if once not in saves)
                remedy = "put back a copy of all shards' folders, or move them all away to start afresh"
                raise BadFile(f"{os.path.dirname(self._folder)}: save {once} is missing in shard {which}; {remedy}")
            self.begin_afresh()
            for link in self._links:
                link.ask("afresh")
            return None
        self._common = max(whole)
        remarks = []
        if self._common < once:
            remarks.append(f"save {once} is not intact in all shards; used save {self._common}")
        for link in self._links:
            link.ask("restore", number=self._common)
        found = self.recover_at(self._common, arrays)
        return Recovery(found.meta, [], (*found.remarks, *remarks))

    def save(
        self, arrays: Arrays, changed: np.ndarray[Any, Any], meta: Mapping[str, Any], *, wait: bool = False
    ) -> bool:
        """Have all shards save what they have now; False if they are still at the save before.

        A shard that could not save is asked alone, until it can: the others' saves would be of no use.
        """
        if wait:
            self._finish()
        if self._asked:
            self._settle()
        late = tuple(sorted(self._problems))
        if self._asked or (late and not wait and self._clock() < self._retry):
            return False
        self._number += 1
        asked = late or tuple(range(len(self._links) + 1))
        self._retry = self._clock() + RETRY
        self._server.save([link for link in self._links if link.k in asked], self._number, self._common)
        self._asked = asked  # now: nobody is waited for who was not asked because another is lost
        own = 0 in self._asked and self.save_as(self._number, self._common, arrays, changed, meta)
        if wait:
            self._finish()
            if late and not self._problems:
                return self.save(arrays, changed, meta, wait=True)
            return self._common == self._number
        return own

    def _finish(self) -> None:
        """Wait until all shards that were asked are done."""
        if 0 in self._asked:
            self._background.wait()
        for link in self._links:
            if link.k in self._asked:
                link.wait_saved(self._number)
        self._settle()

    def _settle(self) -> None:
        """See who is done, and how it went."""
        followers = [link for link in self._links if link.k in self._asked]
        if not self._asked or self.busy or any(link.saved[0] < self._number for link in followers):
            return
        results = {link.k: link.saved[1] for link in followers}
        if 0 in self._asked:
            results[0] = None if self._error is None else reason_of(self._error)
        if len(self._asked) == len(self._links) + 1 and not any(results.values()):
            self._common = self._number
        self._problems = {k: text for k, text in results.items() if text}
        self._asked = ()
