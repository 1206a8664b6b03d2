"""Exact moments where workers come and go: against sampled runs, blocks against traces, and by hand."""

import numpy as np
import pytest

import siag
from siag.activity import Everyone, Members, Recorded, Uniform
from siag.foundations.errors import Unsuitable
from siag.methods import IAG, SGD, SIAG, Averaged, Momentum
from siag.problems import LeastSquares, Ridge
from siag.steps import Constant
from siag.theory import exact_error
from siag.theory.blocks import blocks_at_start
from siag.theory.exact import alike
from siag.theory.lemmas import lemmas

N, ITERATIONS = 5, 160
PROBLEM = LeastSquares.random(n=N, d=3, p=2, noise=0.2, seed=3)
RIDGE = Ridge.random(n=N, d=3, m=6, regularization=0.3, spread=1.0, tilt=0.4, batch=2, seed=2)
COMINGS = {"arrive": {4: 40, 0: 120}, "leave": {1: 80, 0: 40}}
ACTIVITY = Members(Recorded.of(Uniform(3), N, ITERATIONS, seed=4), **COMINGS)
STEP = Constant(0.05)
WEIGHTS = [0.2, 1.0, 3.0, 0.5, 1.5]


def scores(problem, method, repeats, step=STEP):
    """By how many standard errors the mean of sampled runs is off, at every point."""
    common = {"iterations": ITERATIONS, "record": 10**4, "seed": 7}
    curve = exact_error(problem, method, ACTIVITY, step, **common)
    run = siag.simulate(problem, method, ACTIVITY, step, repeats=repeats, **common)
    assert np.array_equal(curve.t, run.t)
    assert (run.standard_error[1:] < 4.0 / np.sqrt(repeats) * curve.error[1:]).all()  # a wrong curve would be seen
    np.testing.assert_allclose(run.mean[0], curve.error[0], rtol=1e-12)
    chance = np.maximum(run.standard_error, 1e-13 * curve.error)  # some errors are not random at all
    return (np.abs(run.mean - curve.error) / chance)[1:]


def test_the_mean_of_many_runs_agrees_at_every_point():
    # Four standard errors at each of 160 points: a false alarm in fewer than 160 · 6.3e-5 = 1 % of seeds.
    assert scores(PROBLEM, SIAG(), 1000).max() <= 4.0


@pytest.mark.parametrize("problem", [PROBLEM, RIDGE], ids=["traces", "blocks"])
@pytest.mark.parametrize("method", [SIAG(), SIAG(average=3)], ids=repr)
def test_so_it_does_where_workers_count_differently(problem, method):
    # As above, four times: false alarms in at most 4 % of seeds.
    assert scores(problem.weighted(WEIGHTS), method, 1000).max() <= 4.0


def test_the_optimum_is_that_of_the_members_weighted_as_they_are():
    some = np.array([0, 2, 4])
    for problem in (PROBLEM, RIDGE):
        part = problem.weighted(WEIGHTS).among(some)
        gradients = [problem.gradient(int(i), part.optimum) for i in some]
        assert np.allclose(np.average(gradients, axis=0, weights=np.array(WEIGHTS)[some]), 0.0, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("problem", [PROBLEM, RIDGE], ids=["traces", "blocks"])
@pytest.mark.parametrize(
    "method",
    [
        SIAG(),
        SIAG(wait=0.8),
        SIAG(average=3),
        SGD(),
        Averaged(SIAG(), start=20),
        Momentum(SIAG(), beta=0.5),
    ],
    ids=repr,
)
def test_the_mean_of_ten_thousand_runs_agrees_at_every_point(problem, method):
    # As above, twelve times: false alarms in at most 12 % of seeds.
    assert scores(problem, method, 10_000).max() <= 4.0


def test_exact_gradients_leave_nothing_to_chance():
    for problem in (PROBLEM, RIDGE):
        common = {"iterations": ITERATIONS, "record": 10**4, "seed": 7}
        curve, run = (each(problem, IAG(), ACTIVITY, STEP, **common) for each in (exact_error, siag.simulate))
        np.testing.assert_allclose(run.error[0], curve.error, rtol=1e-8)
        assert not curve.variance.any()


@pytest.mark.parametrize("method", [SIAG(), SIAG(average=3), SGD()], ids=repr)
def test_blocks_and_traces_agree(method, monkeypatch):
    """LeastSquares has a recursion of its own; carried as any linear method it must be the same."""
    common = {"iterations": ITERATIONS, "record": 10**4, "seed": 7}
    traces = exact_error(PROBLEM, method, ACTIVITY, STEP, **common)
    monkeypatch.setattr(
        "siag.theory.exact.moments_at_start",
        lambda problem, method, w0: blocks_at_start(alike(problem, True), method, np.zeros(problem.d), N),
    )
    blocks = exact_error(PROBLEM, method, ACTIVITY, STEP, **common)
    np.testing.assert_allclose(blocks.bias, traces.bias, rtol=1e-7, atol=1e-13)
    np.testing.assert_allclose(blocks.variance, traces.variance, rtol=1e-7, atol=1e-13)


def test_after_a_change_the_bias_decays_as_gradient_descent_does():
    """E w − w*(t) shrinks by 1 − ηp an iteration, and jumps by w*(new) − w*(old)."""
    activity = Members(Everyone(), leave={0: 100})
    curve = exact_error(PROBLEM, SIAG(), activity, STEP, iterations=200, record=10**4)
    rate = (1.0 - 0.05 * PROBLEM.p) ** 2
    np.testing.assert_allclose(curve.bias[101:131], curve.bias[100] * rate ** np.arange(1, 31), rtol=1e-6)
    jump = PROBLEM.centers[1:].mean(axis=0) - PROBLEM.optimum
    assert curve.bias[100] == pytest.approx((jump**2).sum(), rel=1e-3)
    assert curve.bias[99] < 1e-6


def test_one_that_comes_later_counts_from_its_first_report_on():
    """Until then the average is over the others, whose optimum w stays at, though the error is from that of all."""
    pattern = [[0, 1, 2, 3]] * 150 + [[0, 1, 2, 3, 4]] * 150
    activity = Members(Recorded(pattern), arrive={4: 100})
    curve = exact_error(PROBLEM, IAG(), activity, STEP, iterations=300, record=10**4)
    gap = ((PROBLEM.centers[:4].mean(axis=0) - PROBLEM.optimum) ** 2).sum()
    np.testing.assert_allclose(curve.error[100:151], gap, rtol=1e-3)
    assert curve.error[99] < 1e-6 * gap
    assert curve.error[-1] < 1e-6 * gap


def test_theory_that_is_about_workers_that_stay_says_so():
    activity = Members(Uniform(3), leave={0: 10})
    with pytest.raises(Unsuitable, match="Uniform"):
        siag.theory.sharp_law(PROBLEM, activity, STEP)
    with pytest.raises(Unsuitable, match="stay"):
        lemmas(PROBLEM, SIAG(), activity, STEP, iterations=50)
