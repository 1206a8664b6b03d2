"""What a server shows of its workers' parts in its steps, of its steps and of w."""

import math

import numpy as np
import pytest

from siag.methods import SAGA, SGD, SIAG, AsyncSGD, Automatic, Momentum, Weighted
from siag.methods.automatic import LENGTHS
from siag.server.gauges import LONGEST, counts_alike, kind_of, length_of, shares, weights_in
from siag.server.parameter_server import ParameterServer
from siag.steps import Constant, DelayAdaptive, Harmonic


@pytest.mark.parametrize(
    ("method", "alike"),
    [
        (SIAG(), True),
        (Automatic(), True),
        (SAGA(), True),
        (Momentum(SIAG()), True),
        (SGD(), False),
        (AsyncSGD(), False),
    ],
)
def test_a_method_that_keeps_a_row_of_each_worker_counts_them_alike(method, alike):
    assert counts_alike(method.init(np.zeros(2), 3)) is alike


def test_shares_are_equal_or_as_the_reports():
    assert shares(True, [90, 9, 1], [1.0] * 3) == [1 / 3] * 3
    assert shares(False, [90, 9, 1], [1.0] * 3) == [0.9, 0.09, 0.01]
    assert all(math.isnan(each) for each in shares(False, [0, 0], [1.0] * 2))


def test_a_worker_that_has_left_counts_for_nothing_or_less_and_less():
    assert shares(True, [5, 5, 5], [1.0, 0.0, 1.0]) == [0.5, 0.0, 0.5]
    assert shares(True, [5, 5], [0.5, 1.0]) == pytest.approx([0.25, 0.5])
    assert shares(False, [5, 5], [0.5, 1.0]) == [0.5, 0.5]


def test_shares_are_as_the_weights_of_those_that_are_there():
    weights = np.array([3.0, 1.0, 0.0])
    assert shares(True, [9, 9, 9], [1.0] * 3, weights) == [0.75, 0.25, 0.0]
    assert shares(True, [9, 9, 9], [0.0, 1.0, 1.0], weights) == [0.0, 1.0, 0.0]
    assert shares(False, [1, 9, 9], [1.0] * 3, weights) == [0.25, 0.75, 0.0]
    assert shares(True, [9, 9, 9], [0.5, 1.0, 1.0], weights) == pytest.approx([0.375, 0.25, 0.0])
    nobody = shares(True, [0, 9, 9], [1.0, 0.0, 1.0], np.zeros(3))
    assert [each if each == 0.0 else "?" for each in nobody] == ["?", 0.0, "?"]


def test_weights_are_found_within_whatever_is_around_them():
    assert weights_in(SIAG().init(np.zeros(2), 2)).tolist() == [1.0, 1.0]
    assert weights_in(SGD().init(np.zeros(2), 2)) is None
    within = Momentum(Weighted(SIAG(), [3.0, 1.0])).init(np.zeros(2), 2)
    assert weights_in(within).tolist() == [1.5, 0.5]
    assert [kind_of(each) for each in (None, "samples", (1.0, 2.0))] == ["", "samples", "given"]


def served(method, step):
    server = ParameterServer(method, step, np.zeros(2), 2)
    for row in (0, 1):
        server.join(row, 0.0)
        message = np.ones(server.message_size)
        server.push(row, server.version, message, 0, 0.1)
    return server


def test_the_step_is_that_of_the_schedule_or_the_mean_of_the_methods_own():
    assert served(SIAG(), Constant(0.5)).snapshot(0.2).step == 0.5
    assert served(SIAG(), Harmonic(beta=2.0, gamma=4.0)).snapshot(0.2).step == pytest.approx(2.0 / 6.0)
    server = served(Automatic(), Constant(1.0))
    assert server.snapshot(0.2).step == pytest.approx(server.state.sums[LENGTHS] / 2)
    assert served(SIAG(), DelayAdaptive(gamma=0.1)).snapshot(0.2).step is None


def test_a_snapshot_says_how_long_w_and_gradients_are():
    server = served(SIAG(), Constant(0.5))
    shown = server.snapshot(0.2)
    assert shown.length == pytest.approx(float(np.linalg.norm(server.w)))
    assert [view.norm for view in shown.workers] == pytest.approx([math.sqrt(2)] * 2)
    assert length_of(np.zeros(LONGEST + 1), LONGEST + 1) is None
    assert length_of(np.zeros(2), 4) is None
