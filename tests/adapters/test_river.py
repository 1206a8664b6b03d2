"""river's own checks, and what sources, features and classes that appear later mean."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from river import checks, compose, datasets, evaluate, metrics, preprocessing

import siag
from siag.adapters import RiverClassifier, RiverRegressor

MODELS = [cls(**given) for cls in (RiverClassifier, RiverRegressor) for given in cls._unit_test_params()]


def own_checks():
    for k, model in enumerate(MODELS):
        for number, check in enumerate(checks.yield_checks(model)):
            yield pytest.param(model, check, id=f"{k}-{check.__name__}-{number}")


@pytest.mark.parametrize(("model", "check"), list(own_checks()))
def test_rivers_own_checks_pass(model, check):
    assert not model._unit_test_skips()
    check(copy.deepcopy(model))


def shops(count, seed=0):
    """Samples of two shops with slopes 1 and 3, the first coming nine times as often."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        x, z = draw.standard_normal(2)
        often = draw.random() < 0.9
        noise = 0.1 * draw.standard_normal()
        yield {"x": x, "z": z}, (1.0 if often else 3.0) * x - z + 2.0 + noise, "north" if often else "south"


def test_every_source_counts_the_same_however_often_it_comes():
    told, one = RiverRegressor(), RiverRegressor()
    for x, y, source in shops(6000):
        told.learn_one(x, y, source=source)
        one.learn_one(x, y)
    assert told.sources == ["north", "south"]
    assert one.sources == [None]
    assert told.weights["x"] == pytest.approx(2.0, abs=0.2)
    assert one.weights["x"] == pytest.approx(1.2, abs=0.2)
    assert told.weights["z"] == pytest.approx(-1.0, abs=0.2)
    assert told.intercept == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize(("weight", "slope"), [({"south": 3.0}, 2.5), ("samples", 1.2)])
def test_sources_count_for_their_weights(weight, slope):
    model = RiverRegressor(source_weight=weight)
    for x, y, source in shops(6000):
        model.learn_one(x, y, source=source)
    assert model.weights["x"] == pytest.approx(slope, abs=0.2)
    frame = pd.DataFrame([{"x": 1.0, "z": 0.0}] * 2)
    model.learn_many(frame, pd.Series([3.0, 1.0]), source=["south", "north"])
    assert model.clone().source_weight == weight


def test_with_a_step_it_is_siag_as_plain_numpy_has_it():
    model, eta = RiverRegressor(step=0.05, ridge=0.01), 0.05
    w, rows = np.zeros(3), {}  # intercept, x, z; the latest gradient of each source
    for x, y, source in shops(300):
        features = np.array([1.0, x["x"], x["z"]])
        rows[source] = (features @ w - y) * features + 0.01 * w * [0.0, 1.0, 1.0]
        w = w - eta * np.mean(list(rows.values()), axis=0)
        model.learn_one(x, y, source=source)
    found = [model.intercept, model.weights["x"], model.weights["z"]]
    np.testing.assert_allclose(found, w, rtol=1e-9, atol=1e-12)


def test_classes_that_appear_later_have_weights_from_then_on_as_plain_numpy_has_it():
    model, draw = RiverClassifier(step=0.1), np.random.default_rng(1)
    parts = {}  # of each class: bias, weight
    for label in "aaabbabcacbcabc":
        x = np.array([1.0, draw.standard_normal()])
        parts.setdefault(label, np.zeros(2))
        u = np.array([x @ part for part in parts.values()])
        shares = np.exp(u) / np.exp(u).sum()
        for k, each in enumerate(parts):
            parts[each] = parts[each] - 0.1 * (shares[k] - (each == label)) * x
        model.learn_one({"x": x[1]}, label)
    assert model.classes == ["a", "b", "c"]
    for label, part in parts.items():
        found = [model.intercepts[label], model.weights[label]["x"]]
        np.testing.assert_allclose(found, part, rtol=1e-9, atol=1e-12)
    assert math.isclose(sum(model.predict_proba_one({"x": 0.3}).values()), 1.0)


def test_features_that_appear_later_count_as_0_before():
    late, early = RiverRegressor(), RiverRegressor()
    for k, (x, y, source) in enumerate(shops(400)):
        names = [f"f{j}" for j in range(20)]  # more than there is room for at first
        now = {name: x["x"] * (j + 1) for j, name in enumerate(names)} if k > 100 else {}
        late.learn_one(x | now, y, source=source)
        early.learn_one(dict.fromkeys(names, 0.0) | x | now, y, source=source)
    assert late.weights == pytest.approx(early.weights, rel=1e-9)
    assert late.predict_one({"never seen": 1e9}) == late.intercept


def test_the_source_may_be_a_feature_and_reaches_the_model_through_a_pipeline():
    scaled = compose.Discard("shop") | preprocessing.StandardScaler()
    named = (compose.Select("shop") + scaled) | RiverRegressor(source="shop")
    told = preprocessing.StandardScaler() | RiverRegressor()
    for x, y, source in shops(200):
        x_named = x | {"shop": source}
        assert named.predict_one(x_named) == pytest.approx(told.predict_one(x), rel=1e-9)
        named.learn_one(x_named, y)
        told.learn_one(x, y, source=source)
    assert named[-1].sources == told[-1].sources == ["north", "south"]
    unknown = {"x": 1.0, "z": 0.0, "shop": "east"}
    assert named.predict_one(unknown) == pytest.approx(told.predict_one({"x": 1.0, "z": 0.0}))


def test_a_batch_is_its_rows_one_after_the_other_each_with_its_source():
    rows = list(shops(50))
    one, many = RiverRegressor(), RiverRegressor()
    for x, y, source in rows:
        one.learn_one(x, y, source=source)
    X, y, source = pd.DataFrame([x for x, *_ in rows]), pd.Series([y for _, y, _ in rows], name="sales"), rows
    many.learn_many(X, y, source=pd.Series([name for *_, name in source]))
    assert many.weights == one.weights
    predicted = many.predict_many(X)
    assert predicted.name == "sales"
    assert predicted.tolist() == pytest.approx([one.predict_one(x) for x, *_ in rows])


def test_pickled_in_the_middle_it_goes_on_to_the_same_numbers():
    for model in (RiverClassifier(), RiverClassifier(step=0.1)):
        rows = list(datasets.ImageSegments().take(120))
        for k, (x, y) in enumerate(rows[:60]):
            model.learn_one(x, y, source=k % 3)
        copied = pickle.loads(pickle.dumps(model))
        for k, (x, y) in enumerate(rows[60:]):
            for each in (model, copied):
                each.learn_one(x, y, source=k % 5)
        assert copied.weights == model.weights
        assert copied.clone().classes == []


def test_a_source_that_has_ended_counts_no_longer_until_it_comes_again():
    model = RiverRegressor(step=0.1)
    model.learn_one({"x": 1.0}, 10.0, source="a")
    model.learn_one({"x": 1.0}, -30.0, source="b")
    model.forget_source("b")
    before = model.intercept
    model.learn_one({"x": 0.0}, before - 1.0, source="a")  # its gradient is 1, and nobody else's counts
    assert model.intercept == pytest.approx(before - 0.1)
    model.forget_source("a")  # the last one stays
    model.learn_one({"x": 0.0}, 0.0, source="b")
    assert model.sources == ["a", "b"]


def test_it_is_near_rivers_own_on_one_source():
    scores = {}
    for model in (RiverClassifier(), RiverClassifier(step=0.05)):
        pipeline = preprocessing.StandardScaler() | model
        scores[model.step] = evaluate.progressive_val_score(datasets.Phishing(), pipeline, metrics.Accuracy()).get()
    assert scores[None] > 0.885  # linear_model.LogisticRegression has 0.893
    assert scores[0.05] > 0.885


BAD = {
    "text": (RiverRegressor(), {"x": "AA"}, 1.0, r"x\['x'\] = 'AA': must be a finite number; encode it first"),
    "nothing": (RiverRegressor(), {"x": None}, 1.0, r"x\['x'\] = None: must be a number; encode it first"),
    "nan": (RiverClassifier(), {"x": math.nan}, "a", r"x\['x'\] = nan: must be a finite number; leave such samples"),
    "label": (RiverClassifier(), {"x": 1.0}, math.nan, r"y = nan: must be a label"),
    "no label": (RiverClassifier(), {"x": 1.0}, None, r"y = None: must be a label"),
    "a list": (RiverClassifier(), {"x": 1.0}, [1], r"y = \[1\]: must be a label"),
    "number": (RiverRegressor(), {"x": 1.0}, "three", r"y = 'three': must be a finite number"),
    "infinite": (RiverRegressor(), {"x": 1.0}, math.inf, r"y = inf: must be a finite number"),
    "source": (RiverRegressor(source="shop"), {"x": 1.0}, 1.0, r"a feature 'shop' that names the source"),
    "missing": (RiverRegressor(source="shop"), {"x": 1.0, "shop": math.nan}, 1.0, r"source = nan: must be a name"),
    "large": (RiverRegressor(), {"x": 1e200}, 1.0, r"numbers whose gradient is finite; scale the features"),
    "negative": (RiverRegressor(), {"x": 1.0}, 1.0, r"w = -1\.0: must be a finite number at least 0", {"w": -1.0}),
    "no weight": (RiverClassifier(), {"x": 1.0}, "a", r"w = nan: must be a finite number", {"w": math.nan}),
    "worded": (RiverClassifier(), {"x": 1.0}, "a", r"w = 'heavy': must be a finite number", {"w": "heavy"}),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_sample_is_one_line_and_changes_nothing(case):
    model, x, y, message, *given = BAD[case]
    model = copy.deepcopy(model)
    before = model.clone() if model.source else copy.deepcopy(model)
    with pytest.raises(siag.BadInput, match=message):
        model.learn_one(x, y, **dict(*given), source="new")
    good = {"x": 2.0} | ({"shop": "a"} if model.source else {})
    for each in (model, before):
        each.learn_one(good, 3.0)
        each.learn_one(good, 4.0)
    assert model.predict_one(good) == before.predict_one(good)


def test_bad_settings_and_batches_are_one_line():
    for given, message in (
        ({"step": -1.0}, r"step = -1\.0"),
        ({"ridge": -1.0}, r"ridge = -1\.0"),
        ({"step": siag.steps.DelayAdaptive(gamma=0.1)}, "looks at ages"),
    ):
        with pytest.raises(ValueError, match=message):
            RiverClassifier(**given)
    with pytest.raises(siag.BadInput, match="loss = 'hinge'"):
        RiverRegressor(loss="hinge")
    model, X, y = RiverRegressor(), pd.DataFrame({"x": [1.0, math.nan]}), pd.Series([1.0, 2.0])
    with pytest.raises(siag.BadInput, match=r"X\['x'\] = nan"):
        model.learn_many(X, y)
    with pytest.raises(siag.BadInput, match="2 entries, one for each row"):
        model.learn_many(X.fillna(0.0), y, source=["a", "b", "c"])
    for wrong, words in (([1.0, -2.0], "w = -2.0: must be a finite number"), ([1.0] * 3, "or 2 of them, one for each")):
        with pytest.raises(siag.BadInput, match=words):
            model.learn_many(X.fillna(0.0), y, w=wrong, source="new")
    assert model.sources == []
    with pytest.raises(siag.BadInput, match="source = 'nobody'"):
        model.forget_source("nobody")
    with pytest.raises(
        siag.BadInput, match=r"source = \[\]: must be a name: a text, a number or what else is hashable"
    ):
        model.learn_one({"x": 1.0}, 1.0, source=[])
