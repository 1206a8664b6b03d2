"""A report says what failed as loudly as what held."""

import numpy as np
import pytest

from siag.report import Chapter, Claim, figure, styled, write_figure, write_report


def chapter(*holds):
    with styled():
        picture, (ax,) = figure()
        ax.plot([1, 2], [3, 4])
    claims = [Claim(f"claim {k} <b>", "Sec. I", "p & q", "m", np.bool_(held)) for k, held in enumerate(holds)]
    return Chapter(
        "one", "One", ["Text."], picture, "A line.", {"numbers": {"x": [1, 2], "y": np.array([0.1, 0.2])}}, claims
    )


def test_a_claim_that_fails_is_marked_and_counted(tmp_path):
    page = write_report(tmp_path, "Title", {"a": "b"}, [chapter(True, False)])
    text = page.read_text()
    assert "1 of 2 claims hold" in text
    assert 'class="verdict bad"' in text
    assert text.count("✗ fails") == 2


def test_on_a_narrow_page_cells_say_what_they_are(tmp_path):
    text = write_report(tmp_path, "Title", {}, [chapter(True)]).read_text()
    narrow = text.partition("@media (max-width: 40rem)")[2]
    for place, (name, content) in enumerate((("predicts", "p &amp; q"), ("measured", "m")), start=2):
        assert f'td:nth-child({place})::before {{ content: "{name}: ";' in narrow
        assert f"<td>{content}</td>" in text


def test_text_from_outside_is_escaped(tmp_path):
    text = write_report(tmp_path, "T < U", {"a": "<i>"}, [chapter(True)]).read_text()
    assert "claim 0 &lt;b&gt;" in text
    assert "T &lt; U" in text
    assert "<i>" not in text


def test_numbers_are_written_in_full_precision(tmp_path):
    write_report(tmp_path, "T", {}, [chapter(True)])
    assert (tmp_path / "numbers.csv").read_text() == "x,y\n1,0.1\n2,0.2\n"


def test_a_report_that_cannot_be_finished_has_no_page(tmp_path):
    broken = chapter(True)
    object.__setattr__(broken, "tables", {"uneven": {"x": [1], "y": [1, 2]}})
    with pytest.raises(ValueError, match="zip"):
        write_report(tmp_path, "T", {}, [broken])
    assert not (tmp_path / "report.html").exists()
    assert not (tmp_path / "uneven.csv").exists()
    assert not list(tmp_path.glob(".*"))


def test_the_same_report_is_the_same_file(tmp_path):
    pages = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pages.append(write_report(tmp_path / name, "T", {}, [chapter(True)]).read_bytes())
    assert pages[0] == pages[1]


def test_a_picture_is_what_matplotlib_saves_and_the_figure_stays_as_it_was(tmp_path):
    with styled():
        made, (ax,) = figure()
        ax.plot([1.0, 2.0], [3.0, 1.0])
        canvas, dpi = made.canvas, made.dpi
        write_figure(tmp_path, "line", made)
        assert (made.canvas, made.dpi) == (canvas, dpi)
        for suffix, options in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            made.savefig(tmp_path / f"saved.{suffix}", metadata=options)
            assert (tmp_path / f"line.{suffix}").read_bytes() == (tmp_path / f"saved.{suffix}").read_bytes()
