"""Parts that fit together: checked in one place, before any work."""

from __future__ import annotations

from siag.activity import Activity, lasts
from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.methods.method import Method
from siag.problems import Problem
from siag.steps import Step


def check_fit(problem: Problem, method: Method, activity: Activity, step: Step, iterations: int) -> None:
    """Refuse parts in the wrong order, an activity that is too short, and a method where it cannot run."""
    order = (("problem", problem, Problem), ("method", method, Method), ("activity", activity, Activity))
    for role, part, kind in (*order, ("step", step, Step)):
        if not isinstance(part, kind):
            raise Unsuitable(
                f"{role} = {part!r} is not a {kind.__name__}; the order is problem, method, activity, step"
            )
    for name in ("n", "d"):
        check.integer(f"problem.{name}", getattr(problem, name))
    lasts(activity, iterations)
    activity.bound(problem.n)  # refuses what is meant for another number of workers
    method.suit(problem, activity)
    method.pair(step)
