"""Step sizes are their formulas, and nonsense is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refused
from siag.foundations.errors import BadInput
from siag.steps import Constant, Harmonic, Step

quick = settings(deadline=None, max_examples=60)
positive = st.floats(1e-6, 1e6)
times = st.lists(st.integers(0, 10**9), max_size=20).map(lambda values: np.array(values, np.int64))


@quick
@given(positive, times)
def test_a_constant_step_is_constant(eta, t):
    sizes = Constant(eta).sizes(t)
    assert sizes.dtype == np.float64
    assert sizes.tolist() == [eta] * len(t)


@quick
@given(positive, positive, times)
def test_a_harmonic_step_is_beta_over_t_plus_gamma(beta, gamma, t):
    sizes = Harmonic(beta, gamma).sizes(t)
    assert sizes.dtype == np.float64
    assert sizes.tolist() == [beta / (int(k) + gamma) for k in t]


def test_whole_numbers_give_the_same_steps_as_reals():
    t = np.arange(5)
    assert Harmonic(1, 2).sizes(t).tolist() == Harmonic(1.0, 2.0).sizes(t).tolist()
    assert Harmonic(1, 2) == Harmonic(1.0, 2.0)
    assert repr(Harmonic(1, 2)) == "Harmonic(beta=1.0, gamma=2.0)"
    assert Constant(1).sizes(t).tolist() == [1.0] * 5


@pytest.mark.parametrize("make", [Constant, lambda x: Harmonic(x, 1), lambda x: Harmonic(1, x)])
@pytest.mark.parametrize("value", [0, -1, -0.0, math.nan, math.inf, None, "1", True, [1.0]])
def test_a_parameter_that_is_not_positive_is_refused(make, value):
    with refused("eta", "beta", "gamma"):
        make(value)


def test_the_refusal_names_the_parameter():
    for make, name in ((Constant, "eta"), (lambda x: Harmonic(x, 1), "beta"), (lambda x: Harmonic(1, x), "gamma")):
        with pytest.raises(BadInput) as caught:
            make(-1)
        assert caught.value.parameter == name


def test_steps_are_steps_and_cannot_be_changed():
    for step in (Constant(1), Harmonic(1, 1)):
        assert isinstance(step, Step)
        with pytest.raises(AttributeError):
            step.beta = 2.0
