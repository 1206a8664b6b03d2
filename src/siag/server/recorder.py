"""What a server tells the recorder of its run."""

from __future__ import annotations

from typing import Protocol


class Recorder(Protocol):
    """Writes down who reported when: a trace."""

    def report(self, version: int, worker: int, stamp: int, sample: int, seconds: float, loss: float) -> None:
        """Worker's `sample`-th sample, computed from w of version `stamp`, arrived at `version`; its loss, or NaN."""

    def fade(self, version: int, worker: int, factor: float, seconds: float) -> None:
        """The row of a worker that has left counts for `factor` as much from now on."""

    def memory_lost(self, version: int, worker: int, seconds: float) -> None:
        """A worker has lost what it remembered: it was started anew, or what it sent was refused."""

    def weigh(self, version: int, worker: int, weight: float, seconds: float) -> None:
        """What a worker sends from now on is `weight` times a message: it is a relay."""
