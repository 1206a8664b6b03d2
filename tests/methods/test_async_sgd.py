"""AsyncSGD: a weight for every age, SGD without a clock, and the state FedBuff shares."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import siag
from plain import conform
from siag.activity import Clock, EveryArrivals, Exponential, Uniform
from siag.activity.agenda import STEP
from siag.foundations.errors import BadInput
from siag.methods import advance, receive
from siag.methods.async_sgd import AsyncSGD
from siag.methods.discounted import CAPPED, DROPPED, EVEN, ROOT, discounted

PROBLEM = siag.problems.LeastSquares.random(n=4, d=3, p=2, noise=0.1, seed=1)
CLOCK = Clock(Exponential(1.0), slowness=[1.0, 2.0, 4.0, 8.0])


def run(method, activity, compiled=True, iterations=300):
    step = siag.steps.Constant(0.02)
    return siag.simulate(PROBLEM, method, activity, step, iterations=iterations, seed=3, compiled=compiled)


@pytest.mark.parametrize(
    "method", [AsyncSGD(), AsyncSGD(adaptive=True), AsyncSGD(gradients="exact")], ids=["plain", "adaptive", "exact"]
)
def test_it_conforms(method):
    conform(method)


@pytest.mark.thorough
@pytest.mark.parametrize("adaptive", [False, True])
def test_on_a_clock_compiled_and_plain_code_agree_bit_for_bit(adaptive):
    fast, slow = (run(AsyncSGD(adaptive=adaptive), CLOCK, compiled) for compiled in (True, False))
    assert np.array_equal(fast.w, slow.w)


@pytest.mark.thorough
@pytest.mark.parametrize("adaptive", [False, True])
def test_without_a_clock_it_is_sgd(adaptive):
    one, two = run(AsyncSGD(adaptive=adaptive), Uniform(3)), run(siag.methods.SGD(), Uniform(3))
    assert np.allclose(one.w, two.w, rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("every", [1, 3])
def test_with_constant_steps_it_is_sgd_on_any_clock(every):
    clock = Clock(Exponential(1.0), server=EveryArrivals(every), slowness=[1.0, 2.0, 4.0, 8.0])
    assert np.allclose(run(AsyncSGD(), clock).w, run(siag.methods.SGD(), clock).w, rtol=1e-12)


def test_adaptive_steps_differ_once_gradients_are_older_than_there_are_workers():
    assert not np.allclose(run(AsyncSGD(), CLOCK).w, run(AsyncSGD(adaptive=True), CLOCK).w, rtol=1e-6)


def twin(weight, every, iterations, seed):
    """The papers' pseudo-code: a gradient's age is the number of steps since its w was read, which weighs it."""
    clock = Clock(Exponential(1.0), server=EveryArrivals(every), slowness=[1.0, 2.0, 4.0, 8.0])
    w, t, read, arrived, ages = np.zeros(3), 0, {}, [], []
    for chunk in clock.events(4, iterations, seed, 0, 3):
        for code in chunk.code.tolist():
            if code == STEP:
                w, t, arrived = w - 0.02 * np.mean(arrived, axis=0), t + 1, []
            elif code < 0:
                read[-1 - code] = w.copy(), t
            else:
                x, of = read[code]
                ages.append(t - of)
                arrived.append(weight(t - of) * PROBLEM.p * (x - PROBLEM.centers[code]))
    return clock, w, ages


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize(
    ("given", "weight"),
    [
        ({}, lambda age: 1.0),
        ({"adaptive": True}, lambda age: min(1.0, 4 / max(age, 1))),
        ({"adaptive": True, "threshold": 2}, lambda age: 1.0 if age <= 2 else 2 / age),
        ({"adaptive": True, "threshold": 3, "drop": True}, lambda age: float(age <= 3)),
        ({"adaptive": True, "drop": True}, lambda age: float(age <= 4)),
    ],
    ids=lambda given: repr(given) if isinstance(given, dict) else "",
)
def test_it_is_the_papers_pseudo_code_on_a_recorded_clock(given, weight, every):
    clock, w, ages = twin(weight, every, 300, seed=3)
    assert np.allclose(run(AsyncSGD(**given, gradients="exact"), clock, compiled=False).w[0], w, rtol=1e-9)
    assert max(ages) > 4


def expected_weight(kind, n, age):
    weights = {EVEN: 1.0, CAPPED: min(1.0, n / max(age, 1)), ROOT: 1 / math.sqrt(1 + age), DROPPED: float(age <= n)}
    return weights[kind]


@given(
    kind=st.sampled_from([EVEN, CAPPED, ROOT, DROPPED]),
    n=st.integers(1, 50),
    messages=st.lists(st.tuples(st.integers(0, 10**6), st.floats(-10, 10)), min_size=1, max_size=5),
)
def test_a_step_is_the_weighted_sum_over_the_number_of_messages(kind, n, messages):
    state = discounted(np.array([1.0]), n, kind)
    for age, value in messages:
        receive(state, 0, np.array([value]), age)
    assert state.w[0] == 1.0
    advance(state, 0.5)
    total = sum(expected_weight(kind, n, age) * value for age, value in messages)
    assert state.w[0] == pytest.approx(1.0 - 0.5 * total / len(messages), rel=1e-12, abs=1e-12)
    advance(state, 0.5)
    assert state.w[0] == pytest.approx(1.0 - 0.5 * total / len(messages), rel=1e-12, abs=1e-12)


@given(st.integers(0, 10**9), st.integers(1, 1000))
def test_an_adaptive_step_never_exceeds_the_constant_one_nor_one_over_its_age(age, n):
    state = discounted(np.zeros(1), n, CAPPED)
    receive(state, 0, np.ones(1), age)
    advance(state, 1.0 / n)
    assert 0.0 < -state.w[0] <= min(1.0 / n, 1.0 / max(age, 1)) * (1 + 1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"adaptive": 1},
        {"adaptive": "yes"},
        {"gradients": "noisy"},
        {"threshold": 0, "adaptive": True},
        {"threshold": 2.5, "adaptive": True},
        {"drop": 1, "adaptive": True},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        AsyncSGD(**wrong)


@pytest.mark.parametrize("alone", [{"threshold": 3}, {"drop": True}])
def test_a_threshold_means_nothing_where_all_ages_count_the_same(alone):
    with pytest.raises(BadInput, match=f"^{next(iter(alone))} = .* give adaptive=True$"):
        AsyncSGD(**alone)
