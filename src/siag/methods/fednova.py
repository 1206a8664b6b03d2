"""FedNova: federated averaging in which taking more local steps does not mean counting for more."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations.types import Floats, Record
from siag.methods.fedavg import FedAvg
from siag.methods.local import NORMALIZED, local, local_of


@dataclass(frozen=True, kw_only=True)
class FedNova(FedAvg):
    r"""`FedAvg` for workers that take different numbers of local steps: each way is divided by its number of steps.

        y_i ← w^t;  K_i times  y_i ← y_i − η_l ∇f_i(y_i; ξ);    d_i = (w^t − y_i)/K_i
        w^{t+1} = w^t − η_t τ_eff (1/|A_t|) Σ_{i∈A_t} d_i,    τ_eff = (1/n) Σ_i K_i

    With unequal K_i `FedAvg` minimises Σ K_i F_i: workers weigh as many times as they step. Here all weigh the same,
    and τ_eff keeps the pace that `FedAvg` has. Both hold as η_l → 0; with a fixed η_l there is a drift of order η_l, as
    in `FedAvg`, and `fall` ends it. If all K_i are the same it is `FedAvg`, to the bit.

    The paper's weights n_i/n are equal here. Its τ_eff is the mean K_i of the round's participants; here it is that of
    all workers, known to each, which leaves the direction of a step as it is. The a_i of its local momentum and
    proximal steps are left out: local steps are plain, so that ‖a_i‖₁ = K_i. Workers that report more often weigh
    more, as in `FedAvg`; on a clock K_i steps take K_i draws of its times. For the server's step see `FedAvg`.

    Args:
        steps: K_i, how many steps each worker takes before it reports; one number for all, or one for each.
        size: η_l, the size of each.
        fall: after how many iterations they are half as long, falling as 1/t from then on; `None`: they do not.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.
        normalization: as in `SGD`: the `"mean"` over the active workers, or their `"sum"` over n.

    Example:
        >>> FedNova(steps=[1, 2, 9], size=0.1).steps
        (1, 2, 9)

    Reference:
        J. Wang, Q. Liu, H. Liang, G. Joshi, H. V. Poor, "Tackling the objective inconsistency problem in heterogeneous
        federated optimization", NeurIPS 2020.
    """

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send τ_eff (w − y)/K_i."""
        return local(w0, n, **local_of(self), what=NORMALIZED)
