"""`Averaged`: the mean of the iterates is the result, and workers see no difference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import conform, simulate
from refusals import refused
from siag.foundations.errors import BadInput, Unsuitable
from siag.methods import (
    ADPSGD,
    SCAFFOLD,
    SGD,
    SIAG,
    FedAsync,
    FedBuff,
    advance,
    answer,
    fade,
    ready,
    receive,
    shown,
)
from siag.methods.averaged import Averaged
from siag.methods.prox import Prox

quick = settings(deadline=None, max_examples=60)
METHODS = [Averaged(SIAG()), Averaged(SIAG(wait=1.0), start=7, decay=3.0), Averaged(Prox(SIAG()))]
PROBLEM = siag.problems.LeastSquares.random(n=5, d=3, p=2, noise=0.1)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_it_conforms(method):
    # The mean of gradient descent's iterates is not its last one.
    conform(method, skip=["all_active_is_gradient_descent"])


def test_until_the_start_it_conforms_in_all_respects():
    conform(Averaged(SIAG(), start=10**6))


@quick
@given(steps=st.lists(st.floats(-3, 3), min_size=1, max_size=40), start=st.integers(0, 45))
def test_the_mean_is_that_of_the_iterates_after_the_start(steps, start):
    state, iterates = Averaged(SIAG(), start=start).init(np.array([1.0]), 1), []
    for step in steps:
        receive(state, 0, np.array([step]), 0)
        advance(state, 0.5)
        iterates.append(state.w[0])
    expected = np.mean(iterates[start:]) if len(steps) > start else iterates[-1]
    assert answer(state)[0] == pytest.approx(expected, abs=1e-12)


def test_with_a_decay_later_iterates_count_more_as_binomials_do():
    state, iterates = Averaged(SIAG(), start=3, decay=2.0).init(np.zeros(1), 1), []
    for step in np.random.default_rng(0).standard_normal(20):
        receive(state, 0, np.array([step]), 0)
        advance(state, 0.5)
        iterates.append(state.w[0])
    k = np.arange(1, 18)
    assert answer(state)[0] == pytest.approx(np.average(iterates[3:], weights=k * (k + 1)), abs=1e-12)


def test_the_iterates_are_the_methods_own():
    one, two = SIAG().init(np.ones(3), 2), Averaged(SIAG()).init(np.ones(3), 2)
    for k, row in enumerate(np.random.default_rng(0).standard_normal((20, 3))):
        for state in (one, two):
            receive(state, k % 2, row, 0)
            advance(state, 0.1)
        assert np.array_equal(one.w, two.w)
        assert np.array_equal(shown(two), one.w)


@pytest.mark.thorough
def test_errors_and_the_final_w_of_a_run_are_the_means():
    options = {"iterations": 60, "record": 100, "seed": 2}
    place = siag.activity.Uniform(3), siag.steps.Constant(0.1)
    last = [siag.simulate(PROBLEM, SIAG(), *place, **(options | {"iterations": t})).w[0] for t in range(1, 61)]
    run = siag.simulate(PROBLEM, Averaged(SIAG(wait=0.0), start=20), *place, **options)
    np.testing.assert_allclose(run.w[0], np.mean(last[20:], axis=0), rtol=1e-12)
    assert run.error[0, -1] == pytest.approx(((run.w[0] - PROBLEM.optimum) ** 2).sum(), rel=1e-12)
    assert run.t[20] == 20
    assert run.error[0, 20] == ((last[19] - PROBLEM.optimum) ** 2).sum()


def test_iterations_in_which_the_method_waits_are_left_out():
    state = Averaged(SIAG(wait=1.0)).init(np.ones(1), 2)
    for _ in range(5):
        receive(state, 0, np.ones(1), 0)
        advance(state, 0.5)
        assert not ready(state)
    receive(state, 1, np.ones(1), 0)
    advance(state, 0.5)
    assert answer(state)[0] == state.w[0] == 0.5
    advance(state, 0.5)
    assert answer(state)[0] == 0.25


@pytest.mark.parametrize(
    "method",
    [FedBuff(steps=2, size=0.1), FedAsync(steps=2, size=0.1), ADPSGD(), SGD(), SCAFFOLD(steps=2, size=0.1)],
    ids=repr,
)
def test_iterations_in_which_nobody_reports_are_left_out_where_the_method_then_rests(method):
    everybody = range(PROBLEM.n)
    means = [
        simulate(
            PROBLEM,
            Averaged(method),
            siag.activity.Recorded(sets),
            siag.steps.Constant(0.1),
            iterations=len(sets),
            w0=np.ones(3),
        ).w
        for sets in ([everybody, everybody], [everybody, *[[]] * 8, everybody])
    ]
    assert np.array_equal(*means)


def test_what_is_the_methods_own_is_passed_on():
    state = Averaged(SIAG()).init(np.zeros(2), 2)
    receive(state, 1, np.array([1.0, 2.0]), 0)
    fade(state, 1, 0.5)
    assert state.inner.rows.tolist() == [[0.0, 0.0], [0.5, 1.0]]
    assert Averaged(SIAG()).traffic(4, 2) == (4, 4)
    assert Averaged(SIAG()).message(4, 2) == 4


def test_it_averages_what_a_proximal_step_has_made():
    state = Averaged(Prox(SIAG(), low=0.0)).init(np.ones(1), 1)
    for gradient in (4.0, -1.0):
        receive(state, 0, np.array([gradient]), 0)
        advance(state, 0.5)
    assert state.w[0] == 0.5
    assert answer(state)[0] == 0.25


def test_sgd_may_be_averaged():
    place = siag.activity.Everyone(), siag.steps.Constant(0.1)
    one, two = (
        simulate(PROBLEM, method, *place, iterations=1000, repeats=2, record=2).error[:, -1].mean()
        for method in (SGD(), Averaged(SGD(), start=100))
    )
    assert 10 * two < one


@pytest.mark.parametrize("start", [-1, 1.5, True, float("nan"), "0"])
def test_a_start_that_is_no_number_of_iterations_is_refused(start):
    with refused("start"):
        Averaged(SIAG(), start=start)


@pytest.mark.parametrize("decay", [-1.0, float("nan"), "8"])
def test_a_decay_that_is_no_number_or_negative_is_refused(decay):
    with refused("decay"):
        Averaged(SIAG(), decay=decay)


def test_what_is_no_method_and_what_is_averaged_already_are_refused():
    with pytest.raises(BadInput, match=r"^method = None: must be a method; as in Averaged\(SIAG\(\)\)$"):
        Averaged(None)
    with pytest.raises(Unsuitable, match="would take the mean twice; leave one out"):
        Averaged(Averaged(SIAG()))
