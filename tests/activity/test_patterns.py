"""What holds for every activity: well-formed sets, ages within their bound, gaps with their moments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.activity import Bernoulli, Cyclic, Everyone, Nonuniform, Recorded, Sequential, Uniform, unfold

quick = settings(deadline=None, max_examples=25)
SIGMAS = 5.5  # a mean that is right fails by chance with probability 4e-8; seeds are fixed
ALL = [
    Everyone(),
    Cyclic(),
    Sequential(),
    Uniform(1),
    Uniform(7),
    Nonuniform(2, 6),
    Nonuniform(3, 3),
    Bernoulli(0.3),
    Bernoulli(1.0),
]
every_activity = pytest.mark.parametrize("activity", ALL, ids=repr)
seeds = st.integers(0, 2**64 - 1)


def sets(activity, n, iterations, seed=0, repeat=0):
    """A_0, A_1, … as lists."""
    found = []
    for first, chunk in unfold(activity, n, iterations, seed, repeat):
        assert first == len(found)
        found += [workers.tolist() for workers in np.split(chunk.worker, chunk.start[1:-1])]
    return found


def reports(pattern, n):
    """For every worker the iterations of its reports."""
    when = [[] for _ in range(n)]
    for t, workers in enumerate(pattern):
        for i in workers:
            when[i].append(t)
    return when


def oldest_age(pattern, n):
    """The largest age t − τ_i(t) from the iteration on at which everybody has reported; −1 if that never comes."""
    stamp, oldest = [None] * n, -1
    for t, workers in enumerate(pattern):
        for i in workers:
            stamp[i] = t
        if None not in stamp:
            oldest = max(oldest, *(t - s for s in stamp))
    return oldest


def first_gaps(activity, n, iterations, count, seed=0, repeat=0):
    """(n, count) the first `count` gaps of every worker.

    Not all gaps within a stretch of time: among those, long ones that do not end in time would be missing.
    """
    times = reports(sets(activity, n, iterations, seed, repeat), n)
    return np.array([np.diff(own[: count + 1]) for own in times], float)


@every_activity
@quick
@given(st.integers(1, 12), st.integers(1, 60), seeds, st.integers(0, 3))
def test_every_iteration_names_workers_in_ascending_order_and_once(activity, n, iterations, seed, repeat):
    pattern = sets(activity, n, iterations, seed, repeat)
    assert len(pattern) == iterations
    for workers in pattern:
        assert workers == sorted(set(workers))
        assert all(0 <= i < n for i in workers)


@quick
@given(st.integers(1, 12), st.integers(1, 20), st.integers(0, 10), seeds)
def test_patterns_with_gaps_are_well_formed_for_any_range(n, low, width, seed):
    for activity in (Uniform(low), Nonuniform(low, low + width)):
        for workers in sets(activity, n, 80, seed):
            assert workers == sorted(set(workers))
            assert all(0 <= i < n for i in workers)


@pytest.mark.parametrize("activity", [activity for activity in ALL if activity.bound(2) is not None], ids=repr)
@quick
@given(st.integers(1, 8), seeds)
def test_no_age_exceeds_the_bound_once_all_have_reported(activity, n, seed):
    oldest = oldest_age(sets(activity, n, 120, seed), n)
    assert 0 <= oldest <= activity.bound(n)


@pytest.mark.parametrize(
    ("activity", "n"), [(Everyone(), 3), (Cyclic(), 5), (Uniform(7), 3), (Nonuniform(2, 6), 8)], ids=repr
)
def test_the_bound_is_reached(activity, n):
    assert oldest_age(sets(activity, n, 3000, seed=1), n) == activity.bound(n)


@pytest.mark.parametrize(("activity", "bounds"), [(Sequential(), [0, None]), (Bernoulli(0.5), [None, None])], ids=repr)
def test_where_ages_have_no_bound_there_is_none(activity, bounds):
    assert [activity.bound(1), activity.bound(2)] == bounds


def test_with_rate_one_for_all_ages_are_bounded_by_zero_and_otherwise_not():
    assert Bernoulli([1.0, 1.0]).bound(2) == 0
    assert Bernoulli([1.0, 0.9]).bound(2) is None


@pytest.mark.parametrize(
    ("activity", "n", "iterations", "count"),
    [
        (Everyone(), 5, 60, 50),
        (Cyclic(), 5, 300, 50),
        (Uniform(7), 300, 7 * 202, 200),
        (Sequential(), 6, 60_000, 8000),
        (Bernoulli(0.3), 100, 6000, 1000),
        (Bernoulli([0.9, 0.5, 0.05]), 3, 60_000, 2000),
    ],
    ids=repr,
)
def test_gaps_have_the_moments_that_are_claimed(activity, n, iterations, count):
    gaps = first_gaps(activity, n, iterations, count, seed=3)
    assert gaps.shape == (n, count)
    for power, claimed in zip((1, 2), activity.moments(n), strict=True):
        values = gaps**power
        error = values.std(axis=1) / np.sqrt(count)
        assert (np.abs(values.mean(axis=1) - claimed) <= SIGMAS * error + 1e-12).all()


def test_gaps_of_unequal_workers_have_the_moments_of_a_worker_still_to_be_drawn():
    activity, n = Nonuniform(2, 9), 2000
    gaps = first_gaps(activity, n, 9 * 42, 40, seed=4)
    for power, claimed in zip((1, 2), activity.moments(n), strict=True):
        own = (gaps**power).mean(axis=1)  # one independent number per worker
        assert abs(own.mean() - claimed[0]) < SIGMAS * own.std() / np.sqrt(n)


@pytest.mark.parametrize(
    ("activity", "n", "kappa"),
    [
        (Everyone(), 7, 1.0),
        (Cyclic(), 7, 7.0),
        (Sequential(), 7, 13.0),
        (Uniform(15), 7, 31 / 3),
        (Uniform(1), 7, 1.0),
        (Nonuniform(10, 20), 7, 31 / 3),
        (Nonuniform(3, 3), 7, 7 / 3),
        (Bernoulli(0.25), 7, 7.0),
        (Bernoulli([1.0, 0.5]), 2, (1.0 + 3.0) / 2),
        (Recorded([[0, 1], [1], [0], [0, 1]]), 2, ((4 + 1) / 3 + (1 + 4) / 3) / 2),
    ],
    ids=repr,
)
def test_kappa_is_the_mean_ratio_of_square_gap_to_gap(activity, n, kappa):
    assert activity.kappa(n) == pytest.approx(kappa, rel=1e-12)
    assert activity.reuse(n).mean() == pytest.approx(kappa, rel=1e-12)
    assert activity.reuse(n).shape == (n,)


@every_activity
def test_a_longer_run_starts_with_the_same_pattern(activity):
    long = sets(activity, 5, 6000, seed=8)  # longer than a chunk
    for iterations in (1, 50, 4096, 4097):
        assert sets(activity, 5, iterations, seed=8) == long[:iterations]


@pytest.mark.parametrize("activity", [Sequential(), Uniform(7), Nonuniform(2, 6), Bernoulli(0.3)], ids=repr)
def test_seeds_and_repeats_give_patterns_of_their_own(activity):
    patterns = [sets(activity, 5, 100, seed, repeat) for seed in (0, 1) for repeat in (0, 1)]
    assert all(one != other for k, one in enumerate(patterns) for other in patterns[:k])
    assert sets(activity, 5, 100, 1, 1) == patterns[-1]


def test_the_pattern_does_not_depend_on_the_method_nor_on_the_problem():
    # Plain Python suffices, and nothing need be compiled: samples drawn up to every t show the pattern.
    step, options = siag.steps.Constant(1e-3), {"iterations": 40, "record": 200, "seed": 2, "compiled": False}
    quadratic = siag.problems.LeastSquares.random(n=4, d=2, p=1, noise=0.1)
    logistic = siag.problems.LogisticRegression.random(n=4, d=3, m=5)
    for activity in (Uniform(5), Bernoulli(0.4)):
        expected = np.cumsum([0, *map(len, sets(activity, 4, 40, seed=2))])
        for problem, method in ((quadratic, siag.methods.SIAG()), (logistic, siag.methods.SGD())):
            run = siag.simulate(problem, method, activity, step, **options)
            assert run.samples[0].tolist() == expected[run.t].tolist()
