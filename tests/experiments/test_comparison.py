"""Comparisons: the same rule, budgets and random numbers for all; what cannot run is said, not run."""

import csv
import html
import importlib
import io
import itertools
import json
import math
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.activity import Clock, EveryArrivals, Everyone, Exponential, Nonuniform, Recorded, Sequential, Uniform
from siag.cli import siag as group
from siag.experiments.claims import CLAIMS, claims_of, verdict
from siag.experiments.comparison import CONTENDERS, Contender, compare, contest
from siag.experiments.comparison import warm as warming
from siag.experiments.comparison.chapter import Offset, methods, unbiased
from siag.experiments.comparison.contenders import chosen
from siag.experiments.comparison.contest import _once, activities_of
from siag.experiments.comparison.figures import _apart
from siag.experiments.comparison.result import bias, memory
from siag.experiments.comparison.tuning import BESIDE, BEYOND, COARSE, FINE, FIRST, RUNS, SEEDS, Trial, quiet
from siag.experiments.comparison.warm import _delegate, warm
from siag.experiments.setting import Scale
from siag.methods import LAG, PIAG, SCAFFOLD, SIAG, FedAvg, Method
from siag.report import Claim, files
from siag.steps import Constant, DelayAdaptive, Harmonic

PROBLEM = siag.problems.LeastSquares.random(n=8, d=3, p=4, noise=0.1)
CLOCK = Clock(compute=Exponential(1.0), slowness=list(range(1, 9)), server=EveryArrivals(1))


@pytest.fixture(scope="module", autouse=True)
def _compiled_here():
    """Machine code is made in this process, which may have some of it; tests of `warm` itself start others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contest, "warm", lambda work: 0)
        yield


@pytest.fixture(scope="module")
def found():
    names = ["sIAG", "SGD", "FedAvg", "SAG", "IAG"]
    activities = {"uneven": Nonuniform(2, 12), "clock": CLOCK}
    return siag.compare(PROBLEM, names, activities, iterations=600, repeats=12, claims=False)


@pytest.fixture(scope="module")
def written(found, tmp_path_factory):
    """The folder, and the page in it."""
    folder = tmp_path_factory.mktemp("comparison")
    return folder, found.write(folder)


def row_of(found, activity, method):
    return next(found.row(e) for e in found.entries if (e.activity, e.contender.name) == (activity, method))


def test_every_method_meets_every_activity_or_says_why_not(found):
    assert len(found.entries) == 10
    able = {entry.contender.name for entry in found.entries if entry.run is not None}
    assert able == {"sIAG", "SGD", "FedAvg", "IAG"}
    sag = [entry for entry in found.entries if entry.contender.name == "SAG"]
    assert all(entry.reason.startswith("SAG ") and "use " in entry.reason for entry in sag)
    assert math.isnan(row_of(found, "clock", "SAG")["iterations"])


def test_budgets_are_what_everybody_had(found):
    for activity in found.activities:
        budget = found.budgets[activity]
        for entry in found.ran(activity):
            assert entry.run.t[-1] == budget["iterations"]
            assert entry.run.samples[:, -1].mean() >= budget["samples"]
            assert entry.run.bytes[:, -1].mean() >= budget["bytes"]
            row = found.row(entry)
            assert math.isnan(row["samples"]) == (entry.contender.name == "IAG")  # an exact gradient is no sample
            assert math.isnan(row["time"]) == (activity != "clock")
    plain = row_of(found, "uneven", "sIAG")
    assert plain["samples"] == plain["iterations"]
    fedavg = next(entry for entry in found.ran("uneven") if entry.contender.name == "FedAvg")
    within = fedavg.run.t[fedavg.along("samples") <= found.budgets["uneven"]["samples"]]
    assert 100 <= within[-1] <= 120  # five gradients a report: a fifth of the way
    assert found.row(fedavg)["samples"] == fedavg.run.mean[len(within) - 1]


def test_sgd_has_a_bias_where_workers_differ_and_siag_has_none(found):
    for activity in found.activities:
        siag_, sgd = row_of(found, activity, "sIAG"), row_of(found, activity, "SGD")
        assert sgd["bias"] > 2 * sgd["bias_error"]  # four standard errors
        assert siag_["bias"] < 0.2 * sgd["bias"]


def test_all_repeats_see_one_draw_of_who_reports_when(found):
    entry = found.ran("uneven")[0]
    assert (entry.run.samples == entry.run.samples[0]).all()


def test_the_table_curves_and_page_are_written(found, written):
    folder, page = written
    assert {file.name for file in folder.iterdir()} == {
        *("compare.html", "compare.md", "compare.csv", "compare.png", "compare.svg"),
        *("curves.csv", "curves.png", "curves.svg"),
    }
    with open(folder / "compare.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == [entry.contender.name for entry in found.entries]
    assert float(rows[0]["iterations"]) == row_of(found, "uneven", "sIAG")["iterations"]
    text = page.read_text()
    assert "Methods compared" in text
    assert "paper claims, and what was measured" not in text
    assert found.rule.split(".")[0] in text
    markdown = (folder / "compare.md").read_text()
    assert markdown.count("| sIAG |") == 2
    assert "\n- SAG: SAG " in markdown


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
    first = float(step.sizes(np.array([0]))[0])
    local = getattr(method, "size", None)
    steps = getattr(method, "steps", 1.0 / method.p if hasattr(method, "p") else 1)
    assert first * (1.0 if local is None else local * steps) == pytest.approx(0.01)
    assert isinstance(step, Constant | Harmonic)


def test_contenders_are_found_by_name_or_class_or_given():
    assert [each.name for each in chosen(["siag", "FedBuff", "async sgd"])] == ["sIAG", "FedBuff", "async SGD"]
    own = SIAG(wait=1.0)
    assert chosen([own])[0].method is own
    assert chosen(None) == list(CONTENDERS)
    with pytest.raises(siag.BadInput, match="methods = 'ADAM': must be a method, or one of: sIAG"):
        chosen(["ADAM"])
    with pytest.raises(siag.BadInput, match="none twice"):
        chosen(["sIAG", "SIAG"])
    assert not any("," in contender.name for contender in CONTENDERS)  # the command line separates names by commas


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"problem": 3}, "problem = 3"),
        ({"iterations": 0}, "iterations = 0"),
        ({"repeats": 1}, "repeats = 1"),
        ({"activities": {"x": 3}}, "activities = "),
        ({"activities": {}}, "activities = "),
        ({"activities": [Uniform(3)]}, "activities = "),
        ({"activities": Uniform(3)}, "activities = "),
        ({"methods": []}, "methods = "),
        ({"eta": -1.0}, "eta = -1.0"),
    ],
)
def test_bad_input_is_refused_before_any_work(given, why):
    with pytest.raises(siag.BadInput, match=why):
        compare(**{"problem": PROBLEM, "iterations": 100, **given})


def test_the_defaults_are_the_papers_two_and_a_clock():
    found = activities_of(PROBLEM)
    assert [type(activity) for activity in found.values()] == [Uniform, Nonuniform, Clock]
    assert activities_of(siag.problems.LeastSquares.random(n=1, d=2, p=1, noise=0.1))["clock"].slowness == (1.0,)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32), st.floats(0.0, 3.0))
def test_the_estimate_of_the_bias_is_unbiased_and_its_error_bar_right(seed, shift):
    # False alarms: the mean of 400 estimates beyond 6 of its standard errors, 2e-9 for each example.
    rng = np.random.default_rng(seed)
    optimum = rng.random(5)
    estimates = np.array(
        [bias(optimum + shift / math.sqrt(5) + rng.standard_normal((8, 5)), optimum)[0] for _ in range(400)]
    )
    assert abs(estimates.mean() - shift**2) < 6 * estimates.std() / 20


def test_the_error_bar_of_the_bias_covers_it():
    rng, hits = np.random.default_rng(1), 0
    for _ in range(500):
        estimate, twice = bias(2.0 + rng.standard_normal((12, 4)), np.zeros(4))
        hits += abs(estimate - 16.0) <= twice
    assert hits > 430  # of 500; about 95 % are covered, so fewer by chance has a probability below 1e-6


def test_memory_is_that_of_the_arrays_each_counted_once():
    n, d = PROBLEM.n, PROBLEM.d
    server, worker = memory(Contender("x", SIAG()), PROBLEM)
    assert server == 8 * (d + n * d + d + 2) + n
    assert worker == 0
    for square in (PROBLEM, siag.problems.LeastSquares.random(n=3, d=3, p=4, noise=0.1)):  # n = d must not matter
        _, worker = memory(Contender("x", SCAFFOLD(steps=2, size=0.1)), square)
        assert worker == 8 * 5 * d
    assert memory(Contender("x", LAG()), PROBLEM)[1] < 8 * (2 * d + 4)
    adaptive = Contender("x", SIAG(), step=lambda eta: DelayAdaptive(eta, horizon=1000))
    assert memory(adaptive, PROBLEM)[0] > 8 * 1000  # the step's memory is the server's


@given(st.lists(st.floats(0.0, 1.0), max_size=15))
def test_labels_are_kept_apart_in_order_and_inside(wanted):
    places = _apart(sorted(wanted), 0.05)
    assert all(b - a > 0.05 - 1e-9 for a, b in itertools.pairwise(places))
    assert all(place <= 1.0 for place in places)


class Opaque(siag.problems.LeastSquares):
    """Cannot be sent to another process."""

    def __reduce__(self):
        raise TypeError("no")


def test_what_cannot_be_sent_is_compiled_here():
    own = Opaque(PROBLEM.centers, PROBLEM.p, PROBLEM.noise)
    assert _delegate([Trial(CONTENDERS[0], own, Everyone(), 1)], 1) == 0
    found = compare(own, ["sIAG"], {"all": Everyone()}, iterations=50, repeats=2, claims=False)
    assert found.ran("all")


def test_processes_are_started_only_if_machine_code_is_missing(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(warming, "_delegate", lambda work, processes: given.append(list(work)) or len(work))
    known = Trial(CONTENDERS[0], PROBLEM, Uniform(4), 1)
    warm([known])  # it may have to be made, once
    given.clear()
    assert warm([known, known]) == 0
    assert given == []
    (tmp_path / "own_to_warm.py").write_text(NEW)
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh = Trial(Contender("new", importlib.import_module("own_to_warm").New()), PROBLEM, Uniform(4), 1)
    assert warm([known, fresh, known, "SIAG"]) == 2
    assert given == [[known, "SIAG"]]


NEW = """
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np
from siag.methods import SGD, Method, advance, receive

class Last(NamedTuple):
    w: np.ndarray
    latest: np.ndarray

Last.__module__ = "__main__"  # so that its machine code is not kept

@dataclass(frozen=True, kw_only=True)
class New(SGD):
    def init(self, w0, n):
        return Last(w0.copy(), np.zeros(w0.size))

@receive.when(Last)
def keep(state, i, message, age):
    for j in range(message.size):
        state.latest[j] = message[j]

@advance.when(Last)
def move(state, eta):
    for j in range(state.w.size):
        state.w[j] -= eta * state.latest[j]
"""


def test_other_processes_do_all_work_given_and_survive_what_fails():
    given, answers = io.BytesIO(), io.BytesIO()
    bad = Trial(CONTENDERS[0], PROBLEM, Recorded.of(Uniform(3), PROBLEM.n + 1, 5, seed=0), 1)
    for piece in (bad, Trial(CONTENDERS[0], PROBLEM, Uniform(4), 1)):
        given.write(warming.packed(piece))
    given.seek(0)
    warming.main(given, answers)
    assert answers.getvalue() == b".."
    assert _delegate([Trial(CONTENDERS[0], PROBLEM, Uniform(4), 1)] * 3, 2) == 3


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_every_contender_can_be_sent_to_another_process(contender):
    assert pickle.loads(warming.packed(Trial(contender, PROBLEM, CLOCK, 1))).contender == contender


def test_what_other_processes_compile_is_what_is_needed_here():
    sent = Trial(CONTENDERS[0], PROBLEM, Recorded.of(Uniform(3), PROBLEM.n, 5, seed=0), 1)
    received = pickle.loads(warming.packed(sent))
    assert numba.typeof(received.problem.oracle()) == numba.typeof(sent.problem.oracle())
    assert numba.typeof(received.problem.oracle()) != numba.typeof(pickle.loads(pickle.dumps(PROBLEM)).oracle())


def test_methods_that_share_machine_code_are_warmed_once():
    def trials(*names):
        return [Trial(who, PROBLEM, CLOCK, 1) for who in chosen(names)]

    assert len(_once(trials("sIAG", "DuDe-ASGD", "ACE", "FedAvg", "FedProx"))) == 2
    assert len(_once(trials("sIAG", "SGD", "FedAvg", "FedBuff", "delay-adaptive sIAG"))) == 5


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_a_report_takes_time_on_a_clock(contender):
    assert contender.work(PROBLEM.n) >= 1


def test_the_column_of_claims_is_left_out_where_none_were_tested(found):
    assert "| claims |" not in found.markdown()
    assert "| claims |" in replace(found, claims={"sIAG": "reaches (1 of 1)"}).markdown()


@pytest.mark.parametrize(
    ("siag_", "sgd", "holds"),
    [((0.01, 1.0), (0.9, 1.0), True), ((0.2, 1.0), (0.9, 1.0), False), ((0.01, 1.0), (0.3, 1.0), False)],
)
def test_the_reports_claim_can_fail(siag_, sgd, holds):
    assert unbiased(Offset(*siag_), Offset(*sgd)).holds == holds


def test_the_reports_chapter_shows_what_fades_and_what_stays():
    chapter = methods(Scale(repeats=6, seed=3, methods=("sIAG", "SGD")), lambda: None)
    assert [claim.holds for claim in chapter.claims] == [True]
    assert set(chapter.tables["methods"]["activity"]) == {"non-uniform", "clock"}


def test_verdicts_are_counted_from_claims():
    yes, no = (Claim("", "", "", "", holds) for holds in (True, False))
    assert [verdict(claims) for claims in ([], [yes], [yes, no], [no])] == [
        "",
        "reaches (1 of 1)",
        "partly (1 of 2)",
        "not (0 of 1)",
    ]
    assert claims_of("SGD") == ()


def test_every_contender_but_sgd_has_claims_and_every_method_is_a_contender_or_a_part():
    papers = {contender.paper or type(contender.method).__name__ for contender in CONTENDERS}
    assert papers - set(CLAIMS) == {"none"}
    assert set(CLAIMS) - papers == {"PIAG", "Averaged"}
    kinds = {kind for kind in vars(siag.methods).values() if isinstance(kind, type) and issubclass(kind, Method)}
    assert {kind.__name__ for kind in kinds} - {type(each.method).__name__ for each in CONTENDERS} == {
        *("Method", "PIAG", "Prox", "Averaged"),
    }


def test_the_verdict_is_shown(tmp_path):
    found = compare(PROBLEM, ["SAG", "SAGA"], {"one": Sequential()}, iterations=200, repeats=2)
    assert [row_of(found, "one", name)["claims"] for name in ("SAG", "SAGA")] == [
        verdict(claims_of("SAG")),
        verdict(claims_of("SAGA")),
    ]
    assert json.dumps(found.claims)


def test_a_recorded_activity_is_left_as_it_is():
    tape = Recorded.of(Uniform(3), PROBLEM.n, 60, seed=2)
    found = compare(PROBLEM, ["sIAG"], {"tape": tape}, iterations=60, repeats=2, claims=False)
    assert found.ran("tape")[0].run.samples[0, -1] == tape.tape.start[60]


def test_local_steps_take_their_time_on_a_clock(found):
    plain, local = (next(e for e in found.ran("clock") if e.contender.name == name) for name in ("sIAG", "FedAvg"))
    assert local.run.time[:, -1].mean() == pytest.approx(5 * plain.run.time[:, -1].mean(), rel=0.1)


def test_a_recorded_activity_that_is_too_short_is_listed_with_the_reason():
    short = Recorded.of(Uniform(3), PROBLEM.n, 20, seed=2)
    found = compare(PROBLEM, ["sIAG"], {"short": short, "all": Everyone()}, iterations=50, repeats=2, claims=False)
    assert [bool(entry.reason) for entry in found.entries] == [True, False]
    assert "at most the trace's 20" in found.entries[0].reason


def test_a_method_that_fits_none_of_the_usual_activities_is_shown_under_its_own():
    found = compare(PROBLEM, ["sIAG", "Scaffnew", "incremental gradient"], iterations=60, repeats=2, claims=False)
    shown = {(entry.activity, entry.contender.name) for entry in found.entries if entry.run is not None}
    assert {("everyone", "sIAG"), ("everyone", "Scaffnew"), ("in turn", "incremental gradient")} <= shown


class Unknown(siag.problems.LeastSquares):
    def constants(self):
        return siag.problems.Problem.constants(self)


def test_a_problem_without_constants_needs_a_first_step():
    own = Unknown(PROBLEM.centers, PROBLEM.p, PROBLEM.noise)
    with pytest.raises(siag.SiagError, match="eta"):
        compare(own, ["sIAG"], {"all": Everyone()}, iterations=50)
    found = compare(own, ["sIAG"], {"all": Everyone()}, iterations=50, repeats=2, eta=0.25, claims=False)
    assert found.ran("all")
    assert "nan" not in found.markdown()


def test_what_minimises_something_else_is_marked():
    found = compare(PROBLEM, [siag.methods.PIAG(l1=0.5)], {"all": Everyone()}, iterations=60, repeats=2, claims=False)
    assert "measured from the minimiser of F" in found.entries[0].remark


def cli(*words):
    """What the command prints; its pictures, which `written` has drawn, are left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write_figure", lambda folder, name, figure: "data:,")
        result = CliRunner().invoke(group, ["compare", "--no-claims", "--iterations", "60", "--n", "4", *words])
    if isinstance(result.exception, siag.SiagError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("repeats", [2, 3])
def test_the_offset_is_the_same_in_the_terminal_the_text_and_the_page(repeats, tmp_path):
    output = cli("--methods", "SGD", "--activities", "clock", "--repeats", str(repeats), "--out", str(tmp_path))
    assert "SGD(normalization=" not in output  # unless --details are asked for
    with open(tmp_path / "compare.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    shown = f"{float(row['bias']):.1e}" + (f" ± {float(row['bias_error']):.0e}" if repeats > 2 else "")
    for text in (output, (tmp_path / "compare.md").read_text(), (tmp_path / "compare.html").read_text()):
        assert shown in text
        assert ("Two runs have no standard error" in " ".join(text.split())) == (repeats == 2)


def test_what_was_compared_is_said_with_all_parameters(found, written):
    folder, page = written
    eta = found.ran("clock")[2].tuned.eta
    assert found.compared["methods"]["FedAvg"].startswith("FedAvg(steps=5, size=0.2·η, gradients='sample'")
    assert found.compared["methods"]["FedAvg"].endswith(f"{eta:.3g} (clock)")
    assert "Harmonic(beta=60.0·η, gamma=60.0)" in found.compared["methods"]["sIAG"]
    assert found.compared["methods"]["SAG"] == f"{siag.methods.SAG()!r}; it ran nowhere"
    assert found.compared["activities"]["uneven"] == "Nonuniform(low=2, high=12)"
    assert "server=EveryArrivals(k=1), slowness=(1.0, 2.0, …, 8.0)" in found.compared["activities"]["clock"]
    for text in ((folder / "compare.md").read_text(), html.unescape(page.read_text())):
        section = text.split("What was compared")[1]
        for each in found.compared.values():
            assert all(f"{name}: " in section and line in section for name, line in each.items())


def test_the_numbers_a_search_sets_are_printed_as_multiples_of_eta():
    delayed, scaffnew = (who.printed(10.0) for who in chosen(["delay-adaptive sIAG", "Scaffnew"]))
    assert "DelayAdaptive(gamma=η, " in delayed
    assert scaffnew == "Scaffnew(p=0.2, size=0.2·η, gradients='sample', seed=0), Constant(eta=1.0)"
    assert chosen(["SGD"])[0].printed(11.0).endswith("Harmonic(beta=11.0·η, gamma=11.0)")


def test_the_terminal_says_what_was_compared_on_request(tmp_path):
    words = ("--methods", "FedProx", "--activities", "clock", "--repeats", "2", "--out", str(tmp_path))
    told = cli(*words, "--details")
    assert "FedProx: FedProx(steps=5, size=0.2·η, gradients='sample', normalization='mean', pull=1.0)" in told
    assert "clock: Clock(compute=Exponential(mean=1.0)" in told
    assert "pull=1.0" in json.loads(cli(*words, "--json"))["compared"]["methods"]["FedProx"]


def test_the_command_line_takes_methods_as_python_prints_them(tmp_path):
    listed = "FedAvg(steps=3, size=1.0), piag,LAG(trigger='server', smoothness=[1.0, 1.0, 1.0, 1.0])"
    words = ("--methods", listed, "--methods", "SIAG", "--activities", "uniform", "--repeats", "2", "--json")
    document = json.loads(cli(*words, "--out", str(tmp_path)))
    names = ["FedAvg(steps=3, size=1.0)", "PIAG", "LAG(trigger='server', smoothness=[1.0, 1.0, 1.0, 1.0])", "sIAG"]
    assert [row["method"] for row in document["rows"]] == names
    assert all(row["iterations"] > 0 for row in document["rows"])
    assert document["compared"]["methods"][names[0]].startswith("FedAvg(steps=3, size=0.33")


def test_methods_that_are_no_contenders_are_made_from_their_text_like_those_of_their_kind():
    option, rare, prox = chosen(["SCAFFOLD(steps=2, size=1.0, option=1)", "Scaffnew(p=0.5, size=1.0)", "PIAG(l1=0.1)"])
    assert (option.method, option.family) == (SCAFFOLD(steps=2, size=1.0, option=1), "control variates")
    assert rare.home == "everyone"
    assert prox.elsewhere
    assert chosen([siag.methods.SAG(wait=1.0)])[0].home == "one at a time"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Averaged", r"methods = 'Averaged': must be given with what it needs; write Averaged\(method=…\)"),
        ("Fed(x=3)", r"methods = 'Fed\(x=3\)': must be one of "),
        ("FedAvg(steps=3", r"methods = 'FedAvg\(steps=3': must be one of "),
        ("FedAvg(steps=0, size=1.0)", "method.steps = 0: must be "),
        ("FedAvg(steps=3, size=1.0), FedAvg(steps=3, size=1.0)", "none twice"),
    ],
)
def test_a_mistake_in_a_methods_text_is_one_line(text, why, tmp_path):
    with pytest.raises(siag.BadInput, match=why):
        cli("--methods", text, "--out", str(tmp_path))


def test_another_seed_is_another_problem_and_the_help_says_so(tmp_path):
    words = ("--methods", "SGD", "--activities", "uniform", "--repeats", "2", "--out", str(tmp_path), "--seed", "3")
    cli(*words)
    assert "seed=3" in (tmp_path / "compare.md").read_text().splitlines()[0]
    assert "and of the paper's problem" in " ".join(CliRunner().invoke(group, ["compare", "--help"]).output.split())


def test_the_documents_words_on_who_takes_part_are_true():
    problem = siag.problems.LeastSquares.random(n=4, d=3, p=4, noise=0.1)
    found = compare(problem, ["SAG", "SAGA", "Scaffnew", "Incremental"], iterations=20, repeats=2, claims=False)
    assert {(entry.contender.name, entry.activity) for entry in found.entries if entry.run is not None} == {
        ("Scaffnew", "everyone"),
        ("incremental gradient", "in turn"),
    }
    finite = siag.problems.LogisticRegression.random(n=4, d=2, m=5, seed=0)
    found = compare(finite, ["SAG", "SAGA"], iterations=20, repeats=2, claims=False)
    assert {entry.contender.name for entry in found.ran("one at a time")} == {"SAG", "SAGA"}
    assert PIAG().tuned(0.1, 1.0)[1] == siag.methods.IAG().tuned(0.1, 1.0)[1]
    document = (Path(__file__).parents[2] / "docs" / "methods.md").read_text()
    assert 'exact gradients; on streams `gradients="sample"`' in next(
        line for line in document.splitlines() if line.startswith("| `LAG` |")
    )
