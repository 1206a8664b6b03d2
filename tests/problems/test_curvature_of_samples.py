"""The curvature of a sample between two points, which a problem may know better than two gradients do."""

import numpy as np
import pytest

from plain import as_python
from siag.foundations.rng import SAMPLES, fresh
from siag.problems import LeastSquares, LogisticRegression, Ridge, curvature, sample

D = 4
W, V = np.linspace(1.0, 2.0, D), np.linspace(-1.0, 3.0, D)
PROBLEMS = [
    LeastSquares.random(n=3, d=D, p=2, noise=0.3, seed=1, sampler="literal"),
    LogisticRegression.random(n=3, d=D, m=9, seed=2),
    Ridge.random(n=3, d=D, m=9, spread=0.5, tilt=0.3, regularization=0.1, batch=2, seed=3),
]


def measured(problem, seed):
    """The curvature, and what two gradients of the same sample say."""
    oracle, gradient, other, scratch = problem.oracle(), np.empty(D), np.empty(D), np.empty(D)
    with as_python():
        sample(oracle, fresh(seed, 0, SAMPLES), 1, W, gradient)
        sample(oracle, fresh(seed, 0, SAMPLES), 1, V, other)
        found = curvature(oracle, fresh(seed, 0, SAMPLES), 1, W, V, gradient, scratch)
    return found, (gradient - other) @ (W - V)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_it_is_that_of_one_sample_so_it_has_no_noise(problem):
    for seed in range(5):
        found, expected = measured(problem, seed)
        assert found == pytest.approx(expected, rel=1e-12)
        assert found > 0.0


@pytest.mark.thorough
def test_the_exact_sampler_draws_it_from_the_law_of_the_literal_one():
    """Both have the law of ‖w − v‖² χ²_p, of mean p and variance 2p: here within 5 standard errors."""
    p, count = 2, 2000
    for sampler in ("exact", "literal"):
        problem = LeastSquares.random(n=3, d=D, p=p, noise=0.3, seed=1, sampler=sampler)
        found = np.array([measured(problem, seed)[0] for seed in range(count)]) / np.square(W - V).sum()
        assert abs(found.mean() - p) < 5 * np.sqrt(2 * p / count)
        assert found.var() == pytest.approx(2 * p, rel=0.4)
