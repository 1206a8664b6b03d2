"""FedAsync: mixing models, the older the less."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import simulate
from siag.activity import Clock, Exponential, Uniform
from siag.checks import Bowl, conform
from siag.methods import Averaged, advance, receive
from siag.methods.fedasync import DAMPINGS, FedAsync
from siag.methods.fedavg import FedAvg
from siag.problems import Ridge
from siag.steps import Constant, Harmonic

BOWL = Bowl(np.random.default_rng(0).random((5, 3)), np.array([0.5, 1.0, 2.0]))
RIDGE = Ridge.random(n=5, d=3, m=4, tilt=0.5, seed=1)  # the claims compile it for exact gradients too
NUMBERS = st.floats(-1e3, 1e3)


def expected_weight(damp, a, b, age):
    """The three functions s of the paper."""
    if damp == "constant":
        return 1.0
    if damp == "polynomial":
        return (age + 1.0) ** -a
    return 1.0 if age <= b else 1.0 / (a * (age - b) + 1.0)


@pytest.mark.few(1)
@pytest.mark.parametrize("damp", DAMPINGS)
def test_it_conforms(damp):
    method = FedAsync(steps=3, size=0.1, pull=0.3, damp=damp)
    conform(method, skip=["all_active_is_gradient_descent"])  # more than one step is not


def test_with_one_step_of_size_one_it_conforms_in_everything():
    conform(FedAsync(steps=1, size=1.0))


@pytest.mark.parametrize("damp", DAMPINGS)
@pytest.mark.parametrize(("a", "b"), [(0.5, 4.0), (2.0, 0.0), (0.3, 2.5)])
@pytest.mark.parametrize("age", [0, 1, 4, 5, 30, 10_000])
def test_one_arrival_mixes_by_its_age(damp, a, b, age):
    state = FedAsync(steps=1, size=0.1, damp=damp, a=a, b=b).init(np.array([1.0, -2.0]), 3)
    receive(state, 1, np.array([3.0, 4.0]), age)
    advance(state, 0.6)
    alpha = 0.6 * expected_weight(damp, a, b, age)
    assert np.allclose(state.w, (1 - alpha) * np.array([1.0, -2.0]) + alpha * np.array([3.0, 4.0]), rtol=1e-13)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(DAMPINGS),
    st.floats(0.01, 5),
    st.floats(0, 10),
    st.floats(0.01, 1),
    st.lists(st.tuples(NUMBERS, st.integers(0, 10**6)), min_size=1, max_size=6),
    NUMBERS,
)
def test_the_new_model_lies_between_the_old_one_and_those_that_arrived(damp, a, b, alpha, arrivals, start):
    state = FedAsync(steps=1, size=0.1, damp=damp, a=a, b=b).init(np.array([start]), 9)
    for i, (model, age) in enumerate(arrivals):
        receive(state, i, np.array([model]), age)
    advance(state, alpha)
    reach = [start, *(model for model, _ in arrivals)]
    assert min(reach) - 1e-9 <= state.w[0] <= max(reach) + 1e-9
    after = state.w.copy()
    advance(state, alpha)
    assert np.array_equal(state.w, after)


def test_where_nothing_is_old_it_is_fedavg():
    ends = [
        simulate(BOWL, method, Uniform(3), Constant(0.9), iterations=50, w0=np.ones(3), seed=3).w
        for method in (FedAvg(steps=4, size=0.2), FedAsync(steps=4, size=0.2))
    ]
    assert np.allclose(*ends, rtol=1e-11)


@pytest.mark.thorough
def test_on_a_clock_compiled_and_plain_agree_bit_for_bit():
    method, clock = FedAsync(steps=3, size=0.1, pull=0.2, gradients="exact"), Clock(Exponential(1.0))
    fast, slow = (
        siag.simulate(RIDGE, method, clock, Constant(0.5), iterations=80, compiled=compiled, seed=6)
        for compiled in (True, False)
    )
    assert np.array_equal(fast.error, slow.error)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"damp": "linear"}, "damp = 'linear': must be one of 'constant', 'polynomial', 'hinge'"),
        ({"a": -0.1}, "a = -0.1: must be a finite number at least 0"),
        ({"b": -1.0}, "b = -1.0: must be a finite number at least 0"),
        ({"pull": -1.0}, "pull = -1.0: must be a finite number at least 0"),
        ({"a": 0.0, "damp": "hinge"}, "a = 0.0: must be above 0 with damp='hinge'; use damp='constant'"),
    ],
)
def test_dampings_of_no_meaning_are_refused(parameters, message):
    with pytest.raises(siag.BadInput, match=message):
        FedAsync(steps=1, size=0.1, **parameters)


@pytest.mark.parametrize("step", [Constant(1.01), Harmonic(3.0, 2.0)], ids=repr)
@pytest.mark.parametrize("around", [lambda method: method, Averaged], ids=["bare", "averaged"])
def test_shares_above_one_are_refused(step, around):
    with pytest.raises(siag.Unsuitable, match=r"begins with 1\..*; use one of at most 1, as Constant\(0\.6\)"):
        siag.simulate(BOWL, around(FedAsync(steps=1, size=0.1)), Uniform(3), step, iterations=5)


@pytest.mark.parametrize("step", [Constant(1.0), Harmonic(2.0, 2.0)], ids=repr)
def test_shares_up_to_one_are_not(step):
    run = simulate(BOWL, FedAsync(steps=1, size=0.1), Uniform(3), step, iterations=20)
    assert run.error[0, -1] < run.error[0, 0]


def test_an_exponent_of_zero_is_no_damping():
    state = FedAsync(steps=1, size=0.1, a=0.0).init(np.zeros(1), 2)
    receive(state, 0, np.ones(1), 99)
    advance(state, 0.5)
    assert state.w[0] == 0.5
