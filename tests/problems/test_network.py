"""The network against backpropagation written in NumPy, its data, and runs on it."""

import numpy as np
import pytest

import siag
from plain import as_python
from refusals import refused
from siag.foundations.rng import SAMPLES, fresh
from siag.problems import Network, sample

SMALL = {"n": 3, "p": 4, "m": 5, "classes": 3, "hidden": 3, "seed": 1}
each = pytest.mark.parametrize("activation", ["tanh", "relu"])


def gradients(problem, i, w):
    """(m, d) of the cross-entropy at each of worker i's points, by the chain rule in matrices."""
    p, h, C = problem.features.shape[2], problem.hidden, problem.classes
    cut = np.cumsum([h * p, h, C * h])
    W1, b1, W2, b2 = (part.reshape(shape) for part, shape in zip(np.split(w, cut), ((h, p), h, (C, h), C), strict=True))
    found = []
    for x, label in zip(problem.features[i], problem.labels[i], strict=True):
        u = W1 @ x + b1
        z = np.tanh(u) if problem.activation == "tanh" else np.maximum(u, 0.0)
        odds = np.exp(W2 @ z + b2)
        miss = odds / odds.sum() - np.eye(C)[label]
        back = (W2.T @ miss) * (1.0 - z**2 if problem.activation == "tanh" else (u > 0.0))
        found.append(np.concatenate([np.outer(back, x).ravel(), back, np.outer(miss, z).ravel(), miss]))
    return np.array(found)


@each
def test_the_exact_gradient_is_that_of_backpropagation(activation):
    problem = Network.random(activation=activation, **SMALL)
    for w in (problem.start, 0.7 * np.random.default_rng(2).standard_normal(problem.d)):
        for i in range(problem.n):
            np.testing.assert_allclose(problem.gradient(i, w), gradients(problem, i, w).mean(axis=0), atol=1e-14)


def test_the_gradient_is_the_slope_of_the_objective():
    problem = Network.random(**SMALL)
    w = 0.7 * np.random.default_rng(2).standard_normal(problem.d)
    slopes = [(problem.objective(w + e) - problem.objective(w - e)) / 2e-5 for e in 1e-5 * np.eye(problem.d)]
    np.testing.assert_allclose(problem.full_gradient(w), slopes, atol=1e-8)


@each
def test_a_sample_is_the_mean_over_points_of_the_worker(activation):
    """Samples of one point each are gradients of points, and in 400 draws all of the five occur, but for 1e-38."""
    problem = Network.random(activation=activation, **SMALL)
    w, out, seen = problem.start, np.empty(problem.d), set()
    own = gradients(problem, 1, w)
    with as_python():
        rng, oracle = fresh(1, 0, SAMPLES), problem.oracle()
        for _ in range(400):
            sample(oracle, rng, 1, w, out)
            distance = np.abs(own - out).max(axis=1)
            assert distance.min() < 1e-14
            seen.add(int(distance.argmin()))
        assert seen == set(range(5))
        two = Network(problem.features, problem.labels, 3, hidden=3, activation=activation, batch=2)
        sample(two.oracle(), rng, 1, w, out)
    pairs = (own[:, None] + own[None, :]) / 2.0
    assert np.abs(pairs - out).max(axis=2).min() < 1e-14


@pytest.mark.thorough
@each
def test_compiled_runs_equal_plain_ones_and_learn(activation):
    problem = Network.random(activation=activation, spread=3.0, heterogeneity=1.0, **SMALL | {"m": 20, "hidden": 6})
    parts = problem, siag.methods.SIAG(), siag.activity.Uniform(3), siag.steps.Constant(0.1)
    fast, slow = (siag.simulate(*parts, iterations=40, record=2, compiled=how) for how in (True, False))
    assert fast.w.tolist() == slow.w.tolist()
    run = siag.simulate(*parts, iterations=2000, record=5, evaluate={"accuracy": problem.accuracy})
    assert run.measure == "‖∇F(wᵗ)‖²"
    assert run.error[0, -1] < 0.2 * run.error[0, 0]
    assert run.objective[0, -1] < 0.3 * run.objective[0, 0]
    assert run.metrics["accuracy"][0, -1] > 0.9 > run.metrics["accuracy"][0, 0]
    assert run.objective[0, 0] == problem.objective(problem.start)


def test_heterogeneity_is_the_share_of_a_workers_own_class():
    def share(heterogeneity):
        problem = Network.random(n=10, m=400, classes=5, heterogeneity=heterogeneity)
        return float((problem.labels == np.arange(10)[:, None] % 5).mean())

    assert share(1.0) == 1.0
    assert share(0.0) == pytest.approx(0.2, abs=0.03)  # standard error 0.006
    assert share(0.5) == pytest.approx(0.6, abs=0.03)


def test_zero_is_a_saddle_point_so_runs_begin_elsewhere():
    problem = Network.random(n=2, classes=2, m=4, heterogeneity=1.0)
    assert np.abs(problem.full_gradient(np.zeros(problem.d))).max() < 1e-15
    assert np.square(problem.full_gradient(problem.start)).sum() > 1e-3


def test_the_seed_draws_data_and_start():
    one, same, other = (Network.random(n=2, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.features, same.features)
    assert np.array_equal(one.start, same.start)
    assert not np.array_equal(one.start, other.start)
    assert repr(one) == (
        "Network.random(n=2, p=10, m=50, classes=5, spread=2.0, heterogeneity=0.5, hidden=16, activation='tanh', "
        "batch=1, seed=1)"
    )


@pytest.mark.parametrize(
    ("parameter", "given"),
    [
        ("classes", {"classes": 1}),
        ("heterogeneity", {"heterogeneity": 1.1}),
        ("spread", {"spread": -1.0}),
        ("hidden", {"hidden": 0}),
        ("activation", {"activation": "sigmoid"}),
        ("batch", {"batch": 0}),
        ("seed", {"seed": -1}),
    ],
)
def test_bad_input_is_refused_by_name(parameter, given):
    with refused(parameter):
        Network.random(**{"n": 2} | given)


@pytest.mark.parametrize("labels", [[[0, 2]], [[-1, 1]], [[0.5, 1.0]], [[0, 1, 1]]])
def test_labels_must_be_those_of_the_classes(labels):
    with refused("labels"):
        Network(np.zeros((1, 2, 3)), labels, classes=2)
