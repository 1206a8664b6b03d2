"""MIFA: federated averaging that remembers the latest update of every worker, the absent included."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations.types import Floats, Record
from siag.methods.local import RATE, check_local, local, local_of, tuned_local
from siag.methods.method import Method
from siag.methods.table import Aggregated
from siag.steps import Harmonic, Step


@dataclass(frozen=True, kw_only=True)
class MIFA(Aggregated):
    r"""Local steps, and a table of where they led: sIAG whose messages are updates instead of gradients.

        G_i ← (w^t − y_i) s/η_l, where y_i is K local steps of size η_l = s/(1 + t/fall) from w^t, for i ∈ A_t
        w^{t+1} = w^t − (η_t/n) Σ_i G_i

    The paper divides updates by η_l and steps with the same η_l, which falls with t: that is `fall=γ` and the server's
    step `Harmonic(γ, γ)` here. With `fall=None` the size of local steps is fixed, and so is their drift; η = 1 is then
    the paper's method with a fixed step. In its first round all devices take part; `wait=1` begins like that, the
    default 0 does not wait. Every worker counts the same however often it reports, so unequal participation does not
    bias it; the drift of local steps is that of `FedAvg` with all workers active, and falls with their size. K = 1 is
    `SIAG`, or `IAG` with exact gradients, with step η η_l.

    On a clock, or live, updates are old, which the paper does not treat. There the server's step must be smaller, about
    1/(1 + τ) with τ a usual age in steps of the server: with η = 1 it may diverge.

    Args:
        steps: K, how many steps a worker takes before it reports.
        size: η_l, the size of each.
        fall: after how many iterations they are half as long, falling as 1/t from then on; `None`: they do not.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.
        resum: as in `SIAG`.
        wait: as in `SIAG`.
        rows: as in `SIAG`.

    Reference:
        X. Gu, K. Huang, J. Zhang, L. Huang, "Fast federated learning in the presence of arbitrary device
        unavailability", NeurIPS 2021, Algorithm 1.
    """

    NO_PROX = "its server moves by local steps, not by η times a gradient; use PIAG"
    split, ages, relayed = True, "", True

    steps: int
    size: float
    fall: float | None = None
    gradients: str = "sample"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_local(self)

    def tuned(self, eta: float, gamma: float) -> tuple[Method, Step]:
        """The size of the local steps is chosen; they fall as the server's do, as in the paper."""
        return tuned_local(self, eta, gamma)[0], Harmonic(beta=gamma, gamma=gamma)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send (w − y) size/η_l."""
        return local(w0, n, **local_of(self), what=RATE)
