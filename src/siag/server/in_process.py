"""Workers in the server's own process: their reports are computed and taken one after the other, by compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import SAMPLES as DRAWN
from siag.foundations.rng import fresh
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.methods import Exact, Method, advance, compute, told
from siag.methods.method import needs
from siag.methods.table import Aggregated
from siag.server.guard import ACCEPTED, Bounds, Guard
from siag.server.intake import UNKNOWN, admit
from siag.server.ledger import SAMPLES
from siag.server.method_state import GO, arrays_within, fade_away
from siag.server.parameter_server import Diverged, ParameterServer
from siag.steps import Step

NOW = 0.0  # all happens at once
GUARD = Guard(jump=None)  # the data are the caller's own; what is not finite is refused all the same


@compiled
def work_through(
    state: Record,
    memory: Record,
    oracle: Record,
    rng: Rng,
    shown: Floats,
    message: Floats,
    lines: Floats,
    ages: Integers,
    bounds: Bounds,
    rows: Integers,
    starts: Integers,
    version: int,
    sizes: Floats,
    first: int,
    d: int,
) -> int:
    """Worker rows[k] computes report k from samples starts[k] to starts[k + 1] − 1, and the server takes it at once.

    Return how many were taken: all, or those before the first that the guard refuses.
    """
    for k in range(rows.size):
        i = rows[k]
        oracle.span[0], oracle.span[1] = starts[k], starts[k + 1]
        told(memory, version)
        if compute(memory, oracle, rng, i, shown, message):
            loss, sample = oracle.told[0], int(lines[i, SAMPLES])
            report = i, message, version, sample, UNKNOWN, loss, version, NOW, GO, sizes[first + k], d
            if admit(state, lines, ages, bounds, *report) != ACCEPTED:
                return k
        else:
            advance(state, sizes[first + k])
        version += 1
    return int(rows.size)


class InProcess:
    """A parameter server and its workers in one process: no report travels, and none is stale when it arrives.

    It can be pickled, and the copy goes on bit for bit. Workers may be added. One counts from its first report on, so
    that the server minimises the mean over those heard so far. There is room for as many again where the method keeps
    a table, so that n workers added one by one cost O(n d) together; any other method's memory is copied each time.

    Args:
        method: one whose reports are one gradient each, and that waits for nobody.
        step: the sizes of its moves; one that looks at ages is refused.
        w0: (d,) where to start.
        workers: how many there are at first.
    """

    def __init__(self, method: Method, step: Step, w0: Floats, workers: int = 1) -> None:
        _check(method, step, w0)
        self.method, self.step, self.workers = method, step, workers
        self._rng = fresh(0, 0, DRAWN)
        self._begin(w0, workers)
        self._leave_out(0)

    @property
    def w(self) -> Floats:
        """(d,) the result so far, the same array until workers are added; to be read only."""
        return self.server.w

    def _begin(self, w0: Floats, room: int) -> None:
        self.server = ParameterServer(self.method, self.step, w0, room, guard=GUARD)
        self._memory = self.method.recruit(w0, room)
        self._message: Floats = np.empty(self.server.message_size)
        for row in range(room):
            self.server.join(row, NOW)

    def _leave_out(self, first: int) -> None:
        """Rows from the first on do not count until they are reported."""
        if isinstance(self.method, Aggregated):
            for row in range(first, self.server.n):
                fade_away(self.server.state, row, 0.0)

    def grow(self, workers: int) -> None:
        """There are so many workers from now on; the new ones have the highest rows."""
        if workers > self.server.n:
            old, memory = self.server, self._memory
            self._begin(np.zeros(old.d), max(workers, 2 * old.n) if isinstance(self.method, Aggregated) else workers)
            kept = dict(arrays_within(memory))
            for name, array in arrays_within(self._memory):
                _copy_into(array, kept[name])
            kept = old.arrays()
            for name, array in self.server.arrays().items():
                _copy_into(array, kept[name])
            self.server.ledger[: old.n], self.server.ledger[-1] = old.ledger[:-1], old.ledger[-1]
            self.server.roster.ages[:] = old.roster.ages
            self.server.version, self.server.reports = old.version, old.reports
            self._leave_out(old.n)
        self.workers = max(self.workers, workers)

    def learn(self, oracle: Record, rows: Integers, starts: Integers) -> None:
        """Let workers report, in this order.

        Args:
            oracle: what `siag.problems.sample` draws from; its field `span` (2,) is set to the samples of a report
                first, and its field `told` (1,) is read afterwards: the loss.
            rows: (reports,) who reports.
            starts: (reports + 1,) where the samples of each report begin.
        """
        server, at = self.server, 0
        given = server.state, self._memory, oracle, self._rng, server.shown, self._message
        book = server.ledger, server.roster.ages, server.guard.bounds
        while at < rows.size:
            sizes, first = server.sizes.ahead(server.version)
            most = min(rows.size - at, sizes.size - first)
            now = rows[at : at + most], starts[at : at + most + 1], server.version
            what: Any = *given, *book, *now, sizes, first, server.gradient_size
            taken = work_through(*what)
            server.version += taken
            server.reports += taken
            at += taken
            if taken < most:
                raise Diverged(f"a gradient is not finite at version {server.version}; scale the features")
        if rows.size:
            server.look_at_w()


def _check(method: Method, step: Step, w0: Floats) -> None:
    """Refuse what needs more than a gradient at a time, in this order."""
    name = type(method).__name__
    method.pair(step)
    if needs(method.recruit(w0, 1), Exact):
        raise Unsuitable(f"{name} needs exact gradients, rows of data have none; use SIAG or Automatic")
    if np.max(method.work(1)) > 1:
        raise Unsuitable(f"{name} takes several gradients a report, here each is a report; use siag.train with it")
    if method.quorum(2) > 0:
        raise Unsuitable(f"{method!r} waits for workers, here they come one by one; leave out wait")
    if step.rule(1) is not None:
        raise Unsuitable(f"{step!r} looks at ages, which are not kept here; use Constant or Harmonic")


def _copy_into(larger: np.ndarray[Any, Any], smaller: np.ndarray[Any, Any]) -> None:
    larger[tuple(slice(size) for size in smaller.shape)] = smaller
