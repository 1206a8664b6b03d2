"""A report and a step in one go are a report and then a step, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations.dispatch import compiled
from siag.methods import SGD, SIAG, advance, arrive, fade, receive
from siag.server.method_state import arrays_of


@compiled
def at_once(state, i, message, age, eta):
    arrive(state, i, message, age, eta)


@compiled
def one_by_one(state, i, message, age, eta):
    receive(state, i, message, age)
    advance(state, eta)


@compiled
def faded(state, i, factor):
    fade(state, i, factor)


METHODS = [SIAG(), SIAG(resum=1), SIAG(resum=0), SIAG(wait=1.0), SIAG(rows="float32"), SGD()]
METHODS += [SIAG(average=3), SIAG(average=2, rows="float32", resum=1)]


@pytest.mark.thorough
@settings(deadline=None, max_examples=40)
@given(st.sampled_from(METHODS), st.lists(st.integers(-4, 3), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_a_report_and_a_step_at_once_equal_both_in_turn(method, workers, seed):
    """Of worker i; −1 − i: it has left, and nothing is left of its row, or half."""
    rng = np.random.default_rng(seed)
    fused, parted, plain = (method.init(np.ones(5), 4) for _ in range(3))
    for i in workers:
        if i < 0:
            factor = float(rng.choice([0.0, 0.5]))
            faded(fused, -1 - i, factor)
            faded(parted, -1 - i, factor)
            fade(plain, -1 - i, factor)
            continue
        message, eta = rng.standard_normal(5), float(rng.random())
        at_once(fused, i, message, 0, eta)
        one_by_one(parted, i, message, 0, eta)
        arrive(plain, i, message, 0, eta)
    for name, one in arrays_of(fused).items():
        np.testing.assert_array_equal(one, arrays_of(parted)[name])
        np.testing.assert_array_equal(one, arrays_of(plain)[name])


@pytest.mark.parametrize("method", METHODS)
def test_a_method_without_a_way_of_its_own_does_one_after_the_other(method):
    state = method.init(np.zeros(2), 1)
    arrive(state, 0, np.array([1.0, -1.0]), 0, 0.5)
    assert state.w.tolist() == [-0.5, 0.5]
