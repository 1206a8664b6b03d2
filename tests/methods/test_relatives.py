"""IAG, SAG and SGD: what each is known for, and where each refuses to run."""

import numpy as np
import pytest

import siag
from samples_only import SamplesOnly
from siag.checks import Bowl


def fitted_rate(t, error):
    """The slope of log error against t, and how far from a line the points lie at most (in e-folds)."""
    slope, offset = np.polyfit(t, np.log(error), 1)
    return slope, np.abs(np.log(error) - slope * t - offset).max()


def decaying(run, above=1e-17):
    """The curve once every worker has reported, down to where the optimum's own 1e-10 begins to show."""
    shown = (run.t > 40) & (run.error[0] > above)
    return run.t[shown], run.error[0][shown]


@pytest.mark.thorough
def test_iag_converges_linearly_with_a_constant_step_under_unequal_activity():
    problem = siag.problems.LogisticRegression.random(n=6, d=3, m=10, regularization=0.5, seed=2)
    run = siag.simulate(
        problem,
        siag.methods.IAG(),
        siag.activity.Nonuniform(2, 6),
        siag.steps.Constant(0.1),
        iterations=1500,
        record=3000,
        seed=4,
    )
    slope, bend = fitted_rate(*decaying(run))
    assert -0.5 < slope < -0.02
    assert bend < 1.0  # over more than thirty e-folds
    assert run.error[0, -1] < 1e-18


def test_sag_converges_linearly_on_a_finite_sum():
    # One point per worker makes worker i the i-th sample of one data set.
    problem = siag.problems.LogisticRegression.random(n=30, d=3, m=1, regularization=0.5, seed=5)
    run = siag.simulate(
        problem,
        siag.methods.SAG(),
        siag.activity.Sequential(),
        siag.steps.Constant(0.1),
        iterations=6000,
        record=6000,
        seed=6,
    )
    slope, bend = fitted_rate(*decaying(run))
    assert slope < -0.002
    assert bend < 10.0  # of forty e-folds; which sample comes when is random, over 200 seeds it wobbled by 8.1 at most
    assert run.error[0, -1] < 1e-18


def test_siag_with_a_constant_step_does_not_converge_where_iag_does():
    # Noise of its own is what keeps sIAG from the optimum: without this the two tests above would say little.
    problem = siag.problems.LeastSquares.random(n=6, d=3, p=2, noise=0.1, seed=2)
    ends = {
        type(method).__name__: siag.simulate(
            problem, method, siag.activity.Nonuniform(2, 6), siag.steps.Constant(0.05), iterations=1500, seed=4
        ).error[0, -1]
        for method in (siag.methods.IAG(), siag.methods.SIAG())
    }
    assert ends["IAG"] < 1e-25
    assert ends["SIAG"] > 1e-5


class FiniteBowl(Bowl):
    """Each worker's loss is that of one sample, and there are no others."""

    finite = True


def test_sag_is_siag_where_samples_are_exact():
    draw = np.random.default_rng(1)
    bowl = FiniteBowl(draw.random((7, 4)), np.array([0.5, 1.0, 2.0, 3.0]))
    runs = [
        siag.simulate(bowl, method, siag.activity.Sequential(), siag.steps.Harmonic(1.0, 20), iterations=400, seed=9)
        for method in (siag.methods.SAG(), siag.methods.SIAG())
    ]
    assert np.array_equal(runs[0].error, runs[1].error)
    assert np.array_equal(runs[0].w, runs[1].w)


@pytest.mark.parametrize("activity", [siag.activity.Everyone(), siag.activity.Cyclic(), siag.activity.Uniform(3)])
def test_sag_refuses_other_activities_and_names_what_works(activity):
    problem = siag.problems.Ridge.random(n=3, d=2, m=1)
    with pytest.raises(siag.Unsuitable, match=r"use Sequential\(\), or IAG"):
        siag.simulate(problem, siag.methods.SAG(), activity, siag.steps.Constant(0.1), iterations=5)


@pytest.mark.parametrize("method", [siag.methods.SAG(), siag.methods.SAGA()], ids=repr)
@pytest.mark.parametrize("activity", [siag.activity.Sequential(), siag.activity.Uniform(3)], ids=repr)
@pytest.mark.parametrize(
    "problem",
    [siag.problems.LeastSquares.random(n=3, d=2, p=1, noise=0.0), Bowl(np.zeros((3, 2)), np.ones(2))],
    ids=lambda problem: type(problem).__name__,
)
def test_sag_and_saga_on_a_stream_say_so_and_name_what_works(method, activity, problem):
    name, kind = type(method).__name__, type(problem).__name__
    words = f"^{name} draws .*from finite data, {kind} is a stream; use IAG, or SIAG; .*own says finite = True$"
    with pytest.raises(siag.Unsuitable, match=words):
        siag.simulate(problem, method, activity, siag.steps.Constant(0.1), iterations=5)


@pytest.mark.parametrize(
    ("method", "activity"),
    [(siag.methods.IAG(), siag.activity.Everyone()), (siag.methods.SAG(), siag.activity.Sequential())],
)
def test_a_problem_without_exact_gradients_is_refused_with_a_remedy(method, activity):
    with pytest.raises(siag.Unsuitable, match=r"SamplesOnly does not offer; use SIAG, or give `exact` .* Tap"):
        siag.simulate(SamplesOnly(), method, activity, siag.steps.Constant(0.1), iterations=5)


def test_a_problem_without_exact_gradients_is_fine_for_siag():
    run = siag.simulate(
        SamplesOnly(),
        siag.methods.SIAG(),
        siag.activity.Everyone(),
        siag.steps.Constant(0.5),
        iterations=10,
        w0=np.ones(1),
        compiled=False,
    )
    assert run.w[0, 0] == 0.5**10


@pytest.mark.thorough
def test_unequal_activity_biases_sgd_but_not_siag():
    problem = siag.problems.LeastSquares.random(n=10, d=5, p=10, noise=0.1, seed=7)
    curves = {
        type(method).__name__: siag.theory.exact_error(
            problem,
            method,
            siag.activity.Nonuniform(2, 20),
            siag.steps.Harmonic(0.2, 200),
            iterations=20_000,
            seed=2,
        )
        for method in (siag.methods.SGD(), siag.methods.SIAG())
    }
    sgd, siag_ = curves["SGD"], curves["SIAG"]
    assert sgd.bias[-1] > 1e-3
    assert sgd.bias[-1] > 0.9 * sgd.bias[sgd.t > 10_000][0]  # it has stopped falling
    assert siag_.bias[-1] < 1e-3 * sgd.bias[-1]
    assert siag_.error[-1] < 0.1 * sgd.error[-1]


def test_equal_activity_leaves_sgd_and_siag_comparable():
    problem = siag.problems.LeastSquares.random(n=20, d=20, p=10, noise=0.1, seed=0)
    ends = [
        siag.theory.exact_error(
            problem, method, siag.activity.Uniform(15), siag.steps.Harmonic(0.2, 200), iterations=20_000, repeats=4
        ).error[-1]
        for method in (siag.methods.SGD(), siag.methods.SIAG())
    ]
    assert 0.5 < ends[0] / ends[1] < 2.0


def test_sgd_with_the_sum_falls_far_behind_at_the_same_step():
    problem = siag.problems.LeastSquares.random(n=20, d=20, p=10, noise=0.1, seed=0)
    ends = [
        siag.theory.exact_error(
            problem, method, siag.activity.Uniform(15), siag.steps.Harmonic(0.2, 200), iterations=20_000
        ).error[-1]
        for method in (siag.methods.SGD(normalization="sum"), siag.methods.SIAG())
    ]
    assert ends[0] > 1000 * ends[1]
