"""Simulation on the virtual clock."""

from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.activity import Clock, EveryArrivals, Exponential, Fixed, LogNormal, OnOff, Tick, WaitForAll
from siag.methods import Method, advance, receive

PROBLEM = siag.problems.LeastSquares.random(n=6, d=4, p=3, noise=0.1, seed=2)
STEP = siag.steps.Harmonic(beta=0.6, gamma=60)


@pytest.mark.parametrize("method", [siag.methods.SIAG(), siag.methods.SGD(), siag.methods.IAG()], ids=repr)
def test_compiled_and_plain_agree_bit_for_bit(method):
    clock = Clock(compute=LogNormal(1.0), travel=Exponential(0.2), availability=OnOff(5.0, 2.0))
    fast, slow = (
        siag.simulate(PROBLEM, method, clock, STEP, iterations=80, seed=4, compiled=compiled)
        for compiled in (True, False)
    )
    for name in ("w", "error", "samples", "time"):
        assert np.array_equal(getattr(fast, name), getattr(slow, name))


def test_waiting_for_all_is_the_synchronous_method_of_the_iterations():
    """Everyone reads the same w, so the iterates are those of Everyone(), sample for sample."""
    for method in (siag.methods.SGD(), siag.methods.SIAG()):
        clock = Clock(compute=Fixed(1.0), server=WaitForAll())
        one = siag.simulate(PROBLEM, method, clock, STEP, iterations=50, repeats=2, seed=5)
        two = siag.simulate(PROBLEM, method, siag.activity.Everyone(), STEP, iterations=50, repeats=2, seed=5)
        assert np.array_equal(one.w, two.w)
        assert np.array_equal(one.time[0], one.t)


def test_the_same_on_any_number_of_threads():
    clock = Clock(compute=Exponential(1.0), slowness=[1, 1, 2, 3, 5, 8])
    runs = [
        siag.simulate(PROBLEM, siag.methods.SIAG(), clock, STEP, iterations=300, repeats=5, seed=6, threads=threads)
        for threads in (1, 2, 3)
    ]
    for run in runs[1:]:
        assert np.array_equal(run.w, runs[0].w)
        assert np.array_equal(run.time, runs[0].time)


class Diary(NamedTuple):
    w: np.ndarray
    ages: np.ndarray
    count: np.ndarray


class Listening(Method):
    """Moves w by one per step and writes down the ages it is told."""

    def __init__(self, room):
        self.diary = Diary(np.zeros(4), np.zeros(room, np.int64), np.zeros(1, np.int64))

    def init(self, w0, n):
        return self.diary


@receive.when(Diary)
def listen(state, i, message, age):
    state.ages[state.count[0]] = age
    state.count[0] += 1


@advance.when(Diary)
def tick_on(state, eta):
    state.w[0] += 1.0


def test_a_gradient_is_computed_from_the_w_that_was_read_not_from_a_later_one():
    """Two workers, one three times slower: with a step at every arrival the slow one is three steps old."""
    problem = siag.problems.LeastSquares(np.zeros((2, 4)), 3, 0.0)
    listening = Listening(1000)
    clock = Clock(compute=Fixed(1.0), slowness=[1.0, 3.0])
    siag.simulate(problem, listening, clock, siag.steps.Constant(1.0), iterations=40, compiled=False)
    ages = listening.diary.ages[: listening.diary.count[0]]
    assert set(ages[8:].tolist()) == {0, 1, 3}


def test_sIAG_on_a_clock_is_unbiased_where_SGD_is_not():
    slowness = [1, 1, 1, 10, 10, 10]
    clock = Clock(compute=Exponential(1.0), slowness=slowness)
    step = siag.steps.Harmonic(beta=0.7, gamma=600)
    size = {"iterations": 60_000, "repeats": 8, "seed": 7}
    aggregated = siag.simulate(PROBLEM, siag.methods.SIAG(), clock, step, **size)
    forgetful = siag.simulate(PROBLEM, siag.methods.SGD(), clock, step, **size)
    shares = 1 / np.array(slowness) / (1 / np.array(slowness)).sum()
    bias = ((shares @ PROBLEM.centers - PROBLEM.optimum) ** 2).sum()
    assert aggregated.mean[-1] < 0.05 * bias
    assert forgetful.mean[-1] == pytest.approx(bias, rel=0.1)


def test_a_tick_without_arrivals_still_moves_sIAG_along_its_table():
    clock = Clock(compute=Fixed(10.0), server=Tick(1.0))
    run = siag.simulate(PROBLEM, siag.methods.SIAG(), clock, siag.steps.Constant(0.01), iterations=19, record=1000)
    assert run.samples[0, -1] == 12  # two reads each: at 0 and at 10
    assert (np.diff(run.error[0, 11:]) != 0).all()
    assert (np.diff(run.error[0, :10]) == 0).all()


def test_error_can_be_drawn_against_seconds_samples_and_bytes(tmp_path):
    from matplotlib.figure import Figure

    clock = Clock(compute=Exponential(1.0), server=EveryArrivals(2))
    run = siag.simulate(PROBLEM, siag.methods.SIAG(), clock, STEP, iterations=200, repeats=2)
    assert np.array_equal(run.bytes, 8 * PROBLEM.d * (run.reads + run.uploads))
    assert np.array_equal(run.reads, run.samples)
    assert (run.uploads[:, -1] < run.reads[:, -1]).all()  # some are on their way
    for x in ("t", "time", "samples", "bytes"):
        line = run.plot(Figure().subplots(), x=x).get_lines()[0]
        assert line.get_xdata()[-1] == run.table()[x][-1]
    with pytest.raises(siag.BadInput, match="x = 'years'"):
        run.plot(Figure().subplots(), x="years")
    run.save(tmp_path / "run.npz")
    assert np.array_equal(siag.load(tmp_path / "run.npz").time, run.time)


def test_exact_theory_refuses_a_clock_and_says_what_to_use():
    with pytest.raises(siag.Unsuitable, match="simulate"):
        siag.theory.exact_error(PROBLEM, siag.methods.SIAG(), Clock(compute=Fixed(1.0)), STEP, iterations=10)
