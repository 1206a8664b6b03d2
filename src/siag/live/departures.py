"""Who of the workers is gone, why, for how long, and whether that ends the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from siag.live.reasons import Ended, Ending, Failure, WorkerFailure
from siag.server.members import Member
from siag.server.status import State

GONE = (State.LEFT, State.REFUSED)
FORGOTTEN = "forgotten"  # how a worker is counted that has left only because it was away for too long


class Departures:
    """Remembers who is gone without having left, as long as that is so.

    Args:
        members: the server's, which change as workers come and go.
        linger, forget: as for `Session`.
    """

    def __init__(self, members: Sequence[Member], linger: float | None = None, forget: float | None = None) -> None:
        self._members, self.linger, self.forget_after = members, linger, forget
        self._failures: dict[int, WorkerFailure] = {}
        self._away: dict[int, float] = {}  # since when
        self._forgotten: set[int] = set()
        self._left = False  # whether somebody has, in this session; a run that had ended may be gone on with
        self._alone: float | None = None  # since when nobody is there

    @property
    def failures(self) -> list[WorkerFailure]:
        """Of each worker that is gone and has not reported since."""
        found = self._failures.values()
        return [failure for failure in found if self._members[failure.row].reports == failure.reports]

    @property
    def anyone(self) -> bool:
        """Whether a worker is there, or may still come for the first time."""
        there = (State.WORKING, State.EXPECTED)
        return any(member.state in there and not member.vacant for member in self._members)

    @property
    def more(self) -> bool:
        """Whether workers that are not known yet may come."""
        return self._members[-1].vacant

    def gone(self, row: int, kind: Failure, reason: str) -> WorkerFailure | None:
        """A worker is gone, for this reason; `None` if a clearer one is known already."""
        member, known = self._members[row], self._failures.get(row)
        if known is not None and known.reports == member.reports and known.kind.vagueness < kind.vagueness:
            return None
        failure = self._failures[row] = WorkerFailure(row, member.name, kind, reason, member.reports)
        return failure

    def left(self, row: int) -> None:
        """A worker has left in order after all; one that was refused for good cannot."""
        if self._members[row].state != State.REFUSED:
            self._failures.pop(row, None)
            self._forgotten.discard(row)
        self._left = True

    def forgiven(self, row: int) -> None:
        """A worker that was refused for good may come again."""
        self._failures.pop(row, None)

    def forget(self, now: float) -> list[int]:
        """The rows of those that are away for too long; they count as forgotten from now on."""
        if self.forget_after is None:
            return []
        rows = []
        for member in self._members:
            row = member.row
            if member.state != State.LEFT:
                self._forgotten.discard(row)
            if member.state != State.AWAY:
                self._away.pop(row, None)
            elif now - max(self._away.setdefault(row, now), member.heard) > self.forget_after:
                rows.append(row)
        self._forgotten.update(rows)
        self._left |= bool(rows)
        return rows

    def desertion(self) -> Ended:
        """Why nobody is there."""
        states = Counter(self._states())
        if not states:
            return Ended(Ending.NOBODY, "none came")
        if set(states) == {State.LEFT}:
            return Ended(Ending.ALL_LEFT)
        return Ended(Ending.NOBODY, ", ".join(f"{count} {state}" for state, count in sorted(states.items())))

    def end(self, now: float, at_work: bool) -> Ended | None:
        """Why the run ends, if it does: all have left, or nobody was there for long.

        Somebody may be known to be at work, so that there is no need to look at all of many.
        """
        if at_work or State.WORKING in (states := self._states()):
            self._alone = None
            return None
        if not self.more and self._left and State.LEFT in states and all(state in GONE for state in states):
            return self.desertion()
        if self._alone is None:
            self._alone = now
        elif self.linger is not None and now - self._alone > self.linger:
            return Ended(Ending.LINGERED, f"{self.linger:g}")
        return None

    def _states(self) -> list[str]:
        """Of all workers; one that was forgotten has not left by itself."""
        return [
            FORGOTTEN if member.state == State.LEFT and member.row in self._forgotten else member.state
            for member in self._members
            if not member.vacant
        ]
