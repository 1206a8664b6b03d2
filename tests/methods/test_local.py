"""Local steps: the compiled walk against a readable one, and what all methods that take them refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from samples_only import SamplesOnly
from siag.checks import Bowl
from siag.foundations.rng import SAMPLES, fresh
from siag.methods import compute, cost
from siag.methods.fedasync import FedAsync
from siag.methods.fedavg import FedAvg
from siag.methods.fedbuff import FedBuff
from siag.methods.fednova import FedNova
from siag.methods.fedprox import FedProx
from siag.methods.local import DELTA, MODEL, descend, local, walk
from siag.methods.mifa import MIFA
from siag.problems import sample

BOWL = Bowl(np.random.default_rng(0).random((3, 4)), np.array([0.5, 1.0, 2.0, 3.0]))
METHODS = [FedAvg, FedProx, MIFA, FedBuff, FedAsync, FedNova]


def given_parameters(kind, **others):
    needed = {"steps": 2, "size": 0.1} | ({"pull": 0.5} if kind is FedProx else {})
    return needed | others


def walked(gradient, w, steps, size, pull=0.0, correction=0.0):
    """What local steps are, to be read."""
    y = w.copy()
    for _ in range(steps):
        y = y - size * (gradient(y) + correction + pull * (y - w))
    return y


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 20),
    st.floats(0.001, 0.3),
    st.floats(0.0, 3.0),
    st.integers(0, 2),
    st.lists(st.floats(-10, 10), min_size=4, max_size=4),
)
def test_a_worker_sends_where_its_steps_lead_or_how_far_they_went(steps, size, pull, i, start):
    w, out = np.array(start), np.empty(4)
    for what in (DELTA, MODEL):
        memory = local(w, 3, steps=steps, size=size, gradients="exact", pull=pull, what=what)
        assert compute(memory, BOWL.oracle(), fresh(1, 0, SAMPLES), i, w, out)
        y = walked(lambda y: BOWL.gradient(i, y), w, steps, size, pull)
        assert np.allclose(out, y if what == MODEL else w - y, rtol=1e-12, atol=1e-12)
        assert np.array_equal(w, start)
        assert cost(memory) == steps


def test_a_correction_is_added_to_every_gradient():
    w, correction = np.arange(4.0), np.array([1.0, -1.0, 0.5, 0.0])
    memory = local(w, 3, steps=5, size=0.1, gradients="exact")
    for how in (descend, descend.plain):
        how(memory, BOWL.oracle(), fresh(1, 0, SAMPLES), 2, w, correction)
        expected = walked(lambda y: BOWL.gradient(2, y), w, 5, 0.1, correction=correction)
        assert np.allclose(memory.y, expected, rtol=1e-13)


def test_a_correction_that_makes_up_for_being_different_leads_to_the_optimum_of_all():
    w = BOWL.optimum
    memory = local(w, 3, steps=50, size=0.1, gradients="exact")
    for i in range(BOWL.n):
        descend(memory, BOWL.oracle(), fresh(1, 0, SAMPLES), i, w, -BOWL.gradient(i, w))
        assert np.allclose(memory.y, w, rtol=1e-13)


def test_more_may_be_shown_than_the_model_and_the_number_of_steps_given():
    shown, none = np.arange(9.0), np.zeros(4)
    memory = local(shown[:4], 3, steps=1, size=0.1, gradients="exact")
    walk(memory, BOWL.oracle(), fresh(1, 0, SAMPLES), 0, shown, none, 7)
    assert np.allclose(memory.y, walked(lambda y: BOWL.gradient(0, y), shown[:4], 7, 0.1), rtol=1e-13)


def test_workers_may_take_unequal_numbers_of_steps():
    w, out, steps = np.arange(4.0), np.empty(4), (1, 4, 2)
    memory = local(w, 3, steps=steps, size=0.1, gradients="exact")
    for i in range(3):
        compute(memory, BOWL.oracle(), fresh(1, 0, SAMPLES), i, w, out)
        assert np.allclose(w - out, walked(lambda y, i=i: BOWL.gradient(i, y), w, steps[i], 0.1), rtol=1e-13)
        assert cost(memory) == steps[i]


@pytest.mark.parametrize("kind", [MIFA, FedBuff, FedAsync])
def test_a_list_of_steps_is_refused_where_all_must_take_as_many(kind):
    with pytest.raises(siag.BadInput, match=r"^steps = .*must be a whole number from 1 to"):
        kind(**given_parameters(kind, steps=[1, 2]))


def test_every_local_step_draws_a_sample_of_its_own():
    problem = siag.problems.LeastSquares.random(n=3, d=4, p=2, noise=0.5, seed=1)
    w, out, oracle = np.arange(4.0), np.empty(4), problem.oracle()
    compute(local(w, 3, steps=3, size=0.05, gradients="sample"), oracle, fresh(5, 0, SAMPLES), 1, w, out)
    rng, drawn = fresh(5, 0, SAMPLES), []

    def gradient(y):
        drawn.append(np.empty(4))
        sample(oracle, rng, 1, y, drawn[-1])
        return drawn[-1]

    assert np.allclose(w - out, walked(gradient, w, 3, 0.05), rtol=1e-12)
    assert len({tuple(g) for g in drawn}) == 3


@pytest.mark.parametrize("kind", METHODS)
def test_a_run_counts_every_local_gradient_and_one_upload_a_report(kind):
    problem = siag.problems.LeastSquares.random(n=4, d=2, p=1, noise=0.0)
    method = kind(**given_parameters(kind, steps=7, size=0.01))
    run = siag.simulate(
        problem, method, siag.activity.Everyone(), siag.steps.Constant(0.1), iterations=5, record=2, compiled=False
    )
    assert run.samples[0, -1] == 7 * 4 * 5
    assert run.uploads[0, -1] == run.reads[0, -1] == 4 * 5
    assert run.bytes[0, -1] == 8 * 2 * (2 * 4 * 5)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *[("steps", value, "a whole number from 1 to") for value in (0, -1, 1.5, True, float("nan"), "2", None)],
        *[("size", value, "a finite number above 0") for value in (0.0, -0.1, float("inf"), float("nan"), "x", True)],
        *[("gradients", value, "one of 'sample', 'exact'") for value in ("both", None, 1)],
    ],
)
def test_parameters_of_no_meaning_are_refused_by_name(kind, name, value, allowed):
    with pytest.raises(siag.BadInput, match=f"^{name} = .*must be {allowed}"):
        kind(**given_parameters(kind, **{name: value}))


@pytest.mark.parametrize("kind", METHODS)
def test_exact_gradients_are_refused_where_there_are_none_and_samples_will_do(kind):
    rest = siag.activity.Everyone(), siag.steps.Constant(0.5)
    with pytest.raises(siag.Unsuitable, match=f"{kind.__name__} needs exact gradients, which SamplesOnly does not"):
        siag.simulate(SamplesOnly(), kind(**given_parameters(kind, gradients="exact")), *rest, iterations=2)
    run = siag.simulate(
        SamplesOnly(), kind(**given_parameters(kind)), *rest, iterations=2, w0=np.ones(1), compiled=False
    )
    assert 0 < run.w[0, 0] < 1
