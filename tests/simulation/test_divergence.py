"""A step that is too large: said once, clearly, and without losing what there is."""

import warnings

import numpy as np
import pytest

import siag
from siag.checks import Bowl

PROBLEM = siag.problems.LeastSquares.random(n=1, d=3, p=2, noise=0.1, seed=1)
ITERATIONS = 300


def diverging(eta, repeats=6, **options):
    """w grows by a random factor per iteration, so that some repeats run out of numbers before others."""
    return siag.simulate(
        PROBLEM,
        siag.methods.SIAG(),
        siag.activity.Everyone(),
        siag.steps.Constant(eta),
        iterations=ITERATIONS,
        repeats=repeats,
        seed=3,
        record=1000,
        **options,
    )


@pytest.fixture
def far_too_large():
    with pytest.warns(siag.DivergenceWarning):
        return diverging(50.0)


@pytest.fixture
def in_part():
    """With this step half of the repeats leave the range of numbers in time; all or none do with one seed in 5e5."""
    with pytest.warns(siag.DivergenceWarning):
        return diverging(0.5, repeats=20)


def test_the_warning_names_the_iteration_and_the_step():
    with pytest.warns(siag.DivergenceWarning) as caught:
        run = diverging(50.0)
    (warning,) = caught
    first = run.diverged.min()
    repeat = int(np.argmin(run.diverged))
    assert f"6 of 6 repeats diverged, the first (repeat {repeat}) at iteration {first}" in str(warning.message)
    assert "with step 50; use a smaller step" in str(warning.message)
    assert warning.filename == __file__  # it points at the caller, not into the package


def test_a_diminishing_step_is_named_as_it_was_at_that_iteration():
    with pytest.warns(siag.DivergenceWarning) as caught:
        run = siag.simulate(
            PROBLEM,
            siag.methods.SIAG(),
            siag.activity.Everyone(),
            siag.steps.Harmonic(1e9, 10),
            iterations=ITERATIONS,
        )
    assert f"step {1e9 / (run.diverged[0] + 10):.4g};" in str(caught[0].message)


def test_errors_before_a_divergence_are_kept_and_later_ones_are_nan(far_too_large):
    run = far_too_large
    for error, when in zip(run.error, run.diverged, strict=True):
        assert 3 < when < ITERATIONS
        assert np.isfinite(error[run.t <= when]).all()
        assert np.isnan(error[run.t > when]).all()
        assert (np.diff(error[1:when]) > 0).mean() > 0.9  # it grows to the end


def test_samples_stop_growing_with_a_divergence(far_too_large):
    for samples, when in zip(far_too_large.samples, far_too_large.diverged, strict=True):
        assert samples[-1] == when + 1
        assert (np.diff(samples) >= 0).all()


def test_other_repeats_are_not_harmed(in_part):
    wrong = in_part.diverged >= 0
    assert 0 < wrong.sum() < in_part.repeats
    assert np.isfinite(in_part.error[~wrong]).all()
    assert not (in_part.error[wrong, -1] < 1e6).any()  # NaN, or kept because it exploded only at the very end


def test_a_diverged_run_is_saved_and_loaded(in_part, tmp_path):
    in_part.save(tmp_path / "run.npz")
    again = siag.load(tmp_path / "run.npz")
    assert np.array_equal(again.error, in_part.error, equal_nan=True)
    assert np.array_equal(again.diverged, in_part.diverged)


def test_a_run_that_stays_finite_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = diverging(0.1)
    assert (run.diverged == -1).all()


def test_summaries_of_a_diverged_run_warn_of_nothing(far_too_large):
    table = far_too_large.table()
    assert np.isfinite(table["error"][0])
    assert np.isnan(table["error"][-1])


def test_a_divergence_in_any_one_coordinate_is_noticed():
    # Coordinates that do not influence each other, and more of them than iterations: only the last runs away.
    curvature = np.ones(50)
    curvature[-1] = 1e30
    bowl = Bowl(np.random.default_rng(0).random((2, 50)), curvature)
    with pytest.warns(siag.DivergenceWarning):
        siag.simulate(bowl, siag.methods.SIAG(), siag.activity.Everyone(), siag.steps.Constant(0.1), iterations=40)


def test_progress_reaches_one_even_if_all_repeats_diverge():
    seen = []
    with pytest.warns(siag.DivergenceWarning):
        siag.simulate(
            PROBLEM,
            siag.methods.SIAG(),
            siag.activity.Everyone(),
            siag.steps.Constant(50.0),
            iterations=20_000,
            progress=seen.append,
        )
    assert seen[-1] == 1.0


def test_the_warning_of_a_live_run_points_at_the_caller_too():
    clock = siag.Simulated(times=siag.activity.Fixed(1.0), seed=1)
    with pytest.warns(siag.DivergenceWarning) as caught:
        siag.train(problem=PROBLEM, step=siag.steps.Constant(1e9), until=300, runtime=clock, progress=False)
    assert {warning.filename for warning in caught} == {__file__}


class Torn(Bowl):
    """A problem of one's own, and a number is missing in its data."""

    optimum = property(lambda self: np.zeros(self.d))


def test_nan_in_the_data_of_ones_own_problem_is_not_blamed_on_the_step_alone():
    centers = np.zeros((3, 2))
    centers[2, 1] = np.nan
    activity = siag.activity.Recorded([[0], [1], [2], [0]])
    words = r"at iteration 2 .* a gradient of Torn\(.* may be NaN; mend it, or use a smaller step"
    with pytest.warns(siag.DivergenceWarning, match=words):
        siag.simulate(
            Torn(centers, np.ones(2)),
            siag.methods.SIAG(),
            activity,
            siag.steps.Constant(0.1),
            iterations=4,
            compiled=False,
        )


def test_the_cause_that_is_told_is_that_of_the_repeat_that_is_told():
    def gradient(i, w, rng):
        wrong.append(rng.random() < 0.02)
        return w * (np.nan if wrong[-1] else 1.0)

    wrong = []
    problem = siag.problems.FromFunction(gradient, n=1, d=2, optimum=np.zeros(2), start=np.ones(2))
    with pytest.warns(siag.DivergenceWarning) as caught:
        run = siag.simulate(
            problem,
            siag.methods.SIAG(),
            siag.activity.Everyone(),
            siag.steps.Constant(0.1),
            iterations=500,
            repeats=5,
            compiled=False,
        )
    assert np.argmin(run.diverged) > 0  # not that of the first repeat
    assert f"call {run.diverged.min() + 1}, has NaN" in str(caught[0].message)
