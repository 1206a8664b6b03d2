"""Comparisons on problems that know no optimum: by ‖∇F‖², or not at all."""

import math

import numpy as np
import pytest

import siag
from siag.activity import Uniform
from siag.checks import Bowl
from siag.foundations.errors import Missing
from siag.problems import FromFunction, Network
from siag.simulation.tuning import unit_of


class Anywhere(Bowl):
    """A bowl whose optimum nobody knows."""

    optimum = None


BOWL = Anywhere(np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([1.0, 2.0]))
CALM = {"uniform": Uniform(2)}


@pytest.mark.thorough
def test_methods_are_ranked_by_the_gradient_and_no_bias_is_told():
    found = siag.compare(BOWL, ["sIAG"], CALM, iterations=60, repeats=2, eta=1.0, claims=False)
    (entry,) = found.entries
    (row,) = (found.row(entry),)
    assert row["iterations"] == entry.run.stationarity[:, -1].mean() == row["stationarity"]
    assert row["iterations"] < 1e-3 * entry.run.mean[0]
    assert math.isnan(row["bias"])
    assert "No optimum is known: errors are ‖∇F(wᵗ)‖²." in found.markdown()
    assert "w*" not in found.markdown()


def test_what_cannot_be_ranked_is_refused_with_what_to_give():
    unknown = FromFunction(lambda i, w: w, n=2, d=2)
    with pytest.raises(siag.Unsuitable, match=r"knows no optimum, and neither ∇F nor F is measured, .*give it exact=…"):
        siag.compare(unknown, ["sIAG"], CALM, iterations=60, eta=1.0)
    with pytest.raises(siag.Unsuitable, match=r"nothing ranks methods"):
        siag.compare(BOWL, ["sIAG"], CALM, iterations=60, eta=1.0, objective=False)
    with pytest.raises(Missing, match=r"eta is missing; Network does not know its L; give a step to begin from"):
        siag.compare(Network.random(n=2), ["sIAG"], CALM, iterations=60)


def test_the_search_begins_at_the_l_of_a_problem_that_is_not_convex():
    problem = siag.problems.NonconvexLogistic.random(n=3, d=2, m=4)
    assert unit_of(problem, None) == pytest.approx(1.0 / problem.smoothness.max())
