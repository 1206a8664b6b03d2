"""At unequal speeds SIAG is unbiased, SGD is not: as a statistic of many live runs."""

import numpy as np
import pytest

import siag
from siag.activity import Trace

REPEATS, ITERATIONS = 300, 6000
SIZES = siag.steps.Harmonic(2.0, 100)


@pytest.fixture(scope="module")
def unequal(tmp_path_factory):
    """Live runs of sIAG and SGD on workers half of which are 20 times slower than the others, and their traces."""
    folder, runs = tmp_path_factory.mktemp("unequal"), {}
    hard = siag.problems.LeastSquares.random(n=6, d=4, p=2, noise=0.1, seed=4)
    runtime = siag.Simulated(times=siag.activity.Exponential(0.002), slowness=[1] * 3 + [20] * 3, seed=7)
    for name, method in (("siag", siag.methods.SIAG()), ("sgd", siag.methods.SGD())):
        trace = folder / f"{name}.csv"
        given = {"problem": hard, "method": method, "step": SIZES, "until": ITERATIONS, "seed": 7}
        runs[name] = siag.train(**given, trace=trace, runtime=runtime), trace
    return hard, runs


def test_live_siag_shows_exactly_the_error_of_its_replay(unequal):
    _, runs = unequal
    for run, trace in runs.values():
        assert np.array_equal(siag.replay(trace).error, run.error)


def test_live_siag_at_unequal_speeds_is_unbiased(unequal):
    """Its error is one like those of the same arrivals with other samples.

    Arrivals do not depend on samples, so the live error and those of repeats with other seeds are exchangeable. The
    error of SGD is beyond the largest, by far.
    """
    hard, runs = unequal
    (run, trace), (biased, _) = runs["siag"], runs["sgd"]
    given = {"iterations": ITERATIONS, "repeats": REPEATS, "seed": 8, "record": 2}
    others = siag.simulate(hard, siag.methods.SIAG(), Trace.read(trace), SIZES, **given)
    assert run.error[0, -1] <= others.error[:, -1].max()
    assert biased.error[0, -1] > others.error[:, -1].max()


def test_live_sgd_at_unequal_speeds_goes_to_the_optimum_of_the_wrong_weights(unequal):
    """It is nearer to the predicted wrong point than to the right one, by 10 times in ‖·‖²."""
    hard, runs = unequal
    run, trace = runs["sgd"]
    recorded = Trace.read(trace).recorded
    shares = siag.theory.bias.shares(recorded, hard.n)
    assert shares[:3].min() > 10 * shares[3:].max()
    wrong = siag.theory.biased_optimum(hard, recorded)
    assert 10 * np.square(run.w[0] - wrong).sum() < np.square(run.w[0] - hard.optimum).sum()
