"""The exact error curve against many sampled runs along the same activity."""

import numpy as np
import pytest

import siag
from siag.foundations.dispatch import plainly
from siag.theory.exact import moments_at_start
from siag.theory.moments import drop, mean_row_moments, move, renew

ITERATIONS, RUNS = 400, 400
PROBLEM = siag.problems.LeastSquares.random(n=6, d=3, p=3, noise=0.3, seed=4)
ACTIVITY = siag.activity.Recorded.of(siag.activity.Nonuniform(2, 6), 6, ITERATIONS, seed=9)
STEP = siag.steps.Harmonic(0.8, 15)
START = np.array([1.5, -1.0, 0.5])


def both(method, **options):
    """The exact curve, and sampled runs on the same pattern and points."""
    common = {"iterations": ITERATIONS, "record": 60, "w0": START, "seed": 1}
    parts = (PROBLEM, method, ACTIVITY, STEP)
    return siag.theory.exact_error(*parts, **common), siag.simulate(*parts, **(common | options))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "method",
    [
        siag.methods.SIAG(),
        siag.methods.SIAG(wait=1.0),
        siag.methods.SGD(),
        siag.methods.SGD(normalization="sum"),
        siag.methods.SIAG(average=2),
        siag.methods.SIAG(average=8, wait=1.0),
        siag.methods.SIAG(average=1000),
    ],
)
def test_the_mean_of_many_runs_agrees_everywhere(method):
    # Four standard errors at each of at most 60 points: a false alarm in fewer than 60 · 6.3e-5 = 0.4 % of seeds.
    curve, run = both(method, repeats=RUNS)
    assert np.array_equal(curve.t, run.t)
    allowed = np.maximum(4.0 * run.standard_error, 1e-12 * curve.error)  # some errors are not random at all
    assert (np.abs(run.mean - curve.error) <= allowed).all()
    assert (run.standard_error[-1] < 0.1 * curve.error[-1]).all()  # so a wrong curve would have been seen


def test_the_mean_of_many_final_iterates_has_the_bias_of_the_curve():
    # E‖mean of w − w*‖² = bias + variance/RUNS; d = 3 normal numbers stay within 5 σ in all but 2e-6 of seeds.
    curve, run = both(siag.methods.SGD(), repeats=RUNS)
    shift = np.linalg.norm(run.w.mean(axis=0) - PROBLEM.optimum)
    assert abs(shift - np.sqrt(curve.bias[-1])) < 5.0 * np.sqrt(curve.variance[-1] / RUNS)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 3.0, 0.5, 0.1, 1.0]])
def test_row_sums_from_snapshots_are_those_of_the_covariances_of_all_rows(weights):
    """Against the recursion for moving averages over m = 1 reports, which keeps Q; workers also leave."""
    problem, rng = PROBLEM.weighted(weights) if weights else PROBLEM, np.random.default_rng(5)
    moments = moments_at_start(problem, siag.methods.SIAG(), START)
    means = mean_row_moments(moments.source, START, problem.n, moments.quorum, 1)
    often = np.array([0.2, 0.9, 0.05, 0.5, 0.5, 0.3])
    with plainly():
        for t in range(120):
            one = np.array([t // 3 % problem.n])
            workers = np.flatnonzero(rng.random(problem.n) < often) if t % 3 else one
            for each in (moments, means):
                renew(each, workers)
                if t % 17 == 5:
                    drop(each, t % problem.n)
                move(each, 0.02)
            for name in ("m", "V", "h", "hsum", "C", "S", "there"):
                np.testing.assert_allclose(
                    getattr(moments, name), getattr(means.table, name), rtol=1e-9, atol=1e-12, err_msg=name
                )


def test_there_are_never_more_snapshots_than_workers_and_one():
    moments = moments_at_start(PROBLEM, siag.methods.SIAG(), START)
    n, past = PROBLEM.n, moments.past
    with plainly():
        for t in range(5 * n):
            renew(moments, np.array([t % n]))
            move(moments, 0.02)
        renew(moments, np.arange(n))
        drop(moments, 2)
    used, retired, _ = past.counts
    assert (used, retired) == (n, n - 1)
    assert past.users[past.users > 0].tolist() == [1, n - 1]  # worker 2, which has left, and the others
    assert not past.C[:, 2].any()


def test_iag_has_nothing_random_and_agrees_to_rounding():
    curve, run = both(siag.methods.IAG())
    np.testing.assert_allclose(run.error[0], curve.error, rtol=1e-10)
    assert not curve.variance.any()


@pytest.mark.parametrize("activity", [siag.activity.Uniform(4), siag.activity.Sequential(), siag.activity.Cyclic()])
def test_the_same_seed_sees_the_activity_that_simulate_sees(activity):
    # IAG depends on the activity alone, so that one wrong pattern would show at once.
    parts = (PROBLEM, siag.methods.IAG(), activity, STEP)
    for seed in (0, 7):
        curve = siag.theory.exact_error(*parts, iterations=200, seed=seed)
        run = siag.simulate(*parts, iterations=200, seed=seed)
        np.testing.assert_allclose(run.error[0], curve.error, rtol=1e-9)


def test_repeats_average_over_the_patterns_that_simulate_sees():
    parts = (PROBLEM, siag.methods.IAG(), siag.activity.Uniform(4), STEP)
    curve = siag.theory.exact_error(*parts, iterations=200, seed=3, repeats=5, threads=2)
    run = siag.simulate(*parts, iterations=200, seed=3, repeats=5)
    np.testing.assert_allclose(run.mean, curve.error, rtol=1e-9)


def test_bias_and_variance_add_up_to_the_error():
    curve, _ = both(siag.methods.SIAG())
    np.testing.assert_array_equal(curve.error, curve.bias + curve.variance)
    assert (curve.variance >= 0).all()
    assert (curve.variance[0], curve.bias[0]) == (0, pytest.approx(((START - PROBLEM.optimum) ** 2).sum()))


def test_summing_anew_and_the_sampler_make_no_difference_to_the_law():
    literal = siag.problems.LeastSquares(PROBLEM.centers, 3, 0.3, sampler="literal")
    curves = [
        siag.theory.exact_error(problem, siag.methods.SIAG(resum=resum), ACTIVITY, STEP, iterations=100)
        for problem, resum in ((PROBLEM, 64), (PROBLEM, 0), (literal, 64))
    ]
    assert np.array_equal(curves[0].error, curves[1].error)
    assert np.array_equal(curves[0].error, curves[2].error)


def test_sag_which_draws_from_finite_data_is_refused_on_a_stream():
    with pytest.raises(siag.Unsuitable, match="LeastSquares is a stream; use IAG, or SIAG"):
        siag.theory.exact_error(PROBLEM, siag.methods.SAG(), siag.activity.Sequential(), STEP, iterations=100)


def test_other_problems_are_refused_with_a_remedy():
    problem = siag.problems.LogisticRegression.random(n=3, d=2, m=5)
    with pytest.raises(siag.Unsuitable, match="F_0 of LogisticRegression is none; use simulate"):
        siag.theory.exact_error(problem, siag.methods.SIAG(), siag.activity.Cyclic(), STEP, iterations=10)


def test_a_method_with_a_memory_of_its_own_is_refused_with_a_remedy():
    class Odd(siag.methods.SIAG):
        def init(self, w0, n):
            return siag.methods.Streaming()

    class Remembers(siag.methods.SIAG):
        def recruit(self, w0, n):
            return siag.methods.table(w0, n, 0, 0.0)

    for method in (Odd(), Remembers()):
        with pytest.raises(siag.Unsuitable, match=r"not known.*; use simulate"):
            siag.theory.exact_error(PROBLEM, method, siag.activity.Cyclic(), STEP, iterations=10)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("iterations", 0),
        ("repeats", 0),
        ("record", 0),
        ("seed", -1),
        ("threads", 0),
        ("w0", [1.0]),
        ("w0", [np.nan] * 3),
    ],
)
def test_a_bad_value_is_refused_by_name(parameter, value):
    with pytest.raises(siag.BadInput, match=f"^{parameter} = "):
        siag.theory.exact_error(
            PROBLEM, siag.methods.SIAG(), ACTIVITY, STEP, **({"iterations": 10} | {parameter: value})
        )
