"""A user's own metrics, in simulations, sweeps, comparisons and live runs."""

import numpy as np
import pytest

import siag
from siag.activity import Clock, Cyclic, Exponential, Uniform
from siag.methods import SIAG, Automatic
from siag.problems import LeastSquares, Ridge
from siag.steps import Constant, Harmonic

PROBLEM = Ridge.random(n=5, d=3, m=10, regularization=0.1)


def distance(w):
    return float(np.square(w - PROBLEM.optimum).sum())


def by_worker(w):
    return [float(np.linalg.norm(PROBLEM.gradient(i, w))) for i in range(PROBLEM.n)]


@pytest.mark.few(2)
@pytest.mark.parametrize("activity", [Uniform(3), Clock(Exponential(1.0))])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_metric_is_measured_at_the_recorded_points(activity, compiled):
    """The squared distance as a metric is the error that the run records itself."""
    step = Harmonic(1.0, 50.0)
    given = {"iterations": 60, "repeats": 2, "compiled": compiled}
    run = siag.simulate(PROBLEM, SIAG(), activity, step, evaluate={"d": distance, "each": by_worker}, **given)
    assert run.metrics["d"] == pytest.approx(run.error, rel=1e-12)
    assert run.metrics["each"].shape == (2, len(run.t), PROBLEM.n)
    alone = siag.simulate(PROBLEM, SIAG(), activity, step, **given)
    assert np.array_equal(run.error, alone.error)
    assert alone.metrics == {}


@pytest.mark.thorough
def test_metrics_are_saved_and_stand_in_the_table(tmp_path):
    run = siag.simulate(
        PROBLEM, Automatic(), Cyclic(), iterations=50, repeats=2, evaluate={"d": distance, "e": by_worker}
    )
    run.save(tmp_path / "run.npz")
    again = siag.load(tmp_path / "run.npz")
    assert {name: values.tolist() for name, values in again.metrics.items()} == {
        name: values.tolist() for name, values in run.metrics.items()
    }
    assert run.table()["d"] == pytest.approx(run.mean, rel=1e-12)
    assert run.table()["e"].shape == run.t.shape


def test_points_after_a_divergence_are_nan():
    problem = LeastSquares.random(n=3, d=2, p=4, noise=0.1)
    with pytest.warns(siag.DivergenceWarning):
        run = siag.simulate(problem, SIAG(), Cyclic(), Constant(10.0), iterations=300, evaluate={"sum": np.sum})
    assert np.isnan(run.error[0, -1])
    assert np.array_equal(np.isnan(run.metrics["sum"]), np.isnan(run.error))


def test_sweeps_have_them_and_keep_them(tmp_path):
    given = {"iterations": 40, "folder": tmp_path, "evaluate": {"d": distance}}
    first, second = (siag.sweep(PROBLEM, [SIAG(), SIAG(wait=1.0)], Cyclic(), Constant(0.01), **given) for _ in range(2))
    assert first.table()["d"].tolist() == second.table()["d"].tolist() == pytest.approx(first.table()["error"].tolist())
    third = siag.sweep(PROBLEM, [SIAG()], Cyclic(), Constant(0.01), iterations=40, folder=tmp_path)
    assert third.runs[0].metrics == {}


def test_comparisons_have_them_in_table_and_page():
    activities = {"uniform": Uniform(3)}
    found = siag.compare(
        PROBLEM, ["sIAG", "SGD"], activities, iterations=60, repeats=2, claims=False, evaluate={"far": distance}
    )
    assert [value > 0 for value in found.table()["far"]] == [True, True]
    assert "| far |" in found.markdown()
    assert "far" in found.curves()


def test_live_runs_have_them_beside_the_loss():
    streams = [[np.full(2, 1.0)] * 5, [np.full(2, 3.0)] * 5]

    def gradient(w, x):
        return 0.5 * float(((w - x) ** 2).sum()), w - x

    run = siag.train(
        gradient,
        streams,
        np.zeros(2),
        loss=lambda w: float(w[0]),
        evaluate={"second": lambda w: w[1], "both": lambda w: w},
        until=2000,
        runtime=siag.Simulated(),
    )
    assert run.metrics["second"] == pytest.approx(run.error)
    assert run.metrics["both"].shape == (1, len(run.t), 2)
    assert run.metrics["progressive loss"][0, -1] == pytest.approx(1.0, rel=0.2)  # both are √2 away from (2, 2)
    assert [worker["name"] for worker in run.workers] == ["0", "1"]
    assert sum(worker["reports"] for worker in run.workers) == 2000
    assert all(worker["loss"] == pytest.approx(1.0, rel=0.2) for worker in run.workers)


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ([distance], r"^evaluate = .*must be functions of w by name; write evaluate="),
        ({"d": 3}, r"^evaluate = .*must be functions of w by name"),
        ({"progressive loss": distance}, r"^evaluate = 'progressive loss': must be another name"),
        ({"d": lambda w: "high"}, r"^evaluate\['d'\] returned 'high'; it must return a number, or one for each worker"),
        ({"d": lambda w: np.zeros((2, 2))}, r"^evaluate\['d'\] returned .*; it must return a number"),
    ],
)
def test_what_is_no_metric_is_refused(evaluate, message):
    with pytest.raises(siag.SiagError, match=message):
        siag.simulate(PROBLEM, Automatic(), Cyclic(), iterations=5, evaluate=evaluate)
    with pytest.raises(siag.SiagError, match=message):
        siag.train(lambda w, x: w - x, [[1.0]], np.zeros(2), evaluate=evaluate, until=5, runtime=siag.Simulated())


def test_a_run_shows_itself_in_a_few_lines():
    run = siag.simulate(PROBLEM, SIAG(), Cyclic(), Constant(0.1), iterations=500, repeats=2, evaluate={"d": distance})
    lines = repr(run).splitlines()
    assert len(lines) < 12
    assert "  method: SIAG(resum=64, wait=0.0, rows='float64', average=1)" in lines
    assert f"  d: {run.metrics['d'][:, -1].mean():.4g}" in lines
    assert f"  ‖wᵗ − w*‖²: {run.mean[-1]:.4g}, from {run.mean[0]:.4g}" in lines


def test_a_run_that_left_the_range_of_numbers_says_so():
    with pytest.warns(siag.foundations.errors.DivergenceWarning):
        run = siag.simulate(PROBLEM, SIAG(), Cyclic(), Constant(1e9), iterations=500)
    assert "  diverged: 1 of 1" in repr(run).splitlines()
