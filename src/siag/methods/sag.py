"""Stochastic average gradient: the special case of sIAG named in Sec. II."""

from __future__ import annotations

from dataclasses import dataclass

from siag.methods.by_sample import BySample


@dataclass(frozen=True, kw_only=True)
class SAG(BySample):
    r"""sIAG on one finite data set, one sample per iteration.

    There is one distribution, supported on n samples; row i belongs to sample i instead of a worker, and each iteration
    draws one sample at random. So F_i is the loss of sample i, its gradient is exact, and the activity is `Sequential`;
    `problem.by_sample()` makes such a problem of one with m points per worker. A problem whose data are a stream is
    refused. The paper's step is 1/(16L), with L the largest smoothness of a sample's loss.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`.
        rows: as in `SIAG`.

    Reference:
        M. Schmidt, N. Le Roux, F. Bach, "Minimizing finite sums with the stochastic average gradient", Mathematical
        Programming 2017, Algorithm 1.
    """
