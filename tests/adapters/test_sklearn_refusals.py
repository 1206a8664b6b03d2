"""What cannot be right is refused in one line; what is doubtful is warned of."""

import re
import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

import siag
from siag.adapters import SIAGClassifier, SIAGRegressor

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Y = (X[:, 0] > 0).astype(int)
HOLED = np.where(np.arange(120).reshape(40, 3) == 7, np.nan, X)
SPARSE = scipy.sparse.csr_array(X)
FRAME = pandas.DataFrame(X, columns=list("abc"))
SEVERAL = ["a"] * 20 + ["b"] * 20
WORKERS = {"workers": 3}


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("contains NaN", lambda: SIAGClassifier().fit(HOLED, Y)),
        (r"source_weight\['a'\] = -1: must be a finite number at least 0",
            lambda: SIAGClassifier(source_weight={"a": -1}).fit(X, Y, source=SEVERAL)),
        ("source_weight = {'a': 0, 'b': 0}: must be above 0 for one of the sources",
            lambda: SIAGClassifier(source_weight={"a": 0, "b": 0}).fit(X, Y, source=SEVERAL)),
        ("source_weight = 'rows': must be None, numbers by source",
            lambda: SIAGRegressor(source_weight="rows").partial_fit(X, Y)),
        ("SGD keeps no table",
            lambda: SIAGRegressor(source_weight="samples", method=siag.methods.SGD(),
                                  step=siag.steps.Constant(0.1)).fit(X, Y)),
        ("source_weight = 'samples': must be None, as when learning began; fit anew",
            lambda: SIAGRegressor().partial_fit(X, Y).set_params(source_weight="samples").partial_fit(X, Y)),
        ("contains NaN", lambda: SIAGClassifier().partial_fit(HOLED, Y, classes=[0, 1])),
        ("one class only", lambda: SIAGClassifier().fit(X, np.ones(40))),
        ("one class only", lambda: SIAGClassifier().partial_fit(X, Y, classes=[1])),
        ("Unknown label type: continuous", lambda: SIAGClassifier().fit(X, X[:, 0])),
        ("could not convert string", lambda: SIAGRegressor().fit(X, np.where(Y, "yes", "no"))),
        ("classes is missing; give all labels", lambda: SIAGClassifier().partial_fit(X, Y)),
        (r"y = 1: must be one of the classes that were announced, \[0, 2\]; name all labels in classes=",
            lambda: SIAGClassifier().partial_fit(X, Y, classes=[0, 2])),
        ("y = 'yes': must be one of the classes",
            lambda: SIAGClassifier().partial_fit(X, np.full(40, "yes"), classes=[0, 1])),
        (r"classes = \[0, 1, 2\]: must be as in the first partial_fit, \[0, 1\]",
            lambda: SIAGClassifier().partial_fit(X, Y, classes=[0, 1]).partial_fit(X, Y, classes=[0, 1, 2])),
        (r"40 entries, one for each row of X; its shape is \(39,\)",
            lambda: SIAGClassifier().fit(X, Y, source=["a"] * 39)),
        (r"its shape is \(39,\)",
            lambda: SIAGClassifier().partial_fit(X, Y, classes=[0, 1], source=["a"] * 39)),
        (r"its shape is \(39,\)",
            lambda: SIAGClassifier().fit(X, Y, sample_weight=np.arange(40), source=["a"] * 39)),
        ("source = 'shop': must be a column of X, or an array",
            lambda: SIAGClassifier().fit(FRAME, Y, source="shop")),
        ("none missing; give samples of unknown origin", lambda: SIAGClassifier().fit(X, Y, source=[1.0, np.nan] * 20)),
        ("source = None: must be a name.*none missing", lambda: SIAGClassifier().fit(X, Y, source=[None, "a"] * 20)),
        ("zero", lambda: SIAGClassifier().fit(X, Y, sample_weight=np.zeros(40))),
        ("sample_weight = -1.0: must be 0 or more", lambda: SIAGClassifier().fit(X, Y, sample_weight=-np.ones(40))),
        ("alpha = -1: must be a finite number at least 0", lambda: SIAGClassifier(alpha=-1).fit(X, Y)),
        ("loss = 'hinge': must be one of", lambda: SIAGRegressor(loss="hinge").fit(X, Y)),
        ("delta = 0: must be", lambda: SIAGRegressor(loss="huber", delta=0).fit(X, Y)),
        ("max_iter = 0: must be", lambda: SIAGClassifier(max_iter=0).fit(X, Y)),
        ("batch_size = 0: must be", lambda: SIAGClassifier(batch_size=0).fit(X, Y)),
        ("fit_intercept = 'no': must be True or False", lambda: SIAGClassifier(fit_intercept="no").fit(X, Y)),
        ("method = 'sgd': must be None, or one of siag.methods", lambda: SIAGClassifier(method="sgd").fit(X, Y)),
        ("step = 0.1: must be None, or one of siag.steps", lambda: SIAGClassifier(step=0.1).fit(X, Y)),
        ("step is missing; SGD needs one", lambda: SIAGClassifier(method=siag.methods.SGD()).fit(X, Y)),
        ("IAG needs exact gradients",
            lambda: SIAGClassifier(method=siag.methods.IAG(), step=siag.steps.Constant(0.1)).fit(X, Y)),
        ("workers = 3: must be None for partial_fit",
            lambda: SIAGClassifier(**WORKERS).partial_fit(X, Y, classes=[0, 1])),
        ("workers = 3: must be the number of sources, 2", lambda: SIAGClassifier(**WORKERS).fit(X, Y, source=SEVERAL)),
        ("None where X is sparse", lambda: SIAGClassifier(**WORKERS).fit(SPARSE, Y)),
        ("None with workers", lambda: SIAGClassifier(**WORKERS).fit(X, Y, sample_weight=np.ones(40))),
        ("not finite at version .*StandardScaler", lambda: SIAGRegressor().fit(X * 1e200, Y)),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_in_one_line(words, call):
    with pytest.raises(ValueError, match=words) as told:
        call()
    if isinstance(told.value, siag.SiagError):  # scikit-learn's own may be longer
        assert "\n" not in str(told.value)


def test_a_call_that_is_refused_leaves_a_stream_as_it_was():
    model = SIAGClassifier().partial_fit(X, Y, classes=[0, 1], source="a")
    before = model.coef_.copy()
    for wrong in ({"X": HOLED}, {"y": Y + 5}, {"source": ["a"] * 39}, {"sample_weight": -np.ones(40)}):
        with pytest.raises(ValueError, match=r"."):
            model.partial_fit(**{"X": X, "y": Y, **wrong})
    assert np.array_equal(model.coef_, before)
    assert model.sources_ == ["a"]


def test_a_first_call_that_is_refused_leaves_a_model_that_can_begin():
    model = SIAGClassifier()
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(HOLED, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)
    assert model.partial_fit(X, Y, classes=[0, 1]).score(X, Y) > 0.5


def test_a_weight_of_a_source_that_is_not_there_is_warned_of():
    with pytest.warns(siag.TrainingWarning, match=r"source_weight has 'norht', which is none of the sources, \['a', '"):
        SIAGClassifier(source_weight={"a": 2.0, "norht": 3.0}, max_iter=1).fit(X, Y, source=SEVERAL)


LARGE = X * [1.0, 1000.0, 1.0]


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_features_of_very_unequal_size_are_warned_of_once_in_a_stream(rows):
    model = SIAGClassifier()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for k in range(0, 40, rows):
            model.partial_fit(LARGE[k : k + rows], Y[k : k + rows], classes=[0, 1])
    (only,) = told
    assert only.category is siag.TrainingWarning
    assert re.search("column 2 is .* times as large .*StandardScaler", str(only.message))


def test_features_of_very_unequal_size_are_warned_of_by_name_in_a_fit():
    with pytest.warns(siag.TrainingWarning, match="column b is"):
        SIAGRegressor(max_iter=1).fit(FRAME * [1.0, 1000.0, 1.0], Y)
    with pytest.warns(siag.TrainingWarning, match="mean of column c is"):
        SIAGRegressor(max_iter=1).fit(FRAME.assign(c=FRAME.c + 1000.0), Y)
    with pytest.warns(siag.TrainingWarning, match="column 2 is"):
        SIAGRegressor(max_iter=1).fit(scipy.sparse.csr_array(LARGE), Y)


def test_a_model_worse_than_none_is_warned_of():
    step = siag.steps.Constant(30.0)
    with pytest.warns(siag.TrainingWarning, match=r"times that of w = 0 on the same rows; use a smaller step"):
        SIAGRegressor(loss="huber", step=step, max_iter=5, tol=None, batch_size=1).fit(X, Y)


def test_a_fit_that_has_not_converged_is_warned_of_and_others_are_not():
    with pytest.warns(ConvergenceWarning, match=r"max_iter = 70 passes; raise max_iter or tol"):
        SIAGRegressor(max_iter=70, tol=1e-12).fit(X, X @ [1.0, 2.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SIAGRegressor().fit(X, scale(X @ [1.0, 2.0, 3.0]))
