"""Steps that a sweep finds: by the rule of comparisons, the same again, and kept."""

import numpy as np
import pytest

import siag
from siag.activity import Uniform
from siag.experiments.comparison import Contender
from siag.experiments.comparison.tuning import Trial
from siag.methods import SGD, SIAG, Automatic, FedAvg
from siag.simulation.simulate import Job
from siag.simulation.sweep import SEARCH
from siag.simulation.tuning import FIRST, SEEDS

PROBLEM = siag.problems.LeastSquares.random(n=4, d=3, p=2, noise=0.1, seed=4)
SIZE = {"iterations": 120, "repeats": 2, "seed": 4, "record": 5}
LOCAL = FedAvg(steps=2, size=1.0)


@pytest.fixture
def seeds(monkeypatch):
    """The seeds of all repeats that are run."""
    seen, real = [], Job.repeat

    def counted(self, repeat, t, watch):
        seen.append(self.seed)
        return real(self, repeat, t, watch)

    monkeypatch.setattr(Job, "repeat", counted)
    return seen


def found(*methods, **options):
    return siag.sweep(PROBLEM, list(methods), Uniform(3), siag.Tuned(), **(SIZE | options))


@pytest.mark.thorough
def test_it_is_the_step_that_a_comparison_finds_and_other_samples_than_those_of_the_run(seeds):
    result = found(SIAG(), LOCAL)
    own, tries = seeds.count(4), seeds.count(4 + SEEDS)
    assert own == 2 * SIZE["repeats"]
    assert tries == len(seeds) - own >= 2 * (len(FIRST) + 3 * 2)
    for run, row, method in zip(result.runs, result.parameters, (SIAG(), LOCAL), strict=True):
        eta = Trial(Contender("x", method), PROBLEM, Uniform(3), 120, seed=4).tune(0.5).eta
        assert row["tuned.eta"] == eta
        tuned, step = method.tuned(eta, 12.0)
        alone = siag.simulate(PROBLEM, tuned, Uniform(3), step, **SIZE)
        assert np.array_equal(run.error, alone.error)
        assert run.about == alone.about


def test_the_step_found_is_in_the_table():
    result = found(SIAG())
    table = result.table()
    eta = result.parameters[0]["tuned.eta"]
    assert set(table["step"]) == {repr(siag.steps.Harmonic(beta=12 * eta, gamma=12.0))}
    assert set(table["step.beta"]) == {12 * eta}
    assert set(table["tuned.edge"]) <= {False, True}
    assert result.labels[0]["step"] == "Tuned"


@pytest.mark.thorough
def test_a_step_is_found_beside_others_and_not_for_methods_that_find_theirs():
    constant = siag.steps.Constant(0.01)
    result = siag.sweep(PROBLEM, [SIAG(), Automatic()], Uniform(3), [siag.Tuned(), constant], **SIZE)
    assert [step.partition("(")[0] for step in result.steps] == ["Harmonic", "Constant", "its own"]
    assert result.runs[0].mean[-1] < result.runs[1].mean[-1]
    assert found(Automatic()).steps == ["its own"]


def test_the_rest_of_the_grid_does_not_change_what_is_found():
    assert found(SIAG()).parameters[0] == found(SGD(), SIAG(), threads=1).parameters[1]


def test_what_was_found_is_kept_and_searched_for_again_if_anything_changes(tmp_path, seeds):
    first = found(SIAG(), folder=tmp_path)
    seeds.clear()
    again = found(SIAG(), folder=tmp_path)
    assert seeds == []
    assert np.array_equal(first.runs[0].error, again.runs[0].error)
    assert first.parameters == again.parameters
    found(SIAG(), folder=tmp_path, repeats=3)
    assert set(seeds) == {4}  # more runs with the same step
    seeds.clear()
    found(SIAG(), folder=tmp_path, seed=5)
    assert 5 + SEEDS in seeds
    for path in tmp_path.glob("*.json"):
        path.write_text("{")  # damaged
    seeds.clear()
    assert found(SIAG(), folder=tmp_path).parameters == first.parameters
    assert 4 + SEEDS in seeds


def test_one_bar_for_the_search_and_the_runs():
    seen = []
    found(SIAG(), SGD(), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert any(value < SEARCH for value in seen)


class Unknown(siag.problems.LeastSquares):
    def constants(self):
        return siag.problems.Problem.constants(self)

    smoothness = siag.problems.Problem.smoothness


def test_a_problem_that_does_not_know_its_constants_needs_something_to_begin_from():
    own = Unknown(PROBLEM.centers, PROBLEM.p, PROBLEM.noise)
    with pytest.raises(siag.Unsuitable, match=r"× Tuned\(eta=None\): eta is missing; Unknown does not know its L"):
        siag.sweep(own, SIAG(), Uniform(3), siag.Tuned(), **SIZE)
    result = siag.sweep(own, SIAG(), Uniform(3), siag.Tuned(eta=0.5), **SIZE)
    assert result.parameters[0]["tuned.eta"] == found(SIAG()).parameters[0]["tuned.eta"]


@pytest.mark.parametrize("eta", [0.0, -1.0, float("nan"), "large"])
def test_a_beginning_that_is_no_step_is_refused(eta):
    with pytest.raises(siag.BadInput, match="eta = "):
        siag.Tuned(eta=eta)


def test_simulate_has_no_search():
    with pytest.raises(siag.SiagError, match=r"step = Tuned\(eta=None\) is not a Step"):
        siag.simulate(PROBLEM, SIAG(), Uniform(3), siag.Tuned(), iterations=10)
