"""Activities in which a message takes time: not sets of workers, but events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from siag.activity.activity import Activity, Moments
from siag.activity.agenda import Events
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Record, Rng


class Timed(Activity):
    """An activity that says who reads and who reports when: a gradient may be older than the iteration it arrives."""

    @abstractmethod
    def events(self, n: int, iterations: int, seed: int, repeat: int, cost: int) -> Iterator[Events]:
        """Yield what happens, in order, until the server has stepped `iterations` times; arrays may be used again.

        Chunks are shorter if an event means work on many numbers (`cost`).
        """

    def start(self, n: int, rng: Rng) -> Record:
        """Not sets of workers but events: see `events`."""
        name = type(self).__name__
        raise Unsuitable(f"a {name} has no fixed iterations; simulate runs it, Recorded and exact_error cannot")

    def moments(self, n: int) -> Moments:
        """Not known in advance."""
        raise Unsuitable(f"the gaps of a {type(self).__name__} are not known in advance; simulate it")
