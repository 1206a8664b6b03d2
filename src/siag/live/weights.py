"""What the workers of a run count for: weights by name or by row, and how w is judged by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput, guess
from siag.foundations.types import Floats
from siag.methods.weighted import SAMPLES
from siag.problems import Problem, reweighted
from siag.problems.weights import check_weights
from siag.simulation.metrics import known_of, measured_of

Weights = Mapping[str, float] | Sequence[float] | Floats | str
ALLOWED = "a number for each worker, by name or in their order, or 'samples'"


def weights_by_row(weights: object, names: Sequence[str], n: int = 0) -> tuple[float, ...] | str | None:
    """What each worker counts for, in the order of the names; `None` if all count the same.

    Args:
        weights: by name, or in the order of the names, or "samples", or `None`.
        names: of the workers.
        n: how many rows there are, if workers may come later: each of these counts 1, unless all rows have numbers.

    Example:
        >>> weights_by_row({"south": 1.0, "north": 2.0}, ["north", "south"]), weights_by_row([3, 3], ["north", "south"])
        ((2.0, 1.0), None)
    """
    if weights is None or (isinstance(weights, str) and weights == SAMPLES):
        return weights
    each: list[Any]
    if isinstance(weights, Mapping):
        each = _by_name(weights, names)
    elif isinstance(weights, str | bytes) or not isinstance(weights, Iterable):
        raise BadInput("weights", weights, ALLOWED)
    else:
        each = list(weights)
    if len(each) not in (len(names), max(len(names), n)):  # a spec that was checked before has all of them
        raise BadInput("weights", weights, ALLOWED, f"there are {len(each)} for {len(names)} workers")
    each += [1.0] * (n - len(each))
    try:
        mean = check_weights(each)
    except BadInput as error:
        raise BadInput("weights", weights, error.allowed, error.remedy) from None
    return None if (mean == 1.0).all() else tuple(float(weight) for weight in each)


def _by_name(weights: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    known = set(names)
    for name in weights:
        if name not in known:
            such = f", such as {names[0]!r}" if names else ""
            closest = guess(name, names) if isinstance(name, str) else "names are texts"
            remedy = closest if names else "give names, too"
            raise BadInput("weights", name, f"the name of a worker that is expected{such}", remedy)
    missing = [name for name in names if name not in weights]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        remedy = f"give one to {', '.join(missing[:3])}{more}, too; it may be 0"
        raise BadInput("weights", dict(weights), ALLOWED, remedy)
    return [weights[name] for name in names]


def objective_of(problem: Problem | None, weights: Weights | None) -> Problem | None:
    """The problem with these weights; `None` if there is none, or if weights move, so that nothing stays."""
    if problem is None or isinstance(weights, str):
        return None
    given: Any = weights
    return reweighted(problem, given)


def judge_of(objective: Problem | None) -> str:
    """What w is judged by where no optimum is known: ‖∇F‖², or F; "" for none."""
    known = [] if objective is None or objective.optimum is not None else known_of(objective)
    return known[0] if known else ""


def measure_of(objective: Problem) -> Callable[[Floats], float] | None:
    """What is recorded of w: ‖w − w*‖², or what it is judged by, if anything."""
    if objective.optimum is not None:
        return distance_from(objective.optimum)
    judge = judge_of(objective)
    return partial(measured_of, objective, judge) if judge else None


def distance_from(optimum: Floats) -> Callable[[Floats], float]:
    """w ↦ ‖w − w*‖²."""

    def distance(w: Floats) -> float:
        with np.errstate(over="ignore"):  # a run on its way out of the range of numbers
            return float(np.square(w - optimum).sum())

    return distance
