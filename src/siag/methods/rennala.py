"""Rennala SGD: batches of gradients that all are of the current point, from the workers that are quick enough."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.types import Floats, Record
from siag.methods.method import GRADIENTS, Method, source
from siag.methods.recent import recent


@dataclass(frozen=True, kw_only=True)
class Rennala(Method):
    r"""Collect B gradients of the current point, then step along their mean; those of earlier points are ignored.

        w^{k+1} = w^k − (η/B) Σ_{b=1}^B ∇f_{i_b}(w^k; ξ_b)

    It is mini-batch SGD in which the workers that report fill a batch, each as often as it reports. It waits for none.
    Where all workers have the same data its time to an accuracy is optimal, up to a constant, however unequal their
    speeds are: workers that are too slow to matter cost nothing, and are not even known. Where data differ it tends to
    the optimum of those that fill the batches: a worker that is slower than a batch never counts.

    The server looks at what has come in every iteration, `Clock(…, server=EveryArrivals())`, and steps in those in
    which a batch has become full; η_t is that of the iteration. If several reports come in one and the batch
    overflows, all are in the mean. B may be larger than n. On data that differ use `ACE` or `SIAG`.

    Args:
        batch: B; the paper has max(1, ⌈σ²/ε⌉) for gradients of variance σ² and a goal of E‖∇F‖² ≤ ε.
        gradients: `"sample"`, stochastic, as in the paper; or `"exact"`, to look at the bias without the noise.

    Example:
        >>> Rennala(batch=8)
        Rennala(batch=8, gradients='sample')

    Reference:
        A. Tyurin, P. Richtárik, "Optimal time complexities of parallel stochastic optimization methods under a fixed
        computation model", NeurIPS 2023.
    """

    split = True

    batch: int
    gradients: str = "sample"

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", check.integer("batch", self.batch, high=2**31))
        check.choice("gradients", self.gradients, GRADIENTS)

    def init(self, w0: Floats, n: int) -> Record:
        """An empty batch; after one step a gradient is too old."""
        return recent(w0, self.batch, 1)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember nothing."""
        return source(self.gradients)
