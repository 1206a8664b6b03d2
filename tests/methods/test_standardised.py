import numpy as np
import pytest

from plain import simulate
from refusals import refused
from siag import checks
from siag.activity import Everyone, Nonuniform
from siag.experiments.config import written
from siag.foundations.errors import Unsuitable
from siag.live.protocol.welcome import described, make_method
from siag.methods import (
    SIAG,
    Automatic,
    Averaged,
    Clipped,
    CurvatureIAG,
    FedAvg,
    Momentum,
    Prox,
    Standardised,
    Weighted,
    answer,
    shown,
)
from siag.problems import LeastSquares, Ridge
from siag.steps import Constant, Harmonic

PROBLEM = LeastSquares.random(n=4, d=3, p=2, noise=0.1, seed=3)
MEANS, DEVIATIONS = (8.0, -3.0), (2.0, 0.5)
T = np.array([[0.5, 0.0, 0.0], [0.0, 2.0, 0.0], [-4.0, 6.0, 1.0]])  # w = T z, by hand
Q = np.sqrt(53.0)  # without an intercept: μ = (4, −6), ‖μ‖² = 52
WHITE = np.diag([0.5, 2.0]) @ (np.eye(2) - np.array([[16.0, -24.0], [-24.0, 36.0]]) / (Q * (1.0 + Q)))
W0 = np.array([1.0, -2.0, 3.0])


def around(method, **given):
    return Standardised(method, **{"means": MEANS, "deviations": DEVIATIONS} | given)


@pytest.mark.parametrize("method", [SIAG(), Automatic(), Averaged(SIAG())], ids=repr)
def test_columns_that_are_standardised_change_nothing_to_the_bit(method):
    step = None if isinstance(method, Automatic) else Harmonic(1.0, 50.0)
    same = around(method, means=[0.0, 0.0], deviations=[1.0, 1.0])
    runs = [simulate(PROBLEM, each, Nonuniform(2, 4), step, iterations=200, w0=W0) for each in (method, same)]
    assert np.array_equal(runs[0].w, runs[1].w)


def test_it_is_gradient_descent_on_f_as_a_function_of_z():
    exact = around(FedAvg(steps=1, size=0.002, gradients="exact"))
    found = simulate(PROBLEM, exact, Everyone(), Constant(1.0), iterations=5, w0=W0).w[0]
    z = np.linalg.solve(T, W0)
    for _ in range(5):
        z = z - 0.002 * T.T @ PROBLEM.full_gradient(T @ z)
    assert np.allclose(found, T @ z, rtol=1e-10)


@pytest.mark.parametrize("intercept", [True, False])
def test_several_classes_have_a_part_each(intercept):
    w = W0[: 2 + intercept]
    two = around(SIAG(), intercept=intercept).init(np.append(w, 2.0 * w), 3)
    z = np.linalg.solve(T if intercept else WHITE, w)
    assert np.allclose(shown(two), np.append(z, 2.0 * z))
    assert np.array_equal(answer(two), np.append(w, 2.0 * w))


def test_without_an_intercept_independent_columns_of_these_means_and_deviations_have_the_second_moment_1():
    moment = np.diag(np.square(DEVIATIONS)) + np.outer(MEANS, MEANS)
    assert np.allclose(WHITE.T @ moment @ WHITE, np.eye(2))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("method", [SIAG(), Automatic()], ids=repr)
def test_it_takes_the_steps_of_the_method_on_columns_that_were_standardised_before(method, intercept):
    """Curvatures included, which automatic steps follow from."""
    draw, p = np.random.default_rng(1), 2 + intercept
    X = np.concatenate([draw.standard_normal((4, 30, 2)) * DEVIATIONS + MEANS, np.ones((4, 30, 1))], axis=2)[..., :p]
    y = X @ [1.0, 2.0, 3.0][:p] + draw.standard_normal((4, 30))
    step = None if isinstance(method, Automatic) else Constant(0.01)
    given, turn, w0 = {"iterations": 300, "seed": 5}, T if intercept else WHITE, W0[:p]
    turned = around(method, intercept=intercept)
    here = simulate(Ridge(X, y, 0.0), turned, Nonuniform(2, 4), step, w0=w0, **given)
    there = simulate(Ridge(X @ turn, y, 0.0), method, Nonuniform(2, 4), step, w0=np.linalg.solve(turn, w0), **given)
    assert np.allclose(here.w[0], turn @ there.w[0], rtol=1e-6)


@pytest.mark.parametrize("check", [each for each in checks.CHECKS if each.__name__ != "all_active_is_gradient_descent"])
@pytest.mark.few(3)
def test_it_is_a_method_as_any_other(check):
    check(around(SIAG()))


def test_it_is_made_again_from_how_it_prints_and_from_what_a_server_says():
    method = around(Automatic())
    assert written("method", repr(method)) == method
    assert make_method(described(method)) == method


def test_weights_may_be_within_or_around_it():
    weights = [1.0, 2.0, 3.0, 4.0]
    step = Harmonic(1.0, 50.0)
    both = [
        simulate(PROBLEM, each, Nonuniform(2, 4), step, iterations=50, w0=W0).w
        for each in (Weighted(around(SIAG()), weights), around(Weighted(SIAG(), weights)))
    ]
    assert np.array_equal(*both)


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: around(SIAG(), deviations=[1.0]), "deviations"),
        (lambda: around(SIAG(), deviations=[1.0, 0.0]), "deviations"),
        (lambda: around(SIAG(), means=[np.nan, 0.0]), "means"),
        (lambda: around("SIAG"), "method"),
    ],
)
def test_wrong_numbers_are_refused(make, parameter):
    with refused(parameter):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: around(around(SIAG())),
        lambda: around(CurvatureIAG()),
        lambda: Averaged(around(SIAG())),
        lambda: Prox(around(SIAG()), l1=0.1),
        lambda: Momentum(around(SIAG())),
        lambda: Clipped(around(SIAG()), norm=1.0),
        lambda: around(SIAG()).init(np.zeros(4), 2),
    ],
)
def test_what_would_mix_up_coordinates_is_refused(make):
    with pytest.raises(Unsuitable):
        make()
