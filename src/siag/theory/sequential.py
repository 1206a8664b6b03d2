"""Sequential SGD, the yardstick of linear speedup: one sample of a worker drawn at random per iteration.

Where workers have weights, they are drawn with the probabilities p_i.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.schedule import points
from siag.foundations.types import Floats
from siag.problems import LeastSquares, Problem
from siag.problems.weights import mean_by
from siag.steps import Step
from siag.theory.exact import Curve, least_squares


def selection_factor(problem: Problem) -> float:
    """1 + mean‖∇F_i(w*)‖²/σ*²: by how much drawing a worker at random adds to the variance of a gradient at w*.

    Sequential SGD pays it; a table that holds every worker's gradient does not.
    """
    problem = least_squares("the selection factor", problem)
    noise = float(mean_by(problem.weights, problem.noise_at(problem.optimum)))
    if noise == 0.0:
        raise Unsuitable("there is no noise at the optimum to compare the selection of workers with")
    between = problem.p**2 * _spread(problem)
    return 1.0 + between / noise


def sequential_error(
    problem: Problem, step: Step, *, iterations: int, record: int = 200, w0: Floats | None = None
) -> Curve:
    """E‖w^t − w*‖² of sequential SGD on least squares, averaged over the draws of the workers as well.

    With X = E‖w − w*‖² and S the mean of ‖w* − w_i*‖²

        X ← (1 − 2ηp) X + η² [ (p² + p(d+1)) (X + S) + σ²pd ].
    """
    problem = least_squares("the error of sequential SGD", problem)
    t = points(check.integer("iterations", iterations), check.integer("record", record))
    start = np.zeros(problem.d) if w0 is None else check.floats("w0", w0, (problem.d,))
    p, d, S = problem.p, problem.d, _spread(problem)
    X = bias = float(((start - problem.optimum) ** 2).sum())
    errors, biases = [X], [bias]
    for first, last in pairwise(t):
        for eta in step.sizes(np.arange(first, last)):
            X += eta * (eta * ((p * p + p * (d + 1)) * (X + S) + problem.noise**2 * p * d) - 2.0 * p * X)
            bias *= (1.0 - eta * p) ** 2
        errors.append(X)
        biases.append(bias)
    return Curve(t, np.array(biases), np.array(errors) - np.array(biases))


def _spread(problem: LeastSquares) -> float:
    """S, the mean of ‖w* − w_i*‖²."""
    return float(mean_by(problem.weights, ((problem.centers - problem.optimum) ** 2).sum(axis=1)))
