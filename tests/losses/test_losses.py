"""Ready-made losses: gradients by finite differences, batches as means, no overflow, and mistakes that are named."""

import math
import pickle
import warnings
from functools import partial

import numpy as np
import pytest

import siag
from siag.foundations.errors import BadInput
from siag.losses import Huber, Logistic, Poisson, Softmax, Squared
from siag.streams import Batched

P = 4  # features
TEXTS = ["cat", "dog", "a long name"]
KINDS = {
    "squared": (Squared, lambda rng, m: rng.standard_normal(m)),
    "huber": (partial(Huber, 0.7), lambda rng, m: 3.0 * rng.standard_normal(m)),
    "poisson": (Poisson, lambda rng, m: rng.poisson(2.0, m)),
    "0 and 1": (Logistic, lambda rng, m: rng.integers(0, 2, m)),
    "-1 and 1": (Logistic, lambda rng, m: 2 * rng.integers(0, 2, m) - 1),
    "truth": (Logistic, lambda rng, m: rng.integers(0, 2, m) == 1),
    "texts": (partial(Softmax, TEXTS), lambda rng, m: rng.choice(TEXTS, m)),
    "numbers": (partial(Softmax, [7, 3, 5]), lambda rng, m: rng.choice([3, 5, 7], m)),
}


@pytest.fixture(params=[(kind, ridge, b) for kind in KINDS for ridge in (0.0, 0.3) for b in (True, False)], ids=str)
def case(request):
    """A loss, some w, and a batch for it."""
    kind, ridge, intercept = request.param
    make, draw = KINDS[kind]
    loss, rng = make(ridge=ridge, intercept=intercept), np.random.default_rng(1)
    return loss, rng.standard_normal(loss.dimension(P)), (rng.standard_normal((9, P)), draw(rng, 9))


def numerical(loss, w, sample, h=1e-6):
    """The gradient by central differences; its error is about h², and 1e-16/h."""
    sides = [[loss.value(w + sign * h * e, sample) for sign in (1, -1)] for e in np.eye(w.size)]
    return np.array([(above - below) / (2 * h) for above, below in sides])


def test_gradients_are_those_of_finite_differences(case):
    loss, w, (X, y) = case
    assert loss(w, (X, y)) == pytest.approx(numerical(loss, w, (X, y)), rel=1e-7, abs=1e-8)
    for x, label in zip(X, y, strict=True):
        assert loss(w, (x, label)) == pytest.approx(numerical(loss, w, (x, label)), rel=1e-7, abs=1e-8)


def test_a_batch_is_the_mean_of_its_samples(case):
    loss, w, (X, y) = case
    samples = list(zip(X, y, strict=True))
    assert loss(w, (X, y)) == pytest.approx(np.mean([loss(w, each) for each in samples], axis=0), abs=1e-13)
    assert loss.value(w, (X, y)) == pytest.approx(np.mean([loss.value(w, each) for each in samples]), abs=1e-13)


def test_value_and_gradient_are_both(case):
    loss, w, batch = case
    for sample in (batch, (batch[0][0], batch[1][0])):
        value, gradient = loss.value_and_gradient(w, sample)
        assert value == loss.value(w, sample)
        assert gradient.tolist() == loss(w, sample).tolist()


def test_predictions_of_rows_are_those_of_each_row(case):
    loss, w, (X, _) = case
    assert loss.predict(w, X).tolist() == pytest.approx([loss.predict(w, x) for x in X])
    assert loss.predict(w, X.tolist()).tolist() == loss.predict(w, X).tolist()


def test_lists_do_as_well_as_arrays_and_nothing_that_comes_in_is_changed(case):
    loss, w, (X, y) = case
    for array in (w, X):
        array.setflags(write=False)
    assert loss(w.tolist(), (X.tolist(), y.tolist())).tolist() == loss(w, (X, y)).tolist()
    assert loss(w.tolist(), (X[0].tolist(), y.tolist()[0])).tolist() == loss(w, (X[0], y[0])).tolist()
    assert loss(w, (X[0].astype(np.float32), y[0])) == pytest.approx(loss(w, (X[0], y[0])), rel=1e-5)


def test_a_loss_can_be_pickled_and_compared(case):
    loss, w, batch = case
    loss(w, batch)
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    assert hash(again) == hash(loss)
    assert again(w, batch).tolist() == loss(w, batch).tolist()
    assert eval(repr(loss)) == loss


def test_the_intercept_is_not_shrunk():
    w = np.array([1.0, 2.0, 3.0])
    assert (Squared(ridge=2.0)(w, ([0.0, 0.0], 3.0))).tolist() == [2.0, 4.0, 0.0]
    w = np.arange(6.0)
    without, ridge = Softmax([0, 1]), Softmax([0, 1], ridge=2.0)
    assert (ridge(w, ([1.0, 1.0], 0)) - without(w, ([1.0, 1.0], 0))).tolist() == [0.0, 2.0, 0.0, 6.0, 8.0, 0.0]


# ------------------------------------------------------------------------------------------ no overflow


@pytest.mark.parametrize("u", [-1e308, -800.0, -40.0, 40.0, 800.0, 1e308])
@pytest.mark.parametrize("loss", [Logistic(intercept=False), Softmax([0, 1], intercept=False)])
def test_logistic_and_softmax_do_not_overflow(u, loss):
    for y in (0, 1):
        w = np.array([u]) if isinstance(loss, Logistic) else np.array([0.0, u])
        for sample in (([1.0], y), ([[1.0]], [y])):
            value, gradient = loss.value_and_gradient(w, sample)
            wrong = max(0.0, u if y == 0 else -u)
            assert value == pytest.approx(wrong, rel=1e-12, abs=1e-17 if wrong else 1e-15)
            assert gradient[-1] == pytest.approx((u > 0) - y, abs=1e-15)


def test_logistic_is_softmax_of_two_classes():
    rng = np.random.default_rng(2)
    X, y, w = rng.standard_normal((20, P)), rng.integers(0, 2, 20), rng.standard_normal(P + 1)
    both = np.concatenate([np.zeros(P + 1), w])
    two, one = Softmax([0, 1]), Logistic()
    assert two.value(both, (X, y)) == pytest.approx(one.value(w, (X, y)), rel=1e-13)
    assert two(both, (X, y))[P + 1 :] == pytest.approx(one(w, (X, y)), abs=1e-14)
    assert two.probability(both, X)[:, 1] == pytest.approx(one.probability(w, X), abs=1e-14)
    assert (two.predict(both, X) == one.predict(w, X)).all()


def test_poisson_goes_on_as_a_straight_line():
    loss = Poisson(intercept=False)
    for u in (29.0, 30.0, 31.0, 1e4, 1e200):
        value, (gradient,) = loss.value_and_gradient([u], ([1.0], 2))
        assert gradient == pytest.approx(math.exp(min(u, 30.0)), rel=1e-9)
        assert value == pytest.approx(math.exp(min(u, 30.0)) * (1 + max(0.0, u - 30.0)), rel=1e-9)


def test_a_w_that_has_overflowed_is_for_the_server_to_see():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert not np.isfinite(Squared()(np.array([math.inf, 0.0]), ([1.0], 1.0))).any()


def test_huber_is_least_squares_with_slopes_cut():
    small, large = ([1.0], 0.5), ([1.0], -8.0)
    w = np.array([1.0, 0.0])
    assert Huber(2.0)(w, small).tolist() == Squared()(w, small).tolist()
    assert Huber(2.0)(w, large).tolist() == [2.0, 2.0]
    assert Huber(2.0).value(w, large) == 2.0 * (9.0 - 1.0)


# ---------------------------------------------------------------------------------------------- mistakes

W = np.zeros(3)
ROWS = np.ones((2, 2))


@pytest.mark.parametrize(
    ("loss", "sample", "message"),
    [
        (Squared(), 5.0, "sample = 5.0: must be a pair (x, y) of features and label"),
        (Squared(), np.ones(3), "sample = array([1., 1., 1.]): must be a pair"),
        (Squared(), (1.0, 2.0), "x = 1.0: must be an array of numbers, one for each feature, or of such rows; write a"),
        (Squared(), ("ab", 2.0), "x = 'ab': must be an array of numbers"),
        (Squared(), (np.ones((0, 2)), []), "x = array([], shape=(0, 2), dtype=float64): must be an array of numbers"),
        (
            Squared(),
            ([1, 2, 3], 0),
            "x = [1, 2, 3]: must be 2 features, as w has 3 numbers; or for 3 f",
        ),
        (Squared(), (np.ones(3), 0), "x = array([1., 1., 1.]): must be 2 features"),
        (Squared(), ([1, math.nan], 0), "x = array([ 1., nan]): must be finite numbers; leave such samples out"),
        (Squared(), ([[1, 2], [1, math.inf]], [0, 1]), "x = array([ 1., inf]): must be finite numbers"),
        (Squared(), ([1, 2], "cat"), "y = 'cat': must be a finite number"),
        (Squared(), ([1, 2], math.nan), "y = nan: must be a finite number; leave such samples out"),
        (Squared(), ([1, 2], np.ones(1)), "y = array([1.]): must be a finite number"),
        (Squared(), (ROWS, [1, math.nan]), "y = nan: must be a finite number"),
        (Squared(), (ROWS, [1, 2, 3]), "y = [1, 2, 3]: must be 2 labels, one for each row of X; its shape is (3,)"),
        (Squared(), (ROWS, np.ones((2, 1))), "y = array([[1.], [1.]]): must be 2 labels, one for each row of X"),
        (Huber(), (ROWS, ["a", "b"]), "y = ['a', 'b']: must be a finite number"),
        (Poisson(), ([1, 2], -1), "y = -1.0: must be a count, 0 or more"),
        (Poisson(), (ROWS, [3, -1]), "y = -1.0: must be a count, 0 or more"),
        (Logistic(), ([1, 2], 2), "y = 2: must be 0 or 1, or −1 or 1, or a truth value; Softmax(classes=[…]) takes"),
        (Logistic(), ([1, 2], math.nan), "y = nan: must be 0 or 1"),
        (Logistic(), ([1, 2], "cat"), "y = 'cat': must be 0 or 1"),
        (Logistic(), (ROWS, [1, 2]), "y = 2.0: must be 0 or 1"),
        (Logistic(), (ROWS, [math.nan, 1]), "y = nan: must be 0 or 1"),
        (Logistic(), (ROWS, [0, -1]), "y = [0, -1]: must be 0 and 1, or −1 and 1, not both 0 and −1; Softmax"),
    ],
)
def test_a_mistake_gets_one_line(loss, sample, message):
    with pytest.raises(BadInput) as caught:
        loss(W, sample)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("y", ["owl", 0, np.nan])
def test_a_label_that_is_no_class_is_named(y):
    loss, w = Softmax(TEXTS), np.zeros(9)
    message = r"must be one of the classes 'cat', 'dog', 'a long name'; name all labels that there are in classes=\[…\]"
    with pytest.raises(BadInput, match=message):
        loss(w, ([1, 2], y))
    with pytest.raises(BadInput, match=message):
        loss(w, (ROWS, [y, y]))
    with pytest.raises(BadInput, match="y = 'zebra': must be one of"):
        loss(w, (ROWS, ["cat", "zebra"]))
    with pytest.raises(BadInput, match="y = 4: must be one of the classes 7, 3, 5"):
        Softmax([7, 3, 5])(w, (ROWS, [3, 4]))


def test_a_wrong_w_is_refused_where_no_number_of_features_fits_it():
    with pytest.raises(BadInput, match="must be other features, as w has 4 numbers; or for 2 features w must have 9"):
        Softmax(TEXTS)(np.zeros(4), ([1, 2], "cat"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Squared(ridge=-1), "ridge = -1: must be a finite number at least 0"),
        (lambda: Squared(intercept=1), "intercept = 1: must be True or False"),
        (lambda: Huber(0), "delta = 0: must be a finite number above 0"),
        (lambda: Softmax("ab"), "classes = 'ab': must be a list of at least two different labels"),
        (lambda: Softmax([1]), "classes = [1]: must be a list of at least two"),
        (lambda: Softmax([1, 1.0]), "classes = [1, 1.0]: must be a list of at least two"),
        (lambda: Softmax([1, "a"]), "classes = [1, 'a']: must be a list of at least two"),
        (lambda: Squared().dimension(0), "features = 0: must be a whole number of at least 1"),
    ],
)
def test_arguments_are_checked_at_once(make, message):
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value).startswith(message)


# ------------------------------------------------------------------------------------------- in a run


def test_batches_and_a_loss_train_a_model():
    """Both halves of the data say y = 1 where x·(1, −2) > 0.5; labels are 0 and 1 in one, −1 and 1 in the other."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4000, 2))
    truth = X @ [1.0, -2.0] > 0.5
    streams = [
        list(zip(X[:2000], truth[:2000] * 1, strict=True)),
        list(zip(X[2000:], truth[2000:] * 2 - 1, strict=True)),
    ]
    loss = Logistic(ridge=1e-4)
    batched = [Batched(stream, 10) for stream in streams]
    run = siag.train(loss, batched, np.zeros(3), step=siag.steps.Constant(2.0), runtime=siag.Simulated())
    assert (loss.predict(run.w[0], X) == truth).mean() > 0.97
    assert loss.value(run.w[0], (X, truth)) < 0.2
    assert run.about["problem"] == "Logistic(ridge=0.0001, intercept=True) on streams"
