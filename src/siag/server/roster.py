"""The roster: a server's workers, what the ledger says of them, and who may report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers
from siag.server import ledger
from siag.server.guard import Bounds, Guard, Refused, Verdict, judge, reason_for
from siag.server.members import Member
from siag.server.snapshot import State


class Roster:
    """The workers of a server, in the order of their rows.

    Args:
        workers: how many there are, or their names.
        guard: what their reports must be like.
        patience: seconds without a report after which one counts as stalled; `None`: that is a matter of its habits.

    Attributes:
        book: the ledger, the histogram of ages and the guard's bounds, as compiled code wants them.
    """

    def __init__(self, workers: int | Sequence[str], guard: Guard, patience: float | None) -> None:
        names = [str(i) for i in range(workers)] if isinstance(workers, int) else list(workers)
        if not names or len(set(names)) < len(names):
            raise BadInput("workers", workers, "at least one, and no name twice")
        if patience is not None:
            patience = check.real("patience", patience, above=0)
        self.lines: Floats = ledger.blank(len(names))
        self.ages: Integers = np.zeros(ledger.BINS, np.int64)
        self.members = [Member(row, name, self.lines[row], patience) for row, name in enumerate(names)]
        self.guard = guard

    @property
    def guard(self) -> Guard:
        """What reports must be like."""
        return self._guard

    @guard.setter
    def guard(self, guard: Guard) -> None:
        self._guard = guard
        self.book: tuple[Floats, Integers, Bounds] = self.lines, self.ages, guard.bounds

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self.guard = self._guard
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
            raise _banned(member)
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

    def judge(self, row: int, version: int, stamp: int, sample: int, square: float) -> int:
        """The verdict on a report."""
        return judge(self.lines[row], self.lines[-1], self.book[2], version, stamp, sample, square)

    def refusal(self, verdict: int, row: int, version: int, stamp: int, sample: int, square: float) -> Refused:
        """What is told to a worker whose report was not accepted."""
        why = Verdict(verdict)
        if why == Verdict.BANNED:
            return _banned(self.members[row])
        reason = reason_for(why, self.lines[row], self.lines[-1], self.book[2], version, stamp, sample, square)
        return Refused(reason, blame=why != Verdict.TOO_OLD, why=why)

    def malformed(self, row: int, message: Floats, size: int) -> Refused:
        """What is told to a worker whose message has another length or type."""
        if self.members[row].state == State.REFUSED:
            return _banned(self.members[row])
        expected = f"{size} of type float64 are expected"
        return Refused(f"{message.size} numbers of type {message.dtype}: {expected}", why=Verdict.MALFORMED)

    def strike(self, row: int, refusal: Refused, now: float) -> None:
        """Count a refusal; too many in a row make it final."""
        member = self.members[row]
        member.refused += 1
        member.strikes += refusal.blame
        member.heard = now
        if member.state == State.REFUSED:
            return
        member.reason = refusal.reason
        if member.strikes >= self.guard.strikes:
            member.state = State.REFUSED
            refusal.final = True

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


def _banned(member: Member) -> Refused:
    reason = f"worker {member.name}: refused {member.refused} times, last: {member.reason}"
    return Refused(reason, final=True, why=Verdict.BANNED)


def unknown_row(row: int, n: int) -> Refused:
    """What is told to a worker that reports for a row that does not exist."""
    return Refused(f"row {row}: there are rows 0 to {n - 1}", final=True, why=Verdict.UNKNOWN)
