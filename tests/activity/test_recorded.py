"""Recorded patterns: what is put in comes out, its bound and moments are those of brute force."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.activity import Bernoulli, Cyclic, Everyone, Nonuniform, Recorded, Sequential, Uniform, unfold
from siag.activity.recorded import Tape
from siag.foundations import schedule
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.rng import blank

quick = settings(deadline=None, max_examples=80)
N = 4
traces = st.lists(st.lists(st.integers(0, N - 1), unique=True, max_size=N), min_size=1, max_size=25)


def sets(activity, n=N, iterations=None, seed=0, repeat=0):
    iterations = activity.length if iterations is None else iterations
    chunks = [chunk for _, chunk in unfold_copied(activity, n, iterations, seed, repeat)]
    return [workers.tolist() for chunk in chunks for workers in np.split(chunk.worker, chunk.start[1:-1])]


def unfold_copied(*args):
    """The chunks, each with arrays of its own."""
    return [(first, type(chunk)(*(array.copy() for array in chunk))) for first, chunk in unfold(*args)]


def times(trace, i):
    return [t for t, workers in enumerate(trace) if i in workers]


@quick
@given(traces)
def test_what_is_put_in_comes_out_in_ascending_order(trace):
    activity = Recorded(trace)
    assert activity.length == len(trace)
    assert sets(activity) == [sorted(workers) for workers in trace]


@quick
@given(traces)
def test_a_recording_of_a_recording_is_the_same(trace):
    once = Recorded(trace)
    twice = Recorded.of(once, N, len(trace))
    assert twice.tape.start.tolist() == once.tape.start.tolist()
    assert twice.tape.worker.tolist() == once.tape.worker.tolist()
    assert Recorded(once.tape).tape.worker.tolist() == once.tape.worker.tolist()


@pytest.mark.parametrize(
    "activity", [Everyone(), Cyclic(), Sequential(), Uniform(5), Nonuniform(2, 6), Bernoulli(0.3)], ids=repr
)
def test_a_recording_equals_the_pattern_however_that_is_cut_into_chunks(activity, monkeypatch):
    recorded = Recorded.of(activity, N, 5000, seed=3, repeat=2)
    monkeypatch.setattr(schedule, "NUMBERS", 9 * 32)
    monkeypatch.setattr(schedule, "ITERATIONS", 7)
    assert sets(activity, N, 5000, seed=3, repeat=2) == sets(recorded)


@quick
@given(traces)
def test_the_bound_is_the_largest_age_that_occurs(trace):
    expected, stamp = None, {}
    for t, workers in enumerate(trace):
        stamp |= dict.fromkeys(workers, t)
        if len(stamp) == N:
            expected = max(expected or 0, t - min(stamp.values()))
    assert Recorded(trace).bound(N) == expected


@quick
@given(traces)
def test_the_moments_are_the_means_over_the_gaps(trace):
    gaps = [np.diff(times(trace, i)) for i in range(N)]
    if min(map(len, gaps)) == 0:
        with pytest.raises(Unsuitable, match=r"reports less than twice in the trace.*record more iterations"):
            Recorded(trace).moments(N)
    else:
        mean, square = Recorded(trace).moments(N)
        assert mean.tolist() == pytest.approx([own.mean() for own in gaps])
        assert square.tolist() == pytest.approx([(own**2).mean() for own in gaps])


@quick
@given(traces, st.integers(1, 40))
def test_how_much_a_gradient_is_used_follows_from_the_gaps_in_their_order(trace, average):
    gaps = [np.diff(times(trace, i)) for i in range(N)]
    if min(map(len, gaps)) > 0:
        found = Recorded(trace).reuse(N, average)
        weights = (1 - 1 / average) ** np.arange(2000.0) / average
        for own, value in zip(gaps, found, strict=True):
            used = [weights @ np.resize(np.roll(own, -k), weights.size) for k in range(len(own))]
            assert value == pytest.approx(np.square(used).mean() / own.mean())


def test_a_recording_gives_every_repeat_and_seed_the_same_pattern():
    recorded = Recorded.of(Uniform(4), N, 50, seed=1)
    assert sets(recorded, seed=5, repeat=6) == sets(recorded) == sets(Uniform(4), N, 50, seed=1)


@pytest.mark.parametrize(
    ("trace", "parameter"),
    [
        ([], "trace"),
        ([[0], [-1]], "trace[1]"),
        ([[0], [1, 2, 1]], "trace[1]"),
        ([[0], [], [0.5]], "trace[2]"),
        ([[1.0]], "trace[0]"),
        ([["0"]], "trace[0]"),
        ([[True]], "trace[0]"),
        ([[None]], "trace[0]"),
        ([[[0], [1]]], "trace[0]"),
        ([[0, [1, 2]]], "trace[0]"),
        ([0, 1, 2], "trace[0]"),
        (5, "trace"),
        (Tape(np.array([0]), np.array([], int)), "trace"),
        (Tape(np.array([1, 1]), np.array([0])), "trace"),
        (Tape(np.array([0, 2]), np.array([0])), "trace"),
        (Tape(np.array([0, 2, 1]), np.array([0])), "trace"),
        (Tape(np.array([0, 1]), np.array([0.7])), "trace"),
        (Tape(np.array([0, 1]), np.array([-2])), "trace[0]"),
    ],
    ids=repr,
)
def test_what_is_no_trace_is_refused_with_its_place(trace, parameter):
    with pytest.raises(BadInput) as caught:
        Recorded(trace)
    assert caught.value.parameter == parameter
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ask", ["bound", "moments", "start"])
def test_a_worker_that_does_not_exist_is_refused(ask):
    activity = Recorded([[0, 1], [2], [0, 1, 2]])
    with pytest.raises(BadInput, match=r"^trace = 2: must be made of workers 0 to 1$"):
        activity.start(2, blank()) if ask == "start" else getattr(activity, ask)(2)


def test_a_trace_shorter_than_the_run_is_refused_by_simulate():
    problem = siag.problems.LeastSquares.random(n=2, d=2, p=1, noise=0.1)
    with pytest.raises(BadInput, match=r"^iterations = 4: must be at most the trace's 3; record a longer one$"):
        siag.simulate(problem, siag.methods.SIAG(), Recorded([[0], [1], [0]]), siag.steps.Constant(0.1), iterations=4)


def test_a_trace_shorter_than_the_recording_of_it_is_refused(monkeypatch):
    # As plain Python: compiled code would read beyond the array's end, and might end the whole test run.
    module = sys.modules["siag.activity.unfold"]
    monkeypatch.setattr(module, "fill", module.fill.plain)
    with pytest.raises(BadInput, match=r"^iterations = 2: must be at most"):
        Recorded.of(Recorded([[0]]), 1, 2)


def test_the_arrays_given_stay_the_callers_own():
    start, worker = np.array([0, 2, 3]), np.array([1, 0, 1])
    activity = Recorded(Tape(start, worker))
    start[:], worker[:] = 0, 0
    assert sets(activity, 2) == [[0, 1], [1]]


def test_the_tape_cannot_be_written():
    for array in Recorded([[0], [1]]).tape:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


@pytest.mark.parametrize(("parameter", "value"), [("iterations", 0), ("iterations", 1.5), ("seed", -1), ("n", 0)])
def test_a_recording_of_nothing_is_refused(parameter, value):
    good = {"n": 2, "iterations": 5, "seed": 0}
    with pytest.raises(BadInput) as caught:
        Recorded.of(Everyone(), **(good | {parameter: value}))
    assert caught.value.parameter == parameter
