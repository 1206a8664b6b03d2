"""A problem of the user's own, in a few lines."""

from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.problems import Problem, sample


class Thermometers(Problem):
    """Every worker measures one number, with noise; the optimum is the mean of the true ones."""

    def __init__(self, truths, noise):
        self.truths, self.noise = np.asarray(truths, float), noise

    d = 1
    n = property(lambda self: len(self.truths))
    optimum = property(lambda self: self.truths.mean(keepdims=True))

    def oracle(self):
        return Readings(self.truths, self.noise)


class Readings(NamedTuple):
    truths: np.ndarray
    noise: float


@sample.when(Readings)
def read(oracle, rng, i, w, out):
    out[0] = w[0] - oracle.truths[i] - oracle.noise * siag.rng.normal(rng)


class Wordless(Thermometers):
    """The same, but with an oracle nobody has told how to sample."""

    def oracle(self):
        return Silence(1)


class Silence(NamedTuple):
    x: int


def run(problem, method=None, **options):
    activity, step = siag.activity.Uniform(3), siag.steps.Harmonic(2.0, 20.0)
    return siag.simulate(problem, method or siag.methods.SIAG(), activity, step, **options)


PROBLEM = Thermometers([18.0, 20.0, 25.0], noise=0.5)


def test_a_problem_of_ones_own_is_solved():
    assert run(PROBLEM, iterations=5000, seed=1).error[0, -1] < 0.01


def test_it_runs_as_plain_python_with_the_same_result_bit_for_bit():
    fast, slow = (run(PROBLEM, iterations=200, seed=1, compiled=compiled) for compiled in (True, False))
    assert fast.error.tolist() == slow.error.tolist()
    assert fast.w.tolist() == slow.w.tolist()


def test_what_it_does_not_offer_is_named_when_asked_for():
    with pytest.raises(siag.Unsuitable, match=r"IAG needs exact gradients, which Thermometers does not offer"):
        run(PROBLEM, siag.methods.IAG(), iterations=10)
    with pytest.raises(siag.Unsuitable, match=r"Thermometers does not know its constants"):
        PROBLEM.constants()
    with pytest.raises(siag.SiagError, match=r"`exact` is not defined for `Readings`; write one: @exact"):
        PROBLEM.gradient(0, np.zeros(1))
    with pytest.raises(siag.Unsuitable, match=r"Thermometers does not know the L_i .*; give it a property smoothness"):
        _ = PROBLEM.smoothness
    with pytest.raises(siag.SiagError, match=r"`hessian` is not defined for `Readings`; write one: @hessian.when"):
        PROBLEM.hessian(0, np.zeros(1))


def test_a_problem_without_samples_is_refused_before_any_work():
    with pytest.raises(siag.SiagError, match=r"`sample` is not defined for `Silence`; write one: @sample"):
        run(Wordless([1.0], 0.0), iterations=10)
