"""The minimiser that PIAG's claims are measured from."""

import math

import numpy as np
import pytest

from siag.experiments.claims.aggregated import minimiser
from siag.problems.ridge import Ridge


@pytest.mark.parametrize("terms", [{"l1": 0.2}, {"low": -0.1, "high": 0.3}, {"l1": 0.1, "low": 0.0}], ids=repr)
def test_the_minimiser_is_stationary(terms):
    problem = Ridge.random(n=4, d=6, m=10, spread=0.3, tilt=0.3, seed=1)
    w = minimiser(problem, **terms)
    points, targets = problem.features.reshape(-1, 6), problem.targets.reshape(-1)
    slope = points.T @ (points @ w - targets) / len(points)
    l1, low, high = terms.get("l1", 0.0), terms.get("low", -math.inf), terms.get("high", math.inf)
    moved = w - 0.1 * slope
    moved = np.clip(np.sign(moved) * np.maximum(np.abs(moved) - 0.1 * l1, 0.0), low, high)
    np.testing.assert_allclose(moved, w, atol=1e-12)
