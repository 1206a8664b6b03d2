"""F and ‖∇F‖² along a run: where no optimum is known, and on request."""

import numpy as np
import pytest

import siag
from plain import simulate
from refusals import refused
from siag.activity import Clock, Cyclic, Exponential, Uniform
from siag.checks import Bowl
from siag.methods import SIAG
from siag.problems import LeastSquares, LogisticRegression, Ridge
from siag.simulation.iterate import Track
from siag.simulation.simulate import ROOM, cuts
from siag.steps import Constant, Harmonic

PROBLEM = Ridge.random(n=5, d=3, m=10, regularization=0.1)
STEP = Harmonic(1.0, 50.0)


class Anywhere(Bowl):
    """A bowl whose optimum nobody knows."""

    optimum = None


class Dark(Anywhere):
    """Nor its gradient: it has no `exact`."""

    def oracle(self):
        return siag.problems.FromFunction(lambda i, w: w, n=self.n, d=self.d).oracle()


BOWL = Anywhere(np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([1.0, 2.0]))


@pytest.mark.few(2)
@pytest.mark.parametrize("activity", [Uniform(3), Clock(Exponential(1.0))], ids=["schedule", "clock"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_on_request_they_are_measured_at_the_recorded_points_and_change_nothing_else(activity, compiled):
    given = {"iterations": 60, "repeats": 2, "compiled": compiled}
    own = {"F": PROBLEM.objective, "g": lambda w: float(np.square(PROBLEM.full_gradient(w)).sum())}
    run = siag.simulate(PROBLEM, SIAG(), activity, STEP, objective=True, evaluate=own, **given)
    assert run.objective.tolist() == run.metrics["F"].tolist()
    np.testing.assert_allclose(run.stationarity, run.metrics["g"], rtol=1e-12)
    alone = siag.simulate(PROBLEM, SIAG(), activity, STEP, **given)
    assert alone.error.tolist() == run.error.tolist()
    assert (alone.objective, alone.stationarity, alone.least_stationarity, alone.metrics) == (None, None, None, {})


@pytest.mark.parametrize(
    "problem",
    [
        LeastSquares.random(n=4, d=3, p=2, noise=0.5, seed=1),
        LogisticRegression.random(n=4, d=3, m=6, seed=1),
        PROBLEM,
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_every_problem_of_the_package_has_them_and_both_are_least_at_the_optimum(problem):
    w = np.array([0.5, -1.0, 2.0])
    slopes = [(problem.objective(w + e) - problem.objective(w - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(problem.full_gradient(w), slopes, rtol=1e-6)
    np.testing.assert_allclose(
        problem.full_gradient(w), np.mean([problem.gradient(i, w) for i in range(problem.n)], axis=0), rtol=1e-12
    )
    assert np.abs(problem.full_gradient(problem.optimum)).max() < 1e-9
    assert problem.objective(problem.optimum) < problem.objective(w)


def test_the_objective_of_least_squares_is_the_mean_of_its_losses():
    """½‖A w − y‖² over 20 000 draws of A and y for each worker: within 5 standard errors."""
    problem, w = LeastSquares.random(n=2, d=3, p=2, noise=0.5, seed=1), np.array([0.5, -1.0, 2.0])
    draw, count = np.random.default_rng(3), 20_000
    A, noise = draw.standard_normal((2, count, 2, 3)), 0.5 * draw.standard_normal((2, count, 2))
    misses = np.einsum("ikpd,id->ikp", A, w - problem.centers) - noise
    losses = 0.5 * (misses**2).sum(axis=2)
    error = losses.std() / np.sqrt(losses.size)
    assert problem.objective(w) == pytest.approx(losses.mean(), abs=5 * error)


def test_without_an_optimum_the_error_is_the_gradient_squared():
    run = simulate(BOWL, SIAG(), Cyclic(), Constant(0.1), iterations=300, repeats=2)
    assert run.measure == "‖∇F(wᵗ)‖²"
    assert run.error.tolist() == run.stationarity.tolist()
    expected = np.square(np.array([1.0, 2.0]) * (run.w - np.array([0.5, 1.5]))).sum(axis=1)
    np.testing.assert_allclose(run.error[:, -1], expected, rtol=1e-9)
    assert run.objective is None
    assert run.measure in repr(run)


def test_nobody_has_to_measure():
    run = simulate(BOWL, SIAG(), Cyclic(), Constant(0.1), iterations=30, objective=False)
    assert run.measure == ""
    assert np.isnan(run.error).all()
    dark = simulate(Dark(BOWL.centers, BOWL.curvature), SIAG(), Cyclic(), Constant(0.1), iterations=30)
    assert dark.measure == ""


def test_the_least_so_far_never_rises_and_is_reached():
    run = simulate(PROBLEM, SIAG(), Uniform(3), STEP, iterations=400, repeats=2, objective=True)
    least = run.least_stationarity
    assert (np.diff(least, axis=1) <= 0).all()
    assert least[:, -1].tolist() == run.stationarity.min(axis=1).tolist()
    assert (np.diff(run.stationarity, axis=1) > 0).any()  # or there would be nothing to show


def test_they_are_saved_stand_in_the_table_and_can_be_drawn(tmp_path):
    run = simulate(
        PROBLEM, SIAG(), Uniform(3), STEP, iterations=50, repeats=2, objective=True, evaluate={"two": by_two}
    )
    run.save(tmp_path / "run.npz")
    again = siag.load(tmp_path / "run.npz")
    assert again.objective.tolist() == run.objective.tolist()
    assert again.least_stationarity.tolist() == run.least_stationarity.tolist()
    table = run.table()
    for name in ("objective", "stationarity", "least_stationarity"):
        curve = run.judged_by(name)
        np.testing.assert_array_equal(table[name], curve.mean)
        assert curve.plot().get_ylabel().startswith(curve.measure)
    assert run.judged_by("two").error[0, 0] == 0.5
    assert run.measure == "‖wᵗ − w*‖²"
    with refused("name"):
        run.judged_by("accuracy")


def by_two(w):
    return [0.0, 1.0]


def test_sweeps_measure_and_tell_measured_from_unmeasured(tmp_path):
    parts, given = (PROBLEM, SIAG(), Cyclic(), Constant(0.01)), {"iterations": 40, "folder": tmp_path}
    found = siag.sweep(*parts, objective=True, **given)
    assert found.runs[0].objective is not None
    assert "least_stationarity" in found.table()
    assert siag.sweep(*parts, **given).runs[0].objective is None


def test_in_the_table_of_a_sweep_what_was_not_measured_of_a_run_is_nan():
    table = siag.sweep([PROBLEM, BOWL], SIAG(), Cyclic(), Constant(0.01), iterations=40).table()
    assert len({len(values) for values in table.values()}) == 1
    known = table["problem"] == repr(PROBLEM)
    assert np.isnan(table["stationarity"][known]).all()
    assert table["stationarity"][~known].tolist() == table["error"][~known].tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("activity", [Cyclic(), Clock(Exponential(1.0))], ids=["schedule", "clock"])
def test_of_a_large_model_few_results_are_kept_at_a_time(activity):
    """The same as of results that are all kept, for a metric of the user's own."""
    d = ROOM // 3
    problem = Anywhere(np.ones((2, d)), np.ones(d))
    parts = problem, SIAG(), activity, Constant(0.5)
    run = siag.simulate(*parts, iterations=8, threads=1)
    assert len(run.t) > 3
    both = siag.simulate(*parts, iterations=8, threads=1, evaluate={"first": lambda w: (w[0] - 1.0) ** 2 * w.size})
    np.testing.assert_allclose(run.stationarity, both.metrics["first"], rtol=1e-9)
    assert both.stationarity.tolist() == run.stationarity.tolist()


def test_pieces_of_a_run_hold_no_more_points_than_there_is_room_for():
    t = np.array([0, 1, 2, 3, 5, 8, 13, 20])
    room = np.empty((2, 1))
    track = Track(np.zeros(1), t, np.zeros(8), np.zeros((3, 8)), np.zeros(8), np.zeros(4, int), 1.0, room)
    assert cuts(track, 0, 10) == [2, 5]
    assert cuts(track, 10, 10) == []
    assert cuts(track, 4, 0) == []
    assert cuts(track._replace(kept=np.empty((8, 1))), 0, 10) == []
    assert cuts(track._replace(kept=np.empty((0, 1))), 0, 10) == []


@pytest.mark.parametrize(("eta", "iterations"), [(10.0, 400), (3.0, 20)])
def test_a_divergence_is_seen_without_an_optimum(eta, iterations):
    """Far beyond the range of numbers, and when it has only got so far that nobody would call it a result."""
    with pytest.warns(siag.DivergenceWarning, match="1 of 1 repeats diverged"):
        run = simulate(BOWL, SIAG(), Cyclic(), Constant(eta), iterations=iterations)
    assert run.diverged[0] >= 0
    assert np.isnan(run.error[0, -1]) == (eta == 10.0)
    assert np.isfinite(run.error[0, 0])


@pytest.mark.parametrize("name", ["objective", "stationarity", "least_stationarity"])
def test_metrics_of_ones_own_have_other_names(name):
    with refused("evaluate"):
        simulate(PROBLEM, SIAG(), Cyclic(), STEP, iterations=5, evaluate={name: by_two})
    with refused("objective"):
        simulate(PROBLEM, SIAG(), Cyclic(), STEP, iterations=5, objective=1)
