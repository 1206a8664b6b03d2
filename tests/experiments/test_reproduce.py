"""The reproduction, on a smaller scale: all of it runs, and what it writes is whole."""

import csv
import json

import pytest

from refusals import refused
from siag.experiments import Scale, reproduce
from siag.experiments import reproduce as package_export

pytestmark = pytest.mark.thorough

FEW = {"sizes": (10, 20), "iterations": 2_000, "repeats": 4, "draws": 2, "checks": 40, "methods": ("sIAG", "SGD")}
# of so many checks the mean is nearly normal: 4 standard errors are passed by chance once in 10⁴ points
SMALL = Scale(**FEW, horizon=6_000, gammas=0.01, live=1000, choosing=200, crowds=(8,), seed=1)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    heard = []
    page, claims = reproduce(folder, SMALL, lambda fraction, what: heard.append((fraction, what)))
    return folder, page, claims, heard


def test_every_chapter_leaves_a_picture_in_two_forms_and_its_numbers(report):
    folder, _, _, _ = report
    names = {
        "uniform",
        "nonuniform",
        "cyclic",
        "speedup",
        "staleness",
        "bound",
        "lemmas",
        "relatives",
        "clock",
        "agreement",
        "live",
    }
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()
    for n in SMALL.sizes:
        with open(folder / f"uniform-siag-n{n}.csv", newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert rows[0]["t"] == "0"
        assert rows[-1]["t"] == str(SMALL.iterations)
        assert float(rows[-1]["error"]) < float(rows[0]["error"])


def test_the_page_needs_no_other_file_and_shows_every_claim(report):
    folder, page, claims, _ = report
    text = page.read_text()
    assert page == folder / "report.html"
    assert text.count('src="data:image/svg+xml;base64,') == 13
    assert "http://" not in text
    assert "https://" not in text
    assert "$" not in text
    assert f"{sum(claim.holds for claim in claims)} of {len(claims)} claims hold" in text
    assert text.count("<td class='mark'>") == 2 * len(claims)


def test_claims_are_written_for_programs_too(report):
    folder, _, claims, _ = report
    rows = json.loads((folder / "claims.json").read_text())
    assert [row["statement"] for row in rows] == [claim.statement for claim in claims]
    assert [row["holds"] for row in rows] == [claim.holds for claim in claims]


def test_what_does_not_depend_on_scale_holds_on_a_small_one_too(report):
    _, _, claims, _ = report
    sources = {claim.source: claim for claim in claims}
    trace = ("the trace of who reported when, from which version", "beyond the paper: E w given the recorded trace")
    for source in ("Lemma 1", "Lemma 2", "Lemma 3", "Theorem 1", "Algorithm 1", *trace):
        assert sources[source].holds, sources[source]


def test_progress_goes_from_nothing_to_all_without_going_back(report):
    _, _, _, heard = report
    fractions = [fraction for fraction, _ in heard]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0
    assert fractions[-1] == 1


def test_a_folder_that_cannot_be_written_is_noticed_before_the_work(tmp_path):
    (tmp_path / "file").write_text("in the way")
    heard = []
    with refused("out"):
        reproduce(tmp_path / "file" / "below", SMALL, lambda *what: heard.append(what))
    assert heard == []


def test_an_interrupted_report_leaves_nothing_half_written(tmp_path):
    def interrupt(fraction, what):
        if fraction > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, SMALL, interrupt)
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_left_over_beside_the_report(report):
    folder, _, _, _ = report
    assert {path.suffix for path in folder.iterdir()} == {".png", ".svg", ".csv", ".json", ".html"}
    assert package_export is reproduce
