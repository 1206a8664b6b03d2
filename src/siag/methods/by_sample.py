"""A table by sample: what SAG and SAGA have in common."""

from __future__ import annotations

from dataclasses import dataclass

from siag.activity import Activity, Sequential
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats, Record
from siag.methods.method import Exact
from siag.methods.table import Aggregated
from siag.problems import Problem


@dataclass(frozen=True, kw_only=True)
class BySample(Aggregated):
    """A method whose row i belongs to sample i of a finite data set, of which each iteration draws one."""

    NO_CHANGES = "they are the samples of a finite sum; use IAG, or SIAG"

    def recruit(self, w0: Floats, n: int) -> Record:
        """A sample's gradient is exact."""
        return Exact()

    def serve(self) -> None:
        """Refuse: which sample comes next is for nobody to choose there."""
        name = type(self).__name__
        raise Unsuitable(f"{name} draws one sample per iteration, which no live server can; use SIAG, or IAG")

    def suit(self, problem: Problem, activity: Activity) -> None:
        """Refuse a problem that is no finite sum, and any activity but one sample at random."""
        super().suit(problem, activity)
        name = type(self).__name__
        if not problem.finite:
            raise Unsuitable(
                f"{name} draws one sample per iteration from finite data, {type(problem).__name__} is a stream; "
                "use IAG, or SIAG; a problem of your own says finite = True"
            )
        if not isinstance(activity, Sequential):
            raise Unsuitable(
                f"{name} draws one sample per iteration and cannot follow {activity!r}; "
                "use Sequential(), or IAG for other activities"
            )
