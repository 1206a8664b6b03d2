"""Runs in which workers come and go: who counts, and from which optimum errors are measured."""

from typing import NamedTuple

import numpy as np
import pytest

import siag
from siag import methods
from siag.activity import Clock, EveryArrivals, Everyone, Exponential, Fixed, Members, Tick, Uniform, WaitForAll, unfold
from siag.foundations import schedule
from siag.foundations.errors import Unsuitable
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import ACED, EF21, IAG, LAG, SGD, SIAG, STORM, FedAvg, FedBuff, Weighted
from siag.problems import (
    FromFunction,
    LeastSquares,
    LogisticRegression,
    Network,
    NonconvexLogistic,
    Problem,
    Ridge,
    exact,
    sample,
)
from siag.steps import Constant, DelayAdaptive

N = 5
PROBLEM = LeastSquares.random(n=N, d=3, p=2, noise=0.2, seed=3)
RIDGE = Ridge.random(n=N, d=3, m=6, regularization=0.3, spread=2.0, tilt=0.4, seed=2)
COMINGS = {"arrive": {4: 40, 0: 120}, "leave": {1: 80, 0: 40}}
MEMBERS = [(0, [0, 1, 2, 3]), (40, [1, 2, 3, 4]), (80, [2, 3, 4]), (120, [0, 2, 3, 4])]
STEP = Constant(0.05)


def run_of(problem=PROBLEM, method=None, activity=None, step=STEP, iterations=160, **options):
    activity = Members(Uniform(3), **COMINGS) if activity is None else activity
    options = {"record": 10**4, "seed": 1} | options
    return siag.simulate(problem, method or SIAG(), activity, step, iterations=iterations, **options)


def naive(problem, iterations, seed, eta):
    """sIAG along the same pattern and samples, its sum taken anew each time: (iterations + 1, d) the iterates."""
    activity = Members(Uniform(3), **COMINGS)
    w, rows, counts = np.zeros(problem.d), {i: np.zeros(problem.d) for i in MEMBERS[0][1]}, np.zeros(N, int)
    found, oracle, leaving = [w.copy()], problem.oracle(), {40: [0], 80: [1]}
    rng, start = blank(), key(seed, 0, SAMPLES)
    for first, chunk in unfold(activity, N, iterations, seed, 0):
        for k in range(chunk.iterations):
            for i in leaving.get(first + k, ()):
                del rows[i]
            for i in chunk.worker[chunk.start[k] : chunk.start[k + 1]].tolist():
                rewind(rng, start, i, counts[i])
                counts[i] += 1
                rows[i] = np.empty(problem.d)
                sample(oracle, rng, i, w, rows[i])
            w = w - eta * np.mean(list(rows.values()), axis=0)
            found.append(w.copy())
    return np.array(found)


def test_a_run_is_siag_over_the_rows_of_members_and_its_error_is_from_their_optimum():
    w = naive(PROBLEM, 160, 1, 0.05)
    run = run_of()
    which = np.searchsorted([when for when, _ in MEMBERS], run.t, side="right") - 1
    optima = np.array([PROBLEM.centers[members].mean(axis=0) for _, members in MEMBERS])
    np.testing.assert_allclose(run.w[0], w[-1], rtol=1e-9)
    np.testing.assert_allclose(run.error[0], ((w - optima[which]) ** 2).sum(axis=1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "activity",
    [
        Members(Uniform(3), **COMINGS),
        Clock(Exponential(1.0), arrive={4: 10.0, 0: 25.0}, leave={1: 20.0, 0: 10.0}),
        Clock(Exponential(1.0), server=Tick(0.5), arrive={4: 10.0}, leave={1: 20.0}),
    ],
    ids=["iterations", "arrivals", "ticks"],
)
@pytest.mark.parametrize(
    "method",
    [SIAG(), *(pytest.param(method, marks=pytest.mark.thorough) for method in (EF21(k=1), STORM(a=0.2)))],
    ids=lambda method: type(method).__name__,
)
def test_compiled_and_plain_agree_bit_for_bit(activity, method):
    fast, slow = (run_of(method=method, activity=activity, compiled=compiled) for compiled in (True, False))
    for name in ("w", "error", "samples", "time"):
        assert np.array_equal(getattr(fast, name), getattr(slow, name))


@pytest.mark.parametrize(
    "activity",
    [Members(Uniform(3), **COMINGS), Clock(Exponential(1.0), arrive={4: 10.0}, leave={1: 20.0, 0: 10.0})],
    ids=["iterations", "clock"],
)
def test_neither_threads_nor_chunks_nor_points_matter(activity, monkeypatch):
    one = run_of(activity=activity, repeats=3, threads=1)
    two = run_of(activity=activity, repeats=3, threads=3)
    few = run_of(activity=activity, repeats=3, threads=1, record=5)
    measured = run_of(activity=activity, repeats=3, threads=1, objective=True)
    monkeypatch.setattr(schedule, "ITERATIONS", 7)
    cut = run_of(activity=activity, repeats=3, threads=1)
    for other in (two, measured, cut):
        assert np.array_equal(one.error, other.error)
    assert np.array_equal(one.error[:, few.t], few.error)


def test_members_who_stay_draw_the_samples_they_would_draw_if_all_stayed():
    """Common random numbers: until somebody comes or goes, runs are the same."""
    some, everybody = run_of(activity=Members(Uniform(3), leave={1: 80})), run_of(activity=Uniform(3))
    assert np.array_equal(some.error[:, :80], everybody.error[:, :80])
    assert not np.array_equal(some.error[:, 80:], everybody.error[:, 80:])


def test_f_and_its_gradient_are_those_of_the_members():
    run = run_of(RIDGE, IAG(), step=Constant(0.1), objective=True)
    for t in (0, 39, 40, 79, 80, 120, 160):
        among = RIDGE.among(np.array([who for when, who in MEMBERS if when <= t][-1]))
        w = (
            siag.simulate(
                RIDGE, IAG(), Members(Uniform(3), **COMINGS), Constant(0.1), iterations=max(t, 1), seed=1, record=2
            ).w[0]
            if t
            else np.zeros(3)
        )
        assert run.objective[0, t] == pytest.approx(among.objective(w), rel=1e-12)
        assert run.stationarity[0, t] == pytest.approx((among.full_gradient(w) ** 2).sum(), rel=1e-9, abs=1e-25)
        assert run.error[0, t] == pytest.approx(((w - among.optimum) ** 2).sum(), rel=1e-9, abs=1e-25)


@pytest.mark.parametrize(
    "problem",
    [
        LogisticRegression.random(n=N, d=3, m=8, regularization=0.2, heterogeneity=1.0, seed=4),
        NonconvexLogistic.random(n=N, d=3, m=8, regularization=0.05, seed=4),
        pytest.param(Network.random(n=N, p=2, m=5, classes=2, hidden=2, seed=4), marks=pytest.mark.thorough),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_other_problems_are_judged_by_their_own_optimum_or_gradient(problem):
    run = run_of(problem, IAG(), step=Constant(0.5), iterations=600, compiled=False)
    assert run.measure == ("‖wᵗ − w*‖²" if problem.optimum is not None else "‖∇F(wᵗ)‖²")
    among = problem.among(np.array(MEMBERS[-1][1]))
    last = ((run.w[0] - among.optimum) ** 2 if among.optimum is not None else among.full_gradient(run.w[0]) ** 2).sum()
    assert run.error[0, -1] == pytest.approx(last, rel=1e-9)
    assert run.error[0, -1] < 0.05 * run.error[0, 0]


class Bowls(NamedTuple):
    centers: np.ndarray  # (n, d)
    bend: float


@exact.when(Bowls)
def toward_center(oracle, i, w, out):
    for j in range(w.size):
        away = w[j] - oracle.centers[i, j]
        out[j] = away + oracle.bend * away**3


@sample.when(Bowls)
def toward_center_exactly(oracle, rng, i, w, out):
    exact(oracle, i, w, out)


class Own(Problem):
    """A problem that does not say what some of its workers would want."""

    n, d, optimum = N, 3, np.zeros(3)

    def __init__(self, bend):
        self.bend = bend

    def oracle(self):
        return Bowls(np.arange(3.0 * N).reshape(N, 3) % 4 - 1.5, self.bend)


def test_of_a_quadratic_of_ones_own_the_optimum_is_found_and_others_are_judged_by_the_gradient():
    run = run_of(Own(0.0), IAG(), step=Constant(0.1), iterations=400, compiled=False)
    assert run.measure == "‖wᵗ − w*‖²"
    assert run.error[0, -1] < 1e-12
    curved = run_of(Own(0.5), IAG(), step=Constant(0.1), iterations=400, compiled=False)
    assert curved.measure == "‖∇F(wᵗ)‖²"
    assert curved.error[0, -1] < 1e-12


def test_a_problem_that_tells_nothing_of_some_workers_is_refused_if_it_has_an_optimum():
    def gradient(i, w):
        return w - i

    with pytest.raises(Unsuitable, match="among"):
        run_of(FromFunction(gradient, n=N, d=1, optimum=[2.0]))
    assert run_of(FromFunction(gradient, n=N, d=1)).measure == ""


TRACKING = {
    "IAG": IAG(),
    "PIAG": methods.PIAG(),
    "CurvatureIAG": methods.CurvatureIAG(wait=0.8),
    "LAG": LAG(),
    "AsyncSGD": methods.AsyncSGD(gradients="exact"),
    "DuDe": methods.DuDe(wait=0.8, gradients="exact"),
    "ACE": methods.ACE(wait=0.8, gradients="exact"),
    "ACED": ACED(threshold=50, wait=0.8, gradients="exact"),
    "FedAvg": FedAvg(steps=1, size=0.1, gradients="exact"),
    "FedNova": methods.FedNova(steps=1, size=0.1, gradients="exact"),
    "FedProx": methods.FedProx(steps=1, size=0.1, pull=0.1, gradients="exact"),
    "FedBuff": FedBuff(steps=1, size=0.1, gradients="exact"),
    "FedAsync": methods.FedAsync(steps=1, size=0.1, gradients="exact"),
    "MIFA": methods.MIFA(steps=1, size=0.1, gradients="exact"),
    "SCAFFOLD": methods.SCAFFOLD(steps=3, size=0.1, gradients="exact"),
    "EF21": EF21(k=1, gradients="exact"),
    "Rennala": methods.Rennala(batch=4, gradients="exact"),
    "Ringmaster": methods.Ringmaster(threshold=4, gradients="exact"),
    "Momentum": methods.Momentum(IAG(), beta=0.5),
    "Adam": methods.Adam(IAG()),
    "Prox": methods.Prox(IAG(), l1=1e-9),
    "Clipped": methods.Clipped(IAG(), norm=1e3),
    "Weighted": Weighted(IAG(), [1.0] * N),
}


@pytest.mark.parametrize("name", TRACKING)
def test_with_exact_gradients_every_method_finds_the_optimum_of_whoever_is_there(name):
    method = TRACKING[name]
    step = Constant(0.9 if name == "FedAsync" else 1.0 if hasattr(method, "steps") else 0.1)
    comings = {"arrive": {4: 200, 0: 600}, "leave": {1: 400, 0: 200}}
    run = run_of(RIDGE, method, Members(Everyone(), **comings), step, iterations=800, compiled=False)
    assert (run.error[0, [200, 400, 600]] > 0.1).all()  # the optimum has moved
    assert (run.error[0, [199, 399, 599, 800]] < 1e-8).all()  # and w has followed


def test_automatic_needs_no_step_to_follow():
    comings = {"arrive": {4: 1000}, "leave": {1: 1000}}
    run = run_of(PROBLEM, methods.Automatic(), Members(Everyone(), **comings), None, iterations=4000, record=400)
    after = run.error[0, np.searchsorted(run.t, 1000)]
    assert run.error[0, -1] < 0.3 * after


def test_a_step_that_looks_at_ages_forgets_those_who_have_left():
    """Worker 1 would be the oldest for ever, and worker 4 the one that is still missing."""
    step, activity = DelayAdaptive(0.5), Members(Uniform(3), arrive={4: 300}, leave={1: 100})
    slow, fast = (run_of(RIDGE, IAG(), activity, step, iterations=600, compiled=compiled) for compiled in (False, True))
    assert np.array_equal(slow.error, fast.error)
    assert (slow.error[0, [99, 299, 599]] < 1e-3).all()
    clock = Clock(Exponential(1.0), arrive={4: 60.0}, leave={1: 20.0})
    timed = run_of(RIDGE, IAG(), clock, step, iterations=600)
    assert timed.error[0, -1] < 1e-3


def test_waiting_for_all_on_a_clock_is_the_synchronous_method_among_those_who_are_there():
    """A worker that leaves at 10.5 s has read w of iteration 10 and reports no more."""
    for method in (SGD(), SIAG()):
        clock = Clock(Fixed(1.0), server=WaitForAll(), leave={1: 10.5, 3: 20.5})
        one = run_of(method=method, activity=clock, iterations=40)
        two = run_of(method=method, activity=Members(Everyone(), leave={1: 10, 3: 20}), iterations=40)
        assert np.array_equal(one.w, two.w)
        later = (two.t != 10) & (two.t != 20)  # at 10 s worker 1 is there; in iteration 10 it is not
        assert np.array_equal(one.error[:, later], two.error[:, later])


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (methods.ADPSGD(), "SIAG"),
        (methods.Scaffnew(p=0.5, size=0.1), "SCAFFOLD"),
        (methods.SAG(), "IAG"),
        (methods.SAGA(), "IAG"),
        (methods.Incremental(), "SGD"),
        (SGD(normalization="sum"), "'mean'"),
        (FedAvg(steps=1, size=0.1, normalization="sum"), "'mean'"),
        (methods.Averaged(SGD(normalization="sum")), "'mean'"),
        (SIAG(wait=1.0), "wait=4/5"),
        (methods.ACE(), "wait=4/5"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_methods_that_cannot_bear_it_are_refused_with_what_would_work(method, remedy):
    activity = Clock(Fixed(1.0), server=WaitForAll(), arrive={4: 3.0})
    with pytest.raises(Unsuitable, match=remedy):
        run_of(RIDGE, method, activity, Constant(1.0))


def test_a_buffer_must_be_one_that_the_fewest_members_fill():
    clock = Clock(Fixed(1.0), server=EveryArrivals(4), arrive={4: 3.0}, leave={1: 9.0, 2: 9.0})
    with pytest.raises(Unsuitable, match="from 1 to 3"):
        run_of(PROBLEM, FedBuff(steps=1, size=0.1), clock, Constant(0.5))


def test_a_saved_run_says_who_came_and_went(tmp_path):
    run = run_of()
    run.save(tmp_path / "run.npz")
    about = siag.load(tmp_path / "run.npz").about["activity"]
    assert about == "Members(activity=Uniform(T=3), arrive={0: 120, 4: 40}, leave={0: 40, 1: 80})"
