"""Asynchronous SGD: every gradient moves the model when it arrives, however old it is."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Record
from siag.methods.discounted import CAPPED, DROPPED, EVEN, discounted
from siag.methods.method import GRADIENTS, Method, source


@dataclass(frozen=True, kw_only=True)
class AsyncSGD(Method):
    r"""Step along the gradients that have just arrived, each computed from a w of some iterations ago.

        w^{t+1} = w^t − (η_t/M) Σ_{m=1}^M v(τ_m) ∇f_{i_m}(w^{t−τ_m}; ξ_m)

    M, the number of gradients per step, is the activity's: `Clock(…, server=EveryArrivals(M))`. Lian et al. write γ for
    η/M. The plain method has v = 1. The delay-adaptive one has v(τ) = min(1, τ_C/max(τ, 1)): gradients older than τ_C
    take steps shorter in proportion to their age, so that η = 1/(4τ_C L) gives steps of min(1/(4τ_C L), 1/(4τL)). With
    `drop` they take none, v(τ) = 0, which Koloskova et al. allow, too. τ_C is n in Mishchenko et al.; in Koloskova et
    al. it is the mean number of workers that compute at a time, the same where all always do. Either way the rate does
    not depend on how old the oldest gradient is. An iteration in which nothing is used counts as one, for ages too; a
    threshold well below n would drop nearly all that comes. In `Ringmaster` it does not count.

    Fast workers count for more: where the workers' data differ it tends to the point where Σ r_i v̄_i ∇F_i(w) = 0, r_i
    being the rate of worker i's reports and v̄_i their mean weight. Adaptive steps add to that bias, since who reports
    seldom is also old. Mishchenko et al. treat data that differ, too: they bound how far off that leaves it. Without a
    clock all ages are 0, and this is SGD.

    Args:
        adaptive: whether old gradients take shorter steps.
        threshold: τ_C, the age up to which gradients count in full if it is adaptive; `None`: n.
        drop: whether older ones do not count at all, rather than for less.
        gradients: `"sample"`, stochastic, as in the papers; or `"exact"`, to look at the bias without the noise.

    Example:
        >>> AsyncSGD(adaptive=True)
        AsyncSGD(adaptive=True, threshold=None, drop=False, gradients='sample')

    References:
        X. Lian, Y. Huang, Y. Li, J. Liu, "Asynchronous parallel stochastic gradient for nonconvex optimization", NIPS
        2015 (AsySG-con). K. Mishchenko, F. Bach, M. Even, B. Woodworth, "Asynchronous SGD beats minibatch SGD under
        arbitrary delays", NeurIPS 2022 (delay-adaptive steps). A. Koloskova, S. Stich, M. Jaggi, "Sharper convergence
        guarantees for asynchronous SGD for distributed and federated learning", NeurIPS 2022 (the threshold).
    """

    split, ages = True, "arrivals"

    adaptive: bool = False
    threshold: int | None = None
    drop: bool = False
    gradients: str = "sample"

    def __post_init__(self) -> None:
        check.truth("adaptive", self.adaptive)
        check.truth("drop", self.drop)
        if self.threshold is not None:
            object.__setattr__(self, "threshold", check.integer("threshold", self.threshold))
        for name, value, unset in (("threshold", self.threshold, None), ("drop", self.drop, False)):
            if not self.adaptive and value != unset:
                raise BadInput(name, value, f"{unset} where all ages count the same", "give adaptive=True")
        check.choice("gradients", self.gradients, GRADIENTS)

    def init(self, w0: Floats, n: int) -> Record:
        """Nothing received yet."""
        kind = EVEN if not self.adaptive else DROPPED if self.drop else CAPPED
        return discounted(w0, n if self.threshold is None else self.threshold, kind)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember nothing."""
        return source(self.gradients)
