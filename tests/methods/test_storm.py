"""STORM: its recursion line by line, samples at two points, and what a crash means."""

import numpy as np
import pytest

import siag
from drawn import Drawn, some_reports
from plain import as_python, conform, simulate
from refusals import refused
from siag.activity import Clock, Everyone, Exponential, Recorded
from siag.foundations.rng import SAMPLES, fresh
from siag.live.task import FromStream
from siag.methods import SIAG, STORM, compute, cost, forget
from siag.problems import LeastSquares, LogisticRegression, Ridge, again, sample
from siag.steps import Constant

N, D, T = 5, 3, 60
PROBLEMS = [
    Ridge.random(n=N, d=D, m=6, tilt=0.5, regularization=0.1, seed=2),
    LogisticRegression.random(n=N, d=D, m=20, seed=2),
    LeastSquares.random(n=N, d=D, p=2, noise=0.2, seed=3),
    LeastSquares.random(n=N, d=D, p=2, noise=0.2, seed=3, sampler="literal"),
]
TRACE = some_reports(N, T, seed=1)


def recursion(problem, eta, a, fall=np.inf):
    """Algorithm 1 of Cutkosky and Orabona with given η and a, a table having a row d_i for each worker."""
    drawn, w, d, point = Drawn(problem, 4), np.zeros(D), np.zeros((N, D)), {}
    for t, active in enumerate(TRACE):
        share = a * (1 + t / fall) ** (-2 / 3)
        for i in active:
            now, then = drawn.at(i, w, point.get(i, w))
            d[i] = now + (1 - share) * (d[i] - then) if i in point else now
            point[i] = w
        w = w - eta * d.mean(axis=0)
    return w


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: getattr(problem, "sampler", type(problem).__name__))
@pytest.mark.parametrize("fall", [None, 10.0])
def test_it_does_what_the_paper_writes(problem, fall):
    run = simulate(problem, STORM(a=0.3, fall=fall), Recorded(TRACE), Constant(0.05), iterations=T, seed=4)
    expected = recursion(problem, 0.05, 0.3, np.inf if fall is None else fall)
    assert expected.any()
    np.testing.assert_allclose(run.w[0], expected, rtol=0, atol=1e-9)


def test_it_conforms():
    conform(STORM(a=0.3, fall=7.0))


def test_with_a_share_of_one_it_is_siag_bit_for_bit():
    one, two = (
        simulate(PROBLEMS[0], method, Recorded(TRACE), Constant(0.05), iterations=T).w
        for method in (STORM(a=1.0), SIAG())
    )
    assert np.array_equal(one, two)


def test_a_report_takes_two_gradients_but_the_first_and_a_clock_counts_two():
    run = simulate(PROBLEMS[0], STORM(), Everyone(), Constant(0.05), iterations=10)
    assert run.samples[0, -1] == N + 2 * N * 9
    assert STORM().work(N) == 2
    slow, fast = (
        simulate(PROBLEMS[0], method, Clock(Exponential(1.0)), Constant(0.01), iterations=400).time[0, -1]
        for method in (STORM(), SIAG())
    )
    assert slow > 1.6 * fast


def test_a_worker_that_lost_its_memory_sends_a_gradient():
    memory, oracle, out, rng = STORM().recruit(np.zeros(D), N), PROBLEMS[0].oracle(), np.empty(D), fresh(1, 0, SAMPLES)
    for _ in range(3):
        compute(memory, oracle, rng, 2, np.ones(D), out)
    assert cost(memory) == 2
    forget(memory, 2)
    compute(memory, oracle, rng, 2, np.zeros(D), out)
    assert cost(memory) == 1
    assert np.array_equal(memory.own[2], out)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: getattr(problem, "sampler", type(problem).__name__))
def test_the_same_sample_again_is_the_same_gradient(problem):
    oracle, first, second = problem.oracle(), np.empty(D), np.empty(D)
    rng = fresh(3, 0, SAMPLES)
    before = rng[0]
    sample(oracle, rng, 1, np.ones(D), first)
    after, rng[0] = rng[0], before
    again(oracle, rng, 1, np.ones(D), second)
    assert np.array_equal(first, second)
    assert rng[0] == after


def test_on_a_stream_the_gradient_is_asked_for_the_last_sample_again():
    asked = []

    def gradient(w, item):
        asked.append((float(w[0]), item))
        return w - item

    task = FromStream(gradient, iter(range(1, 9)), STORM(a=0.5), np.zeros(1))
    task.begin(0, 1, 1, 0)
    out, sent = np.empty(1), []
    for point in (0.0, 2.0, 5.0):
        task.compute(np.array([point]), out)
        sent.append(out[0])
    assert asked == [(0.0, 1), (2.0, 2), (0.0, 2), (5.0, 3), (2.0, 3)]
    assert sent == [-1.0, 0.0 + 0.5 * (-1.0 + 2.0), 2.0 + 0.5 * (0.5 + 1.0)]
    assert task.sample == 2


def test_live_on_streams_it_learns():
    def pull(w, item):
        return w - item

    given = {"until": 400, "progress": False, "runtime": siag.Simulated(seed=1)}
    with as_python():
        run = siag.train(pull, [[1.0, 1.0], [3.0, 3.0]], np.zeros(2), STORM(), Constant(0.2), **given)
    assert np.allclose(run.w, 2.0, atol=0.01)


@pytest.mark.parametrize(
    ("parameter", "value"), [("a", 0.0), ("a", 1.1), ("a", float("nan")), ("fall", 0.0), ("wait", 2)]
)
def test_parameters_without_a_meaning_are_refused(parameter, value):
    with refused(parameter):
        STORM(**{parameter: value})
