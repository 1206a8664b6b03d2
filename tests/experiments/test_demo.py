"""The demonstration: what it shows is so, and the command says it."""

import json
import sys

import numpy as np
import pytest

from refusals import refused
from siag.experiments.demo import WORKERS, demo
from terminals import typed


@pytest.mark.thorough
def test_the_demonstration_ends_by_itself_with_every_worker_heard_and_siag_nearer_to_the_fair_optimum():
    result = demo(seconds=8.0, progress=False, dashboard=0)
    assert len(result.reports) == WORKERS
    assert min(result.reports) > 0
    assert max(result.reports) > 4 * min(result.reports)
    assert result.siag < 0.5 * result.start
    assert np.isfinite([result.sgd, result.sgd_to_its_own, result.seconds]).all()


def test_a_demonstration_of_no_time_is_refused():
    with refused("seconds"):
        demo(seconds=0.0)


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `siag` with these words in this process."""
    return lambda *words: typed(monkeypatch, capsys, *words)


def test_the_command_refuses_no_time_in_one_line(command):
    ended = command("demo", "--seconds", "0")
    assert ended.returncode == 2
    assert ended.stderr.startswith("siag: seconds")


def test_the_command_prints_a_table_or_one_document(command, monkeypatch):
    import siag.experiments.demo as module

    shown = module.Demonstration((80, 20), 1.0, siag=0.1, sgd=0.5, sgd_to_its_own=0.05, start=2.0)
    asked = []
    monkeypatch.setattr(module, "demo", lambda seconds, _, **given: asked.append((seconds, given)) or shown)
    assert json.loads(command("demo", "--json").stdout)["reports"] == [80, 20]
    text = command("demo").stdout
    for words in ("80.0%", "50.0%", "found by itself           0.100", "same reports    0.500"):
        assert words in text
    command("demo", "--dashboard")
    command("demo", "--dashboard", "7000", "--seconds", "5")
    assert [each["dashboard"] for _, each in asked] == [None, None, True, "7000"]
    assert [seconds for seconds, _ in asked] == [15.0, 15.0, 60.0, 5.0]


def test_a_page_without_its_libraries_is_refused_before_anything_is_said(command, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    ended = command("demo", "--dashboard")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "siag: starlette is missing; install it with pip install 'siag[dashboard]'\n"
