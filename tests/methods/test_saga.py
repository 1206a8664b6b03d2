"""SAGA and SAG: their formulas, what they have in common with scikit-learn's, and where they refuse to run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import conform, simulate
from siag.methods import SAG, advance, fade, ready, receive
from siag.methods.saga import SAGA
from siag.problems import LogisticRegression, Ridge
from siag.steps import Constant, Harmonic

SAMPLES = Ridge.random(n=1, d=4, m=40, spread=0.0, regularization=0.1, noise=0.5, seed=2).by_sample()
VECTORS = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3).map(np.array)


@pytest.mark.parametrize("method", [SAGA(), SAGA(wait=1.0), SAGA(resum=1)])
def test_it_does_what_every_method_must(method):
    conform(method)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_it_follows_its_formula(precision):
    """Equation (1) as it stands, summing the table anew every time."""
    n, step = SAMPLES.n, Harmonic(2.0, 60.0)
    drawn = siag.activity.Recorded.of(siag.activity.Sequential(), n, 500, seed=3)
    w, rows = np.zeros(4), np.zeros((n, 4), precision)
    for j, eta in zip(drawn.tape.worker, step.sizes(np.arange(500)), strict=True):
        gradient = SAMPLES.gradient(j, w)
        kept = gradient.astype(precision).astype(float)
        w = w - eta * (kept - rows[j] + rows.astype(float).mean(axis=0))
        rows[j] = gradient
    run = simulate(SAMPLES, SAGA(rows=precision), siag.activity.Sequential(), step, iterations=500, seed=3)
    np.testing.assert_allclose(run.w[0], w, rtol=1e-10)


@settings(max_examples=60)
@given(
    rows=st.lists(VECTORS, min_size=4, max_size=4),
    gradients=st.lists(VECTORS, min_size=4, max_size=4),
    seen=st.lists(st.integers(0, 3), max_size=12),
)
def test_the_mean_step_over_the_samples_is_gradient_descents_whatever_was_seen(rows, gradients, seen):
    moves = []
    for j in range(4):
        state = SAGA().init(np.zeros(3), 4)
        for i in seen:
            receive(state, i, rows[i], 0)
            advance(state, 0.0)
        receive(state, j, gradients[j], 0)
        advance(state, 1.0)
        moves.append(state.w.copy())
    np.testing.assert_allclose(np.mean(moves, axis=0), -np.mean(gradients, axis=0), rtol=0, atol=1e-9)


@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=12),
    values=st.lists(st.floats(-1e3, 1e3), min_size=60, max_size=60),
    resum=st.integers(0, 2),
)
def test_several_arrivals_are_a_batch_and_none_moves_nothing(batches, values, resum):
    state, given_ = SAGA(resum=resum).init(np.zeros(1), 4), iter(values)
    w, rows = 0.0, np.zeros(4)
    for batch in batches:
        before = rows.copy()
        for i in batch:
            rows[i] = next(given_)
            receive(state, i, rows[i : i + 1], 0)
        advance(state, 0.5)
        if batch:
            w -= 0.5 * ((rows - before).sum() / len(batch) + before.mean())
        assert state.w[0] == pytest.approx(w, rel=1e-9, abs=1e-9)
        assert state.table.total[0] == pytest.approx(rows.sum(), rel=0, abs=1e-9)
        assert not state.change.any()
        assert state.arrived[0] == 0


def test_waiting_for_all_it_first_moves_from_a_full_table():
    state = SAGA(wait=1.0).init(np.zeros(1), 2)
    for value in (5.0, 1.0):
        receive(state, 0, np.array([value]), 0)
        advance(state, 1.0)
        assert state.w[0] == 0.0
        assert not ready(state)
    receive(state, 1, np.array([3.0]), 0)
    advance(state, 1.0)
    assert ready(state)
    assert state.w[0] == -(3.0 + 0.5 * 1.0)  # the rows were 1 and 0: 3 − 0 + ½ (1 + 0)


def test_a_row_fades_as_in_any_table():
    state = SAGA().init(np.zeros(1), 2)
    receive(state, 0, np.array([4.0]), 0)
    advance(state, 0.0)
    fade(state, 0, 0.25)
    assert state.table.rows[0, 0] == state.table.total[0] == 1.0


@pytest.mark.thorough
def test_single_precision_rows_stop_at_their_own_rounding():
    step, ends = Constant(1.0 / (3.0 * SAMPLES.constants().L)), {}
    for rows in ("float64", "float32"):
        run = simulate(SAMPLES, SAGA(rows=rows), siag.activity.Sequential(), step, iterations=8000)
        ends[rows] = run.error[0, -1]
    assert ends["float64"] < 1e-24
    assert ends["float64"] < ends["float32"] < 1e-11


@pytest.mark.thorough
def test_by_sample_and_by_worker_have_the_same_optimum():
    whole = LogisticRegression.random(n=4, d=3, m=8, regularization=0.2, seed=6)
    for problem in (whole, whole.by_sample()):
        step = Constant(1.0 / (3.0 * problem.constants().L))
        run = siag.simulate(problem, SAGA(), siag.activity.Sequential(), step, iterations=20_000)
        np.testing.assert_allclose(run.w[0], whole.optimum, rtol=0, atol=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "solver", "share"), [(SAG(), "sag", 16), (SAGA(), "saga", 3)])
def test_ridge_regression_agrees_with_scikit_learn(method, solver, share):
    from sklearn import linear_model

    x, y = SAMPLES.features[:, 0], SAMPLES.targets[:, 0]
    strength = SAMPLES.regularization * len(x)  # theirs is ‖Xw − y‖² + α ‖w‖²
    theirs = linear_model.Ridge(
        alpha=strength, solver=solver, fit_intercept=False, tol=1e-12, max_iter=10**5, random_state=0
    )
    step = Constant(1.0 / (share * SAMPLES.constants().L))
    run = siag.simulate(SAMPLES, method, siag.activity.Sequential(), step, iterations=40_000)
    np.testing.assert_allclose(run.w[0], theirs.fit(x, y).coef_, rtol=0, atol=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "solver", "share"), [(SAG(), "sag", 16), (SAGA(), "saga", 3)])
def test_logistic_regression_agrees_with_scikit_learn(method, solver, share):
    from sklearn import linear_model

    problem = LogisticRegression.random(n=1, d=4, m=60, regularization=0.1, seed=8).by_sample()
    x, y = problem.features[:, 0], problem.labels[:, 0]
    weight = 1.0 / (problem.regularization * len(x))  # theirs is ½ ‖w‖² + C Σ loss
    theirs = linear_model.LogisticRegression(
        C=weight, solver=solver, fit_intercept=False, tol=1e-10, max_iter=10**5, random_state=0
    )
    step = Constant(1.0 / (share * problem.constants().L))
    run = siag.simulate(problem, method, siag.activity.Sequential(), step, iterations=60_000)
    np.testing.assert_allclose(run.w[0], theirs.fit(x, y).coef_[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("activity", [siag.activity.Everyone(), siag.activity.Cyclic(), siag.activity.Uniform(3)])
def test_other_activities_are_refused_with_what_works(activity):
    with pytest.raises(siag.Unsuitable, match="SAGA"):
        siag.simulate(SAMPLES, SAGA(), activity, Constant(0.1), iterations=5)


@pytest.mark.parametrize(("parameter", "value"), [("resum", -1), ("wait", 1.1), ("rows", "float16")])
def test_hyper_parameters_out_of_range_are_refused_by_name(parameter, value):
    with pytest.raises(siag.BadInput, match=parameter):
        SAGA(**{parameter: value})
