"""The durable log in memory: entries on their way to disk, numbered, and what is known of those before them."""

from __future__ import annotations

import threading


class Log:
    """Entries that were logged and are not on disk yet.

    Attributes:
        sequence: number of the last entry logged.
        covered: the last entry that the newest save on disk covers.
        lost: the last entry that could not be written.
    """

    def __init__(self) -> None:
        self.sequence = self.covered = self.lost = 0
        self._brief = threading.Lock()  # the numbers and list of entries
        self._pending: list[tuple[int, bytes]] = []
        self._carry: list[tuple[int, bytes]] | None = None  # entries logged while a new generation is being written

    @property
    def broken(self) -> bool:
        """Whether an entry is missing on disk, so that those after it would be of no use."""
        return self.lost > self.covered

    @property
    def carried(self) -> list[tuple[int, bytes]]:
        """Entries that went to the old generation and belong into the new one, too."""
        return self._carry or []

    def go_on(self, covered: int, entries: int) -> None:
        """Number on after a save and the entries that follow it."""
        self.sequence, self.covered = covered + entries, covered

    def add(self, entry: bytes) -> None:
        """Log an entry."""
        with self._brief:
            self.sequence += 1
            self._pending.append((self.sequence, entry))

    def carry(self, on: bool) -> None:
        """From now on keep what is taken for a new generation, or keep it no more."""
        self._carry = [] if on else None

    def take(self) -> list[tuple[int, bytes]]:
        """All that waits, to be written now."""
        with self._brief:
            batch, self._pending = self._pending, []
        if self._carry is not None:
            self._carry += batch
        return batch

    def give_up(self) -> None:
        """Count as lost what could not be written, and all that waits."""
        with self._brief:
            self._pending.clear()
            self.lost = self.sequence
