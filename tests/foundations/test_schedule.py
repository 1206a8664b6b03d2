"""The points of a curve and the room of a chunk."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from siag.foundations.schedule import ITERATIONS, NUMBERS, Schedule, points, room

quick = settings(deadline=None, max_examples=100)


@quick
@given(st.integers(1, 10**9), st.integers(1, 500))
@example(1, 1)
@example(1, 500)
@example(10**12, 3)
def test_points_ascend_from_zero_to_the_last_iteration(iterations, record):
    t = points(iterations, record)
    assert t.dtype == np.int64
    assert t[0] == 0
    assert t[-1] == iterations
    assert (np.diff(t) > 0).all()


@quick
@given(st.integers(1, 10**9), st.integers(3, 500))
def test_there_are_at_most_as_many_points_as_asked_for(iterations, record):
    assert len(points(iterations, record)) <= record


@pytest.mark.parametrize("record", [1, 2])
def test_the_two_ends_are_kept_even_if_fewer_points_are_asked_for(record):
    # Two ends are two points, whatever was asked for; that is all that may be added.
    assert points(1000, record).tolist() == [0, 1000]


def test_with_room_for_all_every_early_iteration_is_kept():
    assert points(5, 200).tolist() == [0, 1, 2, 3, 4, 5]


def test_points_are_even_on_a_logarithmic_axis():
    t = points(10**6, 8)
    assert t.tolist() == [0, 1, 10, 100, 1000, 10**4, 10**5, 10**6]


@quick
@given(st.integers(1, 10**5), st.integers(1, 10**12))
def test_a_chunk_has_room_for_an_iteration_of_all_workers(n, iterations):
    schedule = room(n, iterations, 20)
    assert len(schedule.worker) >= n
    assert 1 <= schedule.iterations <= min(iterations, ITERATIONS)
    assert len(schedule.start) == schedule.iterations + 1
    assert len(schedule.eta) == schedule.iterations


def test_the_room_of_a_chunk_does_not_grow_with_the_iterations():
    sizes = {sum(array.nbytes for array in room(10, iterations, 20)) for iterations in (10**5, 10**6, 10**12)}
    assert len(sizes) == 1
    assert len(room(10, 10**12, 20).worker) == 10 + NUMBERS // 32


def test_a_schedule_counts_its_iterations():
    schedule = Schedule(np.array([0, 2, 2, 3]), np.array([0, 1, 1]), np.ones(3))
    assert schedule.iterations == 3


@pytest.mark.parametrize("cost", [1, 20, 10**3, 10**6, 10**9])
def test_a_chunk_is_a_bounded_amount_of_work_so_that_an_interrupt_is_prompt(cost):
    assert len(room(10, 10**6, cost).worker) * cost <= NUMBERS + 10 * cost  # one iteration may need all workers
