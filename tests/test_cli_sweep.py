"""Sweeps from a file, as a user meets them."""

import csv
import json

import pytest

import siag
from siag.simulation.simulate import Job
from terminals import typed

FILE = """
problem = ["LeastSquares(n=4, d=2, p=2, noise=0.1)", "LeastSquares(n=4, d=3, p=2, noise=0.1)"]
method = ["SIAG", "mine_swept:Mine(kind='sum')"]
activity = "Uniform(T=3)"
step = STEP

[run]
iterations = 60
repeats = 3
record = 4
objective = true
"""


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run the file, with this step, and these words."""
    (tmp_path / "mine_swept.py").write_text(
        "from siag.methods import SGD\n\ndef Mine(kind='mean'):\n    return SGD(normalization=kind)\n"
    )

    def run(step, *words):
        (tmp_path / "sweep.toml").write_text(FILE.replace("STEP", step))
        return typed(monkeypatch, capsys, "run", tmp_path / "sweep.toml", *words)

    return run


def test_parts_are_texts_and_the_table_has_their_parameters(command, tmp_path):
    result = command('"Harmonic(beta=0.5, gamma=50)"', "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    with open(tmp_path / "out" / "sweep.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["t"] == "60"]
    assert [(row["problem.d"], row["method.kind"], row["step.beta"]) for row in rows] == [
        (d, kind, "0.5") for d in "23" for kind in ("SIAG", "SGD")
    ]
    assert (tmp_path / "out" / "sweep.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "sweep.svg").read_text().startswith("<?xml")
    assert "sweep.csv, sweep.png, sweep.svg; every run is in" in result.stdout.replace("\n", "")
    lines = result.stdout.splitlines()
    assert lines[:2] == ["activity  Uniform(T=3)", "step      Harmonic(beta=0.5, gamma=50.0)"]
    assert "d=2" in result.stdout
    assert "‖∇F(wᵗ)‖²" in result.stdout


def test_steps_that_were_found_are_printed(command):
    found = json.loads(command('"Tuned(eta=0.5)"', "--json").stdout)
    assert set(found["step.gamma"]) == {6.0}
    assert all(eta > 0 for eta in found["tuned.eta"])
    assert "Harmonic(" in command('"Tuned(eta=0.5)"').stdout


def test_a_combination_that_fails_is_a_line_and_the_others_are_kept(command, monkeypatch, tmp_path):
    real = Job.repeat

    def failing(self, repeat, t, watch):
        if self.problem.d == 2:
            raise siag.SiagError("the gradient of worker 0 raised ValueError: no")
        return real(self, repeat, t, watch)

    monkeypatch.setattr(Job, "repeat", failing)
    result = command('"Constant(0.05)"', "--out", tmp_path / "out")
    assert result.returncode == 1
    head, *lines = result.stderr.splitlines()
    assert head.startswith("siag: 2 of 4 combinations failed; the others are finished and kept in ")
    assert [line.partition(": ")[2].partition("(")[0] for line in lines] == ["LeastSquares.random"] * 2
    assert all(line.endswith(": the gradient of worker 0 raised ValueError: no") for line in lines)
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 2
    with open(tmp_path / "out" / "sweep.csv", newline="") as file:
        assert {row["problem.d"] for row in csv.DictReader(file)} == {"3"}


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ('"Tuned(eta=0)"', "step.eta = 0"),
        ('"Tunde"', "did you mean Tuned?"),
        ('["Constant(0.1)", "Constant(0.1)"]', "name it once"),
        ('"Constant(eta=0.1"', "with arguments as in Python"),
        ('"mine_swept:Mine()"', "the name of a Step"),
    ],
)
def test_a_mistake_in_a_text_is_one_line(command, step, words):
    result = command(step)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
