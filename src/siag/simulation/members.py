"""What is minimised while workers come and go: at any time the mean of the members' objectives."""

from __future__ import annotations

from collections.abc import Sequence

from siag.activity import Change
from siag.foundations.errors import Unsuitable
from siag.problems import Problem
from siag.simulation.metrics import known_of


def problems_of(problem: Problem, changes: Sequence[Change]) -> tuple[Problem, ...]:
    """For each change the problem of those who are members from then on; the problem itself if there are none."""
    if not changes:
        return (problem,)
    found = tuple(problem if len(each.members) == problem.n else problem.among(each.members) for each in changes)
    lost = problem.optimum is not None and any(each.optimum is None for each in found)
    if lost and not known_of(found[0]):
        name = type(problem).__name__
        raise Unsuitable(f"{name} does not tell the optimum of some of its workers; give it a method among(workers)")
    return found
