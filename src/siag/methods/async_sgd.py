"""Asynchronous SGD: every gradient moves the model when it arrives, however old it is."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.types import Floats, Record
from siag.methods.method import GRADIENTS, Method, source
from siag.methods.weighted import CAPPED, EVEN, weighted


@dataclass(frozen=True, kw_only=True)
class AsyncSGD(Method):
    r"""Step along the gradients that have just arrived, each computed from a w of some iterations ago.

        w^{t+1} = w^t − (η_t/M) Σ_{m=1}^M v(τ_m) ∇f_{i_m}(w^{t−τ_m}; ξ_m)

    M, the number of gradients per step, is the activity's: `Clock(…, server=EveryArrivals(M))`. Lian et al. write γ for
    η/M. The plain method has v = 1. The delay-adaptive one has v(τ) = min(1, n/max(τ, 1)): old gradients take steps
    shorter in proportion to their age, so that η = 1/(4nL) gives steps of min(1/(4nL), 1/(4τL)).

    Fast workers count for more: where the workers' data differ it tends to the point where Σ r_i v̄_i ∇F_i(w) = 0, r_i
    being the rate of worker i's reports and v̄_i their mean weight. Adaptive steps add to that bias, since who reports
    seldom is also old. Mishchenko et al. treat data that differ, too: they bound how far off that leaves it. Without a
    clock all ages are 0, and this is SGD.

    Args:
        adaptive: whether old gradients take shorter steps.
        gradients: `"sample"`, stochastic, as in the papers; or `"exact"`, to look at the bias without the noise.

    Example:
        >>> AsyncSGD(adaptive=True)
        AsyncSGD(adaptive=True, gradients='sample')

    References:
        X. Lian, Y. Huang, Y. Li, J. Liu, "Asynchronous parallel stochastic gradient for nonconvex optimization", NIPS
        2015 (AsySG-con). K. Mishchenko, F. Bach, M. Even, B. Woodworth, "Asynchronous SGD beats minibatch SGD under
        arbitrary delays", NeurIPS 2022 (delay-adaptive steps).
    """

    split, ages = True, "arrivals"

    adaptive: bool = False
    gradients: str = "sample"

    def __post_init__(self) -> None:
        check.truth("adaptive", self.adaptive)
        check.choice("gradients", self.gradients, GRADIENTS)

    def init(self, w0: Floats, n: int) -> Record:
        """Nothing received yet."""
        return weighted(w0, n, CAPPED if self.adaptive else EVEN)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember nothing."""
        return source(self.gradients)
