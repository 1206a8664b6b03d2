"""Dual-delayed asynchronous SGD: sIAG on arrivals, begun with a gradient of everybody."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.foundations.types import Floats, Record
from siag.methods.method import GRADIENTS, source
from siag.methods.table import Aggregated


@dataclass(frozen=True, kw_only=True)
class DuDe(Aggregated):
    r"""At every arrival replace that worker's gradient in the average, and step along the average.

        g̃ ← g̃ + (1/n) Σ_{i∈C_t} (G_i^new − G_i^old),    w^{t+1} = w^t − η g̃

    Both the w and the sample in a worker's term are old, hence the name. C_t are the workers that have arrived since
    the last step: `Clock(…, server=EveryArrivals(c))` waits for c of them. The iterates are those of `SIAG(wait=1)` and
    `ACE`.

    In the paper a worker keeps its G_i^old and sends the difference, so that the server's memory is O(d). Here workers
    send G_i^new and the server keeps a table, O(nd), so that a worker that crashes loses nothing.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`; by default the server begins when it has heard from everybody.
        rows: as in `SIAG`.
        gradients: `"sample"`, stochastic, as in the paper; or `"exact"`, to look at the bias without the noise.

    Reference:
        X. Wang, Y. Sun, H.-T. Wai, J. Zhang, "Dual-delayed asynchronous SGD for arbitrarily heterogeneous data",
        arXiv:2405.16966, 2024.
    """

    split = True
    relayed = True

    wait: float = 1.0
    gradients: str = "sample"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choice("gradients", self.gradients, GRADIENTS)

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that remember nothing."""
        return source(self.gradients)
