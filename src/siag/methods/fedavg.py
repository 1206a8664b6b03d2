"""Federated averaging: local steps, then the mean of where they led."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from siag.foundations import check
from siag.foundations.types import Floats, Integers, Record
from siag.methods.local import check_local, local, local_of, steps_of_each, tuned_local
from siag.methods.method import Method
from siag.methods.sgd import NORMALIZATIONS, SUM_OVER_ALL, Fresh
from siag.steps import Step


@dataclass(frozen=True, kw_only=True)
class FedAvg(Method):
    r"""Every active worker takes K steps of its own; the server moves by the mean of their ways.

        y_i ← w^t;  K times  y_i ← y_i − η_l ∇f_i(y_i; ξ)
        w^{t+1} = w^t − (η_t/|A_t|) Σ_{i∈A_t} (w^t − y_i)

    With the server's step η = 1, `Constant(1.0)`, w^{t+1} is the mean of the y_i, as in the paper; its epochs over a
    client's data are K steps here, and its weights n_k/n are equal. K = 1 is gradient descent with step η η_l. With
    K > 1 and workers whose Hessians differ it goes elsewhere than w* (client drift; `siag.theory.local_fixed_point`
    says where), and workers that report more often, or take more steps, weigh more; `FedNova` ends the latter.

    On a clock, or live, where w moves on while a worker computes, this is `FedBuff` without damping, and the server's
    step is to be smaller than 1, about 1/(1 + τ) with τ a usual age in steps of the server.

    Args:
        steps: K, how many steps a worker takes before it reports; one number for all, or one for each worker.
        size: η_l, the size of each.
        fall: after how many iterations they are half as long, falling as 1/t from then on; `None`: they do not.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.
        normalization: as in `SGD`: the `"mean"` over the active workers, or their `"sum"` over n.

    Example:
        >>> FedAvg(steps=5, size=0.1)
        FedAvg(steps=5, size=0.1, fall=None, gradients='sample', normalization='mean')

    Reference:
        B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas, "Communication-efficient learning of deep
        networks from decentralized data", AISTATS 2017, Algorithm 1.
    """

    NO_PROX = "its server moves by local steps, not by η times a gradient; use PIAG"
    split = True

    steps: int | Sequence[int]
    size: float
    fall: float | None = None
    gradients: str = "sample"
    normalization: str = "mean"

    def __post_init__(self) -> None:
        check_local(self, each=True)
        check.choice("normalization", self.normalization, NORMALIZATIONS)
        if self.normalization == "sum":
            object.__setattr__(self, "NO_CHANGES", SUM_OVER_ALL)

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The size of the local steps is chosen."""
        return tuned_local(self, eta, gamma)

    def work(self, n: int) -> int | Integers:
        """K, that of each worker if they differ."""
        return self.steps if isinstance(self.steps, int) else steps_of_each(self.steps, n)

    def init(self, w0: Floats, n: int) -> Record:
        """Nothing received yet."""
        return Fresh(w0.copy(), np.zeros(w0.size), np.zeros(1, np.int64), n if self.normalization == "sum" else 0)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send w − y."""
        return local(w0, n, **local_of(self))
