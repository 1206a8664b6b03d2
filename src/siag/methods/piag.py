"""Proximal incremental aggregated gradient: IAG, then `Prox`."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations.types import Floats, Record
from siag.methods.method import Exact
from siag.methods.prox import check_terms, proximal
from siag.methods.table import Aggregated


@dataclass(frozen=True, kw_only=True)
class PIAG(Aggregated):
    r"""IAG for F + R, R(w) = λ‖w‖₁ + (0 if low ≤ w ≤ high, else ∞): `Prox(IAG(…), …)` by its own name.

        w^{t+1} = prox_{ηR}(w^t − (η/n) Σ_i ∇F_i(w^{τ_i(t)}))

    Converges linearly to the minimiser of F + R with a constant step, however the workers differ, if F is strongly
    convex; η = 1/(L(T + 1)) with L = max L_i and T the largest age is safe. The paper's R may be any convex function
    with a proximal map; here there are these.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`.
        rows: as in `SIAG`.
        l1: λ.
        low: the smallest a coordinate may be; `None`: any.
        high: the largest; `None`: any.

    Reference:
        A. Aytekin, H. Feyzmahdavian, M. Johansson, "Analysis and implementation of an asynchronous optimization
        algorithm for the parameter server", 2016; N. D. Vanli, M. Gürbüzbalaban, A. Ozdaglar, "Global convergence
        rate of proximal incremental aggregated gradient methods", SIAM Journal on Optimization 2018.
    """

    NO_PROX = "give it l1, low and high itself"
    NO_MOMENTUM = "its proximal step is to come last: write Prox(Momentum(IAG()), …)"
    split = True

    l1: float = 0.0
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_terms(self)

    def init(self, w0: Floats, n: int) -> Record:
        """An empty table, and R."""
        return proximal(super().init(w0, n), self.l1, self.low, self.high)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send ∇F_i(w)."""
        return Exact()
