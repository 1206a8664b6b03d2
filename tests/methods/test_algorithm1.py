"""SIAG and SGD against the paper's own pseudo-code, written as it stands in plain NumPy."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.problems import sample

N, D = 5, 3
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.3, seed=8)
STEP = siag.steps.Harmonic(0.5, 10)

traces = st.lists(st.sets(st.integers(0, N - 1)), min_size=1, max_size=60)


def stream(problem, seed):
    """A function that draws ∇f_i(w; ξ) with the samples that `simulate` with this seed sees."""
    oracle, rng, repeat = problem.oracle(), blank(), key(seed, 0, SAMPLES)
    drawn = np.zeros(problem.n, int)

    def draw(i, w):
        gradient = np.empty(problem.d)
        rewind(rng, repeat, i, drawn[i])
        drawn[i] += 1
        sample(oracle, rng, i, w, gradient)
        return gradient

    return draw


def algorithm1(problem, trace, step, seed, wait=Fraction(0)):
    """Algorithm 1 line by line: all rows are summed at every iteration; every w^t is returned.

    Where it waits, t is counted from the first step on, as in papers whose table is full at the start.
    """
    draw, w, t = stream(problem, seed), np.zeros(problem.d), 0
    buffer, reported, path = np.zeros((problem.n, problem.d)), set(), [w]
    for active in trace:
        fresh = {i: draw(i, w) for i in sorted(active)}
        for i, gradient in fresh.items():
            buffer[i] = gradient
        reported |= set(active)
        if len(reported) >= wait * problem.n:
            w = w - step.sizes(np.array([t]))[0] / problem.n * buffer.sum(axis=0)
            t += 1
        path.append(w)
    return np.array(path)


def plain_sgd(problem, trace, step, seed, normalization):
    """Eq. (sgd): the gradients of this iteration alone."""
    draw, w, path = stream(problem, seed), np.zeros(problem.d), [np.zeros(problem.d)]
    for t, active in enumerate(trace):
        if active:
            total = sum(draw(i, w) for i in sorted(active))
            divisor = len(active) if normalization == "mean" else problem.n
            w = w - step.sizes(np.array([t]))[0] / divisor * total
        path.append(w)
    return np.array(path)


def assert_same_path(run, path):
    """To 1e-12 of the largest number met; not bit for bit, because the sums are formed in another order."""
    scale = np.abs(path).max() + np.abs(PROBLEM.optimum).max()
    assert np.abs(run.w[0] - path[-1]).max() <= 1e-12 * scale
    error = ((path[run.t] - PROBLEM.optimum) ** 2).sum(axis=1)
    np.testing.assert_allclose(run.error[0], error, rtol=0, atol=1e-12 * D * scale**2)


@settings(deadline=None, max_examples=60)
@given(trace=traces, seed=st.integers(0, 2**64 - 1), wait=st.sampled_from([0, 1, 2, 4]), resum=st.integers(0, 3))
def test_siag_follows_algorithm_1_on_any_activity(trace, seed, wait, resum):
    wait = Fraction(wait, 4)
    run = siag.simulate(
        PROBLEM,
        siag.methods.SIAG(resum=resum, wait=float(wait)),
        siag.activity.Recorded([sorted(active) for active in trace]),
        STEP,
        iterations=len(trace),
        seed=seed,
        record=500,
    )
    assert_same_path(run, algorithm1(PROBLEM, trace, STEP, seed, wait))


@settings(deadline=None, max_examples=30)
@given(trace=traces, seed=st.integers(0, 2**64 - 1), normalization=st.sampled_from(["mean", "sum"]))
def test_sgd_follows_its_formula_on_any_activity(trace, seed, normalization):
    run = siag.simulate(
        PROBLEM,
        siag.methods.SGD(normalization=normalization),
        siag.activity.Recorded([sorted(active) for active in trace]),
        STEP,
        iterations=len(trace),
        seed=seed,
        record=500,
    )
    assert_same_path(run, plain_sgd(PROBLEM, trace, STEP, seed, normalization))


def test_siag_follows_algorithm_1_over_a_long_run_of_the_papers_kind():
    iterations, seed = 1500, 12
    activity = siag.activity.Nonuniform(3, 9)
    tape = siag.activity.Recorded.of(activity, N, iterations, seed).tape
    trace = np.split(tape.worker, tape.start[1:-1])
    run = siag.simulate(PROBLEM, siag.methods.SIAG(), activity, STEP, iterations=iterations, seed=seed)
    assert_same_path(run, algorithm1(PROBLEM, trace, STEP, seed))


def test_sgd_with_mean_and_sum_are_the_same_when_everyone_is_active():
    ends = [
        siag.simulate(
            PROBLEM, siag.methods.SGD(normalization=normalization), siag.activity.Everyone(), STEP, iterations=50
        ).w
        for normalization in ("mean", "sum")
    ]
    assert np.array_equal(*ends)


def test_sgd_stands_still_while_nobody_reports_and_goes_on_afterwards():
    trace = [[0, 3]] + [[]] * 20 + [[1]]
    path = plain_sgd(PROBLEM, trace, STEP, 3, "mean")
    run = siag.simulate(
        PROBLEM, siag.methods.SGD(), siag.activity.Recorded(trace), STEP, iterations=22, seed=3, record=500
    )
    assert len(set(run.error[0, 1:22])) == 1
    assert_same_path(run, path)
