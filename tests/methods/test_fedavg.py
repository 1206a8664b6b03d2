"""FedAvg: the mean of local models, whole or as a sum."""

import numpy as np
import pytest

import siag
from plain import simulate
from siag.activity import Everyone, Recorded, Uniform
from siag.checks import Bowl, conform
from siag.methods.fedavg import FedAvg
from siag.steps import Constant

BOWL = Bowl(np.random.default_rng(0).random((5, 3)), np.array([0.5, 1.0, 2.0]))


def test_it_conforms():
    conform(FedAvg(steps=3, size=0.1), skip=["all_active_is_gradient_descent"])  # more than one step is not


def test_with_one_step_of_size_one_it_conforms_in_everything():
    conform(FedAvg(steps=1, size=1.0))


def test_a_round_of_step_one_ends_at_the_mean_of_the_local_models():
    method, active = FedAvg(steps=4, size=0.2), [0, 2, 3]
    run = simulate(BOWL, method, Recorded([active]), Constant(1.0), iterations=1, w0=np.ones(3))
    models = []
    for i in active:
        y = np.ones(3)
        for _ in range(4):
            y = y - 0.2 * BOWL.gradient(i, y)
        models.append(y)
    assert np.allclose(run.w[0], np.mean(models, axis=0), rtol=1e-13)


def test_the_sum_counts_the_absent_as_standing_still():
    ends = {
        normalization: simulate(
            BOWL,
            FedAvg(steps=4, size=0.2, normalization=normalization),
            Recorded([[0, 2]]),
            Constant(1.0),
            iterations=1,
            w0=np.ones(3),
        ).w[0]
        for normalization in ("mean", "sum")
    }
    assert np.allclose(ends["sum"] - 1, 2 / 5 * (ends["mean"] - 1), rtol=1e-12)


def test_without_differences_in_curvature_there_is_no_drift():
    problem = siag.problems.LeastSquares.random(n=6, d=3, p=2, noise=0.1, seed=1)
    run = simulate(problem, FedAvg(steps=10, size=0.1, gradients="exact"), Everyone(), Constant(1.0), iterations=50)
    assert run.error[0, -1] < 1e-25


def test_sampled_and_exact_gradients_agree_where_there_is_no_noise():
    ends = [
        simulate(
            BOWL, FedAvg(steps=3, size=0.1, gradients=gradients), Uniform(4), Constant(1.0), iterations=60, seed=2
        ).w
        for gradients in ("sample", "exact")
    ]
    assert np.array_equal(*ends)


def test_another_normalization_is_refused():
    with pytest.raises(siag.BadInput, match="normalization = 'median': must be one of 'mean', 'sum'"):
        FedAvg(steps=1, size=1.0, normalization="median")
