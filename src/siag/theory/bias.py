"""Where non-aggregated SGD goes under unequal participation: the optimum of the wrong weights."""

from __future__ import annotations

import numpy as np

from siag.activity import Recorded
from siag.foundations.types import Floats
from siag.problems import LeastSquares


def shares(activity: Recorded, n: int, normalization: str = "mean") -> Floats:
    """(n,) r_i: worker i's part in all steps of the recorded activity, summing to 1.

    With the mean over active workers a report among k counts 1/k; with the sum every report counts the same.
    """
    start, worker = activity.tape
    sizes = np.diff(start)
    weight = np.repeat(1.0 / np.maximum(sizes, 1), sizes) if normalization == "mean" else np.ones(len(worker))
    r = np.bincount(worker, weight, n)
    return np.asarray(r / r.sum())


def biased_optimum(problem: LeastSquares, activity: Recorded, normalization: str = "mean") -> Floats:
    """(d,) Σ r_i w_i*, the point non-aggregated SGD converges to under the recorded activity."""
    return np.asarray(shares(activity, problem.n, normalization) @ problem.centers)
