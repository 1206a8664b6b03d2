"""What a comparison writes, prints and claims."""

import csv
import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from compared import PROBLEM, row_of
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from siag.activity import Clock, Nonuniform, Sequential, Uniform
from siag.cli import siag as group
from siag.experiments.claims import CLAIMS, claims_of, verdict
from siag.experiments.comparison import CONTENDERS, Contender, compare
from siag.experiments.comparison.chapter import Offset, methods, unbiased
from siag.experiments.comparison.contenders import chosen
from siag.experiments.comparison.contest import activities_of
from siag.experiments.comparison.figures import NAMES, _apart, _together
from siag.experiments.comparison.memory import memory
from siag.experiments.comparison.result import bias
from siag.experiments.setting import Scale
from siag.methods import LAG, PIAG, SCAFFOLD, SIAG, Method
from siag.report import Claim, files
from siag.steps import DelayAdaptive

pytestmark = pytest.mark.usefixtures("compiled_here")


def test_the_defaults_are_the_papers_two_and_a_clock():
    found = activities_of(PROBLEM)
    assert [type(activity) for activity in found.values()] == [Uniform, Nonuniform, Clock]
    assert activities_of(siag.problems.LeastSquares.random(n=1, d=2, p=1, noise=0.1))["clock"].slowness == (1.0,)


@pytest.mark.thorough
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
    assert server == 8 * (d + n * d + d + n + 2 + 3) + 2 * n
    assert worker == 0
    for square in (PROBLEM, siag.problems.LeastSquares.random(n=3, d=3, p=4, noise=0.1)):  # n = d must not matter
        _, worker = memory(Contender("x", SCAFFOLD(steps=2, size=0.1)), square)
        assert worker == 8 * (5 * d + 3)
    assert memory(Contender("x", LAG()), PROBLEM)[1] < 8 * (2 * d + 4)
    adaptive = Contender("x", SIAG(), step=lambda eta: DelayAdaptive(eta, horizon=1000))
    assert memory(adaptive, PROBLEM)[0] > 8 * 1000  # the step's memory is the server's


@given(st.lists(st.floats(0.0, 1.0), max_size=15))
def test_labels_are_kept_apart_in_order_and_inside(wanted):
    places = _apart(sorted(wanted), 0.05)
    assert all(b - a > 0.05 - 1e-9 for a, b in itertools.pairwise(places))
    assert all(place <= 1.0 for place in places)


def test_names_of_curves_that_end_together_stay_short():
    assert _together(["a", "b"]) == "a = b"
    assert _together(list("abcdefg")) == f"a = b and {7 - NAMES} more"


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_a_report_takes_time_on_a_clock(contender):
    assert contender.method.work(PROBLEM.n) >= 1


@pytest.mark.parametrize(
    ("siag_", "sgd", "holds"),
    [((0.01, 1.0), (0.9, 1.0), True), ((0.2, 1.0), (0.9, 1.0), False), ((0.01, 1.0), (0.3, 1.0), False)],
)
def test_the_reports_claim_can_fail(siag_, sgd, holds):
    assert unbiased(Offset(*siag_), Offset(*sgd), 20_000).holds == holds


@pytest.mark.thorough
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
    beside = {"PIAG", "Averaged", "FedNova", "Yogi", "Adagrad", "Clipped"}  # FedNova is FedAvg unless its steps differ
    assert set(CLAIMS) - papers == beside
    kinds = {kind for kind in vars(siag.methods).values() if isinstance(kind, type) and issubclass(kind, Method)}
    assert {kind.__name__ for kind in kinds} - {type(each.method).__name__ for each in CONTENDERS} == {
        *("Method", "Prox", "Standardised", "Weighted", *beside),
    }


@pytest.mark.thorough
def test_the_verdict_is_shown(tmp_path):
    found = compare(PROBLEM, ["SAG", "SAGA"], {"one": Sequential()}, iterations=200, repeats=2)
    assert [row_of(found, "one", name)["claims"] for name in ("SAG", "SAGA")] == [
        verdict(claims_of("SAG")),
        verdict(claims_of("SAGA")),
    ]
    assert json.dumps(found.claims)


def cli(*words):
    """What the command prints; its pictures, which `written` has drawn, are left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write_figure", lambda folder, name, figure, png: "data:,")
        result = CliRunner().invoke(group, ["compare", "--no-claims", "--iterations", "60", "--n", "4", *words])
    if isinstance(result.exception, siag.SiagError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_table_in_the_terminal_breaks_no_word_and_says_what_it_is_ranked_by(tmp_path):
    words = ("--methods", "sIAG", "--methods", "delay-adaptive sIAG", "--activities", "clock", "--by", "time")
    lines = cli(*words, "--repeats", "3", "--out", str(tmp_path)).splitlines()
    assert lines[0].strip() == "clock: errors at equal …, the least at equal time first"
    assert lines[1].split() == ["method", "iterations", "samples", "bytes", "time", "offset²", "±", "2", "s.e."]
    assert any(line.startswith("delay-adaptive sIAG ") for line in lines)
    assert max(map(len, lines[:4])) <= 80


def test_the_numbers_a_search_sets_are_printed_as_multiples_of_eta():
    delayed, scaffnew = (who.printed(10.0) for who in chosen(["delay-adaptive sIAG", "Scaffnew"]))
    assert "DelayAdaptive(gamma=η, " in delayed
    assert scaffnew == "Scaffnew(p=0.2, size=0.2·η, gradients='sample', seed=0), Constant(eta=1.0)"
    assert chosen(["SGD"])[0].printed(11.0).endswith("Harmonic(beta=11.0·η, gamma=11.0)")


@pytest.mark.thorough
def test_the_terminal_says_what_was_compared_on_request(tmp_path):
    words = ("--methods", "FedProx", "--activities", "clock", "--repeats", "2", "--out", str(tmp_path))
    told = cli(*words, "--details")
    assert "FedProx: FedProx(steps=5, size=0.2·η, fall=6.0, gradients='sample', normalization='mean', pull=1.0)" in told
    assert "clock: Clock(compute=Exponential(mean=1.0)" in told
    assert "pull=1.0" in json.loads(cli(*words, "--json"))["compared"]["methods"]["FedProx"]


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_another_seed_is_another_problem_and_the_help_says_so(tmp_path):
    words = ("--methods", "SGD", "--activities", "uniform", "--repeats", "2", "--out", str(tmp_path), "--seed", "3")
    cli(*words)
    assert "seed=3" in (tmp_path / "compare.md").read_text().splitlines()[0]
    assert "and of the paper's problem" in " ".join(CliRunner().invoke(group, ["compare", "--help"]).output.split())


@pytest.mark.thorough
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
    document = (Path(__file__).parents[2] / "docs" / "reference" / "methods.md").read_text()
    assert 'exact gradients; on streams `gradients="sample"`' in next(
        line for line in document.splitlines() if line.startswith("| `LAG` |")
    )
