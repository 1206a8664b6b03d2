"""The exact sampler never draws A, yet has the law of the literal one, which does."""

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from siag.foundations.dispatch import compiled
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.problems import LeastSquares, sample
from siag.problems.least_squares import SAMPLERS

# With fixed seeds the tests always give the same answer; for another seed a correct sampler would fail
# a comparison with probability 1e-6 (p-values) or 4e-8 (numbers of standard deviations).
RARE = 1e-6
SIGMAS = 5.5
COUNT = 60_000
ROOT = Path(__file__).parents[2]


class Case(NamedTuple):
    d: int
    p: int
    noise: float
    distance: float  # ‖e‖ = ‖w − w_i*‖


CASES = [
    Case(d=3, p=1, noise=0.7, distance=1.5),
    Case(d=3, p=2, noise=0.7, distance=1.5),
    Case(d=4, p=10, noise=2.0, distance=0.5),
    Case(d=3, p=10, noise=0.0, distance=2.0),
    Case(d=1, p=1, noise=0.5, distance=1.0),
    Case(d=1, p=2, noise=0.5, distance=1.0),
    Case(d=3, p=1, noise=0.7, distance=0.0),
    Case(d=3, p=10, noise=0.7, distance=0.0),
]


@compiled
def fill(oracle, rng, key, i, w, out):
    for k in range(out.shape[0]):
        rewind(rng, key, i, k)
        sample(oracle, rng, i, w, out[k])


def direction(d):
    e = np.arange(1.0, d + 1)
    return e / np.linalg.norm(e)


def across(d):
    """A unit vector orthogonal to `direction(d)`."""
    e = direction(d)
    v = np.eye(d)[0] - e[0] * e
    return v / np.linalg.norm(v)


def draws(case, sampler):
    """(COUNT, d) gradients of the second of two workers, at the case's distance from its centre."""
    centers = np.vstack([np.full(case.d, 9.0), np.linspace(-1.0, 1.0, case.d)])
    problem = LeastSquares(centers, p=case.p, noise=case.noise, sampler=sampler)
    out = np.empty((COUNT, case.d))
    w = centers[1] + case.distance * direction(case.d)
    fill(problem.oracle(), blank(), key(8, 0, SAMPLES), 1, w, out)
    return out


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"d{case.d}-p{case.p}-σ{case.noise}-e{case.distance}")
def case_and_draws(request):
    return request.param, {sampler: draws(request.param, sampler) for sampler in ("exact", "literal")}


def deviations(values, expected):
    """By how many standard deviations the mean of `values` misses, entry by entry."""
    spread = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return np.abs(values.mean(axis=0) - expected) / spread


def statistics(case, gradients):
    """Numbers that tell laws apart: along e, across it, the lengths, and how the parts depend on each other."""
    e = direction(case.d)
    along = gradients @ e
    rest = np.linalg.norm(gradients - along[:, None] * e, axis=1)
    found = {"along": along, "norm": np.linalg.norm(gradients, axis=1)}
    if case.d > 1:
        found |= {"across": gradients @ across(case.d), "rest": rest, "product": along * rest}
    return found


@pytest.mark.few(1)
def test_the_samplers_agree_in_distribution(case_and_draws):
    case, drawn = case_and_draws
    exact, literal = (statistics(case, drawn[sampler]) for sampler in ("exact", "literal"))
    for name, values in exact.items():
        assert stats.ks_2samp(values, literal[name], method="asymp").pvalue > RARE, name


@pytest.mark.parametrize("sampler", ["exact", "literal"])
def test_the_samplers_are_unbiased(case_and_draws, sampler):
    case, drawn = case_and_draws
    assert (deviations(drawn[sampler], case.p * case.distance * direction(case.d)) < SIGMAS).all()


@pytest.mark.parametrize("sampler", ["exact", "literal"])
def test_the_covariance_is_that_of_the_wishart_law(case_and_draws, sampler):
    # E[S M S] = p² M + p (M + tr(M) I) for S = AᵀA and M = e eᵀ; the noise adds σ² p I.
    case, drawn = case_and_draws
    e = case.distance * direction(case.d)
    expected = case.p * (np.outer(e, e) + (e @ e + case.noise**2) * np.eye(case.d))
    centred = drawn[sampler] - case.p * e
    products = centred[:, :, None] * centred[:, None, :]
    assert (deviations(products, expected) < SIGMAS).all()


@pytest.mark.parametrize("sampler", ["exact", "literal"])
def test_the_noise_is_p_d_plus_1_e_squared_plus_sigma_squared_p_d(case_and_draws, sampler):
    case, drawn = case_and_draws
    e = case.distance * direction(case.d)
    squares = ((drawn[sampler] - case.p * e) ** 2).sum(axis=1)
    expected = case.p * (case.d + 1) * case.distance**2 + case.noise**2 * case.p * case.d
    assert deviations(squares, expected) < SIGMAS
    problem = LeastSquares(np.zeros((1, case.d)), p=case.p, noise=case.noise)
    assert problem.noise_at(e)[0] == pytest.approx(expected)


def test_successive_samples_are_uncorrelated(case_and_draws):
    case, drawn = case_and_draws
    gradients = drawn["exact"] - case.p * case.distance * direction(case.d)
    assert (deviations(gradients[1:] * gradients[:-1], 0.0) < SIGMAS).all()


def test_without_noise_at_the_own_optimum_every_sample_is_zero():
    case = Case(d=3, p=2, noise=0.0, distance=0.0)
    for sampler in ("exact", "literal"):
        assert not draws(case, sampler).any()


def test_with_one_row_and_no_noise_a_sample_never_points_uphill():
    # ⟨Aᵀ A e, e⟩ = ‖A e‖² ≥ 0 for every single draw, not only on average.
    case = Case(d=3, p=1, noise=0.0, distance=1.0)
    for sampler in ("exact", "literal"):
        assert (draws(case, sampler) @ direction(3)).min() >= 0.0


@pytest.mark.parametrize("sampler", ["exact", "literal"])
def test_compiled_and_plain_samples_are_the_same_bit_for_bit(sampler):
    problem = LeastSquares.random(n=2, d=4, p=3, noise=0.3, sampler=sampler)
    results = []
    for run in (fill, fill.plain):
        out = np.empty((20, 4))
        run(problem.oracle(), blank(), key(1, 0, SAMPLES), 1, np.ones(4), out)
        results.append(out.tolist())
    assert results[0] == results[1]


@pytest.mark.thorough
def test_machine_code_for_a_processor_without_wide_vectors_gives_the_same_bits(tmp_path):
    plainest = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    program = "from tests.problems.test_least_squares_samplers import digest; print(digest())"
    command = [sys.executable, "-c", program]
    answer = subprocess.run(
        command, env={**os.environ, **plainest}, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300
    )
    assert answer.stdout.strip() == digest()


def digest():
    """What 20 000 gradients of both samplers come to, to the bit; some hundreds of their normals need a second look."""
    drawn = hashlib.sha256()
    for sampler in SAMPLERS:
        problem, out = LeastSquares.random(n=2, d=20, p=10, noise=0.3, sampler=sampler), np.empty((10_000, 20))
        fill(problem.oracle(), blank(), key(1, 0, SAMPLES), 1, np.ones(20), out)
        drawn.update(out.tobytes())
    return drawn.hexdigest()
