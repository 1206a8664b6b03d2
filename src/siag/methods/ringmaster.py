"""Ringmaster ASGD: asynchronous SGD that ignores gradients from a certain delay on."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.types import Floats, Record
from siag.methods.method import GRADIENTS, Method, source
from siag.methods.recent import recent

MOST = 2**20  # the server remembers as many steps


@dataclass(frozen=True, kw_only=True)
class Ringmaster(Method):
    r"""Step along each gradient that arrives, unless R steps were made since its point.

        w^{k+1} = w^k − η ∇f_i(w^{k−δ}; ξ) if δ < R; otherwise the gradient is ignored, and k stays as it is

    The delay δ counts steps, not arrivals: those that are ignored do not make others older. In that it differs from
    `AsyncSGD(adaptive=True, drop=True)`, which can ignore all that comes: here of n + 1 arrivals in a row at least
    one is used. With R = 1 it is SGD by the quickest worker; with R as large as delays get it is `AsyncSGD`.

    Where all workers have the same data its time to an accuracy is optimal, up to a constant, however unequal their
    speeds are and whatever they become; nobody has to know them, since R depends on noise and accuracy alone. Where
    data differ it tends to the optimum of those that are used, which need not be all. This is the paper's version that
    lets workers finish what will be ignored; the one that has them stop is left out.

    The activity is `Clock(…, server=EveryArrivals())`, and η_t that of the iteration. If several reports come in one
    iteration, the step is along the mean of those that are used. On data that differ use `ACE` or `SIAG`.

    Args:
        threshold: R; the paper has max(1, ⌈σ²/ε⌉) for gradients of variance σ² and a goal of E‖∇F‖² ≤ ε.
        gradients: `"sample"`, stochastic, as in the paper; or `"exact"`, to look at the bias without the noise.

    Example:
        >>> Ringmaster(threshold=8)
        Ringmaster(threshold=8, gradients='sample')

    Reference:
        A. Maranjyan, A. Tyurin, P. Richtárik, "Ringmaster ASGD: the first asynchronous SGD with optimal time
        complexity", ICML 2025.
    """

    split = True

    threshold: int
    gradients: str = "sample"

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", check.integer("threshold", self.threshold, high=MOST))
        check.choice("gradients", self.gradients, GRADIENTS)

    def init(self, w0: Floats, n: int) -> Record:
        """No step made yet."""
        return recent(w0, 1, self.threshold)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember nothing."""
        return source(self.gradients)
