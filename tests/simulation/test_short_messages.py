"""Short messages in the simulator: the numbers of live runs, in `simulate`, `sweep`, `compare` and files."""

import numpy as np
import pytest
from tests.packed import sent

import siag
from siag.experiments.comparison import compare
from siag.experiments.config import build
from siag.foundations.errors import BadInput, Unsuitable

N, D = 3, 4
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=3, noise=0.1, seed=2)
WHO = siag.activity.Uniform(3)
STEP = siag.steps.Constant(0.02)


def ran(messages, **given):
    given = {"iterations": 30, "repeats": 2, "seed": 4, "record": 5} | given
    return siag.simulate(PROBLEM, siag.methods.SIAG(), WHO, STEP, messages=messages, **given)


@pytest.mark.thorough
@pytest.mark.parametrize("messages", ["float32", "bfloat16", "int8"])
def test_compiled_and_plain_runs_agree(messages):
    fast, plain = ran(messages), ran(messages, compiled=False)
    assert np.array_equal(fast.w, plain.w)
    assert np.array_equal(fast.error, plain.error)
    assert not np.array_equal(fast.w, ran("float64").w)


@pytest.mark.thorough
def test_a_message_is_rounded_by_seed_repeat_worker_and_sample():
    """The first two iterations of repeat 1 with all workers: rows are the rounded gradients at float32 numbers of w."""
    w0, eta = np.full(D, 1 / 3), 0.02
    given = {"iterations": 1, "repeats": 2, "seed": 4, "w0": w0, "record": 2}
    exact = siag.simulate(PROBLEM, siag.methods.SIAG(), siag.activity.Cyclic(), STEP, **given)
    gradient = (w0 - exact.w[1]) * N / eta  # of worker 0
    short = siag.simulate(PROBLEM, siag.methods.SIAG(), siag.activity.Cyclic(), STEP, messages="int8", **given)
    found = (w0 - short.w[1]) * N / eta
    assert np.allclose(found, sent("int8", gradient, 4, 0, 0, repeat=1), atol=1e-5)
    assert not np.allclose(found, sent("int8", gradient, 4, 0, 0, repeat=0), atol=1e-5)


def test_bytes_are_counted_as_they_travel():
    run = ran("int8")
    assert run.about["messages"] == "int8"
    assert run.about["method"] == repr(siag.methods.SIAG())
    assert np.array_equal(run.bytes, run.uploads * (4 + D) + run.reads * 4 * D)
    assert "messages" not in ran("float64").about


def test_a_sweep_and_a_file_have_them_too(tmp_path):
    given = {"iterations": 30, "repeats": 2, "seed": 4, "record": 5}
    for messages in ("float64", "int8"):  # in one folder: neither takes the other's runs for its own
        found = siag.sweep(PROBLEM, siag.methods.SIAG(), WHO, STEP, messages=messages, folder=tmp_path, **given)
        assert np.array_equal(found.runs[0].w, ran(messages).w)
    tables = {
        "problem": {"kind": "LeastSquares", "n": N, "d": D, "p": 3, "noise": 0.1, "seed": 2},
        "method": {"kind": "SIAG"},
        "activity": {"kind": "Uniform", "T": 3},
        "step": {"kind": "Constant", "eta": 0.02},
    }
    assert np.array_equal(build(tables | {"run": given | {"messages": "int8"}}).run().w, ran("int8").w)
    with pytest.raises(BadInput, match=r"run.messages = 'int7': must be one of"):
        build(tables | {"run": given | {"messages": "int7"}})


def test_a_comparison_has_them_and_lists_who_cannot():
    methods = [siag.methods.SIAG(), siag.methods.EF21(k=1)]
    found = compare(
        PROBLEM, methods, {"all": siag.activity.Everyone()}, iterations=60, repeats=2, claims=False, messages="int8"
    )
    first, second = found.entries
    assert first.run.about["messages"] == "int8"
    assert "EF21 sends indices up to 3, int8 rounds them above 0" in second.reason


def test_what_cannot_be_is_refused():
    with pytest.raises(BadInput, match="messages = 'int9': must be one of 'float64', 'float32', 'bfloat16', 'int8'"):
        ran("int9")
    with pytest.raises(Unsuitable, match="EF21 sends indices"):
        siag.simulate(PROBLEM, siag.methods.EF21(k=1), WHO, STEP, iterations=5, messages="int8")
    with pytest.raises(Unsuitable, match="EF21 sends indices"):
        siag.sweep(PROBLEM, siag.methods.EF21(k=1), WHO, STEP, iterations=5, messages="int8")
