"""Least squares: closed forms, constants of the assumptions, and what is refused."""

import math
import pickle

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.problems import LeastSquares, hessian

quick = settings(deadline=None, max_examples=60)
problems = st.builds(
    LeastSquares.random,
    n=st.integers(1, 6),
    d=st.integers(1, 5),
    p=st.integers(1, 12),
    noise=st.floats(0, 3),
    seed=st.integers(0, 2**64 - 1),
)


def points_of(problem, seed, scale=10.0):
    return scale * np.random.default_rng(seed).standard_normal((5, problem.d))


def test_random_centres_are_uniform_on_the_unit_cube_and_depend_on_the_seed_only():
    problem = LeastSquares.random(n=80, d=20, p=10, noise=0.1, seed=3)
    again = LeastSquares.random(n=80, d=20, p=1, noise=0.0, seed=3)
    other = LeastSquares.random(n=80, d=20, p=10, noise=0.1, seed=4)
    assert (problem.n, problem.d, problem.centers.shape) == (80, 20, (80, 20))
    assert np.array_equal(problem.centers, again.centers)
    assert not np.array_equal(problem.centers, other.centers)
    assert 0.0 <= problem.centers.min() < 0.01
    assert 0.99 < problem.centers.max() <= 1.0


@quick
@given(problems)
def test_the_optimum_is_the_mean_of_the_centres_and_a_zero_of_the_gradient(problem):
    np.testing.assert_allclose(problem.optimum, problem.centers.mean(axis=0))
    whole = sum(problem.gradient(i, problem.optimum) for i in range(problem.n))
    assert np.abs(whole).max() < 1e-12 * problem.n * problem.p


@quick
@given(problems, st.integers(0, 99))
def test_mu_and_smoothness_are_p_because_the_gradient_is_p_times_the_distance(problem, seed):
    mu, L, _ = problem.constants()
    assert mu == L == problem.p
    for w in points_of(problem, seed):
        for i in range(problem.n):
            np.testing.assert_allclose(problem.gradient(i, w), problem.p * (w - problem.centers[i]), rtol=1e-14)


@quick
@given(problems, st.integers(0, 99))
def test_assumption_2_holds_with_the_constant_given(problem, seed):
    sigma2 = problem.constants().sigma2
    far_and_near = [*points_of(problem, seed, 1e3), *points_of(problem, seed, 1e-2), problem.optimum, *problem.centers]
    for w in far_and_near:
        distance = ((w - problem.optimum) ** 2).sum()
        assert (problem.noise_at(w) <= sigma2 * (1 + distance) * (1 + 1e-12)).all()


@quick
@given(problems, st.integers(0, 99))
def test_the_noise_is_the_papers_formula(problem, seed):
    for w in points_of(problem, seed):
        for i, noise in enumerate(problem.noise_at(w)):
            e2 = sum((a - b) ** 2 for a, b in zip(w, problem.centers[i], strict=True))
            expected = problem.p * (problem.d + 1) * e2 + problem.noise**2 * problem.p * problem.d
            assert noise == pytest.approx(expected, rel=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize(("apart", "noise"), [(0.0, 0.0), (0.0, 3.0), (0.3, 0.1), (1.0, 0.5), (4.0, 2.0)])
def test_no_smaller_noise_constant_would_do(apart, noise):
    problem = LeastSquares(np.array([[1.0 - apart, 0.0], [1.0 + apart, 0.0]]), p=3, noise=noise)
    away = np.append(np.geomspace(1e-3, 1e6, 20_001), 0.0)
    ratios = [problem.noise_at([1.0 + r, 0.0]).max() / (1 + r * r) for r in away]
    assert max(ratios) == pytest.approx(problem.constants().sigma2, rel=1e-6)


@pytest.mark.parametrize("sampler", ["exact", "literal"])
def test_both_samplers_know_the_exact_gradient(sampler):
    problem = LeastSquares([[1.0, 2.0], [3.0, 4.0]], p=5, noise=1.0, sampler=sampler)
    assert problem.gradient(1, [0.0, 0.0]).tolist() == [-15.0, -20.0]


@pytest.mark.parametrize("sampler", ["exact", "literal"])
def test_both_samplers_know_the_hessian_p_times_the_identity(sampler):
    problem = LeastSquares([[1.0, 2.0], [3.0, 4.0]], p=5, noise=1.0, sampler=sampler)
    oracle, fast = problem.oracle(), np.full((2, 2), math.nan)
    curve(oracle, np.ones(2), fast)
    assert problem.hessian(1, [1.0, 1.0]).tolist() == fast.tolist() == [[5.0, 0.0], [0.0, 5.0]]
    assert problem.smoothness.tolist() == [5.0, 5.0]


@compiled
def curve(oracle, w, out):
    hessian(oracle, 1, w, out)


def test_a_gradient_at_a_point_of_the_wrong_length_is_refused():
    problem = LeastSquares(np.zeros((2, 3)), p=1, noise=0.0)
    for w in (np.zeros(2), np.zeros(4), np.zeros((1, 3))):
        with pytest.raises(BadInput, match=r"^w = "):
            problem.gradient(0, w)


def test_the_arrays_of_a_problem_cannot_be_written():
    mine = np.zeros((2, 3))
    problem = LeastSquares(mine, p=1, noise=0.0)
    mine[0, 0] = 7.0
    assert problem.centers[0, 0] == 0.0
    for array in (problem.centers, problem.optimum):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1.0


def test_every_oracle_has_scratch_space_of_its_own():
    # Two threads that shared it would spoil each other's samples.
    for sampler in ("exact", "literal"):
        problem = LeastSquares.random(n=2, d=3, p=2, noise=0.1, sampler=sampler)
        one, two = problem.oracle(), problem.oracle()
        shared = [
            name
            for name, a, b in zip(one._fields, one, two, strict=True)
            if isinstance(a, np.ndarray) and np.shares_memory(a, b)
        ]
        assert shared == ["centers"]


GOOD = {"n": 2, "d": 3, "p": 4, "noise": 0.1, "seed": 0, "sampler": "exact"}


@pytest.mark.parametrize(
    ("parameter", "value"),
    [(name, value) for name in ("n", "d", "p") for value in (0, -1, 1.5, True, None, "2")]
    + [("noise", value) for value in (-0.1, math.nan, math.inf, None, "1", True)]
    + [("seed", value) for value in (-1, 2**64, 1.0, None)]
    + [("sampler", value) for value in ("Exact", "", None, 1)],
)
def test_bad_parameters_are_refused_by_name(parameter, value):
    with pytest.raises(BadInput) as caught:
        LeastSquares.random(**(GOOD | {parameter: value}))
    assert caught.value.parameter == parameter
    assert str(caught.value).startswith(f"{parameter} = {value!r}: must be ")


@pytest.mark.parametrize(
    "centers",
    [
        np.zeros(3),
        np.zeros((0, 3)),
        np.zeros((2, 0)),
        np.zeros((1, 1, 1)),
        [[1, 2], [3]],
        [["a"]],
        [[math.nan]],
        [[1j]],
    ],
    ids=repr,
)
def test_centres_that_are_no_matrix_of_numbers_are_refused(centers):
    with pytest.raises(BadInput, match=r"^centers = .*: must be an array of finite real numbers"):
        LeastSquares(centers, p=1, noise=0.1)


def test_in_another_process_its_arrays_are_read_only_too_so_that_the_same_machine_code_serves():
    problem = LeastSquares.random(n=3, d=2, p=1, noise=0.1, seed=1)
    again = pickle.loads(pickle.dumps(problem))
    assert numba.typeof(again.oracle()) == numba.typeof(problem.oracle())
    assert np.array_equal(again.centers, problem.centers)
