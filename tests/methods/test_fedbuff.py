"""FedBuff: a buffer of updates, the old ones damped."""

import numpy as np
import pytest

import siag
from plain import simulate
from refusals import refused
from siag.activity import Clock, EveryArrivals, Exponential, Uniform
from siag.checks import Bowl, conform
from siag.methods import advance, receive
from siag.methods.fedavg import FedAvg
from siag.methods.fedbuff import FedBuff
from siag.problems import Ridge
from siag.steps import Constant

BOWL = Bowl(np.random.default_rng(0).random((5, 3)), np.array([0.5, 1.0, 2.0]))
RIDGE = Ridge.random(n=5, d=3, m=4, tilt=0.5, seed=1)  # the claims compile it for exact gradients too
CLOCK = Clock(Exponential(1.0), slowness=[1, 2, 3, 4, 5], server=EveryArrivals(2))


@pytest.mark.parametrize("damp", [True, False])
def test_it_conforms(damp):
    conform(FedBuff(steps=3, size=0.1, damp=damp), skip=["all_active_is_gradient_descent"])  # more than one step is not


def test_with_one_step_of_size_one_it_conforms_in_everything():
    conform(FedBuff(steps=1, size=1.0))


@pytest.mark.parametrize(("damp", "weights"), [(True, [1.0, 0.5, 0.25]), (False, [1.0, 1.0, 1.0])])
def test_the_buffer_holds_updates_weighted_by_their_age_and_is_divided_by_their_number(damp, weights):
    state, updates = FedBuff(steps=3, size=0.1, damp=damp).init(np.ones(2), 4), np.array([[1.0, 2], [3, 4], [5, 6]])
    for i, (update, age) in enumerate(zip(updates, (0, 3, 15), strict=True)):
        receive(state, i, update, age)
    assert np.array_equal(state.w, np.ones(2))
    advance(state, 0.6)
    assert np.allclose(state.w, 1 - 0.6 * np.array(weights) @ updates / 3, rtol=1e-14)
    moved = state.w.copy()
    advance(state, 0.6)
    assert np.array_equal(state.w, moved)


@pytest.mark.parametrize("damp", [True, False])
def test_where_nothing_is_old_it_is_fedavg_bit_for_bit(damp):
    ends = [
        simulate(BOWL, method, Uniform(3), Constant(0.9), iterations=50, w0=np.ones(3), seed=3).w
        for method in (FedAvg(steps=4, size=0.2), FedBuff(steps=4, size=0.2, damp=damp))
    ]
    assert np.array_equal(*ends)


@pytest.mark.thorough
@pytest.mark.parametrize("damp", [True, False])
def test_on_a_clock_compiled_and_plain_agree_bit_for_bit(damp):
    method = FedBuff(steps=3, size=0.1, damp=damp, gradients="exact")
    fast, slow = (
        siag.simulate(RIDGE, method, CLOCK, Constant(0.5), iterations=80, compiled=compiled, seed=6)
        for compiled in (True, False)
    )
    assert np.array_equal(fast.error, slow.error)


def test_on_a_clock_it_is_fedavg_unless_it_damps():
    ends = [
        simulate(BOWL, method, CLOCK, Constant(0.5), iterations=80, seed=6).w
        for method in (
            FedAvg(steps=3, size=0.1),
            FedBuff(steps=3, size=0.1, damp=False),
            FedBuff(steps=3, size=0.1, damp=True),
        )
    ]
    assert np.array_equal(ends[0], ends[1])
    assert not np.allclose(ends[0], ends[2], rtol=1e-3)


@pytest.mark.parametrize("damp", [1, "yes", None])
def test_damping_is_true_or_false(damp):
    with refused("damp"):
        FedBuff(steps=1, size=1.0, damp=damp)
