"""Incremental gradient: one worker after the other, and only so."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import siag
from plain import conform, simulate
from siag.methods.incremental import Incremental
from siag.problems import LeastSquares, Problem, Ridge, sample
from siag.steps import Constant, Harmonic


def test_it_does_what_every_method_must():
    conform(Incremental())


def test_it_steps_along_the_gradient_of_one_worker_in_turn():
    problem, step = Ridge.random(n=3, d=4, m=5, tilt=0.5, regularization=0.1, seed=1), Harmonic(1.0, 20.0)
    w = np.ones(4)
    for t, eta in enumerate(step.sizes(np.arange(50))):
        w = w - eta * problem.gradient(t % 3, w)
    run = simulate(problem, Incremental(), siag.activity.Cyclic(), step, iterations=50, w0=np.ones(4))
    assert np.array_equal(run.w[0], w)
    assert run.samples[0, -1] == run.uploads[0, -1] == 50


@pytest.mark.thorough
def test_its_exact_moments_are_known_and_have_no_noise():
    problem, parts = LeastSquares.random(n=5, d=3, p=2, noise=0.1), (siag.activity.Cyclic(), Constant(0.05))
    curve = siag.theory.exact_error(problem, Incremental(), *parts, iterations=40, record=40)
    run = siag.simulate(problem, Incremental(), *parts, iterations=40, record=40)
    assert not curve.variance.any()
    np.testing.assert_allclose(curve.error, run.error[0], rtol=1e-10)


def test_workers_of_the_same_optimum_leave_nothing_to_cycle_around():
    problem = Ridge.random(n=6, d=3, m=10, spread=0.0, noise=0.0, tilt=0.5, seed=2)
    step = Constant(0.5 / problem.constants().L)
    run = simulate(problem, Incremental(), siag.activity.Cyclic(), step, iterations=2000)
    assert run.error[0, -1] < 1e-25


@pytest.mark.parametrize("activity", [siag.activity.Everyone(), siag.activity.Sequential(), siag.activity.Uniform(3)])
def test_other_activities_are_refused_with_what_works(activity):
    problem = LeastSquares.random(n=3, d=2, p=1, noise=0.0)
    with pytest.raises(siag.Unsuitable, match=r"use Cyclic\(\), or SGD"):
        siag.simulate(problem, Incremental(), activity, Constant(0.1), iterations=5)


def test_a_live_server_is_refused_with_what_works():
    with pytest.raises(siag.Unsuitable, match="use IAG, or SGD"):
        Incremental().serve()


class Trickle(NamedTuple):
    nothing: np.ndarray


@dataclass(frozen=True, eq=False)
class SamplesOnly(Problem):
    n = 2
    d = 1
    optimum = np.zeros(1)

    def oracle(self):
        return Trickle(np.zeros(1))


@sample.when(Trickle)
def drip(oracle, rng, i, w, out):
    out[:] = w


def test_a_problem_without_exact_gradients_is_refused():
    with pytest.raises(siag.Unsuitable, match="Incremental needs exact gradients"):
        siag.simulate(SamplesOnly(), Incremental(), siag.activity.Cyclic(), Constant(0.1), iterations=5)
