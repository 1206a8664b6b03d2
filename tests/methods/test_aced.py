"""ACED: the paper's mean over recent updates, computed anew each time, on recorded clocks; ACE where nothing is old."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain import simulate
from refusals import refused
from siag.activity import Clock, EveryArrivals, Exponential, Recorded, Uniform
from siag.activity.agenda import STEP
from siag.checks import Bowl, conform
from siag.methods import advance, fade, receive
from siag.methods.ace import ACE
from siag.methods.aced import ACED
from siag.methods.table import total_weight
from siag.steps import Constant

N, D, ETA = 5, 3, 0.1
BOWL = Bowl(np.random.default_rng(0).random((N, D)), np.array([0.5, 1.0, 2.0]))


def clock(every):
    return Clock(Exponential(1.0), server=EveryArrivals(every), slowness=[1.0, 1.3, 2.0, 5.0, 20.0])


def twin(threshold, wait, activity, iterations, seed):
    """Every update is kept with the iteration it is of, counted from the first step; the mean is taken anew."""
    w, t, read, latest, engaged = np.zeros(D), 0, {}, {}, []
    for chunk in activity.events(N, iterations, seed, 0, D):
        for code in chunk.code.tolist():
            if code == STEP:
                if len(latest) >= max(1, wait * N):
                    recent = [update for update, of in latest.values() if t - of <= threshold]
                    engaged.append(len(recent))
                    w, t = w - ETA * np.mean(recent, axis=0) if recent else w, t + 1
            elif code < 0:
                read[-1 - code] = w.copy(), t
            else:
                x, of = read[code]
                latest[code] = BOWL.gradient(code, x), of
    return w, engaged


@pytest.mark.few(4)
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("threshold", [1, 4, 15])
@pytest.mark.parametrize("wait", [0.0, 1.0])
def test_it_is_the_mean_of_the_recent_on_a_recorded_clock(threshold, every, wait):
    w, engaged = twin(threshold, wait, clock(every), 500, seed=4)
    method = ACED(threshold=threshold, wait=wait, resum=3)
    run = simulate(BOWL, method, clock(every), Constant(ETA), iterations=500, seed=4, record=2)
    assert np.allclose(run.w[0], w, rtol=1e-9, atol=1e-12)
    assert len(set(engaged[10:])) > 1  # clients are left out and in again


def test_where_nothing_is_too_old_it_is_ace_bit_for_bit():
    given = {"iterations": 300, "seed": 3, "record": 2}
    ends = [simulate(BOWL, made, clock(1), Constant(ETA), **given).w for made in (ACED(threshold=300), ACE())]
    assert np.array_equal(*ends)
    assert not np.allclose(ends[0], simulate(BOWL, ACED(threshold=5), clock(1), Constant(ETA), **given).w, rtol=1e-3)


def test_until_the_first_step_all_updates_are_of_the_same_age():
    state = ACED(threshold=1).init(np.zeros(1), 3)
    for t, i in enumerate((0, 1, 0, 1, 2)):
        receive(state, i, np.array([1.0 + i]), t)  # all of the first w
        advance(state, 1.0)
    assert state.w[0] == -2.0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=60), st.integers(1, 5))
def test_a_row_counts_exactly_as_long_as_it_is_not_too_old(reports, threshold):
    state, stamps = ACED(threshold=threshold, wait=0.0).init(np.zeros(1), 3), {}
    for t, (i, age) in enumerate(reports):
        receive(state, i, np.ones(1), min(age, t))
        stamps[i] = t - min(age, t)
        advance(state, 0.1)
        inside = sum(t - stamp <= threshold for stamp in stamps.values())
        assert total_weight(state.table) == max(1, inside)
        assert state.table.total[0] == pytest.approx(inside, abs=1e-12)


def test_silence_makes_rows_older_and_if_all_are_left_out_w_stays():
    run = simulate(
        BOWL, ACED(threshold=2), Recorded([list(range(N))] + [[]] * 9), Constant(ETA), iterations=10, record=100
    )
    assert (np.diff(run.error[0]) != 0.0).tolist() == [True] * 3 + [False] * 7


def test_a_departed_worker_is_left_out_once_and_may_come_back():
    state = ACED(threshold=3).init(np.zeros(1), 2)
    for i in range(2):
        receive(state, i, np.ones(1), 0)
    advance(state, 0.1)
    fade(state, 1, 0.0)
    for _ in range(6):
        advance(state, 0.1)
    assert state.table.gone.tolist() == [True, True]
    assert state.table.tally[2] == 2
    receive(state, 1, np.ones(1), 0)
    assert total_weight(state.table) == 1
    assert not state.table.gone[1]


def test_it_conforms():
    conform(ACED(threshold=30))


def test_without_ages_beyond_the_threshold_unequal_participation_leaves_no_bias():
    run = simulate(BOWL, ACED(threshold=3), Uniform(3), Constant(ETA), iterations=600, seed=2, record=2)
    assert np.allclose(run.w[0], BOWL.optimum, atol=1e-9)


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"threshold": 1.5}, {"threshold": 9, "wait": 2.0}])
def test_nonsense_is_refused(wrong):
    with refused("threshold", "wait"):
        ACED(**wrong)
