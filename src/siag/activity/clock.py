"""A virtual clock: workers take random times to compute and to travel, and the server does not wait for them.

This is the relaxation that Sec. II leaves for later: a gradient may arrive iterations after the w it was computed from
was read. Each worker reads w, is away for a while, reports, and reads again; the version it read travels with it, so an
age is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from siag.activity.agenda import NO_FACTORS, Agenda, Events, agenda, fill_events
from siag.activity.membership import Dated, Dates
from siag.activity.timed import Timed
from siag.activity.times import Arrivals, Fixed, Times
from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.rng import CLOCK, key
from siag.foundations.types import Floats, Integers


@dataclass(frozen=True)
class EveryArrivals:
    """The server steps after every k arrivals."""

    k: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check.integer("k", self.k))


@dataclass(frozen=True)
class Tick:
    """The server steps after every `seconds`, however few reports have arrived."""

    seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", check.real("seconds", self.seconds, above=0))


@dataclass(frozen=True)
class WaitForAll:
    """The server waits for everyone, steps, and lets everyone go on: synchronous."""


@dataclass(frozen=True)
class OnOff:
    """A worker is there for a while and then away for a while; both are exponential, in seconds.

    Args:
        on: the mean time there; one number, or one for each worker.
        off: the mean time away; one number, or one for each worker. A worker whose mean is 0 is always there.

    Example:
        >>> OnOff(on=300.0, off=[60.0, 0.0]).means(2)
        (array([300.,   0.]), array([60.,  0.]))
    """

    on: float | Sequence[float]
    off: float | Sequence[float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", _per_worker("on", self.on))
        object.__setattr__(self, "off", _per_worker("off", self.off, zero=True))

    def means(self, n: int) -> tuple[Floats, Floats]:
        """(n,) and (n,) the mean times there and away; both 0 for a worker that is always there."""
        on, off = _for_all("on", self.on, n), _for_all("off", self.off, n)
        return np.where(off > 0.0, on, 0.0), off


def _per_worker(name: str, value: object, zero: bool = False) -> float | tuple[float, ...]:
    """A number above 0, or one for each worker; 0 itself only where it has a meaning."""
    if not isinstance(value, list | tuple | np.ndarray):
        return check.real(name, value, low=0) if zero else check.real(name, value, above=0)
    values = check.floats(name, value, (None,))
    if values.min() < 0 or (values.min() == 0 and not zero):
        raise BadInput(name, value, "numbers of at least 0" if zero else "numbers above 0")
    return tuple(map(float, values))


def _for_all(name: str, value: float | Sequence[float], n: int) -> Floats:
    """(n,) one for each worker."""
    if isinstance(value, float):
        return np.full(n, value)
    if len(value) != n:
        raise BadInput(name, value, f"one number, or {n} numbers for {n} workers")
    return np.array(value)


NO_TIME, AT_ONCE = Fixed(0.0), EveryArrivals()
DIFFERENT = "where workers differ, OnOff(on=[…], off=[…]) has a number for each"
NOT_RECORDED = (np.empty(0), np.zeros(1, np.int64))


@dataclass(frozen=True)
class Clock(Dated, Timed):
    """Workers and a server in simulated time.

    Worker i reads w, computes and travels for slowness_i · compute + travel seconds, reports, and reads again; where a
    report takes K gradients, `compute` is drawn K times. Its k-th time is a function of (seed, repeat, i, k) alone, so
    that different servers see the same workers.

    Args:
        compute: how long a gradient takes: a distribution, or recorded `Arrivals`.
        travel: how long the ways there and back take together.
        server: when the server steps: `EveryArrivals(k)`, `Tick(seconds)` or `WaitForAll()`.
        slowness: by how much a worker's compute times are longer; one number, or one for each worker.
        availability: `OnOff(on, off)`, for all workers or with a number for each, or `None` if they are always there.
            One that goes away finishes first.
        gradients: how many a report takes, each a draw of `compute`; one number, or one for each worker; `None`: as
            many as the method's workers compute, K for K local steps. 1 lets a report take as long as a gradient,
            whatever is computed.
        arrive: when workers come that are not there from the start, in seconds, as in `Members`. One that comes reads w
            at once.
        leave: when workers leave, in seconds, as in `Members`. What one of them was about to report is lost.

    Example:
        >>> from siag.activity import Exponential
        >>> Clock(compute=Exponential(1.0), slowness=[1, 2, 4]).slownesses(3)
        array([1., 2., 4.])
    """

    WHOLE = False

    compute: Times
    travel: Times = NO_TIME
    server: EveryArrivals | Tick | WaitForAll = AT_ONCE
    slowness: float | Sequence[float] = 1.0
    availability: OnOff | None = None
    gradients: int | Sequence[int] | None = None
    arrive: Dates = field(default=(), hash=False)
    leave: Dates = field(default=(), hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slowness", _per_worker("slowness", self.slowness))
        for name, kinds in (("compute", Times), ("travel", Times), ("server", EveryArrivals | Tick | WaitForAll)):
            if not isinstance(getattr(self, name), kinds):
                raise BadInput(name, getattr(self, name), f"one of {kinds}".replace("siag.activity.", ""))
        if self.availability is not None and not isinstance(self.availability, OnOff):
            raise BadInput("availability", self.availability, "OnOff(on, off), or None", DIFFERENT)
        if self.gradients is not None:
            object.__setattr__(self, "gradients", check.integers("gradients", self.gradients, high=2**31))
        if self.compute == NO_TIME and self.travel == NO_TIME:
            raise BadInput("compute", self.compute, "of positive mean", "time would stand still")
        if isinstance(self.travel, Arrivals):
            raise BadInput("travel", self.travel, "a distribution", "recorded arrivals go to compute")
        if isinstance(self.compute, Arrivals) and (
            isinstance(self.server, WaitForAll)
            or self.travel != NO_TIME
            or self.slowness != 1.0
            or self.availability
            or self._membership
        ):
            remedy = "leave travel, slowness, availability, arrive and leave out; the server steps by arrivals or ticks"
            raise BadInput("compute", self.compute, "the only source of time if it is recorded", remedy)
        self._check_dates()

    @property
    def length(self) -> int | None:
        """How many steps recorded arrivals are enough for; `None` for as many as one likes."""
        if isinstance(self.compute, Arrivals) and isinstance(self.server, EveryArrivals):
            return len(self.compute.trace) // self.server.k
        return None

    def bound(self, n: int) -> None:
        """None: a worker may be away for any time."""
        self.changes(n)
        self.slownesses(n)
        if self.availability is not None:
            self.availability.means(n)
        if isinstance(self.compute, Arrivals):
            self.compute.by_worker(n)

    def paced(self, gradients: int | Integers) -> Clock:
        """A clock whose reports take `gradients` gradients each, unless it was told otherwise."""
        return self if self.gradients is not None else replace(self, gradients=check.integers("gradients", gradients))

    def slownesses(self, n: int) -> Floats:
        """(n,) one for each worker."""
        return _for_all("slowness", self.slowness, n)

    def _taken(self, n: int) -> Integers:
        """(n,) how many gradients each worker's reports take."""
        each = np.array(1 if self.gradients is None else self.gradients, np.int64)
        if each.ndim == 1 and each.size != n:
            raise BadInput("gradients", self.gradients, f"one number, or {n} numbers for {n} workers")
        return np.broadcast_to(each, n).copy()

    def begin(self, n: int, seed: int, repeat: int) -> Agenda:
        """The state at time 0, with every worker about to read."""
        server = self.server
        k = server.k if isinstance(server, EveryArrivals) else n if isinstance(server, WaitForAll) else 0
        return agenda(
            key(seed, repeat, CLOCK),
            self.slownesses(n),
            (self.compute.law(), self.travel.law()),
            self._taken(n),
            (k, server.seconds if isinstance(server, Tick) else 0.0, isinstance(server, WaitForAll)),
            (np.zeros(n), np.zeros(n)) if self.availability is None else self.availability.means(n),
            self.compute.by_worker(n) if isinstance(self.compute, Arrivals) else NOT_RECORDED,
            self._membership.switches(n),
        )

    def events(self, n: int, iterations: int, seed: int, repeat: int, cost: int) -> Iterator[Events]:
        """Yield what happens, in order, until the server has stepped `iterations` times; arrays are used again."""
        state = self.begin(n, seed, repeat)
        room = max(256, (1 << 21) // max(cost, 32))
        factor = np.full(room, np.nan) if self._membership else NO_FACTORS
        whole = Events(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room), factor)
        done = 0
        while done < iterations:
            count, steps = fill_events(state, whole, iterations - done)
            done += steps
            yield Events(whole.code[:count], whole.age[:count], whole.time[:count], factor[:count])
