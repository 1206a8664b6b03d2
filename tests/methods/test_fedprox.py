"""FedProx: what the pull does, and that without it there is FedAvg."""

import numpy as np
import pytest

import siag
from refusals import refused
from siag.activity import Recorded, Uniform
from siag.checks import Bowl, conform
from siag.methods.fedavg import FedAvg
from siag.methods.fedprox import FedProx
from siag.steps import Constant

BOWL = Bowl(np.random.default_rng(0).random((5, 3)), np.array([0.5, 1.0, 2.0]))


def test_it_conforms():
    conform(FedProx(steps=3, size=0.1, pull=0.7), skip=["all_active_is_gradient_descent"])  # more than one step is not


def test_with_one_step_of_size_one_it_conforms_in_everything():
    conform(FedProx(steps=1, size=1.0, pull=0.7))  # the pull is 0 where a worker begins


@pytest.mark.thorough
@pytest.mark.parametrize("normalization", ["mean", "sum"])
def test_without_a_pull_it_is_fedavg_bit_for_bit(normalization):
    parameters = {"steps": 4, "size": 0.2, "normalization": normalization}
    ends = [
        siag.simulate(BOWL, method, Uniform(3), Constant(1.0), iterations=50, w0=np.ones(3), seed=3).w
        for method in (FedAvg(**parameters), FedProx(**parameters, pull=0.0))
    ]
    assert np.array_equal(*ends)


def test_many_steps_solve_the_local_problem_with_the_pull():
    pull, start = 1.5, np.ones(3)
    method = FedProx(steps=500, size=0.2, pull=pull)
    run = siag.simulate(BOWL, method, Recorded([[2]]), Constant(1.0), iterations=1, w0=start)
    nearest = (BOWL.curvature * BOWL.centers[2] + pull * start) / (BOWL.curvature + pull)
    assert np.allclose(run.w[0], nearest, rtol=1e-12)


@pytest.mark.parametrize("pull", [-0.1, float("nan"), float("inf"), "strong", True])
def test_a_pull_of_no_meaning_is_refused(pull):
    with refused("pull"):
        FedProx(steps=1, size=1.0, pull=pull)
