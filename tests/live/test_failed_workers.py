"""A worker whose own code fails half-way: its last gradient does not stay for ever, and the run says so."""

import numpy as np
import pytest

import siag
from siag.activity import Exponential
from siag.live.durable_log import LAYOUT as ENTRY
from siag.live.durable_log import LET_GO, redo
from siag.losses import Squared
from siag.methods import SIAG
from siag.server import Departed, ParameterServer
from siag.steps import Constant, Harmonic

RNG = np.random.default_rng(2)
X = RNG.standard_normal((600, 2))
Y = X @ [1.0, 2.0] + 0.1 * RNG.standard_normal(600)
BROKEN = np.where(np.arange(600) == 400, np.nan, Y)


def clock(**given):
    return siag.Simulated(times=Exponential(1.0), seed=1, **given)


@pytest.mark.parametrize("step", [None, Harmonic(2.0, 20.0)])
def test_the_model_fits_those_that_are_left_and_the_run_says_who_failed(step):
    run = siag.train(
        Squared(intercept=False),
        [(X, BROKEN), (X, Y)],
        np.zeros(2),
        step=step,
        until=siag.Until(epochs=5),
        runtime=clock(),
        progress=False,
    )
    assert run.w[0] == pytest.approx([1.0, 2.0], abs=0.1)
    (told,) = run.warnings
    assert told.startswith("worker 0 failed after ")
    assert "y = nan" in told
    assert run.about["ending"] == "epochs"


def test_with_departed_keep_the_last_gradient_stays():
    given = {"step": Constant(0.05), "until": 3000, "runtime": clock(), "progress": False}
    streams = [[np.array([5.0])] * 30 + ["no number"], [np.array([1.0])] * 30]

    def gradient(w, x):
        return w - x

    with pytest.warns(siag.TrainingWarning):
        dropped = siag.train(gradient, [siag.streams.Repeated(each, shuffle=False) for each in streams], [0.0], **given)
    assert dropped.w[0] == pytest.approx([1.0], abs=0.1)
    keep = Departed(half_life=float("inf"))
    again = [siag.streams.Repeated(each, shuffle=False) for each in streams]
    with pytest.warns(siag.TrainingWarning):
        kept = siag.train(gradient, again, [0.0], departed=keep, **given)
    assert abs(kept.w[0, 0] - 1.0) > 0.5


def test_what_was_let_go_is_let_go_again_after_a_crash():
    once, again = (ParameterServer(SIAG(), Constant(0.1), np.zeros(1), workers=2) for _ in range(2))
    for server in (once, again):
        server.begin(0.0)
        for row in range(2):
            server.join(row, 0.0)
            server.push(row, row, np.array([1.0 + row]), 0, 0.0)
    once.let_go(0, 1.0)
    redo(again, ENTRY.pack(LET_GO, 0, 0, 0, float("nan"), 1.0), 1.0)
    assert once.fading.gone == again.fading.gone == {0}
    for name, array in once.arrays().items():
        assert np.array_equal(array, again.arrays()[name]), name


def test_a_run_that_left_the_range_of_numbers_has_that_among_its_warnings():
    with pytest.warns(siag.DivergenceWarning, match="check the sign of the gradient"):
        run = siag.train(
            lambda w, x: x - w, [[np.ones(2)] * 5], np.zeros(2), until=5000, runtime=clock(), progress=False
        )
    assert run.warnings[-1] == run.about["ended"]
