"""STORM: recursive momentum, variance reduction on streams without checkpoints or large batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.types import Booleans, Floats, Integers, Record, Rng
from siag.methods.method import Streaming, compute, cost, forget, told
from siag.methods.table import Aggregated
from siag.problems import again, sample


@dataclass(frozen=True, kw_only=True)
class STORM(Aggregated):
    r"""sIAG whose rows are running estimates of gradients, carried along as w moves.

        d_i ← ∇f_i(w; ξ) + (1 − a) (d_i − ∇f_i(w′; ξ)),    w^{t+1} = w^t − (η_t/n) Σ_i d_i

    where w′ is the point of worker i's last report, and both gradients are of one new sample. Worker i's first report
    is its gradient. The difference of the two gradients brings d_i up to date, almost without noise if w and w′ are
    near; so d_i has the noise of about 2/a samples, and no bias, where a plain moving average would lag behind.

    With one worker this is STORM, but for its step sizes: the paper's η_t = k/(u + Σ ‖∇f‖²)^{1/3} and a_t = c η_t²
    fall as t^{−1/3} and t^{−2/3}. With `fall` a does too:

        a_t = a/(1 + t/fall)^{2/3}    with t the iteration whose w was read.

    A report takes two gradients, the first one. A worker that has crashed, or whose report was refused, begins anew
    with a gradient alone. `LeastSquares(sampler="exact")` makes no samples, so both gradients are of the same random
    numbers instead, which serves as well; that of `"literal"` has them of one sample.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`.
        rows: as in `SIAG`.
        a: how much of a new gradient is taken in, above 0 and at most 1; 1 is sIAG.
        fall: after how many iterations a begins to fall; `None`: it does not.

    Example:
        >>> STORM(a=0.1)
        STORM(resum=64, wait=0.0, rows='float64', a=0.1, fall=None)

    Reference:
        A. Cutkosky, F. Orabona, "Momentum-based variance reduction in non-convex SGD", NeurIPS 2019, Algorithm 1.
    """

    split = True

    a: float = 0.1
    fall: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "a", check.real("a", self.a, above=0, high=1))
        if self.fall is not None:
            object.__setattr__(self, "fall", check.real("fall", self.fall, above=0, remedy="None: never"))

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that have reported nothing yet."""
        d, until = w0.size, math.inf if self.fall is None else self.fall
        own, points, ever = np.zeros((n, d)), np.zeros((n, d)), np.zeros(n, np.bool_)
        share, work = np.array([self.a]), np.full(1, 2)
        return Recursive(Streaming(), own, points, ever, np.zeros(d), share, work, self.a, until)


class Recursive(NamedTuple):
    """What workers remember of their last report."""

    source: Streaming
    own: Floats  # (n, d) d_i
    points: Floats  # (n, d) where it was computed
    ever: Booleans  # (n,) whether worker i has reported
    gradient: Floats  # (d,) scratch: at that point
    share: Floats  # (1,) a_t
    work: Integers  # (1,) gradients the last message took
    a: float
    fall: float  # infinity: never


@told.when(Recursive)
def take_less(memory: Recursive, t: int) -> None:
    """a_t = a/(1 + t/fall)^{2/3}."""
    memory.share[0] = memory.a * (1.0 + t / memory.fall) ** (-2.0 / 3.0)


@compute.when(Recursive)
def send_estimate(memory: Recursive, oracle: Record, rng: Rng, i: int, w: Floats, out: Floats) -> bool:
    """d_i, brought up to date by one sample at two points."""
    own, point, gradient, keep = memory.own[i], memory.points[i], memory.gradient, 1.0 - memory.share[0]
    before = rng[0]
    sample(oracle, rng, i, w, out)
    memory.work[0] = 1
    if memory.ever[i]:
        rng[0] = before
        again(oracle, rng, i, point, gradient)
        memory.work[0] = 2
        for j in range(w.size):
            out[j] += keep * (own[j] - gradient[j])
    memory.ever[i] = True
    for j in range(w.size):
        own[j] = out[j]
        point[j] = w[j]
    return True


@cost.when(Recursive)
def both_gradients(memory: Recursive) -> int:
    """Two, but for the first report."""
    return int(memory.work[0])


@forget.when(Recursive)
def begin_with_a_gradient(memory: Recursive, i: int) -> None:
    """Nothing has been reported."""
    memory.own[i] = 0.0
    memory.points[i] = 0.0
    memory.ever[i] = False
