"""Rennala and Ringmaster: the papers' pseudo-code on recorded clocks, and what both are at their limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain import simulate
from refusals import refused
from siag.activity import Clock, EveryArrivals, Exponential, Recorded, Tick, Uniform
from siag.activity.agenda import STEP
from siag.checks import Bowl, conform
from siag.methods import SGD, AsyncSGD, advance, ready, receive
from siag.methods.rennala import Rennala
from siag.methods.ringmaster import MOST, Ringmaster
from siag.steps import Constant

N, D, ETA = 5, 3, 0.1
BOWL = Bowl(np.random.default_rng(0).random((N, D)), np.array([0.5, 1.0, 2.0]))
SLOWNESS = [1.0, 1.3, 2.0, 5.0, 20.0]


def clock(server):
    return Clock(Exponential(1.0), server=server, slowness=SLOWNESS)


def codes(activity, iterations, seed):
    """What happens, in order: reads, reports and steps."""
    for chunk in activity.events(N, iterations, seed, 0, D):
        yield from chunk.code.tolist()


def rennala(batch, activity, iterations, seed):
    """A worker sends its gradient with the k of the point it is of; the server takes those with its own k."""
    w, k, read, taken, ignored = np.zeros(D), 0, {}, [], 0
    for code in codes(activity, iterations, seed):
        if code == STEP:
            if len(taken) >= batch:
                w, k, taken = w - ETA * np.mean(taken, axis=0), k + 1, []
        elif code < 0:
            read[-1 - code] = w.copy(), k
        else:
            x, of = read[code]
            if of == k:
                taken.append(BOWL.gradient(code, x))
            ignored += of < k
    return w, ignored


def ringmaster(threshold, activity, iterations, seed):
    """The delay is k − (the k of the point); k counts steps."""
    w, k, read, taken, ignored = np.zeros(D), 0, {}, [], 0
    for code in codes(activity, iterations, seed):
        if code == STEP:
            if taken:
                w, k, taken = w - ETA * np.mean(taken, axis=0), k + 1, []
        elif code < 0:
            read[-1 - code] = w.copy(), k
        else:
            x, of = read[code]
            if k - of < threshold:
                taken.append(BOWL.gradient(code, x))
            else:
                ignored += 1
    return w, ignored


@pytest.mark.parametrize("server", [EveryArrivals(), EveryArrivals(3), Tick(0.7)], ids=repr)
@pytest.mark.parametrize(
    ("method", "twin", "size"),
    [(Rennala(batch=b), rennala, b) for b in (1, 4, 9)]
    + [(Ringmaster(threshold=r), ringmaster, r) for r in (1, 3, 12)],
    ids=lambda given: "" if callable(given) else repr(given),
)
def test_it_is_its_papers_pseudo_code_on_a_recorded_clock(method, twin, size, server):
    w, ignored = twin(size, clock(server), 400, seed=7)
    run = simulate(BOWL, method, clock(server), Constant(ETA), iterations=400, seed=7, record=2)
    assert np.allclose(run.w[0], w, rtol=1e-9, atol=1e-12)
    assert ignored > 3


def test_delays_count_steps_and_not_iterations():
    """Of two workers in turn each finds the other's step before its own: with R = 1 every second one counts."""
    state = Ringmaster(threshold=1).init(np.zeros(1), 2)
    moved = []
    for t in range(8):
        before = state.w[0]
        receive(state, t % 2, np.ones(1), min(t, 1))  # of the w of one iteration ago
        advance(state, 1.0)
        moved.append(state.w[0] != before)
    assert moved == [True, False, True, False, True, False, True, False]


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_a_gradient_is_taken_exactly_if_fewer_steps_were_made_since_its_point(events, threshold, batch):
    state = Ringmaster(threshold=threshold).init(np.zeros(1), 2)._replace(batch=batch)
    count, at, taken = 0, [0], 0  # steps made, and made before each iteration
    for age, moves_on in events:
        stamp = max(0, len(at) - 1 - age)
        receive(state, 0, np.ones(1), len(at) - 1 - stamp)
        taken += count - at[stamp] < threshold
        assert ready(state) == (taken >= batch)
        if moves_on:
            advance(state, 1.0)
            if taken >= batch:
                count, taken = count + 1, 0
            at.append(count)
    assert state.w[0] == -count


def test_where_nothing_is_too_old_ringmaster_is_asynchronous_sgd_and_with_one_step_both_are_the_same():
    given = {"iterations": 300, "seed": 3, "record": 2}
    ends = [
        simulate(BOWL, method, clock(EveryArrivals()), Constant(ETA), **given).w
        for method in (Ringmaster(threshold=300), AsyncSGD(), Ringmaster(threshold=1), Rennala(batch=1))
    ]
    assert np.array_equal(ends[0], ends[1])
    assert np.array_equal(ends[2], ends[3])
    assert not np.allclose(ends[0], ends[2], rtol=1e-3)


def test_without_a_clock_nothing_is_old_and_ringmaster_is_sgd():
    ends = [
        simulate(BOWL, method, Uniform(3), Constant(ETA), iterations=60).w
        for method in (Ringmaster(threshold=1), SGD())
    ]
    assert np.allclose(*ends, rtol=1e-12)


def test_a_batch_may_take_several_iterations_and_all_that_overflow_it_are_in_the_mean():
    run = simulate(BOWL, Rennala(batch=3), Recorded([[0], [1], [], [2, 3]]), Constant(1.0), iterations=4)
    mean = np.mean([BOWL.gradient(i, np.zeros(D)) for i in range(4)], axis=0)
    assert np.allclose(run.w[0], -mean, rtol=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", [Rennala(batch=4), Ringmaster(threshold=2)], ids=repr)
def test_they_conform(method):
    conform(method)


@pytest.mark.parametrize(
    "wrong", [{"batch": 0}, {"batch": 2.5}, {"batch": 2**31 + 1}, {"batch": 1, "gradients": "all"}]
)
def test_nonsense_is_refused_by_rennala(wrong):
    with refused("batch", "gradients"):
        Rennala(**wrong)


@pytest.mark.parametrize("threshold", [0, -1, 1.5, True, MOST + 1, None])
def test_a_threshold_of_ringmaster_is_a_whole_number_that_memory_holds(threshold):
    with refused("threshold"):
        Ringmaster(threshold=threshold)
