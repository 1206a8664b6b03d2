"""The search for steps: alike for all, ended between worse ones."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from compared import PROBLEM

import siag
from siag.activity import Everyone, Uniform
from siag.experiments.comparison import CONTENDERS, Contender, compare
from siag.experiments.comparison.contenders import chosen
from siag.experiments.comparison.tuning import Trial
from siag.methods import SIAG, Automatic, FedAvg, Momentum
from siag.simulation.tuning import BESIDE, BEYOND, COARSE, FINE, FIRST, RUNS, SEEDS, WILD, quiet
from siag.steps import Constant, DelayAdaptive, Harmonic

pytestmark = pytest.mark.usefixtures("compiled_here")


@pytest.mark.thorough
def test_every_search_begins_alike_and_ends_between_worse_steps():
    for contender in (Contender("a", SIAG()), Contender("b", FedAvg(steps=2, size=1.0))):
        found = Trial(contender, PROBLEM, Uniform(4), 300).tune(0.25)
        etas, errors = zip(*found.tries, strict=True)
        assert etas == tuple(sorted(etas))
        assert {0.25 / COARSE**k for k in FIRST} <= set(etas)
        assert len(etas) <= len(FIRST) + BEYOND + 2 + BESIDE
        best = etas.index(found.eta)
        assert not found.edge
        assert etas[best - 1] >= found.eta / FINE * 0.999
        assert etas[best + 1] <= found.eta * FINE * 1.001
        assert errors[best] < min(errors[best - 1], errors[best + 1])


@pytest.mark.thorough
def test_the_search_finds_what_trying_all_steps_finds():
    trial = Trial(Contender("a", SIAG()), PROBLEM, Uniform(4), 300)
    found = trial.tune(0.25)
    grid = [0.25 * FINE**k for k in range(-12, 3)]
    runs = [replace(trial, seed=SEEDS).run(eta, RUNS) for eta in grid]
    ends = [run.mean[-1] if (run.diverged < 0).all() else math.inf for run in runs]
    assert found.eta == grid[int(np.argmin(ends))]


def test_a_search_looks_on_both_sides():
    trial = Trial(Contender("a", SIAG()), PROBLEM, Uniform(4), 300)
    with quiet():
        low, high = trial.tune(0.001), trial.tune(60.0)
    assert low.eta > 0.001 / COARSE ** FIRST[0]
    assert high.eta < 60.0 / COARSE ** FIRST[-1]
    assert 0.3 < low.eta / high.eta < 3.0


@pytest.mark.thorough
def test_a_step_that_leads_far_astray_before_it_converges_is_not_taken():
    trial = Trial(Contender("a", siag.methods.IAG()), PROBLEM, Everyone(), 300)
    curvature = PROBLEM.constants().L  # in all directions: steps of more than 2/L lead away until they have fallen
    with quiet():
        found = trial.tune(64.0 * 3.0 / curvature)
        astray, taken = trial.run(3.0 / curvature, 1, record=300), trial.run(found.eta, 1, record=300)
    assert astray.mean[-1] < 1e-20
    assert astray.mean.max() > 10 * WILD * astray.mean[0]
    assert dict(found.tries)[3.0 / curvature] == math.inf
    assert taken.mean[-1] < 1e-20 < taken.mean.max() <= WILD * taken.mean[0]


def test_a_comparison_in_which_all_steps_diverge_says_so_and_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare(PROBLEM, ["sIAG"], {"all": Everyone()}, iterations=300, repeats=2, eta=1e12, claims=False)
    assert all(math.isinf(error) for _, error in found.entries[0].tuned.tries)
    assert found.entries[0].remark == "2 of 2 runs diverged"


def test_a_search_that_begins_far_off_goes_on_beyond_its_first_tries_and_is_marked():
    found = Trial(Contender("a", SIAG()), PROBLEM, Uniform(4), 300).tune(1e-9)
    assert max(eta for eta, _ in found.tries) > 1e-9 * COARSE ** (BEYOND - FIRST[0])
    assert found.edge


def test_a_longer_run_keeps_its_steps():
    trial = Trial(CONTENDERS[0], PROBLEM, Uniform(4), 300)
    assert trial.run(0.01, 1, longer=4).about["step"] == trial.run(0.01, 1).about["step"]
    assert trial.run(0.01, 1, longer=4).t[-1] == 1200


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_eta_is_the_first_move_of_every_contender(contender):
    method, step = contender.tuned(0.01, 50.0)
    if isinstance(step, DelayAdaptive):
        assert step.gamma == 0.01
        return
    if isinstance(method, Automatic):  # which has nothing to be tuned
        assert (method, step) == (contender.method, method.default_step)
        return
    first = float(step.sizes(np.array([0]))[0])
    local = getattr(method, "size", None)
    steps = getattr(method, "steps", 1.0 / method.p if hasattr(method, "p") else 1)
    if isinstance(method, Momentum):  # by which a move counts so many times, the later ones included
        first /= 1.0 - method.beta
    assert first * (1.0 if local is None else local * steps) == pytest.approx(0.01)
    assert isinstance(step, Constant | Harmonic)


def test_contenders_are_found_by_name_or_class_or_given():
    assert [each.name for each in chosen(["siag", "FedBuff", "async sgd"])] == ["sIAG", "FedBuff", "async SGD"]
    own = SIAG(wait=1.0)
    assert chosen([own])[0].method is own
    assert chosen(None) == list(CONTENDERS)
    with pytest.raises(siag.BadInput, match="methods = 'LION': must be a method, or one of: sIAG"):
        chosen(["LION"])
    with pytest.raises(siag.BadInput, match="none twice"):
        chosen(["sIAG", "SIAG"])
    assert not any("," in contender.name for contender in CONTENDERS)  # the command line separates names by commas


@pytest.mark.thorough
def test_a_method_that_fits_none_of_the_usual_activities_is_shown_under_its_own():
    found = compare(PROBLEM, ["sIAG", "Scaffnew", "incremental gradient"], iterations=60, repeats=2, claims=False)
    shown = {(entry.activity, entry.contender.name) for entry in found.entries if entry.run is not None}
    assert {("everyone", "sIAG"), ("everyone", "Scaffnew"), ("in turn", "incremental gradient")} <= shown


class Unknown(siag.problems.LeastSquares):
    def constants(self):
        return siag.problems.Problem.constants(self)

    smoothness = siag.problems.Problem.smoothness


def test_a_problem_without_constants_needs_a_first_step():
    own = Unknown(PROBLEM.centers, PROBLEM.p, PROBLEM.noise)
    with pytest.raises(siag.SiagError, match="eta"):
        compare(own, ["sIAG"], {"all": Everyone()}, iterations=50)
    found = compare(own, ["sIAG"], {"all": Everyone()}, iterations=50, repeats=2, eta=0.25, claims=False)
    assert found.ran("all")
    assert "nan" not in found.markdown()


@pytest.mark.thorough
def test_what_minimises_something_else_is_marked():
    found = compare(PROBLEM, [siag.methods.PIAG(l1=0.5)], {"all": Everyone()}, iterations=60, repeats=2, claims=False)
    assert "measured from the minimiser of F" in found.entries[0].remark
