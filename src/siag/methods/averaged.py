"""The mean of the iterates, for streams and constant steps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Integers, Record
from siag.methods.around import Around, receive_within
from siag.methods.method import advance, answer, ready, receive
from siag.methods.standardised import Standardised

DONE, KEPT = 0, 1  # the entries of `tally`


@dataclass(frozen=True)
class Averaged(Around):
    r"""A method whose result is the mean of its iterates (Polyak and Ruppert).

        w̄^t = (1/(t − start)) Σ_{s=start+1}^t w^s

    With a constant step w^t hovers about the optimum, at a distance that the noise of single gradients makes; the mean
    tends to it. Workers read w^t as before, only the result is w̄^t: the w of a run, and what its errors are of. Until
    t = start it is w^t. Iterations in which the method does not step, since it waits for workers, are left out.
    What a worker's crash means is up to the method.

    With a decay a the k-th of those iterates counts as k (k + 1) … (k + a − 1), so that what was before t fades:

        w̄ ← w̄ + (1 + a)/(k + a) (w − w̄)

    Args:
        method: whose iterates.
        start: how many iterations to leave out: those until it hovers.
        decay: a ≥ 0; 0 is the plain mean, 8 one that is mostly of the last ninth.

    Example:
        >>> from siag.methods import SIAG
        >>> Averaged(SIAG(), start=1000)
        Averaged(method=SIAG(resum=64, wait=0.0, rows='float64', average=1), start=1000, decay=0.0)

    References:
        B. Polyak, A. Juditsky, "Acceleration of stochastic approximation by averaging", SIAM Journal on Control and
        Optimization 1992.
        O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization: convergence results and optimal
        averaging schemes", ICML 2013: the decay.
    """

    NO_PROX = "write Averaged(Prox(…)), the mean of the iterates after the proximal step"
    NO_MOMENTUM = "put Averaged around both: the mean is to be of the iterates that result"

    _: KW_ONLY
    start: int = 0
    decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.method, Averaged):
            raise Unsuitable(f"Averaged({self.method!r}) would take the mean twice; leave one out")
        if isinstance(self.method, Standardised):
            raise Unsuitable("Averaged cannot follow Standardised; write Standardised(Averaged(…), …)")
        object.__setattr__(self, "start", check.integer("start", self.start, low=0))
        object.__setattr__(self, "decay", check.real("decay", self.decay, low=0))

    def init(self, w0: Floats, n: int) -> Record:
        """Nothing to take the mean of."""
        inner = self.method.init(w0, n)
        return Averaging(inner.w, inner, w0.copy(), np.zeros(2, np.int64), self.start, self.decay)


class Averaging(NamedTuple):
    """A method's memory, and the mean of its iterates."""

    w: Floats  # (d,) the method's own
    inner: Record
    mean: Floats  # (d,) w̄
    tally: Integers  # (2,) iterations, and how many of them are in the mean
    start: int
    decay: float


receive.when(Averaging)(receive_within)


@advance.when(Averaging)
def step_and_average(state: Averaging, eta: float) -> None:
    """The method's step; then w̄ ← w̄ + (1 + a)/(k + a) (w − w̄) with its k-th iterate since the start."""
    steps = ready(state.inner)  # asked first: some know only until they have stepped
    advance(state.inner, eta)
    state.tally[DONE] += 1
    if steps:
        state.tally[KEPT] += state.tally[DONE] > state.start
        k = state.tally[KEPT]
        for j in range(state.w.size):
            if k > 1:
                state.mean[j] += (1.0 + state.decay) * (state.w[j] - state.mean[j]) / (k + state.decay)
            else:
                state.mean[j] = state.w[j]


@answer.when(Averaging)
def mean_of_iterates(state: Averaging) -> Floats:
    """w̄."""
    return state.mean
