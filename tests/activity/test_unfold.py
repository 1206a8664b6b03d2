"""Unfolding covers every iteration once, in memory that does not grow."""

from typing import NamedTuple

import numpy as np
import pytest

from siag.activity import Activity, Everyone, Moments, Recorded, Uniform, active, lasts, unfold
from siag.foundations.errors import BadInput, SiagError
from siag.foundations.schedule import NUMBERS
from siag.steps import Harmonic


class Outsider(Activity):
    """Names always the same worker, whether there is such a one or not."""

    def __init__(self, who):
        self.who = who

    def start(self, n, rng):
        return Named(self.who)

    def bound(self, n):
        return None

    def moments(self, n):
        return Moments(np.ones(n), np.ones(n))


class Named(NamedTuple):
    who: int


@active.when(Named)
def always(state, rng, t, out):
    out[0] = state.who
    return 1


@pytest.mark.parametrize("n", [1, 3, NUMBERS // 32 - 1, NUMBERS // 32, NUMBERS // 32 + 1, NUMBERS // 8])
def test_every_iteration_is_covered_once_even_if_one_fills_a_chunk(n):
    expected, sizes = 0, []
    for first, chunk in unfold(Everyone(), n, 7, 0, 0):
        assert first == expected
        assert chunk.start[0] == 0
        assert chunk.start[-1] == len(chunk.worker)
        sizes += np.diff(chunk.start).tolist()
        expected += chunk.iterations
    assert expected == 7
    assert sizes == [n] * 7


def test_steps_are_unfolded_along():
    step, found = Harmonic(2.0, 3.0), []
    for _, chunk in unfold(Uniform(3), 5, 10_000, 0, 0, step.sizes):
        assert len(chunk.eta) == chunk.iterations
        found.append(chunk.eta.copy())
    assert np.concatenate(found).tolist() == step.sizes(np.arange(10_000)).tolist()


def test_without_steps_they_are_not_numbers():
    for _, chunk in unfold(Everyone(), 2, 5, 0, 0):
        assert np.isnan(chunk.eta).all()


def test_all_chunks_use_the_same_memory():
    chunks = [chunk for _, chunk in unfold(Uniform(3), 50, 20_000, 0, 0)]
    assert len(chunks) > 5
    for chunk in chunks[1:]:
        assert all(np.shares_memory(one, other) for one, other in zip(chunk, chunks[0], strict=True))


@pytest.mark.parametrize("who", [-1, 3, 2**40])
def test_an_activity_that_names_a_worker_who_does_not_exist_is_found_out(who):
    with pytest.raises(SiagError, match=r"must name workers from 0 to 2 in ascending order"):
        list(unfold(Outsider(who), 3, 5, 0, 0))
    assert [len(chunk.worker) for _, chunk in unfold(Outsider(2), 3, 5, 0, 0)] == [5]


def test_only_a_trace_has_an_end():
    lasts(Uniform(3), 10**12)
    lasts(Recorded([[0]] * 5), 5)
    with pytest.raises(BadInput, match=r"^iterations = 6: must be at most the trace's 5; record a longer one$"):
        lasts(Recorded([[0]] * 5), 6)
