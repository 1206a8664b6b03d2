"""Who of the workers is gone, why, and for how long."""

from __future__ import annotations

from collections.abc import Sequence

from siag.server.members import Member


class Absence:
    """Remembers who is gone without having left, as long as that is so.

    Args:
        members: the server's, which change as workers come and go.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._failures: dict[int, tuple[str, int]] = {}  # why, and after how many reports
        self._away: dict[int, float] = {}  # since when
        self._forgotten: set[int] = set()

    @property
    def failures(self) -> list[str]:
        """One line for each worker that is gone; whoever has reported since is not among them."""
        return [text for row, (text, reports) in self._failures.items() if self._members[row].reports == reports]

    @property
    def states(self) -> list[str]:
        """Of all workers; one that was forgotten has not left by itself."""
        return [
            "forgotten" if member.state == "left" and member.row in self._forgotten else member.state
            for member in self._members
        ]

    def gone(self, row: int, text: str) -> None:
        """A worker is gone, for this reason."""
        self._failures[row] = text, self._members[row].reports

    def left(self, row: int) -> None:
        """A worker has left in order after all; one that was refused for good cannot."""
        if self._members[row].state != "refused":
            self._failures.pop(row, None)
            self._forgotten.discard(row)

    def forget(self, now: float, seconds: float) -> list[int]:
        """The rows of those that are away for longer than so many seconds; they count as forgotten from now on."""
        rows = []
        for member in self._members:
            row = member.row
            if member.state != "left":
                self._forgotten.discard(row)
            if member.state != "away":
                self._away.pop(row, None)
            elif now - max(self._away.setdefault(row, now), member.heard) > seconds:
                rows.append(row)
        self._forgotten.update(rows)
        return rows
