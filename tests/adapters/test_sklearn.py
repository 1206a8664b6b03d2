"""scikit-learn's own checks, and what its tools do with our estimators."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

import siag
from siag.adapters import SIAGClassifier, SIAGRegressor
from siag.adapters.rows import HUBER, LOGISTIC, SOFTMAX, SQUARED, Rows, write_gradient
from siag.foundations.dispatch import plainly

ALPHA = 1e-2
EXACT = {"alpha": ALPHA, "tol": None, "max_iter": 500}


@pytest.mark.filterwarnings("ignore")  # the checks have data that nobody would fit a linear model to
@parametrize_with_checks([SIAGClassifier(), SIAGRegressor(), SIAGRegressor(loss="huber")])
def test_the_estimators_pass_every_check(estimator, check):
    check(estimator)


def test_none_of_the_checks_is_skipped_for_want_of_a_setting_of_scipy():
    """It must be there before SciPy is imported."""
    program = """
from sklearn.utils.estimator_checks import estimator_checks_generator
from siag.adapters import SIAGClassifier, SIAGRegressor
for model in (SIAGClassifier(), SIAGRegressor()):
    found = [check for _, check in estimator_checks_generator(model) if check.func.__name__ == "check_array_api_input"]
    for check in found:
        check(model)
    print(len(found))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1\n1\n"), done.stderr


def tables(X, sparse):
    none = np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int32)
    if not sparse:
        return X, *none
    rows = scipy.sparse.csr_array(X)
    return np.zeros((0, 0)), rows.data, rows.indices, rows.indptr


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("number", "loss", "outputs"),
    [
        (LOGISTIC, siag.losses.Logistic, 1),
        (SOFTMAX, lambda **more: siag.losses.Softmax([0.0, 1.0, 2.0], **more), 3),
        (SQUARED, siag.losses.Squared, 1),
        (HUBER, lambda **more: siag.losses.Huber(delta=0.7, **more), 1),
    ],
)
def test_loss_and_gradient_of_rows_are_those_of_the_ready_made_losses(number, loss, outputs, intercept, sparse):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 6)) * (rng.random((9, 6)) < 0.6)
    y = {LOGISTIC: rng.choice([-1.0, 1.0], 9), SOFTMAX: rng.integers(3, size=9) * 1.0}.get(number, rng.normal(size=9))
    w, order, weights = rng.normal(size=outputs * (6 + intercept)), np.array([5, 1, 1, 8, 0]), np.ones(0)
    reports, scratch = (
        (np.zeros(1, np.int64), np.array([1, 4]), order),
        (np.zeros(outputs), np.array([1, 4]), np.zeros(2)),
    )
    rows, out = Rows(*tables(X, sparse), 6, y, weights, *reports, number, 0.7, 0.3, *scratch), np.empty(w.size)
    twin, batch = loss(ridge=0.3, intercept=intercept), (X[order[1:4]], y[order[1:4]])
    with plainly():
        value = write_gradient(rows, w, out)
        np.testing.assert_allclose(out, twin(w, batch), atol=1e-12)
        assert value == pytest.approx(loss(ridge=0.0, intercept=intercept).value(w, batch))
        weighted = rows._replace(weights=np.arange(9.0), span=np.array([3, 4]))
        write_gradient(weighted, w, out)
    plain = loss(ridge=0.0, intercept=intercept)(w, (X[8], y[8]))
    np.testing.assert_allclose(out, 8.0 * plain + twin(w, (X[8], y[8])) - plain, atol=1e-11)


def joined(model):
    return np.column_stack([np.atleast_2d(model.coef_), model.intercept_]).ravel()


@pytest.mark.parametrize(
    ("load", "loss"),
    [
        (load_breast_cancer, lambda y: siag.losses.Logistic(ridge=ALPHA)),
        (load_wine, lambda y: siag.losses.Softmax(np.unique(y), ridge=ALPHA)),
    ],
)
def test_fit_finds_what_a_solver_finds(load, loss):
    X, y = load(return_X_y=True)
    X, loss = scale(X), loss(y)
    model = SIAGClassifier(**EXACT, random_state=0).fit(X, y)
    twin = LogisticRegression(C=1 / (ALPHA * len(X))).fit(X, y)
    assert model.coef_.shape == twin.coef_.shape
    assert loss.value(joined(model), (X, y)) <= loss.value(joined(twin), (X, y)) * 1.01
    assert (model.predict(X) == twin.predict(X)).mean() > 0.99


def test_regressions_find_what_solvers_find():
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X), scale(y)
    twin = Ridge(alpha=ALPHA * len(X)).fit(X, y)
    np.testing.assert_allclose(SIAGRegressor(**EXACT, random_state=0).fit(X, y).coef_, twin.coef_, atol=0.02)
    loss, spoilt = siag.losses.Huber(delta=1.35, ridge=ALPHA), y + 50.0 * (np.arange(len(y)) < 20)
    best = scipy.optimize.minimize(loss.value, np.zeros(11), ((X, spoilt),), jac=loss)
    huber = SIAGRegressor(loss="huber", delta=1.35, **EXACT, random_state=0).fit(X, spoilt)
    assert loss.value(joined(huber), (X, spoilt)) <= best.fun * 1.001
    assert huber.score(X[20:], y[20:]) > 0.4
    assert SIAGRegressor(**EXACT).fit(X, spoilt).score(X[20:], y[20:]) < 0.0


@pytest.mark.parametrize("passes", [1, 10])
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits])
def test_a_stream_read_once_or_ten_times_is_learned_no_worse_than_by_sgd(load, passes):
    """Means over five orders, every third row held out; one per cent is left to chance."""
    X, y = load(return_X_y=True)
    test = np.arange(len(X)) % 3 == 0
    X = StandardScaler().fit(X[~test]).transform(X)
    errors = {SIAGClassifier: [], SGDClassifier: []}
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(np.flatnonzero(~test))
        for model in (SIAGClassifier(), SGDClassifier(loss="log_loss", random_state=seed)):
            for _ in range(passes):
                model.partial_fit(X[order], y[order], classes=np.unique(y))
            errors[type(model)].append(1.0 - model.score(X[test], y[test]))
    assert np.mean(errors[SIAGClassifier]) <= np.mean(errors[SGDClassifier]) + 0.01


def test_sparse_rows_are_learned_as_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8)) * (rng.random((200, 8)) < 0.3)
    y = X @ rng.standard_normal(8) > 0.1
    dense = SIAGClassifier(random_state=0).fit(X, y)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        sparse = SIAGClassifier(random_state=0).fit(kind(X), y)
        np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6)
        np.testing.assert_allclose(sparse.predict_proba(kind(X)), dense.predict_proba(X), rtol=1e-6)


def test_without_an_intercept_there_is_none():
    X, y = load_wine(return_X_y=True)
    model = SIAGClassifier(fit_intercept=False, random_state=0).fit(scale(X), y)
    assert model.intercept_.tolist() == [0.0, 0.0, 0.0]
    assert model.coef_.shape == (3, 13)
    assert model.score(scale(X), y) > 0.95


def test_a_weight_counts_as_so_many_rows_in_the_mean_of_a_large_table():
    X, y = load_breast_cancer(return_X_y=True)
    X, weights = scale(X), np.where(y == 1, 3, 1)
    weighted = SIAGClassifier(**EXACT, random_state=0).fit(X, y, sample_weight=weights)
    repeated = SIAGClassifier(**EXACT, random_state=0).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=0.02)
    assert not np.allclose(SIAGClassifier(**EXACT).fit(X, y).intercept_, weighted.intercept_, atol=0.1)


def test_it_works_in_pipelines_and_searches_with_sources_routed_to_it():
    X, y = load_breast_cancer(return_X_y=True)
    source = np.where(np.arange(len(X)) % 10, "town", "village")
    with sklearn.config_context(enable_metadata_routing=True):
        model = SIAGClassifier(random_state=0, max_iter=20, tol=None).set_fit_request(source=True)
        pipe = make_pipeline(StandardScaler(), model)
        search = GridSearchCV(pipe, {"siagclassifier__alpha": [1e-4, 1.0]}, cv=3).fit(X, y, source=source)
        assert search.best_estimator_[-1].sources_ == ["village", "town"]
        assert search.best_score_ > 0.95
        assert clone(search.best_estimator_)[-1].get_metadata_routing().fit.requests["source"] is True
    assert cross_val_score(make_pipeline(StandardScaler(), SIAGClassifier(max_iter=20, tol=None)), X, y).min() > 0.9


def test_other_methods_and_steps_may_be_chosen():
    X, y = load_breast_cancer(return_X_y=True)
    step = siag.steps.Constant(0.05)
    for chosen in ({"step": step}, {"method": siag.methods.SIAG(), "step": step}):
        model = SIAGClassifier(**chosen, max_iter=10, tol=None, random_state=0)
        assert model.fit(scale(X), y).score(scale(X), y) > 0.95


def test_when_a_regression_ends_does_not_depend_on_the_unit_of_y():
    X = np.random.default_rng(0).standard_normal((400, 5))
    y = X @ [1.0, 2.0, -1.0, 0.0, 3.0] + 1.0
    passes = [SIAGRegressor(random_state=0).fit(X, unit * y).n_iter_ for unit in (1e-3, 1.0, 1e4)]
    assert max(passes) - min(passes) <= 5
