"""DuDe and ACE are sIAG that waits for everybody, each along its own schedule."""

import numpy as np
import pytest

import siag
from plain import conform
from siag.activity import Clock, EveryArrivals, Exponential
from siag.foundations.errors import BadInput
from siag.methods.ace import ACE
from siag.methods.dude import DuDe

PROBLEM = siag.problems.LeastSquares.random(n=5, d=3, p=2, noise=0.1, seed=2)


def run(method, every):
    clock = Clock(Exponential(1.0), server=EveryArrivals(every), slowness=[1.0, 2.0, 3.0, 4.0, 9.0])
    step = siag.steps.Harmonic(0.5, 100)
    return siag.simulate(PROBLEM, method, clock, step, iterations=2000, repeats=2, seed=5)


@pytest.mark.parametrize("method", [DuDe(), ACE(), DuDe(gradients="exact"), ACE(rows="float32")], ids=repr)
def test_they_conform(method):
    conform(method, skip=["all_active_is_gradient_descent"] if method.rows == "float32" else [])  # rows are rounded


@pytest.mark.parametrize(("method", "every"), [(DuDe(), 1), (DuDe(), 3), (ACE(), 1)])
def test_they_are_siag_that_waits_for_everybody_bit_for_bit(method, every):
    one, two = run(method, every), run(siag.methods.SIAG(wait=1.0), every)
    assert np.array_equal(one.w, two.w)
    assert np.array_equal(one.error, two.error)
    assert not np.array_equal(one.w, run(siag.methods.SIAG(), every).w)


@pytest.mark.parametrize("kind", [DuDe, ACE])
def test_with_exact_gradients_they_are_iag_bit_for_bit(kind):
    assert np.array_equal(run(kind(gradients="exact"), 1).w, run(siag.methods.IAG(wait=1.0), 1).w)


@pytest.mark.parametrize("kind", [DuDe, ACE])
@pytest.mark.parametrize("wrong", [{"wait": 1.5}, {"resum": -1}, {"rows": "float16"}, {"gradients": "none"}])
def test_nonsense_is_refused(kind, wrong):
    with pytest.raises(BadInput, match=next(iter(wrong))):
        kind(**wrong)
