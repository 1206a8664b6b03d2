"""Calls that are wrong, or unlucky: each ends in a right model, or in a clear warning or error; none is silent."""

from types import SimpleNamespace

import numpy as np
import pytest

import siag
from siag.losses import Logistic, Squared
from siag.methods import Automatic
from siag.steps import Constant
from siag.streams import Batched

N = 400
FAR = np.array([8.0, 12.0, 2013.0])  # from 0


def line(slopes, seed, n=N):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(slopes)))
    return x, x @ np.array(slopes) + 0.1 * rng.normal(size=n)


def labelled(kinds, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 3))
    return x, np.where(rng.random(N) < 1 / (1 + np.exp(-x @ [1.0, -1.0, 2.0])), kinds[1], kinds[0])


def both(kinds):
    return [labelled(kinds, seed) for seed in (1, 2)]


A, B = line([1.0, 2.0, 3.0], 1), line([3.0, 2.0, 1.0], 2)


def squared(w, sample):
    x, y = sample
    miss = x @ w[:3] + w[3] - y
    return 0.5 * float(miss * miss), miss * np.append(x, 1.0)


def cross_entropy(w, sample):
    """For labels 0 and 1."""
    x, y = sample
    margin = x @ w[:3] + w[3]
    return np.logaddexp(0.0, margin) - y * margin, (0.5 + 0.5 * np.tanh(margin / 2) - y) * np.append(x, 1.0)


class Frame:
    """What a DataFrame has that matters here: it iterates over names of columns, and knows its rows."""

    def __init__(self, part):
        self.rows = [SimpleNamespace(x=x, y=y) for x, y in zip(*part, strict=True)]

    def __iter__(self):
        return iter("xy")

    def __len__(self):
        return len(self.rows)

    def itertuples(self, index, name):
        return iter(self.rows)


def with_nan(part):
    x, y = part
    y = y.copy()
    y[77] = np.nan
    return x, y


def many():
    """10⁵ samples at each of two workers, NaN in one of them, in batches."""
    return [Batched(part, 100) for part in (with_nan(line([1.0, 2.0, 3.0], 1, 10**5)), line([3.0, 2.0, 1.0], 2, 10**5))]


def squared_of_batch(w, sample):
    x, y = sample
    miss = x @ w[:3] + w[3] - y
    return 0.5 * float(miss @ miss) / len(y), np.append(x.T @ miss, miss.sum()) / len(y)


def go(gradient, streams, w0=None, slowness=1.0, reports=3000, **given):
    clock = siag.Simulated(times=siag.activity.Exponential(1.0), slowness=slowness, seed=1)
    w0 = np.zeros(4) if w0 is None else w0
    return siag.train(gradient, streams, w0, until=siag.Until(reports=reports), runtime=clock, progress=False, **given)


def exact(parts):
    """The least-squares solution in which each part counts the same."""
    extended = [(np.column_stack([x, np.ones(len(x))]), y) for x, y in parts]
    return np.linalg.solve(sum(z.T @ z / len(z) for z, _ in extended), sum(z.T @ y / len(z) for z, y in extended))


def near(w, best, most=0.15):
    return np.abs(w - best).max() < most


def sensible(w):
    """Of the signs and sizes that the labels were drawn with."""
    return w[0] > 0.4 and w[1] < -0.4 and w[2] > 1.0


BEST = exact([A, B])
RIGHT = {  # the call, and whether w is right
    "DataFrames": (
        lambda: go(lambda w, row: squared(w, (row.x, row.y)), [Frame(A), Frame(B)]),
        lambda w: near(w, BEST),
    ),
    "labels 0 and 1": (lambda: go(Logistic(ridge=0.01), both((0, 1))), sensible),
    "labels −1 and 1": (lambda: go(Logistic(ridge=0.01), both((-1, 1))), sensible),
    "one class only, at one worker": (
        lambda: go(Logistic(ridge=0.1), [(A[0], np.ones(N)), labelled((0, 1), 2)]),
        lambda w: np.isfinite(w).all() and w[2] > 0.1,
    ),
    "features of 10⁶": (
        lambda: go(Squared(), [(1e6 * x, y) for x, y in (A, B)]),
        lambda w: near(w[:3] * 1e6, BEST[:3]),
    ),
    "one feature of 10⁶": (
        lambda: go(Squared(), [(x * [1e6, 1.0, 1.0], y) for x, y in (A, B)]),
        lambda w: near(w * [1e6, 1.0, 1.0, 1.0], BEST),
    ),
    "features far from 0": (
        lambda: go(Squared(), [(x + FAR, y) for x, y in (A, B)]),
        lambda w: near(w[:3], BEST[:3]) and near(w[3] + w[:3] @ FAR, BEST[3]),
    ),
    "features of 10⁶, classes": (
        lambda: go(Logistic(ridge=0.01), [(1e6 * x, y) for x, y in both((0, 1))]),
        lambda w: sensible(w * 1e6),
    ),
    "a constant column": (
        lambda: go(Squared(ridge=1e-3), [(np.column_stack([x[:, :2], np.ones(N)]), y) for x, y in (A, B)]),
        lambda w: near(w[:2], 2.0, 0.3),
    ),
    "NaN in a sample": (lambda: go(squared, [with_nan(A), B]), lambda w: near(w, BEST)),
    "NaN in one sample of 10⁵": (lambda: go(squared_of_batch, many()), lambda w: near(w, [2.0, 2.0, 2.0, 0.0])),
    "a start at 10⁶": (lambda: go(squared, [A, B], w0=np.full(4, 1e6)), lambda w: near(w, BEST, 0.3)),
    "rates 1 : 30": (lambda: go(squared, [A, B], slowness=[1.0, 30.0], reports=8_000), lambda w: near(w, BEST, 0.3)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RIGHT)
def test_unlucky_calls_that_end_in_a_right_model(name):
    call, right = RIGHT[name]
    run = call()
    assert right(run.w[0]), run.w[0]
    assert run.warnings == []


def test_a_sample_with_nan_is_refused_and_counted():
    run = go(squared, [with_nan(A), B])
    assert [worker["refused"] > 0 for worker in run.workers] == [True, False]


WARNED = {  # the call, and what is said
    "a number of 10⁹ among the features": (
        lambda: go(Squared(), [(np.where(np.arange(N)[:, None] == 7, 1e9, A[0]), A[1]), B]),
        r"column 1 has 1e\+09, .* times its interquartile range away from its median",
    ),
    "a step that is much too small": (
        lambda: go(squared, [A, B], step=Constant(1e-9)),
        "w goes straight away from where it began, and gradients are as long as the first",
    ),
    "one class only": (
        lambda: go(Logistic(), [(A[0], np.ones(N)), (B[0], np.ones(N))]),
        "all labels are of one class, 1.0: the model can learn nothing but that; add samples of another class",
    ),
    "NaN in one sample of 10⁵": (
        lambda: go(Squared(), many()),
        "worker 0 failed after .* reports: y = nan: must be a finite number; leave such samples out, or fill in",
    ),
    "columns for rows": (
        lambda: go(lambda w, column: w - column[:4], [A[0].T, B[0].T]),
        "streams.0. has 3 samples of .* if its columns are the samples, give its transpose",
    ),
    "labels 0 and 1 where −1 and 1 are expected": (
        lambda: go(lambda w, s: -s[1] / (1 + np.exp(s[1] * (s[0] @ w[:3]))) * np.append(s[0], 0.0), both((0, 1))),
        "of the first 20 gradients are zero: .* check that labels are those that the gradient is for",
    ),
    "labels −1 and 1 where 0 and 1 are expected": (
        lambda: go(cross_entropy, both((-1, 1))),
        "the loss falls without end, .* it has no minimum for these samples; check that labels are",
    ),
    "one feature of 10⁶, a gradient of one's own": (
        lambda: go(squared, [(x * [1e6, 1.0, 1.0], y) for x, y in (A, B)]),
        "column 1 is .* times as large as column .* standardise: subtract each column's mean",
    ),
    "one feature of 10⁶, as it is": (
        lambda: go(Squared(), [(x * [1e6, 1.0, 1.0], y) for x, y in (A, B)], method=Automatic()),
        "column 1 is .* times as large as column .* standardise: subtract each column's mean",
    ),
    "gradients of the wrong sign": (
        lambda: go(lambda w, s: -squared(w, s)[1], [A, B]),
        "w left the range of numbers",
    ),
    "gradients of the wrong sign, a small step": (
        lambda: go(lambda w, s: (squared(w, s)[0], -squared(w, s)[1]), [A, B], step=Constant(1e-3)),
        "the loss of new samples is .*, above the .* check the sign of the gradient",
    ),
    "gradients that are always zero": (lambda: go(lambda w, s: 0.0 * w, [A, B]), "gradients of worker [01] are zero"),
    "a step that is too large": (
        lambda: go(squared, [A, B], step=Constant(1.0)),
        "w left the range of numbers|w swings to and fro",
    ),
    "a slow worker and a constant step": (
        lambda: go(squared, [A, B], slowness=[1.0, 300.0], step=Constant(0.2), reports=8_000),
        "one gradient of worker 1, .* versions old, moves w by|above the .* it began with|w swings to and fro",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", WARNED)
def test_unlucky_calls_that_end_in_a_warning(name):
    call, said = WARNED[name]
    with pytest.warns(UserWarning, match=said):
        call()


FAILED = {  # the call, what is said, and whose model it is then
    "a generator without a sample": (lambda: go(squared, [A, iter([])]), "its stream ended without a sample", A),
    "a stream that breaks": (lambda: go(squared, [A, (1 / 0 for _ in "a")]), "ZeroDivisionError: division by zero", A),
    "texts where numbers belong": (lambda: go(squared, [A, [("a", "b")]]), "worker 1 failed: ", A),
    "labels 1 and 2": (lambda: go(Logistic(), both((1, 2))), "must be 0 or 1, or −1 or 1", None),
}


@pytest.mark.parametrize("name", FAILED)
def test_unlucky_calls_in_which_a_worker_fails_and_the_others_go_on(name):
    call, said, left = FAILED[name]
    run = call()
    assert any(said in text for text in run.about["failed"])
    if left is not None:
        assert near(run.w[0], exact([left]))


ERRORS = {
    "an empty list": (lambda: go(squared, [A, []]), r"^streams\[1\] = \[\]: must be data with at least one sample"),
    "all generators empty": (lambda: go(squared, [iter([]), iter([])]), "ended without a sample; give it some"),
    "columns for rows": (lambda: go(squared, [{"x": A[0], "y": A[1]}, B]), r"^streams\[0\] = .*this is by columns"),
    "unequal lengths": (lambda: go(squared, [(A[0], A[1][:-1]), B]), "a pair of 400 rows and 399 rows"),
    "masked numbers": (
        lambda: go(squared, [(np.ma.masked_greater(A[0], 2.0), A[1]), B]),
        r"^streams\[0\] = .*must be without masked numbers",
    ),
    "one array": (lambda: go(squared, A[0]), "must be a list with one stream for each worker"),
    "labels in words": (lambda: go(Logistic(), both(("no", "yes"))), r"Softmax\(classes=\[…\]\) takes other"),
    "a loss that is a vector": (
        lambda: go(lambda w, s: (np.ones(3), squared(w, s)[1]), [A, B]),
        r"with the loss array\(\[1., 1., 1.\]\); it must be one real number, such as the mean",
    ),
    "gradients of the wrong length": (lambda: go(lambda w, s: np.ones(3), [A, B]), "it must return 4 real numbers"),
    "a gradient that returns nothing": (lambda: go(lambda w, s: None, [A, B]), "gradient returned None"),
    "gradients that are NaN": (lambda: go(lambda w, s: np.nan * w, [A, B]), "not finite: a number of the gradient"),
    "a gradient that writes to w": (lambda: go(lambda w, s: w.__isub__(1.0), [A, B]), "output array is read-only"),
    "a gradient that writes to its sample": (
        lambda: go(lambda w, s: s[0].__isub__(w[:3]), [A, B]),
        "output array is read-only",
    ),
    "a class for a loss": (lambda: go(Squared, [A, B]), r"must be a loss, not its class; make one: Squared\(…\)"),
    "names of files": (lambda: go(squared, ["a.csv"]), r"siag.streams.labelled\(paths, label\) reads rows"),
    "a metric that raises": (
        lambda: go(squared, [A, B], evaluate={"acc": lambda w: 1 / 0}),
        r"^evaluate\['acc'\] raised ZeroDivisionError: division by zero",
    ),
    "a metric of three numbers for two workers": (
        lambda: go(squared, [A, B], evaluate={"acc": lambda w: [1, 2, 3]}),
        r"^evaluate\['acc'\] returned 3 numbers; it must return one, or one for each of the 2 workers",
    ),
    "names given twice": (lambda: go(squared, [A, B], names=["a", "a"]), "must be 2 different texts"),
    "w0 of another size": (lambda: go(Squared(), [A, B], w0=np.zeros(7)), "must be 6 features, as w has 7 numbers"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_calls_that_end_in_one_clear_line(name):
    call, said = ERRORS[name]
    with pytest.raises(siag.SiagError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
