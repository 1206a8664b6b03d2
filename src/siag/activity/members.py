"""Workers that come later, leave, and come back: an activity around another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from siag.activity.activity import Activity, Moments, active
from siag.activity.membership import Dated, Dates, Switches
from siag.activity.timed import Timed
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Booleans, Integers, Record, Rng


@dataclass(frozen=True)
class Members(Dated, Activity):
    r"""Another activity among workers of which not all are there always.

    A worker is a member from the iteration at which it arrives until the one before it leaves. The other activity goes
    on for everybody; who is no member is left out of its sets A_t. So members report exactly when they would if all
    were there. The objective at iteration t is the mean over the members M_t,

        F_t(w) = (1/|M_t|) Σ_{i∈M_t} F_i(w),    with the optimum w*(t),

    and the errors of runs and of `siag.theory.exact_error` are ‖w^t − w*(t)‖².

    A method that keeps a table drops the row of a worker that leaves. One that arrives later counts in the average from
    its first report on, as on a live server; those that are there from the start count from the start, with rows that
    are zero until they report, as in Algorithm 1. A worker that comes back has forgotten what it remembered.

    Args:
        activity: the other; not a clock, which has `arrive` and `leave` of its own, in seconds.
        arrive: by worker the iteration at which it comes, or a list of them; or a list with one for each worker, 0 or
            `None` for those who are there from the start.
        leave: by worker the iteration at which it leaves, or a list of them; or a list with one for each worker, `None`
            for those who stay.

    Example:
        >>> from siag.activity import Uniform
        >>> shop = Members(Uniform(5), arrive={3: 1000}, leave={0: 2000})
        >>> [(int(change.when), change.members.tolist()) for change in shop.changes(4)]
        [(0, [0, 1, 2]), (1000, [0, 1, 2, 3]), (2000, [1, 2, 3])]

        Worker 0 is away for 100 iterations and comes back:

        >>> [change.members.tolist() for change in Members(Uniform(5), arrive={0: 300}, leave={0: 200}).changes(2)]
        [[0, 1], [1], [0, 1]]
    """

    WHOLE = True

    activity: Activity
    arrive: Dates = field(default=(), hash=False)
    leave: Dates = field(default=(), hash=False)

    def __post_init__(self) -> None:
        if isinstance(self.activity, Timed):
            remedy = "a Clock has arrive=… and leave=… of its own, in seconds; a Trace says itself who has left"
            raise BadInput("activity", self.activity, "one that has iterations", remedy)
        if isinstance(self.activity, Members) or not isinstance(self.activity, Activity):
            raise BadInput("activity", self.activity, "another activity", "as in Members(Uniform(5), arrive={3: 100})")
        self._check_dates()

    def start(self, n: int, rng: Rng) -> Record:
        """The other's, and who is there."""
        inner = self.activity.start(n, rng)
        return Present(inner, self._membership.switches(n), np.ones(n, np.bool_), np.zeros(1, np.int64))

    def bound(self, n: int) -> int | None:
        """The other's: ages are those of members."""
        self.changes(n)
        return self.activity.bound(n)

    def moments(self, n: int) -> Moments:
        """Refused: the gaps of a worker that leaves do not go on."""
        raise Unsuitable(f"what is known of gaps holds where members stay; ask {self.activity!r} instead")

    @property
    def length(self) -> int | None:
        """As long as the other."""
        return self.activity.length


class Present(NamedTuple):
    """Who is there."""

    inner: Record
    switches: Switches
    there: Booleans  # (n,)
    done: Integers  # (1,) switches so far


@active.when(Present)
def members_only(state: Present, rng: Rng, t: int, out: Integers) -> int:
    """Those of the other activity that are there."""
    switches, done = state.switches, state.done
    while done[0] < switches.time.size and switches.time[done[0]] <= t:
        state.there[switches.worker[done[0]]] = switches.joins[done[0]]
        done[0] += 1
    count = 0
    for k in range(active(state.inner, rng, t, out)):
        i = out[k]
        out[count] = i
        count += state.there[i]
    return count
