"""Parts that fit together: checked in one place, before any work."""

from __future__ import annotations

from siag.activity import Activity, lasts
from siag.foundations import check
from siag.foundations.errors import Missing, Unsuitable
from siag.methods.method import Method
from siag.methods.weighted import weighted_for
from siag.problems import Problem
from siag.steps import Step


def step_of(method: Method, step: Step | None) -> Step:
    """The step given, or the one that the method takes where none is."""
    if step is not None or not isinstance(method, Method):
        return step  # where it is none, neither is the method one, and `check_fit` says so
    if method.default_step is None:
        name = type(method).__name__
        raise Missing("step", f"{name} needs one, such as siag.steps.Harmonic(beta, gamma); Automatic needs none")
    return method.default_step


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
    weighted_for(problem, method).suit(problem, activity)
    method.pair(step)
