"""Streaming incremental aggregated gradient: Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass

from siag.methods.table import Aggregated


@dataclass(frozen=True, kw_only=True)
class SIAG(Aggregated):
    r"""Step along the average of the latest stochastic gradient of every worker, stale or not.

        w^{t+1} = w^t − (η_t/n) Σ_i ∇f_i(w^{τ_i(t)}; ξ_i^{τ_i(t)})

    where τ_i(t) is the iteration of worker i's latest report. Every worker counts the same however often it reports,
    so fast workers do not bias the model. An arrival costs O(d), not O(nd): the sum is kept up to date.

    Args:
        resum: sum the table anew after this many reports per worker, so that rounding errors do not pile up; 0: never.
        wait: the fraction of workers that must have reported before the server first steps. 0 is Algorithm 1, in
            which a row is zero until its worker reports; 1 waits for everybody.
        rows: `"float32"` halves the table's memory; the sum and w stay in double precision.

    Example:
        >>> SIAG(wait=1.0)
        SIAG(resum=64, wait=1.0, rows='float64')

    Reference:
        X. Wang, C. Jin, H.-T. Wai, Y. Gu, "Linear speedup of incremental aggregated gradient methods on streaming
        data", CDC 2023, Algorithm 1.
    """

    split = True
