"""`fade`: what a method does with what it keeps of a worker that has left for good."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.methods import Method, advance, fade, receive, table, total_weight

quick = settings(deadline=None, max_examples=60)


@siag.compiled
def fade_compiled(state, i, factor):
    fade(state, i, factor)


def filled(precision="float64", resum=64):
    """A table of four rows in which all have reported."""
    state = table(np.zeros(3), 4, resum, 0.0, precision)
    for i, row in enumerate(np.random.default_rng(1).standard_normal((4, 3))):
        receive(state, i, row, 0)
    return state


@pytest.mark.parametrize("precision", ["float64", "float32"])
@quick
@given(
    faded=st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), max_size=30),
    resum=st.integers(0, 3),
    often=st.integers(1, 5),
)
def test_the_total_is_the_sum_of_the_rows_however_they_fade(precision, faded, resum, often):
    state = filled(precision, resum)
    for k, (i, factor) in enumerate(faded):
        before = state.rows.copy()
        fade(state, i, factor)
        expected = (factor * before[i].astype(float)).astype(precision)
        assert np.array_equal(state.rows[i], expected)
        assert np.array_equal(np.delete(state.rows, i, 0), np.delete(before, i, 0))
        if k % often == 0:
            advance(state, 0.0)
        np.testing.assert_allclose(state.total, state.rows.astype(float).sum(axis=0), rtol=0, atol=1e-12)


@quick
@given(i=st.integers(0, 3), factor=st.floats(0, 1))
def test_compiled_and_plain_agree_bit_for_bit(i, factor):
    for precision in ("float64", "float32"):
        one, two = filled(precision), filled(precision)
        fade(one, i, factor)
        fade_compiled(two, i, factor)
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_nothing_is_left_of_a_row_that_is_dropped():
    state = filled()
    fade(state, 2, 0.0)
    assert not state.rows[2].any()
    np.testing.assert_allclose(state.total, np.delete(state.rows, 2, 0).sum(axis=0), rtol=1e-14)


def test_the_average_is_over_the_rows_that_are_not_gone_and_a_worker_that_is_back_counts_again():
    state = filled()
    for i, left in ((2, 3), (2, 3), (0, 2)):
        fade(state, i, 0.0)
        assert total_weight(state) == left
    fade(state, 1, 0.5)  # it counts for less, but it counts
    w, mean = state.w.copy(), state.rows[[1, 3]].mean(axis=0)
    advance(state, 0.5)
    np.testing.assert_allclose(state.w, w - 0.5 * mean, rtol=1e-12)
    receive(state, 2, np.ones(3), 0)
    assert (total_weight(state), state.gone.tolist()) == (3, [True, False, False, False])
    w, mean = state.w.copy(), state.rows[[1, 2, 3]].mean(axis=0)
    advance(state, 0.5)
    np.testing.assert_allclose(state.w, w - 0.5 * mean, rtol=1e-12)


def test_if_all_rows_are_gone_w_stays():
    state = filled(resum=0)
    for i in range(4):
        fade(state, i, 0.0)
    w = state.w.copy()
    advance(state, 0.5)
    np.testing.assert_allclose(state.w, w, rtol=0, atol=1e-14)


def test_fading_neither_moves_w_nor_counts_as_a_report_of_the_worker():
    state = siag.methods.SIAG(wait=1.0).init(np.ones(2), 3)
    fade(state, 1, 0.5)
    advance(state, 1.0)
    assert np.array_equal(state.w, [1.0, 1.0])
    assert not state.seen.any()
    assert state.quorum == 3


def test_what_rounding_a_large_row_leaves_behind_is_summed_away():
    """A row of 1e16 hides the others in the sum; once it is dropped the next exact sum shows them again."""
    state = table(np.zeros(1), 2, 1, 0.0)
    receive(state, 0, np.array([1e16]), 0)
    receive(state, 1, np.array([1.0]), 0)
    state.tally[0] = 0  # as after an exact sum
    fade(state, 0, 0.0)
    fade(state, 0, 0.0)
    advance(state, 0.0)
    assert state.total[0] == 1.0


@pytest.mark.parametrize("method", [siag.methods.SGD(), siag.methods.SGD(normalization="sum")], ids=repr)
def test_a_method_that_keeps_nothing_has_nothing_to_fade(method):
    for call in (fade, fade_compiled):
        state = method.init(np.ones(2), 3)
        receive(state, 1, np.array([1.0, 2.0]), 0)
        before = [np.copy(each) for each in state]
        call(state, 1, 0.0)
        assert all(np.array_equal(a, b) for a, b in zip(before, state, strict=True))


class Newest(NamedTuple):
    w: np.ndarray
    kept: np.ndarray  # (n,)


class OwnMethod(Method):
    """Keeps one number of each worker."""

    def init(self, w0, n):
        return Newest(w0.copy(), np.zeros(n))


@receive.when(Newest)
def keep(state, i, message, age):
    state.kept[i] = message[0]


@advance.when(Newest)
def go(state, eta):
    state.w[0] -= eta * state.kept.sum()


@fade.when(Newest)
def forget(state, i, factor):
    state.kept[i] *= factor


def test_a_method_of_ones_own_may_say_what_fading_means():
    for call in (fade, fade_compiled):
        state = OwnMethod().init(np.zeros(1), 2)
        receive(state, 0, np.array([4.0]), 0)
        call(state, 0, 0.25)
        assert state.kept.tolist() == [1.0, 0.0]
