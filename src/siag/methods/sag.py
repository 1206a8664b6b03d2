"""Stochastic average gradient: the special case of sIAG named in Sec. II."""

from __future__ import annotations

from dataclasses import dataclass

from siag.activity import Activity, Sequential
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Record
from siag.methods.method import Exact
from siag.methods.table import Aggregated
from siag.problems import Problem


@dataclass(frozen=True, kw_only=True)
class SAG(Aggregated):
    r"""sIAG on one finite data set, one sample per iteration.

    There is one distribution, supported on n samples; row i belongs to sample i instead of a worker, and each iteration
    draws one sample at random. So F_i is the loss of sample i, its gradient is exact, and the activity is `Sequential`;
    `problem.by_sample()` makes such a problem of one with m points per worker. The paper's step is 1/(16L), with L the
    largest smoothness of a sample's loss.

    Args:
        resum: as in `SIAG`.
        wait: as in `SIAG`.
        rows: as in `SIAG`.

    Reference:
        M. Schmidt, N. Le Roux, F. Bach, "Minimizing finite sums with the stochastic average gradient", Mathematical
        Programming 2017, Algorithm 1.
    """

    def recruit(self, w0: Floats, n: int) -> Record:
        """A sample's gradient is exact."""
        return Exact()

    def serve(self) -> None:
        """Refuse: which sample comes next is for nobody to choose there."""
        name = type(self).__name__
        raise Unsuitable(f"{name} draws one sample per iteration, which no live server can; use SIAG, or IAG")

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Refuse any activity but one sample at random."""
        super().suit(problem, activity)
        if not isinstance(activity, Sequential):
            raise Unsuitable(
                f"SAG draws one sample per iteration and cannot follow {activity!r}; "
                "use Sequential(), or IAG for other activities"
            )
