"""Weights of workers in `simulate`, `sweep`, `compare`, files and the shell."""

import json

import numpy as np
import pytest

import siag
from siag.activity import Bernoulli, Clock, Everyone, Exponential, Nonuniform, Recorded, Uniform
from siag.checks import Bowl
from siag.experiments.config import build, read
from siag.foundations.errors import SiagError, Unsuitable
from siag.methods import ADPSGD, SGD, SIAG, Averaged, Clipped, Weighted, weighted_for, weighting_of
from siag.problems import FromFunction, LeastSquares, Ridge
from siag.simulation.sweep import _mark
from siag.steps import Constant, Harmonic
from terminals import typed

N = 4
WEIGHTS = [0.5, 3.0, 1.0, 1.5]
PROBLEM = LeastSquares.random(n=N, d=3, p=2, noise=0.1, seed=3)
HEAVY = PROBLEM.weighted(WEIGHTS)
STEP = Harmonic(1.0, 50.0)
RATES = [0.9, 0.3, 0.6, 0.2]


def run(problem=PROBLEM, method=None, activity=None, step=STEP, **more):
    given = {"iterations": 60, "seed": 2, "record": 5, "compiled": False} | more
    return siag.simulate(problem, SIAG() if method is None else method, activity or Nonuniform(2, 6), step, **given)


def same(one, other):
    return np.array_equal(one.w, other.w) and np.array_equal(one.error, other.error)


def test_the_argument_is_short_for_a_weighted_problem():
    found = run(weights=WEIGHTS)
    assert same(found, run(HEAVY))
    assert np.array_equal(found.w, run(method=Weighted(SIAG(), WEIGHTS)).w)  # whose errors are from the plain optimum
    assert not np.array_equal(found.error, run(method=Weighted(SIAG(), WEIGHTS)).error)
    assert not np.array_equal(found.w, run().w)
    assert found.about["problem"].endswith("weights=[0.3333333333333333, 2.0, 0.6666666666666666, 1.0])")
    assert found.about["method"] == repr(SIAG())


@pytest.mark.parametrize("method", [SIAG(), SGD(), Averaged(SIAG()), Clipped(SIAG(), norm=1.0)], ids=repr)
def test_equal_weights_change_no_bit(method):
    plain, equal = run(method=method), run(method=method, weights=[0.3] * N)
    assert same(plain, equal)
    assert plain.about == equal.about


def test_weights_stay_within_what_is_around_a_method():
    method = weighted_for(HEAVY, Averaged(Clipped(SIAG(), norm=1.0)))
    assert isinstance(method.method.method, Weighted)
    assert weighting_of(method) is method.method.method
    assert weighted_for(HEAVY, method) is method
    assert weighted_for(PROBLEM, SIAG()) == SIAG()
    assert weighting_of(SIAG()) is None


def test_a_method_keeps_weights_of_its_own():
    own = Weighted(SIAG(), [3.0, 1.0, 1.0, 1.0])
    assert np.array_equal(run(HEAVY, own).w, run(PROBLEM, own).w)
    assert not np.array_equal(run(HEAVY, own).error, run(PROBLEM, own).error)


def test_a_run_ends_at_the_weighted_optimum():
    found = run(weights=WEIGHTS, iterations=8000, compiled=True).w[0]
    assert np.linalg.norm(found - HEAVY.optimum) < 0.2 * np.linalg.norm(HEAVY.optimum - PROBLEM.optimum)


def test_unequal_points_end_at_the_optimum_of_all_points():
    problem = Ridge.random(n=3, d=2, m=[2, 3, 40], regularization=0.1, noise=0.0, spread=2.0, seed=3)
    found = run(problem, method=siag.methods.IAG(), step=Constant(0.02), weights="points", iterations=3000)
    pooled = np.concatenate([x[:m] for x, m in zip(problem.features, problem.counts, strict=True)])[None]
    targets = np.concatenate([y[:m] for y, m in zip(problem.targets, problem.counts, strict=True)])[None]
    np.testing.assert_allclose(found.w[0], Ridge(pooled, targets, 0.1).optimum, rtol=1e-6)
    assert np.linalg.norm(found.w[0] - problem.optimum) > 0.1


def test_metrics_are_those_of_the_weighted_objective():
    found = run(weights=WEIGHTS, objective=True)
    assert found.objective[0, -1] == HEAVY.objective(found.w[0])
    assert found.stationarity[0, -1] == pytest.approx(np.square(HEAVY.full_gradient(found.w[0])).sum(), rel=1e-12)


def test_a_problem_of_the_users_own_says_its_weights():
    class Own(Bowl):
        @property
        def weights(self):
            return [3, 1, 1, 1]

        @property
        def optimum(self):
            return np.average(self.centers, axis=0, weights=self.weights)

    centers = np.arange(8.0).reshape(4, 2) ** 2
    found = run(Own(centers, np.ones(2)), step=Constant(0.2), iterations=400)
    np.testing.assert_allclose(found.w[0], np.average(centers, axis=0, weights=[3, 1, 1, 1]), rtol=1e-9)
    assert found.error[0, -1] < 1e-15
    with pytest.raises(Unsuitable, match="Own takes no weights"):
        run(Own(centers, np.ones(2)), weights=WEIGHTS)


def test_a_function_is_weighted():
    means = np.array([[1.0], [2.0], [6.0], [0.5]])
    problem = FromFunction(lambda i, w: w - means[i], n=4, d=1, exact=lambda i, w: w - means[i])
    found = run(problem, step=Constant(0.2), weights=WEIGHTS, iterations=400)
    np.testing.assert_allclose(found.w[0], np.average(means, axis=0, weights=WEIGHTS), rtol=1e-9)
    assert found.error[0, -1] < 1e-15


@pytest.mark.parametrize("activity", [Bernoulli(RATES), Recorded.of(Nonuniform(2, 9), N, 6000, seed=1)], ids=repr)
def test_counted_weights_lead_to_the_shares_of_the_reports(activity):
    found = run(activity=activity, weights="samples", iterations=6000, compiled=True)
    rates = RATES if isinstance(activity, Bernoulli) else np.bincount(activity.tape.worker)
    wanted = np.average(PROBLEM.centers, axis=0, weights=rates)
    apart = np.linalg.norm(wanted - PROBLEM.optimum)
    assert found.error[0, -1] == pytest.approx(np.square(found.w[0] - wanted).sum(), rel=1e-9)
    assert np.linalg.norm(found.w[0] - wanted) < 0.25 * apart
    assert "Weighted(" in found.about["method"]


def test_only_reports_of_the_run_are_counted():
    activity = Recorded([[0, 1, 2, 3]] * 60 + [[0]] * 500)
    assert same(run(activity=activity, method=Weighted(SIAG(), "samples")), run(activity=activity, weights="samples"))


@pytest.mark.parametrize("activity", [Nonuniform(2, 5), Clock(Exponential(1.0))], ids=repr)
def test_counted_weights_of_unknown_rates_are_refused(activity):
    with pytest.raises(Unsuitable, match=r"^weights='samples': it is not known how often workers report: .*; give num"):
        run(activity=activity, weights="samples")
    assert np.isfinite(run(activity=activity, method=Weighted(SIAG(), "samples")).error).all()


@pytest.mark.parametrize(
    ("weights", "word"),
    [
        ([1.0, -1.0, 1.0, 1.0], "0 or more"),
        ([0.0] * N, "above 0"),
        ([1.0, np.nan, 1.0, 1.0], "NaN or infinity"),
        ([1.0, 2.0], r"shape \(4\)"),
        ("sizes", "'samples'"),
        ("points", "LeastSquares has streams"),
    ],
    ids=str,
)
def test_bad_weights_are_refused_in_one_line(weights, word):
    for call in (
        lambda: run(weights=weights),
        lambda: siag.sweep(PROBLEM, SIAG(), Uniform(3), STEP, iterations=5, weights=weights),
    ):
        with pytest.raises(SiagError, match=rf"weights = .*{word}") as refused:
            call()
        assert "\n" not in str(refused.value)


def test_methods_that_cannot_weigh_say_so():
    with pytest.raises(Unsuitable, match="Weighted cannot follow ADPSGD"):
        run(HEAVY, ADPSGD(), Clock(Exponential(1.0)), Constant(0.1))
    with pytest.raises(Unsuitable, match="keeps no table"):
        run(method=SGD(), activity=Everyone(), weights="samples")


def test_a_sweep_takes_weights_and_keeps_them_apart(tmp_path):
    given = {"iterations": 20, "record": 3, "folder": tmp_path}
    plain = siag.sweep(PROBLEM, [SIAG(), SIAG(wait=1.0)], Bernoulli(RATES), STEP, **given)
    heavy = siag.sweep(PROBLEM, [SIAG(), SIAG(wait=1.0)], Bernoulli(RATES), STEP, weights=WEIGHTS, **given)
    assert len(list(tmp_path.glob("*.npz"))) == 4
    for k, method in enumerate((SIAG(), SIAG(wait=1.0))):
        assert not np.array_equal(plain.runs[k].w, heavy.runs[k].w)
        alone = siag.simulate(HEAVY, method, Bernoulli(RATES), STEP, iterations=20, record=3)
        assert same(heavy.runs[k], alone)
    assert set(heavy.table()["method.wait"]) == {0.0, 1.0}
    counted = siag.sweep(PROBLEM, SIAG(), Bernoulli(RATES), STEP, weights="samples", **given)
    alone = siag.simulate(PROBLEM, SIAG(), Bernoulli(RATES), STEP, iterations=20, record=3, weights="samples")
    assert same(counted.runs[0], alone)


def test_parts_that_differ_in_weights_are_told_apart():
    many = LeastSquares(np.ones((500, 1)), 1, 0.1)
    first, second = np.ones(500), np.ones(500)
    first[400], second[401] = 2.0, 2.0
    assert _mark(many.weighted(first)) != _mark(many.weighted(second))
    assert _mark(Averaged(Weighted(SIAG(), first))) != _mark(Averaged(Weighted(SIAG(), second)))
    assert _mark(many.weighted(first)) == _mark(many.weighted(first))


@pytest.mark.thorough
def test_a_search_for_a_step_is_made_with_the_weights():
    parts = SIAG(), Bernoulli(RATES), siag.Tuned()
    one, other = (
        siag.sweep(problem, *parts, iterations=100, record=3, weights=weights)
        for problem, weights in ((HEAVY, None), (PROBLEM, WEIGHTS))
    )
    assert one.steps == other.steps
    assert same(one.runs[0], other.runs[0])


@pytest.mark.thorough
def test_a_comparison_takes_weights():
    given = {"iterations": 200, "repeats": 2, "claims": False}
    found = siag.compare(PROBLEM, ["sIAG", "FedAsync"], {"u": Uniform(3)}, weights=WEIGHTS, **given)
    assert np.array_equal(found.problem.optimum, HEAVY.optimum)
    siag_entry, fedasync = found.entries
    assert siag_entry.run.about["problem"] == repr(HEAVY)
    assert "Weighted cannot follow FedAsync" in fedasync.reason


@pytest.mark.parametrize(
    ("weights", "word"),
    [("samples", "every activity has another optimum"), ([1.0], "shape"), ("points", "LeastSquares has streams")],
)
def test_a_comparison_refuses_bad_weights(weights, word):
    with pytest.raises(SiagError, match=rf"^weights = .*{word}"):
        siag.compare(PROBLEM, ["sIAG"], {"u": Uniform(3)}, weights=weights)


TABLES = {
    "problem": {"kind": "LeastSquares", "n": N, "d": 3, "p": 2, "noise": 0.1, "seed": 3},
    "method": {"kind": "SIAG"},
    "activity": {"kind": "Bernoulli", "rates": RATES},
    "step": {"kind": "Harmonic", "beta": 1.0, "gamma": 50.0},
    "run": {"iterations": 20, "record": 3},
}


def tables(role, **more):
    return TABLES | {role: TABLES[role] | more}


def test_files_have_weights_in_the_problem_and_in_the_run():
    expected = siag.simulate(HEAVY, SIAG(), Bernoulli(RATES), STEP, iterations=20, record=3)
    for role in ("problem", "run"):
        experiment = build(tables(role, weights=WEIGHTS))
        assert experiment.single
        assert same(experiment.run(), expected)
    counted = build(tables("run", weights="samples")).run()
    assert same(counted, run(activity=Bernoulli(RATES), iterations=20, record=3, seed=0, weights="samples"))


def test_files_have_weights_by_points(tmp_path):
    path = tmp_path / "e.toml"
    text = 'problem = "Ridge.random(n=3, d=2, m=[2, 3, 9], seed=1)"\nmethod = "SIAG"\nactivity = "Uniform(3)"\n'
    path.write_text(text + 'step = "Constant(0.01)"\n[run]\niterations = 5\nweights = "points"\n')
    printed = read(path).run().about["problem"]
    assert "m=[2, 3, 9]" in printed
    np.testing.assert_allclose(json.loads(printed[printed.index("weights=") + 8 : -1]), [6 / 14, 9 / 14, 27 / 14])


@pytest.mark.parametrize(
    ("role", "weights", "word"),
    [
        ("run", [1.0, -1.0, 1.0, 1.0], r"^run\.weights = .*0 or more"),
        ("run", "sizes", r"^run\.weights = 'sizes': must be one of 'points', 'samples'"),
        ("run", 3, r"^run\.weights = 3: "),
        ("run", [1.0, 2.0], r"^weights = .*shape \(4\)"),
        ("problem", [0.0] * N, r"^problem\.weights = .*above 0"),
        ("problem", "sizes", r"^problem\.weights = 'sizes': must be numbers"),
    ],
)
def test_bad_weights_in_files_are_refused(role, weights, word):
    with pytest.raises(SiagError, match=word):
        build(tables(role, weights=weights))


@pytest.fixture
def compared(monkeypatch, capsys, tmp_path):
    """What `siag compare` says of a tiny comparison."""
    problem = "LeastSquares.random(n=4, d=3, p=2, noise=0.1, seed=3)"
    sizes = ["--iterations", "20", "--repeats", "2", "--no-claims", "--out", tmp_path / "out", "--json"]
    names = ["--problem", problem, "--methods", "sIAG", "--activities", "everyone"]
    return lambda *more: typed(monkeypatch, capsys, "compare", *names, *sizes, *more)


@pytest.mark.thorough
def test_the_shell_takes_weights(compared):
    rows = [
        json.loads(compared(*more).stdout)["rows"][0]
        for more in (["--weights", "0.5,3,1,1.5"], ["--weights", "1,1,1,1"], [])
    ]
    assert rows[0]["iterations"] != rows[2]["iterations"]
    assert rows[1] == rows[2]


@pytest.mark.parametrize(
    ("text", "word"),
    [("1,2", "shape (4)"), ("1,x", "numbers between commas"), ("sizes", "must be numbers"), ("1,-1,1,1", "0 or more")],
)
def test_the_shell_refuses_bad_weights(compared, text, word):
    result = compared("--weights", text)
    assert result.returncode == 2
    assert result.stderr.startswith("siag: weights = ")
    assert word in result.stderr
    assert len(result.stderr.splitlines()) == 1
