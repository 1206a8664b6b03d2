"""A run that goes on with another step than it began with: said, and replayed rightly."""

import numpy as np
import pytest
from jobs import Notes

import siag
from siag.steps import Constant, DelayAdaptive, Harmonic, Switched

PROBLEM = siag.problems.LeastSquares.random(n=3, d=4, p=2, noise=0.1, seed=1)


@pytest.fixture
def go_on(tmp_path):
    def run(step, until, **given):
        places = {"folder": tmp_path / "state", "trace": tmp_path / "run.trace"}
        runtime = siag.Simulated(seed=until)
        return siag.train(problem=PROBLEM, step=step, until=until, runtime=runtime, **places, **given)

    return run


def test_the_trace_of_a_run_that_went_on_with_another_step_replays_to_the_bit(go_on, tmp_path):
    go_on(Constant(0.2), 60)
    notes = Notes()
    go_on(Constant(0.01), 100, progress=notes)
    assert notes.heard("the step is Constant(eta=0.01) from version 60 on")
    run = go_on(Harmonic(1, 100), 150)
    step = Switched(Switched(Constant(0.2), 60, Constant(0.01)), 100, Harmonic(1, 100))
    assert run.about["step"] == repr(step)
    again = siag.replay(tmp_path / "run.trace")
    assert again.about["step"] == repr(step)
    assert np.array_equal(again.w, run.w)
    assert not np.array_equal(siag.replay(tmp_path / "run.trace", step=Constant(0.2)).w, run.w)


def test_the_same_step_is_no_other(go_on):
    go_on(Constant(0.2), 60)
    assert go_on(Constant(0.2), 100).about["step"] == "Constant(eta=0.2)"


def test_a_step_that_took_no_step_is_not_kept(go_on):
    go_on(Constant(0.2), 60)
    go_on(Constant(0.3), 60)
    assert go_on(Constant(0.1), 80).about["step"] == repr(Switched(Constant(0.2), 60, Constant(0.1)))


@pytest.mark.parametrize(("first", "second"), [(DelayAdaptive(gamma=0.1), Constant(0.1))])
def test_a_step_that_looks_at_ages_cannot_be_followed_by_one_that_does_not(go_on, first, second):
    go_on(first, 60)
    with pytest.raises(siag.SiagError, match="step"):
        go_on(second, 100)


def test_what_was_logged_is_done_again_with_its_own_step(tmp_path):
    def crash(w):
        if measured.append(w) or len(measured) > 30:
            raise KeyboardInterrupt
        return 0.0

    measured = []
    trace = tmp_path / "run.trace"
    given = {"problem": PROBLEM, "folder": tmp_path / "state", "durable": True, "record": 1000, "trace": trace}
    with pytest.raises(KeyboardInterrupt):
        siag.train(step=Constant(0.2), until=60, loss=crash, runtime=siag.Simulated(), **given)
    run = siag.train(step=Constant(0.1), until=90, runtime=siag.Simulated(), **given)
    assert run.about["step"] == repr(Switched(Constant(0.2), 30, Constant(0.1)))
    assert np.array_equal(siag.replay(tmp_path / "run.trace").w, run.w)
