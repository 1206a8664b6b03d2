"""Large jobs: refused before they fail, and no larger than they must be."""

import numpy as np
import pytest

import siag
from siag.activity import Everyone, Sequential, Uniform, unfold
from siag.foundations import memory

PROBLEM = siag.problems.LeastSquares.random(n=50, d=10, p=4, noise=0.1)
STEP = siag.steps.Harmonic(0.5, 200)


@pytest.mark.thorough
def test_rows_in_single_precision_take_half_the_memory_and_add_an_error_far_below_the_noise():
    exact, rounded = siag.methods.SIAG(), siag.methods.SIAG(rows="float32")
    tables = [method.init(np.zeros(10), 50) for method in (exact, rounded)]
    assert tables[1].rows.nbytes * 2 == tables[0].rows.nbytes
    one, two = (siag.simulate(PROBLEM, method, Uniform(5), STEP, iterations=5000) for method in (exact, rounded))
    added = float(((one.w - two.w) ** 2).sum())
    assert 0 < added < 1e-10 * one.error[0, -1]


def test_the_sum_of_rounded_rows_is_that_of_what_is_stored():
    state = siag.methods.SIAG(rows="float32", resum=0).init(np.zeros(3), 4)
    rng = np.random.default_rng(0)
    for k in range(400):
        siag.methods.receive(state, k % 4, rng.standard_normal(3), 0)
    np.testing.assert_allclose(state.total, state.rows.astype(float).sum(axis=0), atol=1e-12)


def test_an_unknown_precision_is_refused():
    with pytest.raises(siag.BadInput, match="rows = 'float8': must be one of 'float64', 'float32'"):
        siag.methods.SIAG(rows="float8")


@pytest.mark.thorough
def test_a_table_that_would_not_fit_is_refused_with_what_would(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 4000)
    with pytest.raises(siag.Unsuitable, match=r"SIAG.*50 workers and d = 10.*GiB are free; use rows='float32'"):
        siag.simulate(PROBLEM, siag.methods.SIAG(), Uniform(5), STEP, iterations=10)
    siag.simulate(PROBLEM, siag.methods.SIAG(rows="float32"), Uniform(5), STEP, iterations=10)
    size = {"iterations": 10, "repeats": 2, "threads": 2}
    with pytest.raises(siag.Unsuitable, match="SIAG"):
        siag.simulate(PROBLEM, siag.methods.SIAG(rows="float32"), Uniform(5), STEP, **size)


def test_messages_in_flight_count_as_memory_too(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 6000)
    siag.simulate(PROBLEM, siag.methods.SIAG(), Uniform(5), STEP, iterations=10)
    clock = siag.activity.Clock(compute=siag.activity.Exponential(1.0))
    with pytest.raises(siag.Unsuitable, match="SIAG"):
        siag.simulate(PROBLEM, siag.methods.SIAG(), clock, STEP, iterations=10)


def test_memory_is_counted_through_nested_tuples():
    assert memory.size(((np.zeros(3), 1), (np.zeros(2, np.float32), ("x", np.zeros(1))))) == 24 + 8 + 8
    assert memory.available() is None or memory.available() > 0


@pytest.mark.parametrize(("activity", "chunks"), [(Sequential(), 1), (Everyone(), 30)])
def test_a_million_workers_do_not_make_chunks_of_one_iteration_unless_all_report(activity, chunks):
    n = 10**6 if isinstance(activity, Sequential) else 10**5
    assert len(list(unfold(activity, n, 30, seed=0, repeat=0, cost=20))) <= chunks
