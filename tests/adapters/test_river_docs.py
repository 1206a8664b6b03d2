"""What docs/howto/river.md, docs/howto/tracking.md and the example show is run here."""

import re
import runpy
from pathlib import Path

from pages import programs

ROOT = Path(__file__).parent.parent.parent


def run_block(name, capsys):
    (program,) = programs(name)
    exec(compile(program.source, name, "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


def test_the_program_of_the_river_page_prints_what_it_says(capsys):
    assert run_block("docs/howto/river.md", capsys) == "['north', 'south'] 9\n"


def test_the_program_of_the_tracking_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_block("docs/howto/tracking.md", capsys)
    assert {"w.npy", "run.npz"} <= {path.name for path in Path("runs/first").iterdir()}


def test_in_the_example_the_small_shop_counts_as_much_as_the_large_one(capsys):
    example = runpy.run_path(str(ROOT / "examples" / "river_pipeline.py"))
    rows = list(example["sales"](6_000))
    same = re.findall(r"\d+\.\d", example["learned"](example["RiverRegressor"](source="shop"), rows))
    other = re.findall(r"\d+\.\d", example["learned"](example["linear_model"].LinearRegression(), rows))
    (centre, village), (centre1, village1) = map(float, same), map(float, other)
    assert 12.0 < centre < 20.0
    assert 12.0 < village < 20.0
    assert centre1 < 5.0
    assert village1 > 25.0
