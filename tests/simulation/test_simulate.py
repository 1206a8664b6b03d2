"""What a simulation records, and what it must not depend on."""

import tracemalloc
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag.foundations.parallel import Watch
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.foundations.schedule import points
from siag.methods import Method, advance, receive
from siag.problems import sample
from siag.simulation.simulate import Job

PROBLEM = siag.problems.LeastSquares.random(n=6, d=4, p=3, noise=0.2, seed=1)
STEP = siag.steps.Harmonic(0.6, 20)
UNIFORM = siag.activity.Uniform(4)


def run_of(method=None, activity=UNIFORM, **options):
    options = {"iterations": 300, "seed": 5} | options
    return siag.simulate(PROBLEM, method or siag.methods.SIAG(), activity, STEP, **options)


def assert_identical(one, two):
    for name in ("t", "error", "samples", "w", "diverged"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


@pytest.mark.parametrize("method", [siag.methods.SIAG(), siag.methods.SGD()])
def test_the_number_of_threads_changes_no_bit(method):
    # 20 000 iterations make several chunks per repeat, so that the repeats really take turns.
    one, two, three = (run_of(method, iterations=20_000, repeats=5, threads=threads) for threads in (1, 2, 3))
    assert_identical(one, two)
    assert_identical(one, three)


@pytest.mark.parametrize("method", [siag.methods.SIAG(wait=0.5), siag.methods.SGD(), siag.methods.IAG()])
def test_compiled_code_and_plain_python_record_the_same_bits(method):
    assert_identical(run_of(method, repeats=2), run_of(method, repeats=2, compiled=False))


def test_read_only_arrays_need_no_machine_code_of_their_own():
    t = points(10, 3)
    t.setflags(write=False)  # as in the second combination of a sweep
    job = Job(PROBLEM, siag.methods.SIAG(), UNIFORM, STEP, 10, 5, np.zeros(PROBLEM.d), False)
    track = job.repeat(0, t, Watch(10, lambda _: None)).track
    assert not PROBLEM.optimum.flags.writeable
    assert all(array.flags.writeable for array in track if isinstance(array, np.ndarray))


def test_repeats_differ_and_each_is_the_same_however_many_there_are():
    few, many = run_of(repeats=2), run_of(repeats=4)
    assert len({w.tobytes() for w in many.w}) == 4
    assert np.array_equal(few.w, many.w[:2])


def test_another_seed_gives_another_run():
    assert not np.array_equal(run_of(seed=5).w, run_of(seed=6).w)
    assert_identical(run_of(seed=2**64 - 1), run_of(seed=2**64 - 1))


def test_a_longer_run_begins_like_a_shorter_one():
    short, long = run_of(iterations=50, record=1000), run_of(iterations=5000, record=20_000)
    assert np.array_equal(short.error[0], long.error[0, :51])


@pytest.mark.parametrize("iterations", [1, 2, 37, 10_000])
def test_the_record_begins_at_zero_and_ends_with_the_last_iteration(iterations):
    run = run_of(iterations=iterations, repeats=3)
    points = len(run.t)
    assert (run.t[0], run.t[-1]) == (0, iterations)
    assert (np.diff(run.t) > 0).all()
    assert points <= 200
    assert run.error.shape == run.samples.shape == (3, points)
    assert (run.w.shape, run.diverged.shape) == ((3, 4), (3,))
    assert (run.diverged == -1).all()


@pytest.mark.parametrize("record", [2, 3, 10, 100])
def test_no_more_points_are_kept_than_asked_for(record):
    run = run_of(iterations=5000, record=record)
    assert len(run.t) <= record
    assert (run.t[0], run.t[-1]) == (0, 5000)


def test_the_last_error_is_the_distance_of_the_final_w_from_the_optimum():
    run = run_of(repeats=3)
    np.testing.assert_allclose(run.error[:, -1], ((run.w - PROBLEM.optimum) ** 2).sum(axis=1), rtol=1e-12)


def test_the_first_error_is_that_of_the_start():
    start = np.array([1.0, -2.0, 0.5, 3.0])
    run = run_of(repeats=2, w0=start)
    np.testing.assert_allclose(run.error[:, 0], ((start - PROBLEM.optimum) ** 2).sum(), rtol=1e-14)
    assert np.array_equal(start, [1.0, -2.0, 0.5, 3.0])  # the caller's array is left alone


def test_samples_count_the_reports_so_far():
    run = run_of(record=1000)
    sizes = np.diff(siag.activity.Recorded.of(UNIFORM, PROBLEM.n, 300, seed=5).tape.start)
    assert np.array_equal(run.samples[0], np.concatenate(([0], np.cumsum(sizes)))[run.t])
    assert (np.diff(run.samples, axis=1) >= 0).all()


def test_mean_and_standard_error_are_those_of_the_repeats():
    run = run_of(repeats=5)
    np.testing.assert_allclose(run.mean, run.error.mean(axis=0))
    np.testing.assert_allclose(run.standard_error, run.error.std(axis=0, ddof=1) / np.sqrt(5))
    assert np.isinf(run_of().standard_error).all()
    assert set(run.table()) == {"t", "error", "standard_error", "samples", "uploads", "bytes", "time"}


def test_the_run_says_what_was_run():
    about = run_of(siag.methods.SIAG(wait=0.5), repeats=2).about
    assert about["problem"].startswith("LeastSquares.random(n=6, d=4, p=3")
    assert about["method"] == "SIAG(resum=64, wait=0.5, rows='float64', average=1)"
    assert (about["activity"], about["step"]) == ("Uniform(T=4)", "Harmonic(beta=0.6, gamma=20.0)")
    assert (about["iterations"], about["seed"], about["repeats"]) == (300, 5, 2)


class Ledger(NamedTuple):
    """Every message, by worker and number."""

    w: np.ndarray  # (d,)
    log: np.ndarray  # (n, room, d)
    count: np.ndarray  # (n,)


@dataclass(frozen=True)
class Listener(Method):
    """Writes down what arrives, and never moves: so every sample is drawn at w0."""

    log: np.ndarray

    def init(self, w0, n):
        return Ledger(w0.copy(), self.log, np.zeros(n, np.int64))


@receive.when(Ledger)
def write_down(state, i, message, age):
    for j in range(message.size):
        state.log[i, state.count[i], j] = message[j]
    state.count[i] += 1


@advance.when(Ledger)
def stand_still(state, eta):
    pass


def heard(activity, iterations=60, compiled=True):
    """(n, iterations, d) the samples each worker drew, in order; NaN where it drew no more."""
    log = np.full((PROBLEM.n, iterations, PROBLEM.d), np.nan)
    run_of(Listener(log), activity, iterations=iterations, compiled=compiled)
    return log


def test_a_workers_kth_sample_does_not_depend_on_who_else_reports_when():
    everyone = heard(siag.activity.Everyone())
    for activity in (UNIFORM, siag.activity.Cyclic(), siag.activity.Sequential(), siag.activity.Bernoulli(0.3)):
        other = heard(activity)
        drawn = ~np.isnan(other)
        assert drawn[:, 0].any()
        assert np.array_equal(other[drawn], everyone[drawn])


def test_a_workers_kth_sample_is_a_function_of_seed_repeat_worker_and_k():
    rng, out, oracle = blank(), np.empty(PROBLEM.d), PROBLEM.oracle()
    log = heard(siag.activity.Everyone(), 5)
    for i in range(PROBLEM.n):
        for k in range(5):
            rewind(rng, key(5, 0, SAMPLES), i, k)
            sample(oracle, rng, i, np.zeros(PROBLEM.d), out)
            assert np.array_equal(out, log[i, k])


def test_two_methods_with_one_seed_see_the_same_samples():
    # With everyone active sIAG and SGD are the same rule, so they part only if their samples do.
    both = [run_of(method, siag.activity.Everyone()).error for method in (siag.methods.SIAG(), siag.methods.SGD())]
    np.testing.assert_allclose(*both, rtol=1e-9)


def test_memory_does_not_grow_with_the_iterations():
    def peak(iterations):
        tracemalloc.start()
        try:
            run_of(iterations=iterations, record=50)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10_000)  # compiled and warmed up
    # A hundred times the iterations; even one byte for each of them would be 2 MB more.
    assert peak(2_000_000) < peak(20_000) + 1_000_000


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_never_falls_and_ends_at_one(threads):
    seen = []
    run_of(iterations=30_000, repeats=3, threads=threads, progress=seen.append)
    assert len(seen) > 5
    assert (np.diff(seen) >= 0).all()
    assert 0 < seen[0] < seen[-1] == 1.0


def test_an_error_in_the_progress_function_reaches_the_caller():
    def refuse(fraction):
        raise RuntimeError("enough")

    for threads in (1, 2):
        with pytest.raises(RuntimeError, match="enough"):
            run_of(iterations=30_000, repeats=4, threads=threads, progress=refuse)
