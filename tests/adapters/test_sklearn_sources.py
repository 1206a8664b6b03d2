"""Where rows came from: every source counts the same, may come later, and goes on after pickling."""

import pickle

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, SGDClassifier

from siag.adapters import SIAGClassifier, SIAGRegressor

D, ALPHA = 4, 0.01


def two_sources(small, large, seed=0):
    """Rows of a town and of a village with another rule."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((small + large, D))
    source = np.repeat(["village", "town"], [small, large])
    rule = np.where((source == "town")[:, None], [2.0, 0.0, 1.0, 0.0], [0.0, 2.0, 1.0, 0.0])
    y = (X * rule).sum(axis=1) + 0.3 > rng.logistic(size=len(X))
    mixed = rng.permutation(len(X))
    return X[mixed], y[mixed], source[mixed]


def optimum(X, y, weights):
    """By another solver; the weights sum to 1."""
    found = LogisticRegression(C=1 / ALPHA, tol=1e-10, max_iter=1000).fit(X, y, sample_weight=weights)
    return np.append(found.coef_[0], found.intercept_)


def w_of(model):
    return np.append(model.coef_.ravel(), model.intercept_)


def test_a_source_with_a_hundredth_of_the_rows_counts_as_much_as_the_other():
    X, y, source = two_sources(200, 20_000)
    equal = optimum(X, y, np.where(source == "town", 1 / 20_000, 1 / 200) / 2)
    pooled = optimum(X, y, np.full(len(X), 1 / len(X)))
    assert np.linalg.norm(equal - pooled) > 1.0
    model = SIAGClassifier(alpha=ALPHA, random_state=0).fit(X, y, source=source)
    assert np.linalg.norm(w_of(model) - equal) < 0.1
    blind = SIAGClassifier(alpha=ALPHA, random_state=0).fit(X, y)
    assert np.linalg.norm(w_of(blind) - pooled) < 0.1
    sgd = SGDClassifier(loss="log_loss", alpha=ALPHA, random_state=0).fit(X, y)
    assert np.linalg.norm(w_of(sgd) - equal) > 0.8


def test_in_a_stream_the_frequent_source_counts_no_more_either():
    X, y, source = two_sources(2_000, 40_000)
    equal = optimum(X, y, np.where(source == "town", 1 / 40_000, 1 / 2_000) / 2)
    model = SIAGClassifier(alpha=ALPHA)
    for k in range(0, len(X), 100):
        rows = slice(k, k + 100)
        model.partial_fit(X[rows], y[rows], classes=[False, True], source=source[rows])
    sgd = SGDClassifier(loss="log_loss", alpha=ALPHA, random_state=0).partial_fit(X, y, classes=[False, True])
    assert np.linalg.norm(w_of(model) - equal) < 0.3
    assert np.linalg.norm(w_of(sgd) - equal) > 0.8


def test_weights_say_how_rows_count_within_their_source_and_not_what_it_counts():
    X, y, source = two_sources(300, 300)
    y, weights = X[:, 0] + (source == "town"), np.where(source == "town", 50.0, 1.0)
    plain = SIAGRegressor(alpha=0.0, tol=1e-9, random_state=0).fit(X, y, source=source)
    heavy = SIAGRegressor(alpha=0.0, tol=1e-9, random_state=0).fit(X, y, sample_weight=weights, source=source)
    assert plain.intercept_[0] == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(w_of(heavy), w_of(plain), atol=0.05)
    pooled = SIAGRegressor(alpha=0.0, tol=1e-9, random_state=0).fit(X, y, sample_weight=weights)
    assert pooled.intercept_[0] == pytest.approx(50 / 51, abs=0.05)


def test_a_source_that_appears_later_joins_and_the_mean_is_over_those_met_so_far():
    rng = np.random.default_rng(0)
    levels, model = {"north": 1.0, "south": 3.0, "west": 8.0}, SIAGRegressor(alpha=0.0)
    for met in range(1, 4):
        for _ in range(150):
            for name in list(levels)[:met]:
                X = rng.standard_normal((8, D))
                model.partial_fit(X, X[:, 0] + levels[name] + 0.1 * rng.standard_normal(8), source=name)
        assert model.sources_ == list(levels)[:met]
        assert model.intercept_[0] == pytest.approx(np.mean(list(levels.values())[:met]), abs=0.4)
    np.testing.assert_allclose(model.coef_, [1.0, 0.0, 0.0, 0.0], atol=0.2)


@pytest.mark.parametrize("size", [None, 5])
def test_names_for_all_rows_of_a_call_and_for_each_are_the_same(size):
    X, y, source = two_sources(40, 160)
    one, each = (SIAGClassifier(batch_size=size) for _ in range(2))
    for name in ("town", "village"):
        rows = source == name
        one.partial_fit(X[rows], y[rows], classes=[False, True], source=name)
        each.partial_fit(X[rows], y[rows], classes=[False, True], source=source[rows])
    assert np.array_equal(one.coef_, each.coef_)
    assert one.sources_ == each.sources_ == ["town", "village"]


def test_reports_of_several_rows_are_of_one_source_each():
    X, y, source = two_sources(400, 4_000)
    equal = optimum(X, y, np.where(source == "town", 1 / 4_000, 1 / 400) / 2)
    model = SIAGClassifier(alpha=ALPHA, batch_size=8)
    for _ in range(20):
        model.partial_fit(X, y, classes=[False, True], source=source)
    assert np.linalg.norm(w_of(model) - equal) < 0.3


def test_a_column_may_name_the_source_and_is_no_feature():
    X, y, source = two_sources(100, 300)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(shop=source)
    by_column = SIAGClassifier(random_state=0).fit(frame, y, source="shop")
    by_array = SIAGClassifier(random_state=0).fit(frame.drop(columns="shop"), y, source=source)
    assert np.array_equal(by_column.coef_, by_array.coef_)
    assert by_column.feature_names_in_.tolist() == list("abcd")
    assert np.array_equal(by_column.predict(frame), by_column.predict(frame.drop(columns="shop")))
    stream = SIAGClassifier().partial_fit(frame, y, classes=[False, True], source="shop")
    assert stream.sources_ == ["town", "village"]
    assert stream.n_features_in_ == 4


@pytest.mark.parametrize("make", [SIAGClassifier, SIAGRegressor])
def test_pickled_in_the_middle_of_a_stream_it_goes_on_to_the_same_bits(make):
    X, y, source = two_sources(50, 250)
    more = {"classes": [False, True]} if make is SIAGClassifier else {}
    model = make()
    for k in range(0, 150, 15):
        model.partial_fit(X[k : k + 15], y[k : k + 15], source=source[k : k + 15], **more)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.coef_, model.coef_)
    for each in (model, copy):
        for k in range(150, 300, 15):
            each.partial_fit(X[k : k + 15], y[k : k + 15], source=source[k : k + 15])
        each.partial_fit(X, y, source="a third")
    assert np.array_equal(w_of(copy), w_of(model))
    assert copy.sources_ == model.sources_


def test_a_stream_may_go_on_from_a_fit():
    X, y, source = two_sources(100, 900)
    model = SIAGClassifier(random_state=0, max_iter=5, tol=None).fit(X, y, source=source)
    before = w_of(model).copy()
    model.partial_fit(X[:10], y[:10], source="village")
    assert model.sources_ == ["town", "village"]
    assert 0.0 < np.linalg.norm(w_of(model) - before) < 0.5


def test_on_processes_it_finds_the_same_optimum():
    X, y, source = two_sources(100, 1_000)
    equal = optimum(X, y, np.where(source == "town", 1 / 1_000, 1 / 100) / 2)
    model = SIAGClassifier(alpha=ALPHA, workers=True, batch_size=20, max_iter=60, random_state=0)
    model.fit(X, y, source=source)
    assert np.linalg.norm(w_of(model) - equal) < 0.4
    assert model.sources_ == ["town", "village"]
    assert model.predict_proba(X).shape == (1_100, 2)
    assert clone(model).get_params()["workers"] is True
    assert np.array_equal(w_of(pickle.loads(pickle.dumps(model))), w_of(model))


# Weights of sources


def weighted_optimum(X, y, source, town):
    """Of an objective in which the town counts for so much, of 1 in all."""
    sizes = {name: (source == name).sum() for name in ("town", "village")}
    return optimum(X, y, np.where(source == "town", town / sizes["town"], (1.0 - town) / sizes["village"]))


@pytest.mark.parametrize(
    ("weight", "town"), [({"town": 3.0}, 0.75), ({"village": 9, "town": 1}, 0.1), ("samples", 0.8)]
)
def test_sources_count_for_their_weights(weight, town):
    X, y, source = two_sources(1000, 4000)
    wanted, equal = (weighted_optimum(X, y, source, part) for part in (town, 0.5))
    model = SIAGClassifier(alpha=ALPHA, random_state=0, source_weight=weight).fit(X, y, source=source)
    assert np.linalg.norm(w_of(model) - wanted) < 0.1
    assert np.linalg.norm(wanted - equal) > 0.5
    assert clone(model).source_weight == weight


@pytest.mark.parametrize(("weight", "town"), [({"town": 3.0}, 0.75), ("samples", 0.8)])
def test_in_a_stream_too_with_sources_that_come_later(weight, town):
    X, y, source = two_sources(8_000, 32_000)
    order = np.argsort(source == "village", kind="stable")[:500]  # of the town alone
    order = np.concatenate([order, np.setdiff1d(np.arange(len(X)), order)])
    X, y, source = X[order], y[order], source[order]
    model = SIAGClassifier(alpha=ALPHA, source_weight=weight)
    for k in range(0, len(X), 100):
        rows = slice(k, k + 100)
        model.partial_fit(X[rows], y[rows], classes=[False, True], source=source[rows])
    assert model.sources_ == ["town", "village"]
    assert np.linalg.norm(w_of(model) - weighted_optimum(X, y, source, town)) < 0.3
    assert np.linalg.norm(w_of(model) - weighted_optimum(X, y, source, 0.5)) > 0.3
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.partial_fit(X[:50], y[:50], source=source[:50])
    assert np.array_equal(w_of(copy), w_of(model))


def test_a_stream_after_a_fit_goes_on_with_the_rows_there_were():
    X, y, source = two_sources(500, 500)
    model = SIAGRegressor(source_weight="samples").fit(X, y, source=source)
    assert model._learner.server.gauges.shares == [0.5, 0.5]
    rows = source == "town"
    model.partial_fit(X[rows], y[rows], source="town", sample_weight=np.full(500, 2.0))
    shares = dict(zip(model.sources_, model._learner.server.gauges.shares, strict=False))
    assert shares["town"] == pytest.approx(0.75)


def test_equal_weights_of_sources_change_nothing_to_the_bit():
    X, y, source = two_sources(100, 400)
    plain, equal = (
        SIAGClassifier(random_state=0, source_weight=each).fit(X, y, source=source) for each in (None, {"town": 1})
    )
    assert np.array_equal(w_of(plain), w_of(equal))


def test_processes_have_the_weights_too():
    X, y, source = two_sources(300, 300)
    y = X[:, 0] + 4.0 * (source == "town")
    how = {"alpha": 0.0, "max_iter": 60, "random_state": 0, "workers": True}
    model = SIAGRegressor(source_weight={"town": 3.0}, **how).fit(X, y, source=source)
    assert model.intercept_[0] == pytest.approx(3.0, abs=0.2)
