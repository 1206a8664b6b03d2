"""What benchmarks decide by: rounds until a verdict, intervals, figures of earlier versions."""

import math

import numpy as np
import pytest
from benchmarks import history, rounds
from benchmarks.history import Entry
from benchmarks.targets import Target, before


@pytest.mark.parametrize(("n", "holds"), [(6, 0.96), (9, 0.96), (15, 0.96), (27, 0.95)])
def test_an_interval_holds_the_median_as_often_as_it_says(n, holds):
    """4000 draws: the share is within 0.015 of its mean but once in 10⁴ seeds, and the mean is at least 0.95."""
    found = [rounds.interval(each) for each in np.random.default_rng(n).exponential(size=(4000, n)).tolist()]
    share = np.mean([low <= math.log(2.0) <= high for low, high in found])
    assert share > holds - 0.02


def test_a_few_rounds_decide_nothing():
    assert rounds.interval([1.0] * 5) == (-math.inf, math.inf)


def test_rounds_go_on_while_it_is_open_whether_a_target_is_reached():
    clear, close = [], []
    for _ in rounds.rounds(6, lambda: rounds.undecided(clear, 1.0)):
        clear.append(2.0)
    for k in rounds.rounds(6, lambda: rounds.undecided(close, 1.0)):
        close.append(1.0 + 0.1 * (-1) ** k)
    assert (len(clear), len(close)) == (6, 18)
    assert "timed 26 times" in rounds.noise()
    assert rounds.noise() == ""


def test_a_figure_that_is_worse_than_before_is_pointed_out(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "PATH", tmp_path / "history.csv")
    assert before(Target(1.0, "× faster", least=1.0)) == ""
    history.write([Entry("", "", "", "live", "× faster", figure) for figure in (9.0, 2.0)])
    history.write([*history.entries(), Entry("", "", "", "live", "s", 2.0)])
    assert before(Target(1.7, "× faster", least=1.0)) == "2.00, **worse**"
    assert before(Target(1.9, "× faster", least=1.0)) == before(Target(4.0, "× faster", least=1.0)) == "2.00"
    assert before(Target(2.3, "s", most=1.0)) == "2.00, **worse**"
    assert before(Target(1.0, "s", most=1.0)) == "2.00"
