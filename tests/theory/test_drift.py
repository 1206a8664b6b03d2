"""The fixed point of local steps: against iteration, and where it is known in other ways."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import as_python
from siag.problems import LeastSquares, LogisticRegression, Ridge
from siag.theory import local_fixed_point, quadratics

PROBLEM = Ridge.random(n=6, d=3, m=10, tilt=0.5, regularization=0.1, seed=2)
with as_python():
    A, B = quadratics(PROBLEM)
SIZE = 0.5 / np.linalg.eigvalsh(A).max()


def iterated(weights, steps, size, pull):
    """Rounds of local steps and averaging until nothing moves."""
    w = np.zeros(A.shape[1])
    for _ in range(5000):
        ends = []
        for a, b in zip(A, B, strict=True):
            y = w.copy()
            for _ in range(steps):
                y = y - size * (a @ y - b + pull * (y - w))
            ends.append(y)
        after = weights @ np.array(ends) / weights.sum()
        if np.abs(after - w).max() < 1e-15:
            break
        w = after
    return w


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("pull", [0.0, 0.8])
def test_it_is_where_the_iteration_ends(steps, pull):
    weights = np.array([1.0, 2.0, 0.5, 0.0, 3.0, 1.0])
    point = local_fixed_point(A, B, weights, steps=steps, size=SIZE / 2, pull=pull)
    assert np.allclose(point, iterated(weights, steps, SIZE / 2, pull), rtol=1e-10)


def test_the_parts_of_a_quadratic_are_its_hessians_and_slopes():
    w = np.array([0.3, -1.0, 2.0])
    for i in range(PROBLEM.n):
        assert np.allclose(A[i] @ w - B[i], PROBLEM.gradient(i, w), rtol=1e-12)


@pytest.mark.parametrize("pull", [0.0, 2.0])
def test_one_step_leads_to_the_optimum(pull):
    assert np.allclose(local_fixed_point(A, B, steps=1, size=SIZE, pull=pull), PROBLEM.optimum, rtol=1e-12)


def test_many_steps_lead_to_the_mean_of_the_local_optima():
    point = local_fixed_point(A, B, steps=20_000, size=SIZE)
    assert np.allclose(point, np.mean([np.linalg.solve(a, b) for a, b in zip(A, B, strict=True)], axis=0), rtol=1e-9)


def test_a_strong_pull_leads_back_to_the_optimum():
    far, near = (
        np.linalg.norm(local_fixed_point(A, B, steps=10_000, size=0.5 / (pull + 10), pull=pull) - PROBLEM.optimum)
        for pull in (1.0, 1000.0)
    )
    assert near < 0.02 * far


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 50), st.floats(0.001, 0.2), st.floats(0.0, 3.0), st.lists(st.floats(0.1, 9), min_size=4, max_size=4)
)
def test_where_curvatures_are_equal_it_is_the_weighted_mean_of_the_centres(steps, size, pull, weights):
    problem = LeastSquares.random(n=4, d=3, p=2, noise=0.1, seed=1)
    v = np.array(weights)
    point = local_fixed_point(*quadratics(problem), v, steps=steps, size=size, pull=pull)
    assert np.allclose(point, v @ problem.centers / v.sum(), rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-6, 1e6))
def test_only_the_ratio_of_the_weights_matters(factor):
    weights = np.arange(1.0, 7.0)
    one, two = (local_fixed_point(A, B, v, steps=3, size=SIZE) for v in (weights, factor * weights))
    assert np.allclose(one, two, rtol=1e-9)


def test_what_is_not_quadratic_is_refused():
    problem = LogisticRegression.random(n=3, d=2, m=5, regularization=0.1)
    with pytest.raises(
        siag.Unsuitable, match="known for quadratics, and F_0 of LogisticRegression is none; use simulate"
    ):
        quadratics(problem)


@pytest.mark.parametrize(
    ("weights", "steps", "size"), [(np.zeros(6), 2, 0.1), (np.ones(6), 10_000, 1e3)], ids=["no weights", "diverging"]
)
def test_where_there_is_no_one_point_it_says_so(weights, steps, size):
    with pytest.raises(siag.Unsuitable, match="no one fixed point here; use a smaller size, and weights above 0"):
        local_fixed_point(A, B, weights, steps=steps, size=size)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"steps": 0}, "steps"),
        ({"size": 0.0}, "size"),
        ({"pull": -1.0}, "pull"),
        ({"weights": np.ones(5)}, "weights"),
        ({"linear": B[:5]}, "linear"),
        ({"hessians": A[:, :2]}, "hessians"),
        ({"hessians": A * np.nan}, "hessians"),
    ],
)
def test_arguments_of_no_meaning_are_refused_by_name(change, name):
    arguments = {"hessians": A, "linear": B, "weights": np.ones(6), "steps": 2, "size": 0.1, "pull": 0.0} | change
    with pytest.raises(siag.BadInput, match=f"^{name} = "):
        local_fixed_point(**arguments)
