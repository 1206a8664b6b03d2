"""The selection schemes of Sec. IV in detail: uniform and non-uniform gaps, coins, turns, lots."""

import math

import numpy as np
import pytest
from scipy import stats

from siag.activity import Bernoulli, Cyclic, Everyone, Nonuniform, Sequential, Uniform, unfold
from siag.foundations.errors import BadInput
from siag.foundations.rng import ACTIVITY, fresh

RARE = 1e-6  # the probability with which a correct law fails a test by chance; seeds are fixed
SIGMAS = 5.5  # 4e-8


def table(activity, n, iterations, seed=0, repeat=0):
    """(iterations, n) whether worker i is active at t."""
    active = np.zeros((iterations, n), bool)
    for first, chunk in unfold(activity, n, iterations, seed, repeat):
        when = first + np.repeat(np.arange(chunk.iterations), np.diff(chunk.start))
        active[when, chunk.worker] = True
    return active


def gaps_of(column):
    return np.diff(np.flatnonzero(column))


def test_everyone_is_everyone():
    assert table(Everyone(), 4, 10).all()


def test_cyclic_takes_one_worker_after_the_other():
    active = table(Cyclic(), 3, 10)
    assert active.sum(axis=1).tolist() == [1] * 10
    assert active.argmax(axis=1).tolist() == [t % 3 for t in range(10)]


def test_sequential_draws_one_worker_uniformly_and_independently():
    active = table(Sequential(), 5, 20_000, seed=1)
    assert (active.sum(axis=1) == 1).all()
    drawn = active.argmax(axis=1)
    assert stats.chisquare(np.bincount(drawn, minlength=5)).pvalue > RARE
    pairs = np.bincount(5 * drawn[:-1:2] + drawn[1::2], minlength=25)
    assert stats.chisquare(pairs).pvalue > RARE


def test_the_first_report_is_uniform_on_the_first_t_max_iterations():
    active = table(Uniform(7), 30_000, 7, seed=2)
    assert active.any(axis=0).all()
    assert stats.chisquare(np.bincount(active.argmax(axis=0), minlength=7)).pvalue > RARE


def test_gaps_are_uniform_from_1_to_t_max_and_never_longer():
    active = table(Uniform(7), 200, 3000, seed=3)
    # The first 300 gaps of each worker: all of those that fit would favour the short ones.
    gaps = np.concatenate([gaps_of(column)[:300] for column in active.T])
    assert gaps.min() == 1
    assert gaps.max() == 7
    assert stats.chisquare(np.bincount(gaps, minlength=8)[1:]).pvalue > RARE


def test_successive_gaps_are_independent():
    active = table(Uniform(4), 300, 1300, seed=4)
    gaps = np.array([gaps_of(column)[:300] for column in active.T]) - 1
    pairs = np.bincount((4 * gaps[:, :-1:2] + gaps[:, 1::2]).ravel(), minlength=16)
    assert stats.chisquare(pairs).pvalue > RARE


def test_workers_report_independently_of_each_other():
    active = table(Uniform(4), 2, 40_000, seed=5)[::8]  # far enough apart to be nearly independent in time
    both = int(active.all(axis=1).sum())
    chance = active[:, 0].mean() * active[:, 1].mean()
    assert stats.binomtest(both, len(active), chance).pvalue > RARE


@pytest.fixture(scope="module")
def unequal():
    """Two repeats of a long non-uniform pattern."""
    return [table(Nonuniform(2, 6), 60, 4000, seed=6, repeat=repeat) for repeat in (0, 1)]


def longest(active):
    return [int(gaps_of(column).max()) for column in active.T]


def test_the_longest_gap_of_every_worker_lies_in_the_range_and_all_values_occur(unequal):
    # That one of 60 workers is missing its longest gap in a thousand has probability below 60·(5/6)^1000 < 1e-77;
    # that one of five values is missing among 60 workers, 5·(4/5)^60 ≈ 8e-6.
    assert set(longest(unequal[0])) == {2, 3, 4, 5, 6}


def test_the_longest_gap_stays_the_same_within_a_repeat_and_is_drawn_anew_for_the_next(unequal):
    one, other = unequal
    assert longest(one[:2000]) == longest(one[2000:]) == longest(one)
    assert longest(one) != longest(other)  # equal by chance with probability 5^-60


def test_every_worker_has_gaps_uniform_up_to_its_own_longest(unequal):
    for T, column in zip(longest(unequal[0]), unequal[0].T, strict=True):
        counts = np.bincount(gaps_of(column)[:500], minlength=T + 1)[1:]
        assert stats.chisquare(counts).pvalue > RARE / 60


def test_the_longest_gaps_are_uniform_on_their_range():
    state = Nonuniform(10, 20).start(22_000, fresh(7, 0, ACTIVITY))
    counts = np.bincount(state.longest - 10, minlength=11)
    assert len(counts) == 11
    assert stats.chisquare(counts).pvalue > RARE
    assert (state.due < state.longest).all()


def test_with_equal_ends_nonuniform_is_uniform():
    assert Nonuniform(5, 5).moments(3).mean.tolist() == Uniform(5).moments(3).mean.tolist()
    assert Nonuniform(5, 5).bound(3) == Uniform(5).bound(3) == 4
    assert set(longest(table(Nonuniform(5, 5), 20, 1000, seed=1))) == {5}


def test_coins_fall_at_their_rates_and_without_memory():
    rates = [0.9, 0.5, 0.2, 0.01]
    active = table(Bernoulli(rates), 4, 50_000, seed=8)
    for rate, column in zip(rates, active.T, strict=True):
        assert stats.binomtest(int(column.sum()), len(column), rate).pvalue > RARE
        again = int((column[1::2] & column[:-1:2]).sum())
        assert stats.binomtest(again, len(column) // 2, rate**2).pvalue > RARE
    first = table(Bernoulli(0.2), 20_000, 1, seed=9)
    assert stats.binomtest(int(first.sum()), 20_000, 0.2).pvalue > RARE


def test_coins_fall_independently_of_each_other():
    active = table(Bernoulli(0.3), 400, 1000, seed=10)
    counts = active.sum(axis=1)
    assert abs(counts.mean() - 120) < SIGMAS * math.sqrt(400 * 0.21 / 1000)
    assert abs(counts.var() / (400 * 0.21) - 1) < SIGMAS * math.sqrt(2 / 1000)


def test_a_coin_that_hardly_ever_falls_breaks_nothing():
    assert table(Bernoulli(1e-300), 3, 5000).sum() == 0
    assert table(Bernoulli(1.0), 3, 50).all()


@pytest.mark.parametrize("T", [0, -1, 1.5, True, None, math.inf])
def test_a_gap_that_is_no_positive_whole_number_is_refused(T):
    for make, name in ((Uniform, "T"), (lambda T: Nonuniform(T, 5), "low"), (lambda T: Nonuniform(1, T), "high")):
        with pytest.raises(BadInput) as caught:
            make(T)
        assert caught.value.parameter == name


def test_a_range_that_ends_before_it_begins_is_refused():
    with pytest.raises(BadInput, match=r"^low = 5: must be at most high = 4; swap low and high$"):
        Nonuniform(5, 4)


@pytest.mark.parametrize(
    "rates",
    [
        0,
        -0.1,
        1.1,
        math.nan,
        math.inf,
        None,
        True,
        "0.5",
        [],
        [0.5, 0.0],
        [0.5, 1.5],
        [math.nan],
        [[0.5]],
        [[1], [1, 1]],
    ],
    ids=repr,
)
def test_rates_that_are_no_probabilities_are_refused(rates):
    with pytest.raises(BadInput, match=r"^rates = .*: must be "):
        Bernoulli(rates)


def test_as_many_rates_as_workers_are_needed():
    activity = Bernoulli((0.5, 0.5, 0.5))
    for ask in (activity.bound, activity.moments, lambda n: activity.start(n, fresh(0, 0, ACTIVITY))):
        with pytest.raises(BadInput, match=r"must be one number, or 2 numbers for 2 workers"):
            ask(2)
