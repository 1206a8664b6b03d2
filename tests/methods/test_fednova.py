"""FedNova: the paper's normalised averaging on recorded rounds; FedAvg where all take as many steps."""

import numpy as np
import pytest

import siag
from plain import as_python, simulate
from refusals import refused
from siag.activity import Clock, Everyone, Fixed, Recorded, Uniform, WaitForAll
from siag.checks import Bowl, conform
from siag.methods import FedProx
from siag.methods.fedavg import FedAvg
from siag.methods.fednova import FedNova
from siag.steps import Constant

N, D = 4, 3
STEPS = (1, 2, 5, 9)
BOWL = Bowl(np.random.default_rng(0).random((N, D)), np.array([0.5, 1.0, 2.0]))
with as_python():
    ROUNDS, ALL = Recorded.of(Uniform(3), N, 60, seed=1), Recorded.of(Everyone(), N, 60)


def twin(activity, size, fall, eta, iterations):
    """d_i is the mean gradient along a worker's way; the server goes τ_eff η_l of the mean d_i."""
    w, start, worker = np.zeros(D), *activity.tape
    for t in range(iterations):
        local, directions = size / (1 + t / fall), []
        for i in worker[start[t] : start[t + 1]]:
            y, gradients = w.copy(), []
            for _ in range(STEPS[i]):
                gradients.append(BOWL.gradient(i, y))
                y = y - local * gradients[-1]
            directions.append(np.mean(gradients, axis=0))
        if directions:
            w = w - eta * np.mean(STEPS) * local * np.mean(directions, axis=0)
    return w


@pytest.mark.parametrize("fall", [None, 20.0])
@pytest.mark.parametrize("activity", [ROUNDS, ALL], ids=["some", "all"])
def test_it_is_its_papers_pseudo_code_on_recorded_rounds(activity, fall):
    method = FedNova(steps=STEPS, size=0.1, fall=fall)
    run = simulate(BOWL, method, activity, Constant(0.7), iterations=60, record=2)
    assert np.allclose(run.w[0], twin(activity, 0.1, fall or np.inf, 0.7, 60), rtol=1e-9)


def test_if_all_take_as_many_steps_it_is_fedavg_bit_for_bit():
    ends = [
        simulate(BOWL, kind(steps=5, size=0.1), ROUNDS, Constant(1.0), iterations=60).w for kind in (FedNova, FedAvg)
    ]
    assert np.array_equal(*ends)


def test_fedavg_weighs_workers_by_their_steps_and_fednova_does_not():
    """With tiny local steps a way is K_i η_l ∇F_i, and the Hessians being the same Σ K_i F_i has its minimum there."""
    given = {"iterations": 1500, "record": 2}
    size = 0.004
    one, other = (
        simulate(BOWL, kind(steps=STEPS, size=size), Everyone(), Constant(1.0), **given).w[0]
        for kind in (FedNova, FedAvg)
    )
    weighted = np.array(STEPS) @ BOWL.centers / sum(STEPS)
    assert np.allclose(one, BOWL.optimum, atol=0.01)
    assert np.allclose(other, weighted, atol=0.01)
    assert np.linalg.norm(weighted - BOWL.optimum) > 0.1


@pytest.mark.parametrize("kind", [FedAvg, FedNova])
def test_samples_and_time_are_those_of_each_workers_own_steps(kind):
    method = kind(steps=STEPS, size=0.01)
    clock = Clock(Fixed(1.0), server=WaitForAll(), slowness=[1.0, 1.0, 1.0, 0.5])
    run = simulate(BOWL, method, clock, Constant(1.0), iterations=10, record=2)
    assert run.time[0, -1] == 50.0  # 5 steps of the third worker, 4.5 of the fourth
    assert run.samples[0, -1] == 10 * sum(STEPS)
    assert run.reads[0, -1] == run.uploads[0, -1] == 10 * N


def test_it_conforms():
    conform(FedNova(steps=3, size=0.1), skip=["all_active_is_gradient_descent"])  # more than one step is not
    others = ["all_active_is_gradient_descent", "relabelling_changes_nothing"]  # numbers of steps go by worker
    conform(FedNova(steps=STEPS, size=0.1), skip=others)


@pytest.mark.parametrize("kind", [FedAvg, FedNova])
@pytest.mark.parametrize(
    ("steps", "place"), [((1, 0, 2, 3), "steps[1]"), ([1, 2.5, 1, 1], "steps[1]"), ((), "steps"), ("12", "steps")]
)
def test_numbers_of_steps_are_whole_and_positive(kind, steps, place):
    with refused(place):
        kind(steps=steps, size=0.1)


@pytest.mark.parametrize("steps", [(1, 2), (1, 2, 3, 4, 5), [3]])
def test_there_is_one_number_of_steps_for_each_worker(steps):
    with pytest.raises(siag.Unsuitable, match=r"in steps do not fit 4 workers; give 4, or one for all"):
        simulate(BOWL, FedNova(steps=steps, size=0.1), Everyone(), Constant(1.0), iterations=2)


def test_arrays_of_steps_become_tuples_and_equal_numbers_are_one_number_to_the_bit():
    assert FedNova(steps=np.array([1, 2]), size=0.1) == FedNova(steps=[1, 2], size=0.1)
    ends = [
        simulate(BOWL, FedProx(steps=steps, size=0.1, pull=0.3), ROUNDS, Constant(1.0), iterations=20).w
        for steps in (3, (3,) * N)
    ]
    assert np.array_equal(*ends)
