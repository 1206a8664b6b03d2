"""Columns and gradients that tell a model little: what is doubtful about them, and what is not."""

import numpy as np
import pytest

import siag
from siag.live.data import doubts_about
from siag.live.scales import along_one_line
from siag.losses import Logistic, Squared

QUICK = siag.Simulated(times=siag.activity.Exponential(0.001), slowness=[1.0, 50.0], seed=1)


def directions(x, seed=0):
    """Of gradients of a linear model at rows x, some residuals positive and some not."""
    found = x * np.random.default_rng(seed).normal(size=len(x))[:, None]
    return found / np.linalg.norm(found, axis=1)[:, None]


def rows(k=16, mean=0.0, size=1.0, seed=1):
    x = np.random.default_rng(seed).normal(size=(k, 2)) * size + mean
    return np.column_stack([x, np.ones(k)])


@pytest.mark.parametrize(
    ("x", "alike"),
    [
        (rows(), False),
        (rows(mean=2.0), False),
        (rows(mean=[8.0, 12.0]), True),
        (rows(size=1e3, mean=1e6), True),
        (rows(size=[1.0, 300.0]), True),
        (rows(k=7, mean=[8.0, 12.0]), False),
        (np.repeat(rows(k=4, mean=[8.0, 12.0]), 4, axis=0), False),
        (np.outer(np.arange(1.0, 17.0), [1.0, 2.0, 3.0]), False),
    ],
    ids=["centred", "near", "far", "very far", "unlike", "few", "the same few", "nothing else to learn"],
)
def test_gradients_lie_along_one_line_if_columns_are_far_from_0_or_one_is_much_larger(x, alike):
    found = directions(x) if len(np.unique(x, axis=0)) > 4 else np.repeat(directions(x[::4]), 4, axis=0)
    assert along_one_line(found[:, None]) == alike


def test_gradients_that_all_lead_the_same_way_do_not_lie_along_one_line_yet():
    assert not along_one_line(np.abs(directions(rows(mean=[8.0, 12.0])))[:, None])


def test_two_workers_that_differ_pull_either_way_which_is_no_line():
    found = np.abs(directions(rows(mean=[8.0, 12.0]))).reshape(8, 2, 3) * [[1.0], [-1.0]]
    assert not along_one_line(found)


def test_two_parameters_are_not_taken_for_one_line_by_chance():
    """None of 3000 of eight directions; if one in 1000 were, this would fail in 19 of 20 runs."""
    draw = np.random.default_rng(2)
    found = draw.normal(size=(3000, 8, 2))
    assert not any(along_one_line(each[:, None] / np.linalg.norm(each, axis=1)[:, None, None]) for each in found)


def data(mean=0.0, seed=3):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(2000, 2))
    return x + mean, x @ [1.0, 2.0] + 0.1 * draw.normal(size=2000)


@pytest.mark.parametrize(("mean", "said"), [([8.0, 12.0], True), (0.0, False)])
def test_streams_that_are_read_once_are_warned_of_if_their_columns_are_far_from_0(mean, said):
    streams = [iter(list(zip(*data(mean, seed), strict=True))) for seed in (3, 4)]
    run = siag.train(Squared(), streams, np.zeros(3), runtime=QUICK, progress=False)
    assert any("along one line" in text for text in run.warnings) == said


@pytest.mark.parametrize("kind", ["pair", "list"])
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
def test_a_number_that_is_far_from_all_others_of_its_column_is_doubtful(loss, kind):
    X, y = data()
    X[77, 1] = -1e9

    def doubts():
        part = (X, y > 0.0) if kind == "pair" else list(zip(X, y > 0.0, strict=True))[:100]
        return doubts_about(loss, [part], 3, scaled=True)

    (text,) = doubts()
    assert text.startswith("column 2 has -1e+09, ")
    X[77, 1] = 1.0
    assert doubts() == []


def test_a_column_that_is_mostly_zero_and_one_of_heavy_tails_are_not():
    X, y = data()
    X = np.column_stack([X, np.arange(len(X)) % 50 == 0, np.random.default_rng(0).standard_t(2, len(X))])
    assert doubts_about(Squared(), [(X, y)], 5, scaled=True) == []


def test_columns_without_an_intercept_that_lie_far_from_0_are_not_called_alike():
    """Their common part is no hindrance to steps that are as if it were not there."""
    assert doubts_about(Squared(intercept=False), [data([80.0, -50.0])], 2, scaled=True) == []


def test_a_loss_below_that_at_w0_is_not_called_worse_however_good_the_first_samples_were():
    """The slow worker's first samples are of a w that has gone to the fast one's optimum and beyond."""
    draw = np.random.default_rng([2, 1, 2])
    centers = draw.standard_normal((2, 1)) + 1.0
    streams = [list(each + 0.1 * draw.standard_normal((300, 1))) for each in centers]
    run = siag.train(
        lambda w, x: (0.5 * float((w - x) @ (w - x)), w - x), streams, np.zeros(1), runtime=QUICK, progress=False
    )
    assert abs(run.w[0, 0] - np.mean([np.mean(each) for each in streams])) < 0.02
    assert run.warnings == []


def test_moves_of_one_parameter_are_not_called_straight():
    """Long absences and much noise: gradients stay as long as the first, and w comes slowly nearer."""
    job = siag.problems.LeastSquares.random(n=20, d=1, p=1, noise=0.1, seed=0)
    clock = siag.Simulated(times=siag.activity.Exponential(1.0), availability=siag.activity.OnOff(100, 300), seed=1)
    run = siag.train(problem=job, until=10_000, runtime=clock, progress=False)
    assert run.error[0, -1] < 0.1 * run.error[0, 0]
    assert not [text for text in run.warnings if "straight" in text]
