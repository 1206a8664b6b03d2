"""FedProx: federated averaging whose local steps are held back by a spring to where they began."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.types import Floats, Record
from siag.methods.fedavg import FedAvg
from siag.methods.local import local, local_of


@dataclass(frozen=True, kw_only=True)
class FedProx(FedAvg):
    r"""`FedAvg` on local objectives that keep a worker near the w it has read.

        h_i(y; w^t) = F_i(y) + (ρ/2) ‖y − w^t‖²
        y_i ← w^t;  K times  y_i ← y_i − η_l (∇f_i(y_i; ξ) + ρ (y_i − w^t))
        w^{t+1} = w^t − (η_t/|A_t|) Σ_{i∈A_t} (w^t − y_i)

    ρ is the paper's μ. It bounds the drift of `FedAvg` and does not remove it. The paper lets each worker solve h_i as
    well as it can, with an inexactness of its own; here each takes K gradient steps. The server's step is η = 1,
    `Constant(1.0)`, as in the paper; on a clock, or live, less, as for `FedAvg`. Local steps diverge unless
    η_l (L + ρ) < 2.

    Args:
        steps: K, how many steps a worker takes before it reports; one number for all, or one for each worker.
        size: η_l, the size of each.
        fall: after how many iterations they are half as long, falling as 1/t from then on; `None`: they do not.
        pull: ρ; 0 is `FedAvg`.
        gradients: `"sample"` for stochastic, `"exact"` for exact ones.
        normalization: as in `SGD`.

    Reference:
        T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith, "Federated optimization in heterogeneous
        networks", MLSys 2020, Algorithm 2.
    """

    pull: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pull", check.real("pull", self.pull, low=0))

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send w − y."""
        return local(w0, n, **local_of(self), pull=self.pull)
