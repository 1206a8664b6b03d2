"""Where non-aggregated SGD goes under unequal participation: the optimum of the wrong weights."""

from __future__ import annotations

import numpy as np

from siag.activity import Recorded
from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import ACTIVITY, fresh
from siag.foundations.types import Floats
from siag.methods import NORMALIZATIONS
from siag.problems import Problem
from siag.theory.exact import least_squares


def shares(activity: Recorded, n: int, normalization: str = "mean") -> Floats:
    """(n,) r_i: worker i's part in all steps of the recorded activity, summing to 1.

    With the mean over active workers a report among k counts 1/k; with the sum every report counts the same.
    """
    if not isinstance(activity, Recorded):
        raise Unsuitable(f"shares are those of a Recorded activity, not of {activity!r}; use Recorded.of(…)")
    check.choice("normalization", normalization, NORMALIZATIONS)
    start, worker = activity.start(n, fresh(0, 0, ACTIVITY))
    if len(worker) == 0:
        raise Unsuitable("nobody reports in the trace, so there are no shares")
    sizes = np.diff(start)
    weight = np.repeat(1.0 / np.maximum(sizes, 1), sizes) if normalization == "mean" else np.ones(len(worker))
    r = np.bincount(worker, weight, n)
    return np.asarray(r / r.sum())


def biased_optimum(problem: Problem, activity: Recorded, normalization: str = "mean") -> Floats:
    """(d,) Σ r_i w_i*, the point non-aggregated SGD converges to under the recorded activity."""
    known = least_squares("the biased optimum", problem)
    return np.asarray(shares(activity, known.n, normalization) @ known.centers)
