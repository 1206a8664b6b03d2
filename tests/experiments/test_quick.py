"""`siag reproduce --quick`: what it leaves out exists and is named, and chapters say what they have found."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import siag.experiments
from siag.cli.printing import tell_chapter
from siag.experiments import PAPER, QUICK, left_out
from siag.experiments.bound import Sides, _claims
from siag.report import Claim

reproduction = sys.modules["siag.experiments.reproduce"]


def test_every_chapter_that_is_left_out_is_one_of_the_reports_and_is_named():
    names = [name for name, _, _ in reproduction.parts(QUICK)]
    assert set(QUICK.leave_out) < set(names)
    assert all(name in left_out(QUICK) for name in QUICK.leave_out)
    assert left_out(QUICK) == reproduction._facts(QUICK, 1.0)["left out"]
    assert "left out" not in reproduction._facts(PAPER, 1.0)


def test_a_quick_report_makes_the_chapters_that_are_left_and_hands_them_on(monkeypatch, tmp_path):
    made, found = [], []

    def part(name):
        return name, lambda *_: made.append(name) or SimpleNamespace(claims=[], title=name), 1

    parts = [part(name) for name, _, _ in reproduction.parts(QUICK)]
    monkeypatch.setattr(reproduction, "parts", lambda _: parts)
    written = {}
    monkeypatch.setattr(reproduction, "write_report", lambda *_, png: written.update(png=png))
    siag.experiments.reproduce(tmp_path, QUICK, found=lambda name, chapter: found.append((name, chapter.title)))
    assert made == [name for name, _, _ in parts if name not in QUICK.leave_out]
    assert found == [(name, name) for name in made]
    assert written == {"png": False}


def test_a_chapters_line_says_how_many_claims_hold(capsys):
    claims = [Claim("sIAG is fast", "Sec. IV", "fast", "measured", holds) for holds in (True, False)]
    tell_chapter("speedup", SimpleNamespace(claims=claims, title="t"))
    tell_chapter("speedup", SimpleNamespace(claims=claims[1:], title="t"))
    first, second = capsys.readouterr().err.splitlines()
    assert first == "speedup               1 of 2 claims hold; sIAG is fast"
    assert second == "speedup               FAILS: sIAG is fast"


@pytest.mark.parametrize(("scale", "words"), [(PAPER, "every t up to 10 γ, with"), (QUICK, "every t up to γ, with")])
def test_how_far_the_theorem_is_followed_reads_well(scale, words):
    one = np.ones(3)
    exact = SimpleNamespace(error=one, t=np.arange(3))
    claim, _ = _claims(Sides(SimpleNamespace(T=1), exact, one, one, one), scale)
    assert words in claim.prediction
