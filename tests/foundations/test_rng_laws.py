"""What is drawn has the law it should have. Every threshold is stated with its false-alarm rate."""

import math

import numpy as np
import pytest
from scipy import stats

from siag.foundations.dispatch import compiled
from siag.foundations.rng import (
    BLOCK,
    EDGE,
    SAMPLES,
    below,
    blank,
    chi_square,
    fresh,
    key,
    normal,
    normals,
    rewind,
    uniform,
)

# With a fixed seed a test gives the same answer always; a correct generator, given another seed, would fail
# a test with these probabilities:
RARE = 1e-6  # for a p-value
SIGMAS = 5.5  # 4e-8, for a number of standard deviations


@compiled
def many_uniforms(rng, out):
    for j in range(out.size):
        out[j] = uniform(rng)


@compiled
def many_below(rng, bound, out):
    for j in range(out.size):
        out[j] = below(rng, bound)


@compiled
def many_chi_squares(rng, k, out):
    for j in range(out.size):
        out[j] = chi_square(rng, k)


@compiled
def first_normals(rng, key, out):
    """out[i, k]: the first normal of worker i's k-th sample."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            rewind(rng, key, i, k)
            out[i, k] = normal(rng)


@pytest.fixture(scope="module")
def ten_million():
    drawn = np.empty(10_000_000)
    normals(fresh(11, 0, SAMPLES), drawn)
    return drawn


@compiled
def first_blocks(rng, key, out):
    """out[i, k]: the first block of normals of worker i's k-th sample."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            rewind(rng, key, i, k)
            normals(rng, out[i, k])


def grid(seed=0, repeat=0, purpose=SAMPLES, shape=(300, 300)):
    out = np.empty(shape)
    first_normals(blank(), key(seed, repeat, purpose), out)
    return out


def correlation(x, y):
    """The sample correlation of two sets of independent standard normals, in standard deviations."""
    return abs((x * y).sum()) / math.sqrt(x.size)


def test_uniforms_are_uniform():
    drawn = np.empty(1_000_000)
    many_uniforms(fresh(3, 0, SAMPLES), drawn)
    assert 0.0 <= drawn.min() < drawn.max() < 1.0
    assert stats.kstest(drawn, "uniform").pvalue > RARE


def test_normals_are_normal(ten_million):
    assert stats.kstest(ten_million[:2_000_000], "norm").pvalue > RARE


@pytest.mark.few(3)
@pytest.mark.parametrize("power", [1, 2, 3, 4, 5, 6, 7, 8])
def test_moments_of_normals_are_those_of_the_normal_law(ten_million, power):
    mean, square = stats.norm.moment(power), stats.norm.moment(2 * power)
    deviation = math.sqrt((square - mean**2) / len(ten_million))
    assert abs((ten_million**power).mean() - mean) < SIGMAS * deviation


@pytest.mark.parametrize("start", [1.0, 2.0, 3.0, 3.6, 4.0, EDGE, 4.1, 4.5])
@pytest.mark.parametrize("side", [-1, 1])
def test_tails_of_normals_have_their_weight(ten_million, start, side):
    count = int((side * ten_million > start).sum())
    chance = stats.norm.sf(start)
    assert stats.binomtest(count, len(ten_million), chance).pvalue > RARE


@pytest.mark.parametrize("side", [-1, 1])
def test_the_tail_beyond_the_ziggurat_has_the_normal_shape(ten_million, side):
    tail = side * ten_million
    tail = tail[tail > EDGE]
    assert len(tail) > 60  # of 124 that are expected
    assert stats.kstest(stats.norm.sf(tail) / stats.norm.sf(EDGE), "uniform").pvalue > RARE


def test_successive_normals_are_uncorrelated(ten_million):
    x = ten_million
    for lag in (1, 2, 3, 4, 256):
        assert correlation(x[lag:], x[:-lag]) < SIGMAS
        squares = (x**2 - 1.0) / math.sqrt(2.0)
        assert correlation(squares[lag:], squares[:-lag]) < SIGMAS


@pytest.mark.parametrize("k", [1, 2, 3, 9, 10, 1000])
def test_chi_square_has_its_law(k):
    drawn = np.empty(500_000)
    many_chi_squares(fresh(4, k, SAMPLES), k, drawn)
    assert stats.kstest(drawn, stats.chi2(k).cdf).pvalue > RARE
    assert abs(drawn.mean() - k) < SIGMAS * math.sqrt(2 * k / len(drawn))


def test_chi_square_without_freedom_is_zero():
    rng = fresh(1, 0, SAMPLES)
    assert chi_square(rng, 0) == 0.0


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000])
def test_below_is_uniform(bound):
    drawn = np.empty(500_000, np.int64)
    many_below(fresh(5, bound, SAMPLES), bound, drawn)
    counts = np.bincount(drawn, minlength=bound)
    assert len(counts) == bound
    if bound > 1:
        assert stats.chisquare(counts).pvalue > RARE


def test_first_numbers_of_neighbouring_samples_are_normal_and_uncorrelated():
    drawn = grid()
    assert stats.kstest(drawn.ravel(), "norm").pvalue > RARE
    for lag in (1, 2, 10):
        assert correlation(drawn[lag:], drawn[:-lag]) < SIGMAS  # between workers
        assert correlation(drawn[:, lag:], drawn[:, :-lag]) < SIGMAS  # between samples
    upper = np.triu_indices(len(drawn), 1)
    assert correlation(drawn[upper], drawn.T[upper]) < SIGMAS  # worker i's sample k and worker k's sample i


def test_in_every_lane_of_a_block_normals_are_normal_and_they_are_uncorrelated_with_all_others():
    drawn = np.empty((300, 300, BLOCK))
    first_blocks(blank(), key(0, 0, SAMPLES), drawn)
    for lane in range(BLOCK):
        assert stats.kstest(drawn[..., lane].ravel(), "norm").pvalue > RARE
    for numbers in (drawn, (drawn**2 - 1.0) / math.sqrt(2.0)):
        each = numbers.reshape(-1, BLOCK)
        products = each.T @ each / math.sqrt(len(each))
        assert np.abs(products[np.triu_indices(BLOCK, 1)]).max() < SIGMAS  # within a sample
        for one, other in ((numbers[1:], numbers[:-1]), (numbers[:, 1:], numbers[:, :-1])):  # of neighbouring ones
            one, other = one.reshape(-1, BLOCK), other.reshape(-1, BLOCK)  # noqa: PLW2901
            assert np.abs(one.T @ other).max() < SIGMAS * math.sqrt(len(one))


@pytest.mark.parametrize(
    "other",
    [{"repeat": 1}, {"seed": 1}, {"purpose": 1}, {"seed": 1, "repeat": 1}, {"seed": 2**63}, {"seed": 2**64 - 1}],
)
def test_seeds_repeats_and_purposes_are_uncorrelated(other):
    here, there = grid(), grid(**other)
    assert correlation(here, there) < SIGMAS
    assert correlation(here[1:], there[:-1]) < SIGMAS
    assert correlation(here[:, 1:], there[:, :-1]) < SIGMAS


def test_no_two_samples_start_alike():
    # 600 000 first normals of 64-bit origin: two are equal by chance with probability 600 000² / 2⁵⁴ ≈ 2e-5.
    settings = [(seed, repeat, purpose) for seed in (0, 1) for repeat in (0, 1, 2) for purpose in (0, 1)]
    drawn = np.concatenate([grid(*setting, shape=(250, 200)).ravel() for setting in settings])
    assert len(np.unique(drawn)) == len(drawn) == 600_000


def test_the_sums_over_samples_and_over_workers_are_normal():
    # A generator whose streams overlap gives sums that are too wide.
    drawn = grid()
    for axis in (0, 1):
        sums = drawn.sum(axis=axis) / math.sqrt(drawn.shape[axis])
        assert stats.kstest(sums, "norm").pvalue > RARE
        assert abs(sums.var() - 1.0) < SIGMAS * math.sqrt(2 / len(sums))


@pytest.mark.parametrize("k", [3, 4, 5, 9, 10, 50, 1000, 10**6])
def test_the_squeeze_of_the_gamma_method_never_accepts_what_the_method_would_not(k):
    from siag.foundations.rng import SQUEEZE

    d = 0.5 * k - 1 / 3
    c = 1 / np.sqrt(9 * d)
    x = np.linspace(-1 / c * (1 - 1e-9), 40.0, 400_001)
    v = (1 + c * x) ** 3
    accepted = np.exp(0.5 * x * x + d - d * v + d * np.log(v))
    assert (1 - SQUEEZE * c * c * x**4 <= accepted + 1e-15 * k + 1e-12).all()  # what rounding makes of d − dv + d log v
