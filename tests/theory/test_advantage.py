"""What sIAG gains or loses against SGD, foreseen and exact."""

import math

import numpy as np
import pytest

from siag.activity import Recorded
from siag.foundations.errors import Unsuitable
from siag.methods import SGD, SIAG
from siag.problems import LeastSquares, Ridge
from siag.steps import Harmonic
from siag.theory import advantage, exact_error

N, REPORTS, STEP = 8, 20_000, Harmonic(beta=0.01, gamma=1000.0)


def pattern(speeds, seed=0, reports=REPORTS):
    shares = 1.0 / np.geomspace(1.0, speeds, N)
    draws = np.random.default_rng(seed).choice(N, p=shares / shares.sum(), size=reports)
    return Recorded(draws[:, None].tolist())


def problem(apart):
    return LeastSquares(apart * np.random.default_rng(1).standard_normal((N, 5)), p=200, noise=1.0)


@pytest.mark.parametrize(("apart", "speeds"), [(0.01, 1.0), (0.01, 10.0), (0.3, 10.0), (0.3, 50.0)])
def test_both_errors_are_foreseen(apart, speeds):
    activity, least_squares = pattern(speeds), problem(apart)
    law = advantage(least_squares, activity, STEP)
    siag, sgd = (
        exact_error(least_squares, method, activity, STEP, iterations=REPORTS, record=1).error[-1]
        for method in (SIAG(), SGD())
    )
    assert law.siag(REPORTS) == pytest.approx(siag, rel=0.25)
    assert law.bias + law.sgd(REPORTS) == pytest.approx(sgd, rel=0.1)
    assert (law.ratio(REPORTS) > 1.0) == (sgd > siag)


@pytest.mark.thorough
def test_what_chance_does_to_sgd_is_foreseen_on_average_over_patterns():
    # The errors vary by 0.63 of their mean, the mean of 40 by 0.1: with other seeds 1 test in 10 000 would fail.
    least_squares = problem(0.3)
    errors = [
        exact_error(least_squares, SGD(), pattern(1.0, seed), STEP, iterations=REPORTS, record=1).error[-1]
        for seed in range(40)
    ]
    law = advantage(least_squares, pattern(1.0, 100, 8 * REPORTS), STEP)  # long: of a short one w_r is part of chance
    assert law.sgd(REPORTS) == pytest.approx(np.mean(errors), rel=0.4)


def test_the_crossover_is_where_both_errors_are_the_same():
    law = advantage(problem(0.01), pattern(50.0), STEP)
    assert 0.0 < law.crossover < math.inf
    assert law.ratio(law.crossover) == pytest.approx(1.0)


def test_who_wins_at_once_and_who_never_does():
    assert advantage(problem(3.0), pattern(10.0), STEP).crossover == 0.0
    everyone = Recorded([[i] for i in range(N)] * 10)  # in turn: nothing is biased, and sIAG uses each N times
    alike = LeastSquares(np.zeros((N, 5)), p=200, noise=1.0)
    law = advantage(alike, everyone, STEP)
    assert law.bias == 0.0
    assert law.ratio(100) == pytest.approx(1.0)


def test_other_problems_are_refused():
    with pytest.raises(Unsuitable, match="LeastSquares"):
        advantage(Ridge.random(n=N, d=3, m=5), pattern(1.0), STEP)
