"""The command line as a user meets it; in a process of its own only where that is the point."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import siag
from siag.cli.early import Terminated
from terminals import typed

ROOT = Path(__file__).parent.parent


def process(*words, cwd=None, env=None):
    """Run `siag` with these words in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "siag", *map(str, words)], capture_output=True, text=True, cwd=cwd, env=env, check=False
    )


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `siag` with these words in this process."""
    return lambda *words: typed(monkeypatch, capsys, *words)


@pytest.fixture
def small(tmp_path):
    """The example file, with less to do."""
    text = (ROOT / "examples" / "nonuniform.toml").read_text()
    path = tmp_path / "small.toml"
    path.write_text(text.replace("20_000", "300").replace("repeats = 50", "repeats = 3").replace("n = 80", "n = 10"))
    return path


def test_version_is_the_packages():
    result = process("--version")
    assert (result.returncode, result.stdout) == (0, f"siag {siag.__version__}\n")


@pytest.mark.parametrize("words", [(), ("--help",), ("reproduce", "--help"), ("run", "--help"), ("theory", "--help")])
def test_help_has_an_example(command, words):
    result = command(*words)
    assert result.returncode == 0
    assert "Example" in result.stdout


def test_run_prints_the_curve_and_writes_what_it_says(command, small, tmp_path):
    result = command("run", small, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "Nonuniform(low=10, high=20)" in result.stdout
    run = siag.load(tmp_path / "out" / "run.npz")
    assert run.t[-1] == 300
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"run.npz", "run.csv", "run.png", "run.svg"}


def test_run_as_json_is_one_document(command, small):
    document = json.loads(command("run", small, "--json").stdout)
    assert document["t"][-1] == 300
    assert document["seed"] == 1
    assert len(document["error"]) == len(document["t"])


def test_theory_prints_the_constants_of_theorem_1(command):
    theorem = siag.theory.Theorem1(mu=10, L=10, sigma2=825, n=20, T=15, beta=0.5)
    document = json.loads(command("theory", "--n", 20, "--T", 15, "--json").stdout)
    assert document["Theorem 1"]["gamma"] == theorem.gamma
    assert document["Theorem 1"]["delta1"] == theorem.delta1
    assert "gamma" in command("theory", "--n", 20).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("theory", "--beta", "0.3"), "beta = 0.3: must be a finite number above 0.4; Theorem 1 needs beta > 4/mu"),
        (("theory", "--T", "-1"), "T = -1: must be a whole number of at least 0"),
        (("theory", "--mu", "nan"), "mu = nan: must be a finite number above 0"),
        (("theory", "--n", "many"), "'many' is not a valid integer"),
        (("theory", "--L", "1"), "L = 1.0: must be a finite number at least 10.0"),
        (("run", "no-such-file.toml"), "no-such-file.toml: no such file or directory"),
        (("run",), "Missing argument 'FILE'"),
        (("simulate",), "No such command 'simulate'"),
        (("reproduce", "--out", ROOT / "README.md" / "below"), "must be a folder that can be written"),
    ],
)
def test_a_mistake_is_one_line_and_exit_status_2(command, words, expected):
    result = command(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert result.stderr.startswith("siag: ")
    assert result.stderr.count("\n") == 1


def test_an_output_folder_that_cannot_be_written_is_noticed_before_the_run(command, small, tmp_path):
    (tmp_path / "taken").write_text("")
    result = command("run", small, "--out", tmp_path / "taken")
    assert result.returncode == 2
    assert "out = " in result.stderr
    assert result.stdout == ""


def test_a_run_that_diverges_says_when_keeps_what_it_has_and_exits_with_1(command, small, tmp_path):
    small.write_text(small.read_text().replace("beta = 0.2", "beta = 400.0"))
    result = command("run", small, "--out", tmp_path / "out")
    assert result.returncode == 1
    assert "diverged" in result.stderr
    assert "at iteration" in result.stderr
    assert "Traceback" not in result.stderr
    run = siag.load(tmp_path / "out" / "run.npz")
    assert (run.diverged >= 0).all()
    document = command("run", small, "--json")
    assert json.loads(document.stdout)["error"][-1] is None


def test_reproduce_exits_with_1_if_a_claim_does_not_hold_and_shows_it(monkeypatch, command, tmp_path):
    from siag import experiments
    from siag.report import Claim

    for holds, status in ((True, 0), (False, 1)):
        claims = [Claim("sIAG is fast", "Sec. IV", "fast", "not measured", holds)]
        monkeypatch.setattr(experiments, "reproduce", lambda out, *_, claims=claims, **__: (out / "page", claims))
        text, document = command("reproduce", "--out", tmp_path), command("reproduce", "--json")
        assert (text.returncode, document.returncode) == (status, status)
    assert "FAILS" in text.stdout
    assert "0 of 1 claims hold" in text.stdout
    for ended in (text, document):
        assert "claim fails: sIAG is fast (Sec. IV); predicted: fast; measured: not measured" in ended.stderr
    assert json.loads(document.stdout)["claims"][0]["holds"] is False


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (MemoryError(), 1, "not enough memory: the job is too large; use fewer workers, dimensions or points"),
        (OSError(28, "No space left on device", "x.csv"), 1, "x.csv: No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted; no half-written file was left behind"),
        (Terminated(), 143, "ended by SIGTERM; no half-written file was left behind"),
        (siag.SiagError("it went wrong"), 1, "it went wrong"),
    ],
)
def test_what_the_machine_refuses_is_one_line_too(monkeypatch, command, error, status, line):
    from siag import experiments

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(experiments, "reproduce", fail)
    ended = command("reproduce")
    assert (ended.returncode, ended.stderr) == (status, f"siag: {line}\n")


def test_an_output_that_is_a_folder_is_noticed_before_the_run(command, small, tmp_path):
    (tmp_path / "out" / "run.npz").mkdir(parents=True)
    result = command("run", small, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert "run.npz is a folder" in result.stderr
    assert result.stdout == ""


def test_a_file_with_lists_is_a_sweep_with_one_table(command, small, tmp_path):
    small.write_text(
        small.read_text().replace('kind = "SIAG"', 'kind = ["SIAG", "SGD"]').replace("n = 10", "n = [5, 10]")
    )
    result = command("run", small, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    lines = (tmp_path / "out" / "sweep.csv").read_text().splitlines()
    assert lines[0].startswith("problem,method,activity,step,")
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 4
    again = command("run", small, "--out", tmp_path / "out", "--json")
    table = json.loads(again.stdout)
    assert len(table["error"]) == len(lines) - 1


def test_a_sweep_from_a_file_says_which_steps_are_a_methods_own(command, small):
    small.write_text(small.read_text().replace('kind = "SIAG"', 'kind = ["Automatic", "SIAG"]'))
    table = json.loads(command("run", small, "--json").stdout)
    own = {
        method.partition("(")[0]: step == "its own" for method, step in zip(table["method"], table["step"], strict=True)
    }
    assert own == {"Automatic": True, "SIAG": False}


MADE = """
import siag

def bowl(broken: bool):
    def gradient(i, w):
        if broken:
            raise ValueError("no data")
        return w - i
    return siag.problems.FromFunction(gradient, n=3, d=2, exact=lambda i, w: w - i)
"""


def test_a_sweep_goes_on_without_the_combination_whose_python_gradient_fails(command, tmp_path):
    (tmp_path / "bowls_of_mine.py").write_text(MADE)
    tables = '[problem]\nkind="bowls_of_mine:bowl"\nbroken=[false, true]\n[method]\nkind="SIAG"\n'
    rest = '[activity]\nkind="Uniform"\nT=3\n[step]\nkind="Constant"\neta=0.1\n[run]\niterations=50\n'
    (tmp_path / "sweep.toml").write_text(tables + rest)
    result = command("run", tmp_path / "sweep.toml", "--json")
    assert result.returncode == 1
    assert len(set(json.loads(result.stdout)["problem"])) == 1
    first, line = result.stderr.splitlines()
    assert first.endswith("1 of 2 combinations failed; the others are finished:")
    assert line.endswith("call 1: ValueError: no data (bowls_of_mine.py, line 7)")
    assert "FromFunction(bowl.<locals>.gradient, n=3, d=2) × SIAG(" in line


def interrupted(command, *words):
    """What is said when Ctrl-C comes while a command runs."""
    ended = command(*words)
    assert ended.returncode == 130
    return ended.stderr


def test_ctrl_c_says_nothing_of_files_to_a_command_that_writes_none(monkeypatch, command):
    from siag import runtimes

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runtimes, "work", interrupt)
    line = interrupted(command, "work", "localhost:1", "--gradient", "math:exp", "--stream", "math:pi")
    assert line.startswith("siag: interrupted")
    assert "half-written" not in line


def test_ctrl_c_during_a_sweep_says_where_it_goes_on(monkeypatch, command, small, tmp_path):
    from siag.experiments.config import Experiment

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "sweep", interrupt)
    small.write_text(small.read_text().replace("n = 10", "n = [5, 10]"))
    line = interrupted(command, "run", small, "--out", tmp_path / "out")
    kept = tmp_path / "out" / "runs"
    assert line == f"siag: interrupted; what was finished is in {kept}; the same command goes on from there\n"


SERVE = ("serve", "--workers", "1", "--dimension", "3", "--eta", "0.1")
BEFORE = "siag: ended by SIGTERM before it began\n"


@pytest.mark.parametrize(
    ("words", "number", "status", "line"),
    [
        (("theory",), "SIGINT", 130, "siag: interrupted\n"),
        (SERVE, "SIGTERM", 0, BEFORE),
    ],
)
@pytest.mark.parametrize("module", ["click", "numpy"])
def test_a_signal_while_modules_are_imported_is_answered_with_one_line(words, number, status, line, module, tmp_path):
    (tmp_path / f"{module}.py").write_text(f"import os, signal\nos.kill(os.getpid(), signal.{number})\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    result = process(*words, env={**os.environ, "PYTHONPATH": path})
    assert (result.returncode, result.stderr, result.stdout) == (status, line, "")


@pytest.mark.parametrize(
    ("words", "number", "status", "line"),
    [
        ((*SERVE, "--loss"), "SIGINT", 130, "siag: interrupted\n"),
        (("train", "--gradient"), "SIGTERM", 0, BEFORE),
    ],
)
def test_a_signal_before_a_live_run_begins_is_answered_with_one_line(words, number, status, line, tmp_path):
    (tmp_path / "stops.py").write_text(f"import os, signal\nos.kill(os.getpid(), signal.{number})\n")
    result = process(*words, "stops:all", cwd=tmp_path)
    assert (result.returncode, result.stderr, result.stdout) == (status, line, "")


def test_a_file_that_cannot_be_written_costs_no_other(small, tmp_path, monkeypatch, command):
    from siag.simulation import Run

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Run, "save", full)
    ended = command("run", small, "--out", tmp_path / "out")
    assert ended.returncode == 1
    assert ended.stderr == f"siag: {tmp_path / 'out' / 'run.npz'}: cannot be written: no space left on device\n"
    assert "run.csv, run.png, run.svg" in ended.stdout.replace("\n", "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"run.csv", "run.png", "run.svg"}


def test_help_tells_the_exit_statuses(command):
    text = command("--help").stdout
    assert all(f"\n    {status} " in text for status in (0, 1, 2, 130))


def printed(capsys, error, repeats=1, **about):
    """What is printed of a run."""
    from siag.cli.printing import print_run

    t = np.arange(4)
    error = np.array([error] * repeats, float)
    counts = np.array([t] * repeats)
    run = siag.Run(t, error, counts, counts / 10, np.zeros((repeats, 2)), np.full(repeats, -1), about)
    print_run(run)
    return capsys.readouterr().out


def test_a_run_without_a_loss_is_printed_without_nan(capsys):
    text = printed(capsys, [np.nan] * 4)
    assert "nan" not in text
    assert "error  " not in text
    assert "seconds" in text
    assert "0.3" in text
    assert "No loss was recorded" in text


def test_workers_of_a_live_run_are_printed_as_a_table_the_first_of_many(capsys):
    known = {"state": "working", "rate": 1.0, "mean_age": 2.5, "loss": None, "refused": 0, "share": 0.04}
    text = printed(capsys, [1.0] * 4, by_worker=[{"name": f"[{k}]", "reports": 1000 + k, **known} for k in range(25)])
    assert "by_worker" not in text
    (line,) = (line for line in text.splitlines() if "[19]" in line)
    assert line.replace("│", " ").split() == ["[19]", "working", "1,019", "4.0%", "2.5", "–", "0"]
    assert "[20]" not in text
    assert "… and 5 more workers" in text


def test_a_loss_is_printed_under_its_name(capsys):
    text = printed(capsys, [4.0, 3.0, 2.0, 1.5], measure="loss")
    assert "┃ loss " in text
    assert "error" not in text
    assert "1.5000e+00" in text


def test_each_point_is_printed_once(capsys):
    assert printed(capsys, [4.0, 3.0, 2.0, 1.5], repeats=2).count("1.5000e+00") == 1
