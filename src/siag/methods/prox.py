"""Proximal steps: a method whose server steps along gradients, for F plus an ℓ₁ norm, within bounds."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from siag.foundations import check
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Floats, Record
from siag.methods.around import Around, receive_within
from siag.methods.method import advance, ready, receive, weight


@dataclass(frozen=True)
class Prox(Around):
    r"""After every step of a method, the proximal map of R(w) = λ‖w‖₁ + (0 if low ≤ w ≤ high, else ∞).

        w^{t+1} = prox_{sR}(v) = argmin_u R(u) + ‖u − v‖²/(2s),    v the method's own next iterate
                = min{high, max{low, sign(v) max{|v| − sλ, 0}}},   coordinate by coordinate

    s is η times the sum of the weights that the step's gradients have: 1 where it goes along their mean, |A_t|/n for
    the "sum" of SGD, less for old gradients where they count for less.

    It minimises F + R where the method minimises F; coordinates become 0, or reach a bound, exactly. A run's errors are
    measured from the problem's own optimum all the same, which is that of F. While the method waits for workers, and
    in iterations in which it does not step, w stays. What a worker's crash means is up to the method.

    Args:
        method: what steps; one that moves w by η times a gradient.
        l1: λ.
        low: the smallest a coordinate may be; `None`: any.
        high: the largest; `None`: any.

    Example:
        >>> from siag.methods import IAG
        >>> Prox(IAG(), l1=0.1, low=0.0)
        Prox(method=IAG(resum=64, wait=0.0, rows='float64'), l1=0.1, low=0.0, high=None)
    """

    NO_PROX = "give l1, low and high to one Prox"
    NO_MOMENTUM = "its proximal step is to come last: write Prox(Momentum(…), …)"

    _: KW_ONLY
    l1: float = 0.0
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = getattr(self.method, "NO_PROX", "")
        if remedy:
            raise Unsuitable(f"Prox cannot follow {self.method!r}; {remedy}")
        check_terms(self)

    def init(self, w0: Floats, n: int) -> Record:
        """The method's own memory, and R."""
        return proximal(self.method.init(w0, n), self.l1, self.low, self.high)


class Proximal(NamedTuple):
    """A method's memory, and R."""

    w: Floats  # (d,) the method's own
    inner: Record
    l1: float
    low: float
    high: float


receive.when(Proximal)(receive_within)


def proximal(inner: Record, l1: float, low: float | None, high: float | None) -> Proximal:
    """R around a method's memory."""
    return Proximal(inner.w, inner, l1, -math.inf if low is None else low, math.inf if high is None else high)


def check_terms(method: Record) -> None:
    """Refuse an R that is not convex, or is infinite everywhere."""
    object.__setattr__(method, "l1", check.real("l1", method.l1, low=0))
    for name in ("low", "high"):
        value = getattr(method, name)
        object.__setattr__(method, name, None if value is None else check.real(name, value, remedy="None: any"))
    if method.low is not None and method.high is not None and method.low > method.high:
        raise BadInput("low", method.low, f"at most high = {method.high}", "swap low and high")


@advance.when(Proximal)
def step_and_map(state: Proximal, eta: float) -> None:
    """The method's step, then the proximal map. What is not a number stays so, and is noticed."""
    steps = ready(state.inner)  # asked first: some know only until they have stepped
    threshold = eta * weight(state.inner) * state.l1 if steps else 0.0
    advance(state.inner, eta)
    if steps:
        for j in range(state.w.size):
            v = state.w[j]
            if abs(v) <= threshold:
                v = 0.0
            elif v > 0.0:
                v -= threshold
            else:
                v += threshold
            if v < state.low:
                v = state.low
            elif v > state.high:
                v = state.high
            state.w[j] = v
