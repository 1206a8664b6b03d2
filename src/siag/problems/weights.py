"""What workers count for in F = Σ p_i F_i, and points in the F_i: weights and counts, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from siag.foundations import check
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers

POINTS = "points"
Weights: TypeAlias = str | Sequence[float] | Floats | None
"""A number of 0 or more for each worker, of which only the ratios matter; a word; or `None`: all count the same."""

ROUNDING = 4 * np.finfo(np.float64).eps
PRINTED = 16  # numbers of a list that are printed


def check_weights(weights: object, n: int | None = None) -> Floats:
    """(n,) the weights as numbers whose mean is 1; all exactly 1 if they are equal, but for rounding."""
    if isinstance(weights, Mapping):
        remedy = "give a list; names are for siag.train and siag.serve"
        raise BadInput("weights", weights, "numbers in the order of the workers", remedy)
    each = check.floats("weights", weights, (n,))
    if each.min() < 0.0 or not each.any():
        raise BadInput("weights", weights, "numbers of 0 or more, one above 0", "they are shares of the whole")
    if each.max() - each.min() <= ROUNDING * each.max():
        return np.ones(len(each))
    with np.errstate(over="ignore"):
        scale = len(each) / each.sum()
    if not 0.0 < scale < np.inf:  # numbers near the ends of their range
        each = each / each.max()
        scale = len(each) / each.sum()
    mean: Floats = each * scale
    return mean


def unequal(weights: object, n: int) -> Floats | None:
    """(n,) the weights, read-only, with mean 1; `None` if there are none, or if they are all the same."""
    if weights is None:
        return None
    each = check_weights(weights, n)
    return None if (each == 1.0).all() else check.read_only(each)


def among(weights: Floats | None, workers: Integers) -> Floats | None:
    """The weights of some of the workers."""
    return None if weights is None else weights[workers]


def check_numbers(weights: object, kind: str) -> object:
    """Refuse words where a problem has no numbers of points."""
    if isinstance(weights, str):
        remedy = f"{kind} has streams, whose samples are not counted ahead"
        raise BadInput("weights", weights, "numbers, one for each worker", remedy)
    return weights


def mean_by(weights: Floats | None, values: Floats) -> Floats:
    """Σ p_i values_i over the first axis; the plain mean, to the bit, if all count the same."""
    return np.asarray(values.mean(axis=0) if weights is None else np.tensordot(weights, values, 1) / len(values))


def with_weights_printed(text: str, weights: Floats | None) -> str:
    """How a problem prints, `Kind(…)`, with its weights."""
    if weights is None:
        return text
    return f"{text}.weighted({listed(weights)})" if text.endswith("()") else f"{text[:-1]}, weights={listed(weights)})"


def listed(numbers: Sequence[Any] | Floats | Integers) -> str:
    """Numbers as Python writes them, those of many workers cut short with `...`."""
    first = [repr(each) for each in np.asarray(numbers)[:PRINTED].tolist()]
    return f"[{', '.join([*first, *(['...'] if len(numbers) > PRINTED else [])])}]"


def drawn_counts(m: int | Sequence[int], n: int) -> tuple[int, tuple[int, ...] | None]:
    """How many points to draw for each worker, and how many of them each has, if they differ."""
    counts = check.integers("m", m)
    if isinstance(counts, int):
        return counts, None
    if len(counts) != n:
        raise BadInput("m", m, f"a whole number, or {n} of them, one for each worker")
    return max(counts), counts


def stacked(features: Any, name: str, values: Any, counts: Any) -> tuple[Any, Any, Any]:
    """Points of workers that have different numbers of them, as arrays filled up with zeros, and the numbers.

    As they are, if they are no lists of unequal lengths.
    """
    try:
        lengths = [len(each) for each in features] if isinstance(features, list | tuple) else []
    except TypeError:  # no points at all, which is refused in other words
        lengths = []
    if counts is not None or len(set(lengths)) < 2:
        return features, values, counts
    width = np.shape(features[0])[-1] if np.ndim(features[0]) == 2 else None
    points = [check.floats(f"features[{i}]", each, (None, width)) for i, each in enumerate(features)]
    if not isinstance(values, list | tuple) or len(values) != len(points):
        raise BadInput(name, values, f"a list of {len(points)}, the numbers of points of `features` in each")
    wide, flat = np.zeros((len(points), max(lengths), points[0].shape[1])), np.zeros((len(points), max(lengths)))
    for i, (x, y) in enumerate(zip(points, values, strict=True)):
        wide[i, : len(x)], flat[i, : len(x)] = x, check.floats(f"{name}[{i}]", y, (len(x),))
    return wide, flat, lengths


def check_counts(counts: Any, n: int, m: int) -> Integers:
    """(n,) m_i, the number of points of each worker, from 1 to m; all of them if nothing is said."""
    if counts is None:
        counts = [m] * n
    each = check.integers("counts", counts, high=m)
    if isinstance(each, int) or len(each) != n:
        raise BadInput("counts", counts, f"{n} whole numbers from 1 to {m}, one for each worker")
    return check.read_only(np.array(each, np.int64))
