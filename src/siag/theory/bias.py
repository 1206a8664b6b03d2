"""Where non-aggregated SGD goes under unequal participation: the optimum of the wrong weights."""

from __future__ import annotations

import numpy as np

from siag.activity import Recorded
from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import ACTIVITY, fresh
from siag.foundations.types import Floats
from siag.methods import NORMALIZATIONS
from siag.problems import LeastSquares, Problem, reweighted, weights_of
from siag.problems.weights import Weights
from siag.theory.quadratic import quadratics


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


def biased_optimum(
    problem: Problem, activity: Recorded, normalization: str = "mean", *, weights: Weights = None
) -> Floats:
    """(d,) where Σ r_i ∇F_i(w) = 0: the point non-aggregated SGD converges to under the recorded activity.

    It is Σ r_i w_i* for `LeastSquares`, and the solution of Σ r_i H_i w = Σ r_i b_i for any quadratic problem. If
    workers have weights, the server multiplies what they send, and r_i is their part in the steps times their weight.
    """
    problem = reweighted(problem, weights)
    r, own = shares(activity, problem.n, normalization), weights_of(problem)
    if own is not None:
        r = r * own
        if not r.any():
            raise Unsuitable("nobody who reports in the trace has a weight above 0, so SGD does not move")
        r = r / r.sum()
    if isinstance(problem, LeastSquares):
        return np.asarray(r @ problem.centers)
    hessians, linear = quadratics(problem, "the biased optimum")
    matrix = np.tensordot(r, hessians, 1)
    if np.linalg.cond(matrix) > 1.0 / np.finfo(float).eps:
        raise Unsuitable("those who report do not determine one w by themselves, so SGD has no one point to go to")
    return np.asarray(np.linalg.solve(matrix, r @ linear))
