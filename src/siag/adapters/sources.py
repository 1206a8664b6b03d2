"""A model in this process with one row per source: sources and coordinates join when they first appear.

The sources take turns in one thread, so every report is computed from the newest w. They count the same however often
each of them comes, which is what a table with one row per source is for.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.rng import blank
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.methods import Method, compute, forget
from siag.server import Guard, ParameterServer, Refused
from siag.server.ledger import SAMPLES
from siag.server.method_state import arrays_within
from siag.server.parameter_server import COUNTS
from siag.steps import Step

TRUSTED = Guard(jump=None)  # samples of this process may be as unlike each other as they are


@compiled
def draw(memory: Record, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """Source i's message, from w."""
    return compute(memory, oracle, rng, i, w, out)


class Sources:
    """A parameter server whose workers are names of sources, in the process of the caller.

    It has rows and coordinates to spare, and twice as many when these are used up, so that growing costs little. Spare
    coordinates are 0. Spare rows are those of workers that have left, which the average does not count. It can be
    pickled, and the copy goes on bit for bit.

    Args:
        method: one with a table and without a quorum, as `Automatic()` or `SIAG()`.
        step: the sizes of its moves.
        d: coordinates to begin with, all 0.

    Example:
        >>> from siag.methods import SIAG
        >>> from siag.steps import Constant
        >>> sources = Sources(SIAG(), Constant(0.5), d=2)
        >>> [sources.row(name) for name in ("north", "south", "north")]
        [0, 1, 0]
    """

    def __init__(self, method: Method, step: Step, d: int) -> None:
        self.rows: dict[Hashable, int] = {}  # of the sources, by name
        self.memory: Record = method.recruit(np.zeros(d), 1)
        self.server = ParameterServer(method, step, np.zeros(d), workers=1, guard=TRUSTED)
        self._rng = blank()
        self._warm_up()

    def _warm_up(self) -> None:
        self._message = np.zeros(self.server.message_size)
        self._draw: Any = draw

    def __getstate__(self) -> dict[str, Any]:
        return {name: kept for name, kept in vars(self).items() if name not in ("_draw", "_message")}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept)
        self._warm_up()

    @property
    def d(self) -> int:
        """How many coordinates there are."""
        return self.server.d

    @property
    def w(self) -> Floats:
        """(d,) the result so far, to be read only; another array after `widen` and after a source has joined."""
        return self.server.w

    def row(self, source: Hashable) -> int:
        """Its row; a source that is new, or has left, joins."""
        row = self.rows.get(source)
        if row is None:
            row = len(self.rows)
            if row == self.server.n:
                self._become(2 * row, self.d, np.arange(row))
            self.rows[source] = row
            self.server.join(row, float(self.server.version))
        return row

    def learn(self, source: Hashable, oracle: Record) -> None:
        """A report of this source: what its method's workers send of the gradient that `sample` means for the oracle.

        Raises `Refused`, having changed nothing, if the gradient is not finite.
        """
        row, server = self.row(source), self.server
        what: Any = self.memory, oracle, self._rng, row, server.shown, self._message
        self._draw(*what)
        if self._draw is draw:
            self._draw = draw.settled(*what)
        try:
            version = server.version
            server.push(row, version, self._message, int(server.ledger[row, SAMPLES]), float(version))
        except Refused:
            forget(self.memory, row)
            server.members[row].welcome()
            raise

    def leave(self, source: Hashable) -> None:
        """It leaves for good: its last gradient counts no longer, unless it is the only one. It may come again."""
        self.server.leave(self.rows[source], float(self.server.version))

    def widen(self, d: int, places: Integers) -> None:
        """Have d coordinates, coordinate j being places[j] from now on; those that are new are 0."""
        self._become(self.server.n, d, places)

    def _become(self, n: int, d: int, places: Integers) -> None:
        """A server of n rows and d coordinates, of which one is changed at a time, with all that this one has."""
        old, w0 = self.server, np.zeros(d)
        new = ParameterServer(old.method, old.step, w0, workers=n, guard=TRUSTED)
        memory = old.method.recruit(w0, n)
        for before, after in ((old.state, new.state), (self.memory, memory)):
            arrays = dict(arrays_within(after))
            for name, array in arrays_within(before):
                carry(array, arrays[name], places)
        for count in COUNTS:
            setattr(new, count, getattr(old, count))
        for member in old.members:
            new.members[member.row].state = member.state
        new.roster.ages[:] = old.roster.ages
        new.ledger[: old.n], new.ledger[-1] = old.ledger[:-1], old.ledger[-1]
        new.gone, new.fading = set(old.gone), dict(old.fading)
        for row in range(old.n, n):
            new.leave(row, float(new.version))
        self.server, self.memory = new, memory
        self._warm_up()


def carry(old: np.ndarray[Any, Any], new: np.ndarray[Any, Any], places: Integers) -> None:
    """Copy an array into a larger one: along an axis that has grown entry j goes to places[j].

    What is beyond, as the number ⟨g, v⟩ at the end of a row of gradients, stays at the end.
    """
    grown = [
        np.arange(a) if a == b else np.concatenate([places[:a], np.arange(len(places), a) + (b - a)])
        for a, b in zip(old.shape, new.shape, strict=True)
    ]
    new[np.ix_(*grown)] = old
