"""The exact moments of momentum around a method."""

import numpy as np
import pytest

from siag.activity import Recorded, Uniform
from siag.foundations.errors import Unsuitable
from siag.methods import SIAG, Adam, Momentum
from siag.problems import LeastSquares
from siag.simulation import simulate
from siag.steps import Harmonic
from siag.theory import exact_error

PROBLEM, STEP = LeastSquares.random(n=4, d=3, p=4, noise=0.3), Harmonic(beta=1.0, gamma=100.0)
RUN = {"iterations": 300, "seed": 2, "record": 12}


@pytest.mark.thorough
def test_the_mean_of_many_runs_agrees_everywhere():
    # |z| > 4 at one of 11 points: with other seeds 1 test in 1400 would fail.
    method, activity = Momentum(SIAG(), beta=0.7), Recorded.of(Uniform(3), 4, 300)
    runs = simulate(PROBLEM, method, activity, STEP, repeats=2000, **RUN)
    exact = exact_error(PROBLEM, method, activity, STEP, **RUN)
    z = (runs.mean[1:] - exact.error[1:]) / runs.standard_error[1:]
    assert np.abs(z).max() < 4.0


@pytest.mark.thorough
def test_it_matters():
    plain, rolled = (
        exact_error(PROBLEM, method, Uniform(3), STEP, **RUN).error[-1]
        for method in (SIAG(), Momentum(SIAG(), beta=0.7))
    )
    assert abs(rolled / plain - 1.0) > 0.2


def test_adam_is_not_linear():
    with pytest.raises(Unsuitable, match="not linear"):
        exact_error(PROBLEM, Adam(SIAG()), Uniform(3), STEP, **RUN)
