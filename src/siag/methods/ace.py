"""All-client engagement: every arrival moves the model along the latest updates of all clients."""

from __future__ import annotations

from dataclasses import dataclass

from siag.methods.dude import DuDe


@dataclass(frozen=True, kw_only=True)
class ACE(DuDe):
    r"""Step at once when a client reports, along the mean of the latest update of every client.

        w^{t+1} = w^t − (η/n) Σ_i U_i^{latest}

    Nobody is buffered and nobody left out, so that fast clients do not bias the model. The activity is `Clock(…,
    server=EveryArrivals(1))`, and the first step waits for an update of every client. With one stochastic gradient as
    the update its iterates are those of `SIAG(wait=1)` and `DuDe`; for several local steps see MIFA. `ACED`
    leaves updates beyond some age out of the mean.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`; by default the server begins when it has heard from everybody.
        rows: as in `SIAG`.
        gradients: `"sample"`, stochastic, as in the paper; or `"exact"`, to look at the bias without the noise.

    Reference:
        X. Chang et al., "Mitigating participation imbalance bias in asynchronous federated learning",
        arXiv:2511.19066, 2025.
    """
