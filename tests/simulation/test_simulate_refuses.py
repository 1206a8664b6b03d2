"""Bad input is refused before any work, with the name of what is wrong."""

import re
from typing import NamedTuple

import numpy as np
import pytest

import siag
from refusals import refused

PROBLEM = siag.problems.LeastSquares.random(n=3, d=2, p=2, noise=0.1)
METHOD, ACTIVITY, STEP = siag.methods.SIAG(), siag.activity.Uniform(3), siag.steps.Constant(0.1)
PARTS = {"problem": PROBLEM, "method": METHOD, "activity": ACTIVITY, "step": STEP}


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("iterations", 0),
        ("iterations", -5),
        ("iterations", 10.0),
        ("iterations", True),
        ("iterations", "10"),
        ("repeats", 0),
        ("repeats", 1.5),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", 0.5),
        ("record", 0),
        ("record", None),
        ("threads", 0),
        ("threads", 1.5),
        ("w0", [np.nan, 0.0]),
        ("w0", [np.inf, 0.0]),
        ("w0", [0.0, 0.0, 0.0]),
        ("w0", [[0.0, 0.0]]),
        ("w0", 0.0),
        ("w0", ["a", "b"]),
        ("w0", [1j, 0.0]),
    ],
)
def test_a_bad_value_is_refused_by_name(parameter, value):
    with pytest.raises(siag.BadInput, match=f"^{parameter} = .*must be") as caught:
        siag.simulate(PROBLEM, METHOD, ACTIVITY, STEP, **({"iterations": 10} | {parameter: value}))
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "order",
    [
        ("problem", "activity", "method", "step"),
        ("problem", "method", "step", "activity"),
        ("problem", "step", "activity", "method"),
        ("method", "problem", "activity", "step"),
        ("step", "method", "activity", "problem"),
    ],
)
def test_parts_in_the_wrong_order_are_refused_with_the_right_one(order):
    with pytest.raises(siag.SiagError, match="the order is problem, method, activity, step"):
        siag.simulate(*(PARTS[name] for name in order), iterations=10)


def test_a_class_instead_of_an_object_is_refused():
    with pytest.raises(siag.SiagError, match="is not a Method"):
        siag.simulate(PROBLEM, siag.methods.SIAG, ACTIVITY, STEP, iterations=10)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_wrong_number_of_rates_is_refused(threads):
    with pytest.raises(siag.BadInput, match=re.escape("rates = (0.5, 0.5): must be one number, or 3 numbers")):
        siag.simulate(
            PROBLEM, METHOD, siag.activity.Bernoulli([0.5, 0.5]), STEP, iterations=10, repeats=2, threads=threads
        )


def test_a_trace_with_unknown_workers_is_refused():
    with pytest.raises(siag.BadInput, match="trace = 3: must be made of workers 0 to 2"):
        siag.simulate(PROBLEM, METHOD, siag.activity.Recorded([[0], [3]]), STEP, iterations=2)


def test_more_iterations_than_the_trace_has_are_refused():
    with refused("iterations"):
        siag.simulate(PROBLEM, METHOD, siag.activity.Recorded([[0], [1]]), STEP, iterations=3)


class Silent(NamedTuple):
    w: np.ndarray


def test_a_method_without_meanings_is_refused_with_what_to_write():
    class Mute(siag.methods.Method):
        def init(self, w0, n):
            return Silent(w0.copy())

    with pytest.raises(siag.SiagError, match=re.escape("`receive` is not defined for `Silent`; write one: @receive")):
        siag.simulate(PROBLEM, Mute(), ACTIVITY, STEP, iterations=10)
