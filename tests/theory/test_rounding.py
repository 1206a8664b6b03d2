"""The variance that rounding adds is what was predicted, and so is what it does to the error."""

import numpy as np
import pytest
from tests.packed import rounded, scale_of

import siag
from siag.foundations.errors import BadInput, Missing
from siag.foundations.rng import SAMPLES, blank, key
from siag.theory import rounding_variance, sharp_law
from siag.theory.rounding import draw, variance_of

pytestmark = pytest.mark.thorough

PROBLEM = siag.problems.LeastSquares.random(n=20, d=20, p=10, noise=0.1, seed=0)  # the paper's setting
STEP, ITERATIONS, REPEATS = siag.steps.Harmonic(beta=0.2, gamma=200), 10_000, 40
BOTH = pytest.mark.parametrize("messages", ["bfloat16", "int8"])


def ran(messages, problem=PROBLEM, step=STEP, activity=None, **given):
    """Runs with the same samples, whatever the messages."""
    activity = activity or siag.activity.Nonuniform(10, 20)
    given = {"iterations": ITERATIONS, "repeats": REPEATS, "record": 2} | given
    return siag.simulate(problem, siag.methods.SIAG(), activity, step, seed=1, messages=messages, **given)


@BOTH
def test_the_predicted_variance_is_that_of_messages(messages):
    """Of 3000 messages of worker 3; by chance beyond 5 standard errors once in 10⁶ other seeds."""
    gradients, samples = np.zeros((30, PROBLEM.d)), 100
    draw(PROBLEM.oracle(), blank(), key(5, 0, SAMPLES), 3, np.array(PROBLEM.optimum), gradients)
    predicted = variance_of(messages, gradients).sum()
    errors = np.array(
        [[rounded(messages, g, 7, 3, k * samples + j) - g for j in range(samples)] for k, g in enumerate(gradients)]
    )
    squares = (errors**2).sum(axis=(0, 2))  # (samples,) of all gradients together
    assert abs(squares.mean() - predicted) <= 5 * squares.std() / np.sqrt(samples)


def test_the_variance_is_a_sixth_of_a_squared_step_on_average_and_a_quarter_at_most():
    gradients = np.zeros((2000, PROBLEM.d))
    draw(PROBLEM.oracle(), blank(), key(5, 0, SAMPLES), 3, np.array(PROBLEM.optimum), gradients)
    squares = np.array([float(scale_of(g)) ** 2 for g in gradients])
    found = variance_of("int8", gradients)
    assert np.all(found <= squares[:, None] / 4 * (1 + 1e-6))
    assert found.mean() == pytest.approx(19 / 20 * squares.mean() / 6, rel=0.01)  # the largest number is not rounded
    by_worker = rounding_variance(PROBLEM, "int8", seed=5, draws=2000)
    assert by_worker.shape == (20, 20)
    assert np.allclose(by_worker[3], found.mean(axis=0))
    assert not rounding_variance(PROBLEM, "float32").any()


@BOTH
def test_the_error_that_rounding_adds_is_what_the_law_says(messages):
    """E‖w − w′‖² of runs with the same samples, rounded and not: the law, with the variance of rounding as noise.

    The mean over 40 runs of 20 coordinates has a standard error of 5 %: by chance it is off by 25 % once in 10⁶ seeds.
    """
    exact, short = ran("float64"), ran(messages)
    given = PROBLEM, siag.activity.Nonuniform(10, 20), STEP
    law, plain = sharp_law(*given, messages=messages), sharp_law(*given)
    predicted = float(law(ITERATIONS) - plain(ITERATIONS))
    assert np.square(short.w - exact.w).sum(axis=1).mean() == pytest.approx(predicted, rel=0.25)
    assert predicted < 1e-3 * plain(ITERATIONS)
    assert short.mean[-1] == pytest.approx(exact.mean[-1], rel=0.05)
    assert np.array_equal(short.uploads, exact.uploads)
    each = {"bfloat16": 40, "int8": 24}[messages]
    assert np.array_equal(short.bytes, short.uploads * each + short.reads * 80)


def test_on_logistic_regression_int8_is_within_five_percent_of_doubles():
    """The same samples; the ratio of the means over 10 runs has a standard error of 0.2 %."""
    problem = siag.problems.LogisticRegression.random(n=20, d=20, seed=0)
    mu = problem.constants().mu
    given = {"problem": problem, "step": siag.steps.Harmonic(2 / mu, 3000), "repeats": 10}
    exact, short = ran("float64", **given), ran("int8", **given)
    assert exact.mean[-1] < 0.2 * exact.mean[0]
    assert short.mean[-1] == pytest.approx(exact.mean[-1], rel=0.05)


def test_the_law_of_any_quadratic_knows_of_rounding():
    problem = siag.problems.Ridge.random(n=4, d=3, m=10, regularization=0.1, seed=1)
    step = siag.steps.Harmonic(beta=3 / problem.constants().mu, gamma=100)
    given = problem, siag.activity.Everyone(), step
    assert sharp_law(*given).constant == sharp_law(*given, messages="float32").constant
    more = sharp_law(*given, messages="int8").constant / sharp_law(*given).constant
    assert 1.0 < more < 1.001


def test_bad_input_is_refused():
    with pytest.raises(BadInput, match="messages = 'int4': must be one of"):
        rounding_variance(PROBLEM, "int4")
    with pytest.raises(BadInput, match="draws = 0"):
        rounding_variance(PROBLEM, "int8", draws=0)
    with pytest.raises(Missing, match="the problem knows no optimum; say where"):
        rounding_variance(siag.problems.Network.random(n=2, m=5, hidden=2, seed=0), "int8")
