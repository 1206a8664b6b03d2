"""What the workers of a run count for: weights by name or by row, and how w is judged by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput, guess
from siag.foundations.types import Floats, Record
from siag.methods.weighted import SAMPLES, check_weights
from siag.problems import Problem, exact
from siag.simulation.metrics import STATIONARITY, known_of, measured_of

Weights = Mapping[str, float] | Sequence[float] | Floats | str
ALLOWED = "a number for each worker, by name or in their order, or 'samples'"


def weights_by_row(weights: object, names: Sequence[str]) -> tuple[float, ...] | str | None:
    """What each worker counts for, in the order of the names; `None` if all count the same.

    Args:
        weights: by name, or in the order of the names, or "samples", or `None`.
        names: of the workers.

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
    if len(each) != len(names):
        raise BadInput("weights", weights, ALLOWED, f"there are {len(each)} for {len(names)} workers")
    try:
        mean = check_weights(each)
    except BadInput as error:
        raise BadInput("weights", weights, error.allowed, error.remedy) from None
    return None if (mean == 1.0).all() else tuple(float(weight) for weight in each)


def _by_name(weights: Mapping[Any, Any], names: Sequence[str]) -> list[Any]:
    known = set(names)
    for name in weights:
        if name not in known:
            raise BadInput("weights", name, f"the name of a worker, such as {names[0]}", guess(name, names))
    missing = [name for name in names if name not in weights]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        remedy = f"give one to {', '.join(missing[:3])}{more}, too; it may be 0"
        raise BadInput("weights", dict(weights), ALLOWED, remedy)
    return [weights[name] for name in names]


def judge_of(problem: Problem | None, weights: Weights | None) -> str:
    """What w is judged by where no optimum is known: ‖∇F‖², or F; "" for none.

    Of an objective with weights only the gradient is known; one whose weights move has nothing that stays.
    """
    if problem is None or isinstance(weights, str) or (weights is None and problem.optimum is not None):
        return ""
    known = known_of(problem)
    return known[0] if known and (weights is None or known[0] == STATIONARITY) else ""


def measure_of(problem: Problem, weights: Any) -> Callable[[Floats], float] | None:
    """What is recorded of w: ‖w − w*‖², or what it is judged by, if anything."""
    if weights is None and problem.optimum is not None:
        return distance_from(problem.optimum)
    judge = judge_of(problem, weights)
    if not judge:
        return None
    return partial(measured_of, problem, judge) if weights is None else partial(weighted_square, problem, weights)


def distance_from(optimum: Floats) -> Callable[[Floats], float]:
    """w ↦ ‖w − w*‖²."""

    def distance(w: Floats) -> float:
        with np.errstate(over="ignore"):  # a run on its way out of the range of numbers
            return float(np.square(w - optimum).sum())

    return distance


def weighted_square(problem: Problem, weights: Sequence[float], w: Floats) -> float:
    """‖Σ p_i ∇F_i(w)‖²."""
    with np.errstate(over="ignore", invalid="ignore"):  # a run on its way out of the range of numbers
        each, gradient = np.empty((2, problem.d))
        weighted_gradient(problem.oracle(), check_weights(weights), w, each, gradient)
        return float(gradient @ gradient)


@compiled
def weighted_gradient(oracle: Record, weights: Floats, w: Floats, each: Floats, out: Floats) -> None:
    """Write Σ p_i ∇F_i(w) to `out`, given the n p_i."""
    out[:] = 0.0
    for i in range(weights.size):
        exact(oracle, i, w, each)
        for j in range(w.size):
            out[j] += weights[i] / weights.size * each[j]
