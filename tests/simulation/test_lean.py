"""The compiled loops count no references to arrays: that would cost twice what a gradient does."""

import pytest

import siag
from siag.methods import SGD, SIAG, Automatic, Averaged
from siag.simulation.in_flight import follow_events
from siag.simulation.iterate import iterate

PROBLEM = siag.problems.LeastSquares.random(n=3, d=2, p=2, noise=0.1)
POINTS = siag.problems.Ridge.random(n=3, d=2, m=4)  # as `conform` has: the machine code is there already
ITERATIONS, CLOCK = siag.activity.Everyone(), siag.activity.Clock(siag.activity.Exponential(1.0))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("loop", "activity", "method"),
    [
        (iterate, ITERATIONS, SIAG()),
        (iterate, ITERATIONS, Averaged(SIAG())),
        (iterate, ITERATIONS, Automatic()),
        (follow_events, CLOCK, SIAG()),
        (follow_events, CLOCK, SGD()),
    ],
    ids=repr,
)
def test_no_references_are_counted(loop, activity, method, monkeypatch):
    monkeypatch.setattr(loop, "_for", {})
    problem = POINTS if isinstance(method, Automatic) else PROBLEM
    siag.simulate(problem, method, activity, siag.steps.Constant(0.01), iterations=10)
    assert [made.targetoptions["_nrt"] for made in loop._for.values()] == [False]
