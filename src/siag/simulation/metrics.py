"""What is measured along a run: F and ‖∇F‖²; and a user's own metrics, each a number, or one for each worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from siag.foundations.errors import BadInput, SiagError, reason_of, shorten
from siag.foundations.types import Floats
from siag.problems import Problem, exact

PROGRESSIVE = "progressive loss"  # the name of what workers tell with their gradients
OBJECTIVE, STATIONARITY = "objective", "stationarity"  # the names of F and ‖∇F‖²
LEAST = "least_stationarity"  # and of the least of the latter so far
RESERVED = {
    PROGRESSIVE: "that one is for what workers tell",
    **dict.fromkeys((OBJECTIVE, STATIONARITY, LEAST), "runs have it already: objective=True"),
}
DISTANCE = "‖wᵗ − w*‖²"
WORDS = {STATIONARITY: "‖∇F(wᵗ)‖²", OBJECTIVE: "F(wᵗ)", LEAST: "least ‖∇F(w)‖² so far"}
Evaluate = Mapping[str, Callable[[Floats], Any]]


def check_evaluate(evaluate: Any) -> dict[str, Callable[[Floats], Any]]:
    """The metrics that a user gave: a dict of functions, or nothing."""
    if evaluate is None:
        return {}
    right = isinstance(evaluate, Mapping) and all(
        isinstance(name, str) and name and callable(function) for name, function in evaluate.items()
    )
    if not right:
        raise BadInput("evaluate", evaluate, "functions of w by name", 'write evaluate={"accuracy": accuracy}')
    for name in evaluate:
        if name in RESERVED:
            raise BadInput("evaluate", name, "another name", RESERVED[name])
    return dict(evaluate)


def known_of(problem: Problem) -> list[str]:
    """What can be measured of a problem at any w: ‖∇F‖² first, by which a run without an optimum is judged, and F."""
    known = {STATIONARITY: exact.knows(type(problem.oracle())), OBJECTIVE: problem.has_objective}
    return [name for name, there in known.items() if there]


def measured_of(problem: Problem, name: str, w: Floats) -> float:
    """F(w), or ‖∇F(w)‖²."""
    with np.errstate(over="ignore", invalid="ignore"):  # a run on its way out of the range of numbers
        if name == OBJECTIVE:
            return problem.objective(w)
        gradient = problem.full_gradient(w)
        return float(gradient @ gradient)


def checked_metric(name: str, value: Any) -> float | list[float]:
    """What a metric says of w: a number, or a list of them."""
    try:
        array = np.asarray(value, np.float64)
        if array.ndim > 1:
            raise ValueError
    except (TypeError, ValueError):
        said = f"evaluate[{name!r}] returned {shorten(value)}"
        raise SiagError(f"{said}; it must return a number, or one for each worker") from None
    return float(array) if array.ndim == 0 else array.tolist()


def as_curve(values: Sequence[Any]) -> Floats:
    """(points,) or (points, workers) numbers; NaN where there are none."""
    width = max((len(value) for value in values if isinstance(value, list | tuple | np.ndarray)), default=0)
    if width == 0:
        return np.array([np.nan if value is None else value for value in values], np.float64)
    rows = [value if isinstance(value, list | tuple | np.ndarray) else [np.nan] * width for value in values]
    return np.array(rows, np.float64)


def evaluated(evaluate: Evaluate, iterates: Floats) -> dict[str, Floats]:
    """Each metric at each of the iterates, (points, d); those that were not reached are NaN."""
    return {
        name: as_curve([_measured(name, function, w) if np.isfinite(w).all() else None for w in iterates])
        for name, function in evaluate.items()
    }


def _measured(name: str, function: Callable[[Floats], Any], w: Floats) -> float | list[float]:
    """What a metric says of w; what it raises becomes one line."""
    try:
        value = function(w)
    except Exception as error:  # whatever the user's code raises
        raise SiagError(f"evaluate[{name!r}] raised {type(error).__name__}: {reason_of(error)}") from error
    return checked_metric(name, value)
