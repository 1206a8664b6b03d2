"""A model in this process with one row per source: sources and coordinates join when they first appear.

The sources take turns in one thread, so every report is computed from the newest w. They count the same however often
each of them comes, which is what a table with one row per source is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.rng import blank
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.methods import Method, compute, forget
from siag.methods.table import GONE
from siag.server import Guard, ParameterServer
from siag.server.guard import ACCEPTED, Bounds
from siag.server.intake import UNKNOWN, admit
from siag.server.ledger import SAMPLES
from siag.server.method_state import GO, arrays_within
from siag.server.parameter_server import COUNTS
from siag.steps import Step

LATE = 9.0  # the share of the newest iterate in the recent mean, times the steps made
TRUSTED = Guard(jump=None)  # samples of this process may be as unlike each other as they are


@compiled
def learn_all(
    memory: Record,
    oracle: Record,
    rng: Rng,
    state: Record,
    lines: Floats,
    ages: Integers,
    bounds: Bounds,
    w: Floats,
    message: Floats,
    recent: Floats,
    rows: Integers,
    version: int,
    sizes: Floats,
    d: int,
) -> int:
    """Samples 0, 1, … of the oracle, each a report of its row and a step; return how many, up to one not accepted.

    `rng[0]` tells `sample` which of them it is. `w` is what the workers of this state read, and `recent` a mean of it.
    """
    for k in range(rows.size):
        i = rows[k]
        rng[0] = k
        compute(memory, oracle, rng, i, w, message)
        number, now = int(lines[i, SAMPLES]), float(version)
        what = i, message, version, number, UNKNOWN, np.nan, version, now, GO, sizes[k], d
        if admit(state, lines, ages, bounds, *what) != ACCEPTED:
            return k
        version += 1
        share = LATE / (version + LATE - 1.0)
        for j in range(recent.size):
            recent[j] += share * (w[j] - recent[j])
    return int(rows.size)


class Local(ParameterServer):
    """A server and its workers in one process; a worker reports by being told its samples.

    Args:
        method: one with a table and without a quorum.
        step: the sizes of its moves, which may not look at ages.
        d: coordinates, all 0.
        n: rows.
    """

    def __init__(self, method: Method, step: Step, d: int, n: int = 1) -> None:
        super().__init__(method, step, np.zeros(d), n, guard=TRUSTED)
        self.memory, self.recent = method.recruit(np.zeros(d), n), np.zeros(d)
        self._rng, self._message = blank(), np.zeros(self.message_size)
        self._learn: Callable[..., int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_learn": None}

    def learn(self, rows: Integers, oracle: Record) -> int:
        """Sample k of the oracle is a report of `rows[k]`; return how many were accepted, all or up to a bad one.

        A gradient that is not finite is not accepted, and changes nothing.
        """
        done = 0
        while done < len(rows):
            sizes, first = self.sizes.ahead(self.version)
            most = min(len(rows) - done, len(sizes) - first, self._look - self.version % self._look)
            each = rows if most == len(rows) else rows[done : done + most]
            what: Any = self.memory, oracle, self._rng, self.state, *self._book, self.shown, self._message
            what += self.recent, each, self.version, sizes[first:], self.gradient_size
            if self._learn is None:
                taken = learn_all(*what)
                self._learn = learn_all.settled(*what)
            else:
                taken = self._learn(*what)
            done += taken
            self.version += taken
            self.reports += taken
            if self.gone:
                self.gone.difference_update(each[:taken].tolist())
            if taken < most:
                forget(self.memory, int(each[taken]))
                break
            if self.version % self._look == 0:
                self.look_at_w()
        return done

    def grown(self, n: int, d: int, places: Integers) -> Local:
        """The same with more rows, or else more coordinates, entry j of which is `places[j]` there; the others are 0.

        New rows are those of workers that are gone, so that the average is over the others.
        """
        new = Local(self.method, self.step, d, n)
        for before, after in ((self.state, new.state), (self.memory, new.memory)):
            arrays = dict(arrays_within(after))
            for name, array in arrays_within(before):
                carry(array, arrays[name], places)
        carry(self.recent, new.recent, places)
        for count in COUNTS:
            setattr(new, count, getattr(self, count))
        for member in self.members:
            new.members[member.row].state = member.state
        new.roster.ages[:] = self.roster.ages
        new.ledger[: self.n], new.ledger[-1] = self.ledger[:-1], self.ledger[-1]
        new.gone = self.gone | set(range(self.n, n))
        table: Record = getattr(new.state, "table", new.state)
        table.gone[self.n :] = True
        table.tally[GONE] += n - self.n
        return new


def carry(old: np.ndarray[Any, Any], new: np.ndarray[Any, Any], places: Integers) -> None:
    """Copy an array into a larger one: along an axis that has grown entry j goes to places[j].

    What is beyond, as the number ⟨g, v⟩ at the end of a row of gradients, stays at the end.
    """
    grown = [
        np.arange(a) if a == b else np.concatenate([places, np.arange(len(places), a) + (b - a)])
        for a, b in zip(old.shape, new.shape, strict=True)
    ]
    new[np.ix_(*grown)] = old


class Sources:
    """The workers of a `Local` server by name. It can be pickled, and the copy goes on bit for bit.

    Args:
        method: one with a table and without a quorum, as `Automatic()` or `SIAG()`.
        step: the sizes of its moves, which may not look at ages.
        d: coordinates to begin with, all 0.

    Example:
        >>> from siag.methods import SIAG
        >>> from siag.steps import Constant
        >>> sources = Sources(SIAG(), Constant(0.5), d=2)
        >>> [sources.row(name) for name in ("north", "south", "north")]
        [0, 1, 0]
    """

    def __init__(self, method: Method, step: Step, d: int) -> None:
        method.pair(step)
        if step.rule(1) is not None:
            raise Unsuitable(f"{step!r} looks at ages, and here every report is new; use Constant or Harmonic")
        self.rows: dict[Hashable, int] = {}
        self.server = Local(method, step, d)

    @property
    def d(self) -> int:
        """How many coordinates there are."""
        return self.server.d

    @property
    def w(self) -> Floats:
        """(d,) the result so far, to be read only; another array after a source has joined and after `widen`."""
        return self.server.w

    @property
    def newest(self) -> Floats:
        """(d,) the iterate, where the result is a mean of iterates; as `w` in all else."""
        return self.server.shown[: self.server.d]

    @property
    def recent(self) -> Floats:
        """(d,) a mean of the iterates, mostly of the last ninth of all steps; as `w` in all else.

        With k steps made it is w̄ ← w̄ + 9/(k + 8) (w − w̄): less noise than the iterate has, and soon away from w_0.

        Reference: O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization: convergence results
        and optimal averaging schemes", ICML 2013: polynomial-decay averaging.
        """
        return self.server.recent

    def row(self, source: Hashable) -> int:
        """Its row; a source that is new joins. There are rows to spare, twice as many as before when these are used."""
        row = self.rows.get(source)
        if row is None:
            if isinstance(source, float) and math.isnan(source):  # as a frame has it where one is missing
                raise BadInput("source", source, "a name, or a number that is one", "leave such samples out")
            row = len(self.rows)
            if row == self.server.n:
                self.server = self.server.grown(2 * row, self.d, np.arange(row))
            self.rows[source] = row
            self.server.join(row, float(self.server.version))
        return row

    def learn(self, rows: Integers, oracle: Record) -> int:
        """Sample k of the oracle is of the source with this row; return how many were taken, see `Local.learn`."""
        return self.server.learn(rows, oracle)

    def leave(self, source: Hashable) -> None:
        """Its last gradient counts no longer, unless it is the only source; it counts again when it comes again."""
        row, server = self.rows[source], self.server
        if len(server.gone | {row}) < server.n:
            server.leave(row, float(server.version))
            server.members[row].welcome()

    def widen(self, d: int, places: Integers) -> None:
        """Have d coordinates, coordinate j being places[j] from now on; those that are new are 0."""
        self.server = self.server.grown(self.server.n, d, places)
