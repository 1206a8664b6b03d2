"""`SIAG(average=m)`: a row is a moving average of its worker's own reports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import simulate
from refusals import refused
from siag.experiments.config import written
from siag.methods import SIAG, Averaged, MeanRows, Prox, Table, advance, fade, ready, receive, total_weight
from siag.server import DROP, KEEP, ParameterServer
from siag.steps import Constant

N, D = 3, 2
quick = settings(deadline=None, max_examples=60)
REPORTS = st.lists(st.tuples(st.integers(0, N - 1), st.floats(-1e3, 1e3)), max_size=60)


def test_one_report_is_algorithm_1_and_its_table_as_it_is():
    assert isinstance(SIAG().init(np.zeros(D), N), Table)
    assert isinstance(SIAG(average=1).init(np.zeros(D), N), Table)
    assert isinstance(SIAG(average=2).init(np.zeros(D), N), MeanRows)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@quick
@given(reports=REPORTS, average=st.integers(2, 9), resum=st.integers(0, 3))
def test_rows_are_the_averages_of_the_formula_and_the_total_is_their_sum(precision, reports, average, resum):
    state = SIAG(average=average, rows=precision, resum=resum).init(np.zeros(1), N)
    rows, k = np.zeros(N), np.zeros(N)
    for i, value in reports:
        k[i] += 1
        rows[i] += (value - rows[i]) / min(k[i], average)
        receive(state, i, np.array([value]), 0)
        advance(state, 0.1)
        close = 1e-12 if precision == "float64" else 1e-5
        np.testing.assert_allclose(state.table.rows[:, 0], rows, rtol=0, atol=1e3 * close)
        np.testing.assert_allclose(state.table.total, state.table.rows.astype(float).sum(axis=0), rtol=0, atol=1e-9)


def test_up_to_m_reports_a_row_is_their_mean_then_each_report_moves_it_by_one_mth():
    state = SIAG(average=3).init(np.zeros(1), 1)
    found = []
    for value in (3.0, 5.0, 10.0, 0.0, 3.0):
        receive(state, 0, np.array([value]), 0)
        found.append(state.table.rows[0, 0])
    assert found == pytest.approx([3.0, 4.0, 6.0, 4.0, 11 / 3], rel=1e-15)


def test_a_first_report_is_taken_to_the_bit():
    value = np.array([0.1 + 1e-17, 1e-300])
    for rows in ("float64", "float32"):
        state = SIAG(average=5, rows=rows).init(np.zeros(D), N)
        receive(state, 1, value, 0)
        assert np.array_equal(state.table.rows[1], value.astype(rows))


def test_a_long_average_over_a_point_that_stays_is_that_of_all_reports():
    values = np.random.default_rng(2).standard_normal((200, D))
    state = SIAG(average=10**6).init(np.zeros(D), N)
    for value in values:
        receive(state, 2, value, 0)
    np.testing.assert_allclose(state.table.rows[2], values.mean(axis=0), rtol=1e-12)


def test_an_arrival_neither_reads_nor_writes_the_rows_of_others():
    state = SIAG(average=4).init(np.zeros(D), N)
    state.table.rows[:] = np.nan
    for k in range(6):
        receive(state, 1, np.full(D, float(k)), 0)
    assert np.isnan(state.table.rows[[0, 2]]).all()


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_a_worker_whose_row_has_faded_begins_anew(factor):
    state = SIAG(average=10).init(np.zeros(1), N)
    for value in (1.0, 3.0):
        receive(state, 0, np.array([value]), 0)
    fade(state, 0, factor)
    assert state.table.rows[0, 0] == 2.0 * factor
    assert total_weight(state.table) == (N - 1 if factor == 0.0 else N)
    for value, mean in ((7.0, 7.0), (9.0, 8.0)):
        receive(state, 0, np.array([value]), 0)
        assert state.table.rows[0, 0] == mean
    assert total_weight(state.table) == N


def test_a_fade_by_nothing_leaves_the_average_going_on():
    state = SIAG(average=10).init(np.zeros(1), N)
    receive(state, 0, np.array([1.0]), 0)
    fade(state, 0, 1.0)
    receive(state, 0, np.array([3.0]), 0)
    assert state.table.rows[0, 0] == 2.0


@pytest.mark.parametrize(("departed", "row"), [(DROP, 5.0), (KEEP, 3.0)])
def test_a_worker_that_comes_back_to_a_server_goes_on_from_a_row_that_was_kept_alone(departed, row):
    server = ParameterServer(SIAG(average=10), Constant(0.1), np.zeros(1), 2, departed=departed)
    for who, value in ((0, 1.0), (1, 1.0)):
        server.join(who, 0.0)
        server.push(who, server.version, np.array([value]), 0, 0.0)
    server.leave(0, 1.0)
    server.join(0, 2.0)
    server.push(0, server.version, np.array([5.0]), 1, 2.0)
    assert server.state.table.rows[0, 0] == row


def test_it_waits_for_the_workers_it_is_told_to():
    state = SIAG(average=3, wait=1.0).init(np.ones(D), 2)
    for _ in range(4):
        receive(state, 0, np.ones(D), 0)
        advance(state, 0.5)
        assert not ready(state)
    assert np.array_equal(state.w, np.ones(D))
    receive(state, 1, np.ones(D), 0)
    assert ready(state)
    advance(state, 0.5)
    assert np.array_equal(state.w, np.full(D, 0.5))


@pytest.mark.thorough
@pytest.mark.parametrize("method", [SIAG(average=3), SIAG(average=3, rows="float32"), Averaged(Prox(SIAG(average=2)))])
def test_compiled_and_plain_agree_bit_for_bit(method):
    problem = siag.problems.LeastSquares.random(n=5, d=3, p=2, noise=0.1)
    what = problem, method, siag.activity.Nonuniform(2, 7), siag.steps.Harmonic(0.5, 20)
    one, two = siag.simulate(*what, iterations=300, seed=1), simulate(*what, iterations=300, seed=1)
    assert np.array_equal(one.w, two.w)
    assert np.array_equal(one.error, two.error)


@pytest.mark.thorough
def test_the_noise_of_a_row_is_one_over_two_m_minus_one_as_strong():
    # 20 000 variances of independent rows: their relative error is √(2/20 000) = 1 %; 6 % are 6 σ, 2e-9 of seeds.
    state = SIAG(average=4).init(np.zeros(20_000), 1)
    rng = np.random.default_rng(5)
    for _ in range(60):
        receive(state, 0, rng.standard_normal(20_000), 0)
    assert state.table.rows[0].var() == pytest.approx(1 / 7, rel=0.06)


def after_a_pass(average, eta, n=20):
    """The largest eigenvalue, in size, of what a pass over n workers in turn does to w and the rows, if ∇F_i(w) = w.

    Every coordinate is a start of its own: w alone 1, or one row.
    """
    start = np.eye(n + 1)
    state = SIAG(average=average, resum=0).init(start[0], n)
    table = getattr(state, "table", state)
    table.rows[:], table.total[:] = start[1:], start[1:].sum(axis=0)
    if average > 1:
        state.reports[:] = average
    for i in range(n):
        receive(state, i, state.w.copy(), 0)
        advance(state, eta)
    return np.abs(np.linalg.eigvals(np.vstack([state.w, table.rows]))).max()


@pytest.mark.parametrize("average", [1, 2, 4, 16])
def test_a_constant_step_may_be_two_m_minus_one_times_as_large_when_workers_take_turns(average):
    """At the limit, η = (2m − 1) π²/(2Ln), w swings once in two passes, which averages damp by 1/(2m − 1)."""
    limit = (2 * average - 1) * np.pi**2 / (2 * 20)
    assert after_a_pass(average, 0.99 * limit) < 1 < after_a_pass(average, 1.01 * limit)


@pytest.mark.parametrize(("average", "passes"), [(1, 0.63), (2, 2.9), (4, 7), (8, 15), (16, 31)])
def test_with_the_best_constant_step_the_start_fades_by_e_in_two_m_minus_one_passes(average, passes):
    decay = min(after_a_pass(average, eta) for eta in np.geomspace(0.2, 2, 100) / (20 * average))
    assert -1 / np.log(decay) == pytest.approx(passes, rel=0.02)
    assert passes == pytest.approx(2 * average - 1, rel=0.4)


def test_it_is_written_and_read_as_python_prints_it():
    assert repr(SIAG(average=8)) == "SIAG(resum=64, wait=0.0, rows='float64', average=8)"
    assert written("method", repr(SIAG(average=8))) == SIAG(average=8)


@pytest.mark.parametrize("average", [0, -1, 2.5, True, float("nan"), "2", 2**31 + 1])
def test_an_average_of_no_reports_is_refused_by_name(average):
    with refused("average"):
        SIAG(average=average)
