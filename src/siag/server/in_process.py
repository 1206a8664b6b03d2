"""Workers in the server's own process: their reports are computed and taken one after the other, by compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import SAMPLES as DRAWN
from siag.foundations.rng import fresh
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.methods import Exact, Method, advance, compute, fade, forget, told, weigh, with_weights
from siag.methods.method import needs
from siag.methods.weighted import weighing_in
from siag.server.guard import ACCEPTED, Bounds, Guard
from siag.server.intake import UNKNOWN, admit
from siag.server.ledger import REPORTS, SAMPLES
from siag.server.method_state import GO, arrays_within, fade_away
from siag.server.parameter_server import Diverged, ParameterServer
from siag.steps import Step

NOW = 0.0  # all happens at once
GUARD = Guard(jump=None)  # the data are the caller's own; what is not finite is refused all the same
BOUNDS = GUARD.bounds


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
    begin: int,
    end: int,
    version: int,
    sizes: Floats,
    first: int,
    d: int,
) -> int:
    """Workers compute the oracle's reports `begin` to `end` − 1, and the server takes each at once.

    Return how many were taken: all, or those before the first that the guard refuses.
    """
    short: Floats = np.empty(0, np.float32)  # nobody reads w in other numbers
    for k in range(begin, end):
        i = oracle.whose[k]
        oracle.span[0], oracle.span[1] = oracle.starts[k], oracle.starts[k + 1]
        eta = sizes[first + k - begin]
        told(memory, version)
        if compute(memory, oracle, rng, i, shown, message):
            loss, sample = oracle.told[0], int(lines[i, SAMPLES])
            report = i, message, version, sample, UNKNOWN, loss, version, NOW, GO, eta, d, short
            if admit(state, lines, ages, bounds, *report) != ACCEPTED:
                return k - begin
        else:
            advance(state, eta)
        version += 1
    return end - begin


class InProcess:
    """A parameter server and its workers in one process: no report travels, and none is stale when it arrives.

    It can be pickled, and the copy goes on bit for bit. Workers and coordinates may be added. A worker counts from its
    first report on, so that the server minimises the mean over those heard so far. There is room for as many workers
    again where the method can leave some out, so that n of them added one by one cost O(n d) together; any other
    method's memory is copied each time.

    Args:
        method: one whose reports are one gradient each, and that waits for nobody.
        step: the sizes of its moves; one that looks at ages is refused.
        w0: (d,) where to start.
        workers: how many there are at first.
        weighted: whether they may count for more or less than 1 each, see `count_for`.
    """

    def __init__(self, method: Method, step: Step, w0: Floats, workers: int = 1, *, weighted: bool = False) -> None:
        _check(method, step, w0, weighted)
        self.method, self.step, self.workers, self.weighted = method, step, workers, weighted
        self._rng = fresh(0, 0, DRAWN)
        self._oracle: Record | None = None  # one that is kept, and machine code for its types
        self._code: Any = None
        self._begin(w0, workers)
        for row in range(workers):
            self.leave_out(row)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_oracle": None, "_code": None}

    @property
    def w(self) -> Floats:
        """(d,) the result so far, the same array until workers or coordinates are added; to be read only."""
        return self.server.w

    @property
    def _may_leave_out(self) -> bool:
        return fade.reaches(self.server.state)

    def _begin(self, w0: Floats, room: int) -> None:
        method = with_weights(self.method, (1.0,) * room if self.weighted else None)
        self.server = ParameterServer(method, self.step, w0, room, guard=GUARD)
        self._memory = self.method.recruit(w0, room)
        self._message: Floats = np.empty(self.server.message_size)
        for row in range(room):
            self.server.join(row, NOW)

    def leave_out(self, row: int) -> None:
        """A worker does not count until it reports, be it again, if the method can do that."""
        if self._may_leave_out:
            fade_away(self.server.state, row, 0.0)

    def count_for(self, row: int, weight: float) -> None:
        """What a worker counts for from now on, where one that nothing was said of counts for 1."""
        state, weighing = self.server.state, weighing_in(self.server.state)
        if weighing is None or weighing.weights[row] == weight:
            return
        before, weighing.weights[row] = weighing.weights[row], weight
        if before * weight > 0.0 and self.server.ledger[row, REPORTS] > 0:
            fade_away(state, row, weight / before)  # what it has sent is multiplied by its weight
        weigh(weighing.inner, row, weight)

    def grow(self, workers: int) -> None:
        """Make room for this number of workers; the new ones have the highest rows."""
        before = self.server.n
        if workers > before:
            room = max(workers, 2 * before) if self._may_leave_out else workers
            self._enlarge(room, self.server.d, np.arange(before))
            for row in range(before, room):
                self.leave_out(row)
        self.workers = max(self.workers, workers)

    def widen(self, d: int, places: Integers) -> None:
        """There are d coordinates from now on, coordinate j being places[j]; those that are new are 0."""
        self._enlarge(self.server.n, d, places)

    def _enlarge(self, room: int, d: int, places: Integers) -> None:
        """Have more rows, or else more coordinates, in which those there were have these places."""
        old, memory = self.server, self._memory
        self._begin(np.zeros(d), room)
        new = self.server
        for before, after in ((old.state, new.state), (memory, self._memory)):
            for (_, small), (_, large) in zip(arrays_within(before), arrays_within(after), strict=True):
                _copy_into(large, small, places)
        _copy_into(new.ledger, old.ledger, places)
        new.roster.ages[:] = old.roster.ages
        new.version, new.reports = old.version, old.reports

    def learn(self, oracle: Record, *, kept: bool = False) -> None:
        """Let workers report, in order.

        Args:
            oracle: what `siag.problems.sample` draws from. Its field `whose` (reports,) says which worker makes each
                report, and `starts` (reports + 1,) where its samples begin; `span` (2,) is set to the samples of a
                report first, and `told` is read afterwards: it begins with the loss.
            kept: whether there will be more calls with this very oracle, written over; they take far less time.
        """
        server, at, reports = self.server, 0, oracle.whose.size
        given = server.state, self._memory, oracle, self._rng, server.shown, self._message
        book = server.ledger, server.roster.ages, BOUNDS
        code: Callable[..., int] = self._code if oracle is self._oracle else work_through
        while at < reports:
            sizes, first = server.sizes.ahead(server.version)
            end = min(reports, at + sizes.size - first)
            what: Any = *given, *book, at, end, server.version, sizes, first, server.gradient_size
            taken = code(*what)
            if kept and oracle is not self._oracle:
                self._oracle, self._code = oracle, work_through.bare(*what)
            server.version += taken
            server.reports += taken
            at += taken
            if at < end:
                forget(self._memory, int(oracle.whose[at]))
                raise Diverged(f"a gradient is not finite at version {server.version}; scale the features")
        if server.version % server.looks < reports:
            server.look_at_w()


def _check(method: Method, step: Step, w0: Floats, weighted: bool) -> None:
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
    if weighted and not fade.reaches(method.init(w0, 1)):
        raise Unsuitable(f"{name} keeps no table of what workers sent, in which they could count for more; use SIAG")


def _copy_into(larger: np.ndarray[Any, Any], smaller: np.ndarray[Any, Any], places: Integers) -> None:
    """Along an axis that has grown entry j goes to places[j]; what is beyond, as ⟨g, v⟩ of a gradient, to the end."""
    along = [
        np.arange(a) if a == b else np.concatenate([places, np.arange(places.size, a) + (b - a)])
        for a, b in zip(smaller.shape, larger.shape, strict=True)
    ]
    larger[np.ix_(*along)] = smaller
