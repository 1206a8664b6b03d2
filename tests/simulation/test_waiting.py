"""A schedule of steps begins when as many workers have reported as the method waits for."""

import numpy as np
import pytest

import siag
from plain import simulate
from siag.activity import Clock, Cyclic, Fixed, waited
from siag.methods import ACE, IAG, SIAG, Averaged, CurvatureIAG
from siag.steps import Constant, Harmonic, Switched

N = 4
PROBLEM = siag.problems.Ridge.random(n=N, d=2, m=3, seed=2)
CLOCK = Clock(Fixed(1.0), slowness=[1.0, 1.1, 1.2, 2.5])  # the last reports when the others have done so twice
FALLING, AS_IT_FALLS = Harmonic(beta=0.2, gamma=2.0), Switched(Constant(0.2 / 2.0), 1, Constant(0.2 / 3.0))
METHODS = [SIAG(wait=1.0), IAG(wait=1.0), ACE(), CurvatureIAG(), Averaged(SIAG(wait=1.0)), SIAG(wait=0.75)]


@pytest.mark.parametrize(("activity", "begins"), [(Cyclic(), (2, 3)), (CLOCK, (2, 6))], ids=["in turn", "clock"])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_w_stands_still_until_then_and_the_first_step_has_the_first_size(method, activity, begins):
    begin = begins[method.quorum(N) == N]
    assert waited(activity, N, method.quorum(N), 100, 0, 0) == begin
    errors = [
        simulate(PROBLEM, method, activity, step, iterations=begin + 2, record=100).error[0]
        for step in (FALLING, AS_IT_FALLS)
    ]
    assert np.array_equal(*errors)
    assert (errors[0][: begin + 1] == errors[0][0]).all()
    assert len(set(errors[0][begin:])) == 3
