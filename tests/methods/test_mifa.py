"""MIFA: a table of updates; with one step IAG, with everybody active FedAvg."""

import numpy as np
import pytest

import siag
from plain import simulate
from siag.activity import Clock, Everyone, Exponential, Nonuniform, Recorded
from siag.checks import Bowl, conform
from siag.methods import IAG, advance, fade, receive
from siag.methods.fedavg import FedAvg
from siag.methods.mifa import MIFA
from siag.problems import Ridge
from siag.steps import Constant, Harmonic
from siag.theory import local_fixed_point, quadratics

BOWL = Bowl(np.random.default_rng(0).random((5, 3)), np.array([0.5, 1.0, 2.0]))


def test_it_conforms():
    conform(
        MIFA(steps=3, size=0.1, gradients="exact"), skip=["all_active_is_gradient_descent"]
    )  # more than one step is not


def test_with_one_step_of_size_one_it_conforms_in_everything():
    conform(MIFA(steps=1, size=1.0, gradients="exact"))


def test_with_one_local_step_it_is_iag_with_the_product_of_the_steps():
    ends = [
        simulate(BOWL, method, Nonuniform(1, 6), Constant(eta), iterations=40, seed=4).w
        for method, eta in ((MIFA(steps=1, size=0.1), 0.5), (IAG(), 0.05))
    ]
    assert np.allclose(*ends, rtol=1e-12)


def test_with_everybody_active_it_is_fedavg():
    ends = [
        simulate(BOWL, method, Everyone(), Constant(0.8), iterations=12).w
        for method in (MIFA(steps=4, size=0.2), FedAvg(steps=4, size=0.2))
    ]
    assert np.allclose(*ends, rtol=1e-12)


def test_who_is_absent_counts_with_its_latest_update():
    method, active = MIFA(steps=2, size=0.2), [[0, 1, 2, 3, 4], [1], [1], [4]]
    run = simulate(BOWL, method, Recorded(active), Constant(0.5), iterations=4, w0=np.ones(3))
    w, updates = np.ones(3), np.zeros((5, 3))
    for workers in active:
        for i in workers:
            y = w.copy()
            for _ in range(2):
                y = y - 0.2 * BOWL.gradient(i, y)
            updates[i] = w - y
        w = w - 0.5 * updates.mean(axis=0)
    assert np.allclose(run.w[0], w, rtol=1e-13)


def test_with_steps_that_fall_it_is_the_algorithm_of_its_paper():
    """G_i = (w − y_i)/η_t with the η_t of the round it is from, and w ← w − η_t mean G with that of now."""
    method, active = MIFA(steps=3, size=0.2, fall=2.0), [[0, 1, 2, 3, 4], [1], [], [0, 1], [4], [2]]
    run = simulate(BOWL, method, Recorded(active), Harmonic(2.0, 2.0), iterations=6, w0=np.ones(3))
    w, G = np.ones(3), np.zeros((5, 3))
    for t, workers in enumerate(active):
        eta = 0.2 * 2.0 / (t + 2.0)
        for i in workers:
            y = w.copy()
            for _ in range(3):
                y = y - eta * BOWL.gradient(i, y)
            G[i] = (w - y) / eta
        w = w - eta * G.mean(axis=0)
    assert np.allclose(run.w[0], w, rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::siag.DivergenceWarning")
def test_on_a_clock_the_papers_step_diverges_and_one_by_the_age_of_updates_does_not():
    problem, slowness = Ridge.random(n=4, d=4, m=20, spread=1, tilt=0.5, regularization=0.1, seed=7), [1, 2, 3, 4]
    size, clock = 0.3 / problem.smoothness.max(), Clock(Exponential(1.0), slowness=slowness)
    method = MIFA(steps=5, size=size, gradients="exact", wait=1.0)
    bold, careful = (
        siag.simulate(problem, method, clock, Constant(eta), iterations=4000)
        for eta in (1.0, 1 / (1 + 3))  # an update is 3 steps old on average: the others of 4 have reported meanwhile
    )
    there = local_fixed_point(*quadratics(problem), steps=5, size=size)
    assert not bold.error[0, -1] < 1e6
    np.testing.assert_allclose(careful.w[0], there, rtol=0, atol=1e-10)


def test_a_worker_that_left_for_good_can_be_forgotten():
    state = MIFA(steps=2, size=0.2).init(np.zeros(3), 2)
    receive(state, 0, np.ones(3), 0)
    receive(state, 1, np.full(3, 5.0), 0)
    fade(state, 1, 0.0)
    advance(state, 1.0)
    assert np.array_equal(state.w, np.full(3, -1.0))  # the average is over the row that is left


def test_it_can_wait_for_everybody():
    run = simulate(
        BOWL, MIFA(steps=2, size=0.2, wait=1.0), Recorded([[0, 1, 2]] * 3), Constant(0.5), iterations=3, w0=np.ones(3)
    )
    assert np.array_equal(run.w[0], np.ones(3))
