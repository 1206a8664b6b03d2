"""Whatever a user gets back prints on a screen."""

import numpy as np
import pytest
from compared import CLOCK, PROBLEM

import siag
from siag.activity import Arrivals, Recorded, Trace, Uniform
from siag.experiments.comparison import CONTENDERS
from siag.methods import SGD, SIAG
from siag.server import Snapshot, WorkerView
from siag.simulation.tuning import Found
from siag.steps import Harmonic
from siag.storage import SavedModel
from siag.theory import Curve, sharp_law
from siag.theory.lemmas import Inequality, Lemmas

LINES, CHARACTERS = 12, 1200
STEP = Harmonic(0.5, 100)
MANY = 500  # workers, numbers, warnings
INEQUALITY = Inequality("Lemma 1", np.ones(MANY), np.ones(MANY))


def large_run():
    """A run with more to say than there is room for."""
    run = siag.simulate(
        PROBLEM, SIAG(), Uniform(4), STEP, iterations=300, evaluate={f"m{k}": np.sum for k in range(20)}
    )
    run.about.update(warnings=["something seems to be wrong " * 20] * MANY, activity="Clock(" + "1.0, " * MANY)
    return run


def saved():
    names = {f"worker-{k}": k for k in range(MANY)}
    return SavedModel(np.ones(MANY), 1, 2, 3.0, names, names, names, (), "", names, 0.0, 0, b"x" * MANY, ())


def snapshot():
    views = tuple(WorkerView(k, f"w{k}", "working", 1, 1.0, 1, 1.0, 0, "") for k in range(MANY))
    return Snapshot(1, 2, 0, 1.0, 1.0, (1, 2), views)


def compared():
    names = ["sIAG", "SGD", "ACE", "DuDe", "IAG", "SAG"]
    places = {f"u{k}": Uniform(k) for k in range(2, 10)}
    return siag.compare(PROBLEM, names, places, iterations=20, repeats=2, claims=False)


def swept():
    steps = [Harmonic(0.01 * k, 100) for k in range(1, 20)]
    return siag.sweep(PROBLEM, [SIAG(), SGD()], Uniform(4), steps, iterations=30, record=200)


def trace():
    whole = np.arange(MANY)
    return Trace(whole, whole % 8, whole, whole // 8, whole * 1.0, np.full(MANY, np.nan), MANY, {"workers": 8})


RESULTS = {
    "Run": large_run,
    "Sweep": swept,
    "Found": lambda: Found(0.1, tuple((0.1 * k, 1.0) for k in range(14))),
    "Curve": lambda: Curve(np.arange(MANY), np.ones(MANY), np.ones(MANY)),
    "Lemmas": lambda: Lemmas(np.arange(MANY), *3 * [INEQUALITY], np.ones(MANY), np.ones(MANY)),
    "SharpLaw": lambda: sharp_law(PROBLEM, Uniform(4), STEP),
    "Trace": trace,
    "Recorded": lambda: Recorded.of(Uniform(4), 8, 2000),
    "Arrivals": lambda: Arrivals([(float(k), 0) for k in range(MANY)]),
    "SavedModel": saved,
    "Snapshot": snapshot,
    "LeastSquares": lambda: siag.problems.LeastSquares(np.ones((MANY, 30)), 2, 0.1),
    "LogisticRegression": lambda: siag.problems.LogisticRegression.random(n=50, d=20, m=30),
    "Ridge": lambda: siag.problems.Ridge.random(n=50, d=20, m=30).by_sample(),
    "Constants": PROBLEM.constants,
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_prints_on_a_screen(name):
    text = repr(RESULTS[name]())
    assert text.startswith(name)
    assert len(text.splitlines()) <= LINES, text
    assert len(text) <= 2 * CHARACTERS, text
    assert "array(" not in text


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_a_contender_prints_on_a_screen(contender):
    assert len(repr(contender)) <= CHARACTERS


@pytest.mark.usefixtures("compiled_here")
def test_a_comparison_prints_who_comes_first(compiled_here):
    found = compared()
    text = repr(found)
    assert len(text.splitlines()) <= LINES
    assert len(text) <= CHARACTERS
    assert text.startswith("Comparison of 6 methods at equal iterations\n  problem: LeastSquares.random(n=8, ")
    assert "… 5 in all" in text
    assert "… 8 activities in all" in text
    row = min(map(found.row, found.ran("u2")), key=lambda row: row["iterations"])
    assert f"  u2: {row['method']} {row['iterations']:.1e}, " in text
    assert all(len(repr(entry)) <= CHARACTERS // 4 for entry in found.entries)
    assert "SAG" in repr(found.entries[5])


def test_a_clock_of_few_workers_does_too():
    assert len(repr(CLOCK)) <= CHARACTERS
