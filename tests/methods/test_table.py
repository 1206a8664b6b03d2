"""The table of the latest gradients: its running sum, its cost, and how it starts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.methods import advance, receive, table

N, D = 50, 2
UPDATES = 10_000_000
BATCH = 10  # reports per iteration

PROBLEM = siag.problems.LeastSquares.random(n=4, d=3, p=2, noise=0.1, seed=3)


@siag.compiled
def churn(state, message, rng, updates, batch):
    """Replace rows by numbers of size 1e8, and in the second half of size 1e-8; η = 0 leaves w alone."""
    for k in range(updates):
        size = 1e8 if k < updates // 2 else 1e-8
        for j in range(message.size):
            message[j] = size * (1.0 + siag.rng.uniform(rng))
        receive(state, siag.rng.below(rng, state.rows.shape[0]), message, 0)
        if (k + 1) % batch == 0:
            advance(state, 0.0)


def drift(resum):
    """The relative distance of the running sum from the exact one, after ten million replaced rows."""
    state = table(np.zeros(D), N, resum, 0.0)
    churn(state, np.empty(D), siag.rng.fresh(1, 0, 0), UPDATES, BATCH)
    truth = np.array([math.fsum(column) for column in state.rows.T])
    assert 0 < truth.max() < N * 2e-8  # the large numbers are gone from the table
    return float(np.abs(state.total / truth - 1.0).max())


def test_the_running_sum_does_not_drift_in_ten_million_updates():
    assert drift(siag.methods.SIAG().resum) < 1e-12


def test_without_summing_anew_the_running_sum_does_drift():
    # Otherwise the test above would show nothing.
    assert drift(0) > 1e-3


@settings(deadline=None, max_examples=50)
@given(i=st.integers(0, 5), values=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_an_arrival_neither_reads_nor_writes_the_rows_of_others(i, values):
    state = table(np.zeros(3), 6, 64, 0.0)
    state.rows[:] = np.nan  # whoever reads another's row is found out
    state.rows[i] = [1.0, 2.0, 3.0]
    state.total[:] = [10.0, 20.0, 30.0]
    receive(state, i, np.array(values), 0)
    np.testing.assert_allclose(state.total, np.array([9.0, 18.0, 27.0]) + values, rtol=1e-12, atol=1e-9)
    assert np.array_equal(state.rows[i], values)
    assert np.isnan(np.delete(state.rows, i, axis=0)).all()


@settings(deadline=None, max_examples=50)
@given(
    reports=st.lists(st.tuples(st.integers(0, 4), st.floats(-1e3, 1e3)), max_size=80),
    resum=st.integers(0, 4),
    often=st.integers(1, 5),
)
def test_the_total_is_always_the_sum_of_the_rows(reports, resum, often):
    state = table(np.zeros(1), 5, resum, 0.0)
    for k, (i, value) in enumerate(reports):
        receive(state, i, np.array([value]), 0)
        if k % often == 0:
            advance(state, 0.1)
        assert state.total[0] == pytest.approx(state.rows.sum(), rel=0, abs=1e-9)


def test_the_table_keeps_its_own_copy_of_a_message():
    state, message = table(np.zeros(2), 3, 64, 0.0), np.array([1.0, 2.0])
    receive(state, 1, message, 0)
    message[:] = 7.0
    assert np.array_equal(state.rows[1], [1.0, 2.0])


def test_a_row_is_zero_until_its_worker_reports():
    # Algorithm 1, line 2: one of four workers reports, and the server takes a quarter of its gradient.
    state = siag.methods.SIAG().init(np.array([1.0, 1.0]), 4)
    assert not state.rows.any()
    receive(state, 2, np.array([4.0, -8.0]), 0)
    advance(state, 0.5)
    assert np.array_equal(state.w, [0.5, 2.0])


def path(wait, trace):
    """‖w^t − w*‖² at every t."""
    run = siag.simulate(
        PROBLEM,
        siag.methods.SIAG(wait=wait),
        siag.activity.Recorded(trace),
        siag.steps.Constant(0.05),
        iterations=len(trace),
        record=500,
    )
    assert len(run.t) == len(trace) + 1
    return run.error[0]


def test_without_waiting_the_first_report_moves_w():
    error = path(0.0, [[], [2], []])
    assert error[0] == error[1] != error[2] != error[3]


def test_waiting_for_all_w_does_not_move_until_the_last_has_reported():
    error = path(1.0, [[0], [1, 2], [0], [3], []])
    assert len(set(error[:4])) == 1
    assert error[4] != error[3]
    assert error[5] != error[4]


def test_waiting_for_half_w_moves_with_the_second_of_four_workers():
    error = path(0.5, [[0], [0], [0, 3], []])
    assert len(set(error[:3])) == 1
    assert error[3] != error[2]


@pytest.mark.parametrize(("wait", "n", "quorum"), [(0.0, 7, 0), (1.0, 7, 7), (0.5, 7, 4), (0.3, 10, 3), (1e-9, 7, 1)])
def test_the_quorum_is_the_fraction_rounded_up(wait, n, quorum):
    assert siag.methods.SIAG(wait=wait).init(np.zeros(1), n).quorum == quorum


@pytest.mark.parametrize("n", [25, 50, 100])
def test_the_quorum_is_not_raised_by_rounding(n):
    # 0.07 · 100 is 7.000000000000001 in floating point; seven workers are still seven in a hundred.
    wrong = [k for k in range(n + 1) if siag.methods.SIAG(wait=k / n).init(np.zeros(1), n).quorum != k]
    assert wrong == []


@pytest.mark.parametrize("method", [siag.methods.SIAG, siag.methods.IAG, siag.methods.SAG])
@pytest.mark.parametrize(
    ("parameter", "value"), [("resum", -1), ("resum", 0.5), ("wait", -0.1), ("wait", 1.1), ("wait", float("nan"))]
)
def test_hyper_parameters_out_of_range_are_refused_by_name(method, parameter, value):
    with pytest.raises(siag.BadInput, match=parameter):
        method(**{parameter: value})


def test_an_unknown_normalization_is_refused_with_the_known_ones():
    with pytest.raises(siag.BadInput, match=r"normalization.*'mean', 'sum'"):
        siag.methods.SGD(normalization="median")
