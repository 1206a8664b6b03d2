"""The roster: a server's workers, and what the ledger says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers
from siag.server import ledger
from siag.server.guard import Refused, Verdict
from siag.server.members import Member
from siag.server.snapshot import State


class Roster:
    """The workers of a server, in the order of their rows, and their ledger."""

    def __init__(self, workers: int | Sequence[str], patience: float | None) -> None:
        names = [str(i) for i in range(workers)] if isinstance(workers, int) else list(workers)
        if not names or len(set(names)) < len(names):
            raise BadInput("workers", workers, "at least one, and no name twice")
        if patience is not None:
            patience = check.real("patience", patience, above=0)
        self.lines: Floats = ledger.blank(len(names))
        self.ages: Integers = np.zeros(ledger.BINS, np.int64)
        self.members = [Member(row, name, self.lines[row], patience) for row, name in enumerate(names)]

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        for member in self.members:
            member.line = self.lines[member.row]  # not a copy of it

    def member(self, name: str | int) -> Member | None:
        """The worker of this name or row, if there is one."""
        if isinstance(name, int):
            return self.members[name] if 0 <= name < len(self.members) else None
        return next((member for member in self.members if member.name == name), None)

    def joining(self, name: str | int) -> Member:
        """The worker of this name or row, if it may join."""
        member = self.member(name)
        if member is None:
            reason = f"worker {name!r}: not among the {len(self.members)} workers of this server"
            raise Refused(reason, final=True, why=Verdict.UNKNOWN)
        if member.state == State.REFUSED:
            raise member.banned()
        return member

    def readmit(self, name: str | int) -> bool:
        """Lift the ban on a worker that was refused too often; return whether there was one."""
        member = self.member(name)
        if member is None:
            raise BadInput("worker", name, f"one of the {len(self.members)} workers of this server")
        banned = member.state == State.REFUSED
        if banned:
            member.state, member.strikes = State.AWAY, 0
        return banned

    @property
    def counted_ages(self) -> list[int]:
        """How many reports were of which age, in bins: 0, 1, 2-3, 4-7 and so on, up to the last that has any."""
        return [int(count) for count in np.trim_zeros(self.ages, "b")]

    def saved(self) -> dict[str, Any]:
        """What outlives the server."""
        return {"ages": self.counted_ages, "members": [member.saved() for member in self.members]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what an earlier server knew."""
        self.ages[:] = 0
        self.ages[: len(saved["ages"])] = saved["ages"]
        for member, each in zip(self.members, saved["members"], strict=True):
            member.restore(each)
        known = [member.largest for member in self.members if member.reports >= ledger.KNOWN_AFTER]
        self.lines[-1, ledger.LARGEST] = max(known, default=0.0)
