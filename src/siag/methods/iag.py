"""Incremental aggregated gradient: sIAG on exact gradients, eq. (iag)."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations.types import Floats, Record
from siag.methods.method import Exact
from siag.methods.table import Aggregated


@dataclass(frozen=True, kw_only=True)
class IAG(Aggregated):
    r"""sIAG whose workers send exact gradients.

        w^{t+1} = w^t − (η/n) Σ_i ∇F_i(w^{τ_i(t)})

    Converges linearly with a constant step, however the workers differ. Blatt et al. take the workers in turn
    (`Cyclic`); that any bounded delays will do is by Gürbüzbalaban et al.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`.
        rows: as in `SIAG`.

    References:
        D. Blatt, A. Hero, H. Gauchman, "A convergent incremental gradient method with a constant step size", SIAM
        Journal on Optimization 2007. M. Gürbüzbalaban, A. Ozdaglar, P. Parrilo, "On the convergence rate of incremental
        aggregated gradient algorithms", SIAM Journal on Optimization 2017.
    """

    split = True

    def recruit(self, w0: Floats, n: int) -> Record:
        """Workers that send ∇F_i(w)."""
        return Exact()
