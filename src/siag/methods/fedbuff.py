"""FedBuff: updates are gathered as they come, and the server moves when there are enough."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Record
from siag.methods.discounted import EVEN, ROOT, discounted
from siag.methods.local import check_local, local, local_of, tuned_local
from siag.methods.method import Method
from siag.steps import Step


@dataclass(frozen=True, kw_only=True)
class FedBuff(Method):
    r"""Local steps without waiting: the mean of the updates in a buffer, old ones damped.

        Δ_i = w^{t−τ} − y_i, where y_i is K local steps from the w^{t−τ} that worker i has read
        w^{t+1} = w^t − (η_t/B) Σ_{i in the buffer} s(τ_i) Δ_i,    s(τ) = 1/√(1 + τ), or 1

    The buffer's size B ≤ n is the activity's: `Clock(…, server=EveryArrivals(B))`. A worker counts as often as it
    reports, so under unequal speeds it is biased towards the fast ones; damping, which weakens the slow further, biases
    it more. The older the updates are, the smaller the server's step has to be, about 1/(1 + τ) with τ a usual age.
    Left out of the paper: privacy and secure aggregation.

    Args:
        steps: K, how many steps a worker takes before it reports.
        size: η_l, the size of each.
        fall: after how many iterations they are half as long, falling as 1/t from then on; `None`: they do not.
        damp: whether old updates count for less.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.

    Reference:
        J. Nguyen, K. Malik, H. Zhan, A. Yousefpour, M. Rabbat, M. Malek, D. Huba, "Federated learning with buffered
        asynchronous aggregation", AISTATS 2022, Algorithms 1 and 2.
    """

    NO_PROX = "its server moves by local steps, not by η times a gradient; use PIAG"
    split = True

    steps: int
    size: float
    fall: float | None = None
    damp: bool = True
    gradients: str = "sample"

    def __post_init__(self) -> None:
        check_local(self)
        check.truth("damp", self.damp)

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The size of the local steps is chosen."""
        return tuned_local(self, eta, gamma)

    def gather(self, k: int, n: int) -> None:
        """Refuse a buffer that all workers together do not fill."""
        if k > n:
            raise Unsuitable(
                f"FedBuff's buffer of {k} updates is larger than the number of workers; use EveryArrivals(k) "
                f"with a k from 1 to {n}, or Rennala, whose batch may be of any size"
            )

    def init(self, w0: Floats, n: int) -> Record:
        """An empty buffer."""
        return discounted(w0, n, ROOT if self.damp else EVEN)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send w − y."""
        return local(w0, n, **local_of(self))
