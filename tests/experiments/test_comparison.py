"""Comparisons: the same rule, budgets and random numbers for all; what cannot run is said, not run."""

import csv
import html
import math
from dataclasses import replace

import pytest
from compared import CLOCK, PROBLEM, row_of

import siag
from siag.activity import Everyone, Nonuniform, Recorded, Uniform
from siag.experiments.comparison import compare
from siag.experiments.comparison.result import best_first

pytestmark = [pytest.mark.usefixtures("compiled_here"), pytest.mark.thorough]


@pytest.fixture(scope="module")
def found(compiled_here):
    names = ["sIAG", "SGD", "FedAvg", "SAG", "IAG"]
    activities = {"uneven": Nonuniform(2, 12), "clock": CLOCK}
    return siag.compare(PROBLEM, names, activities, iterations=600, repeats=50, claims=False)


@pytest.fixture(scope="module")
def written(found, tmp_path_factory):
    """The folder, and the page in it."""
    folder = tmp_path_factory.mktemp("comparison")
    return folder, found.write(folder)


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


def test_the_column_of_claims_is_left_out_where_none_were_tested(found):
    assert "| claims |" not in found.markdown()
    claimed = replace(found, claims={"sIAG": "reaches (1 of 1)"}).markdown().splitlines()
    heads = [line for line in claimed if line.startswith("| method | = iterations |")]
    assert heads
    assert all(line.endswith("| worker, bytes | claims |") for line in heads)  # errors stand beside the names
    assert claimed[claimed.index(heads[0]) + 1] == "|---|" + "---:|" * 9 + "---|"


def test_a_recorded_activity_is_left_as_it_is():
    tape = Recorded.of(Uniform(3), PROBLEM.n, 60, seed=2)
    found = compare(PROBLEM, ["sIAG"], {"tape": tape}, iterations=60, repeats=2, claims=False)
    assert found.ran("tape")[0].run.samples[0, -1] == tape.tape.start[60]


def test_local_steps_take_their_time_on_a_clock(found):
    plain, local = (next(e for e in found.ran("clock") if e.contender.name == name) for name in ("sIAG", "FedAvg"))
    assert local.run.time[:, -1].mean() == pytest.approx(5 * plain.run.time[:, -1].mean(), rel=0.1)


def test_ranked_at_equal_samples_steps_are_found_for_these_and_nobody_has_more(found):
    by_samples = siag.compare(
        PROBLEM,
        ["sIAG", "FedAvg", "IAG"],
        {"uneven": Nonuniform(2, 12)},
        iterations=600,
        repeats=12,
        claims=False,
        axis="samples",
    )
    plain, local, exact = by_samples.ran("uneven")
    assert (plain.run.t[-1], exact.run.t[-1]) == (600, 600)  # exact gradients are no samples
    assert 115 <= local.run.t[-1] <= 120
    assert local.run.samples[:, -1].mean() <= plain.run.samples[:, -1].mean()
    rows = best_first([by_samples.row(entry) for entry in by_samples.entries], "samples")
    assert [row["method"] for row in rows[-1:]] == ["IAG"]
    assert rows[0]["samples"] < rows[1]["samples"]
    assert by_samples.row(local)["samples"] == local.run.mean[-1]  # at the end, for which its step was found
    assert f"fall={local.run.t[-1] / 10:g}" in local.run.about["method"]


def test_an_axis_that_there_is_not_is_refused():
    with pytest.raises(siag.BadInput, match="axis = 'epochs'"):
        siag.compare(PROBLEM, ["sIAG"], axis="epochs")


def test_a_recorded_activity_that_is_too_short_is_listed_with_the_reason():
    short = Recorded.of(Uniform(3), PROBLEM.n, 20, seed=2)
    found = compare(PROBLEM, ["sIAG"], {"short": short, "all": Everyone()}, iterations=50, repeats=2, claims=False)
    assert [bool(entry.reason) for entry in found.entries] == [True, False]
    assert "at most the trace's 20" in found.entries[0].reason


def test_what_was_compared_is_said_with_all_parameters(found, written):
    folder, page = written
    eta = found.ran("clock")[2].tuned.eta
    assert found.compared["methods"]["FedAvg"].startswith("FedAvg(steps=5, size=0.2·η, fall=60.0, gradients='sample'")
    assert found.compared["methods"]["FedAvg"].endswith(f"{eta:.3g} (clock)")
    assert "Harmonic(beta=60.0·η, gamma=60.0)" in found.compared["methods"]["sIAG"]
    assert found.compared["methods"]["SAG"] == f"{siag.methods.SAG()!r}; it ran nowhere"
    assert found.compared["activities"]["uneven"] == "Nonuniform(low=2, high=12)"
    assert "server=EveryArrivals(k=1), slowness=(1.0, 2.0, …, 8.0)" in found.compared["activities"]["clock"]
    for text in ((folder / "compare.md").read_text(), html.unescape(page.read_text())):
        section = text.split("What was compared")[1]
        for each in found.compared.values():
            assert all(f"{name}: " in section and line in section for name, line in each.items())
