"""Scaffnew: ProxSkip step by step, its coin, and the balance of its control variates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import conform, simulate
from siag.activity import Bernoulli, Clock, EveryArrivals, Everyone, Exponential, Sequential, WaitForAll
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.rng import SAMPLES, blank, fresh, key, rewind
from siag.methods import advance, compute, forget, ready, receive, shown
from siag.methods.prox import Prox
from siag.methods.scaffnew import COIN, Scaffnew, toss
from siag.problems import Ridge, exact, sample
from siag.steps import Constant

N, D = 5, 3
PROBLEM = Ridge.random(n=N, d=D, m=6, tilt=0.5, regularization=0.1, seed=2)
SIZE = 1.0 / PROBLEM.smoothness.max()
ONE = Constant(1.0)

quick = settings(deadline=None, max_examples=40)
chances = st.floats(0.05, 1.0)


def coins(p, seed, count):
    """The numbers of local steps up to the first `count` rounds."""
    rng = fresh(seed, 0, COIN)
    return [int(toss(rng, p)) for _ in range(count)]


def algorithm_2(problem, method, count, seed=0):
    """The paper's pseudo-code: a coin after every local step; the mean after the `count`-th round."""
    oracle, generators = problem.oracle(), [blank() for _ in range(problem.n)]
    x, h, repeat = np.zeros((problem.n, problem.d)), np.zeros((problem.n, problem.d)), key(seed, 0, SAMPLES)
    for k, steps in enumerate(coins(method.p, method.seed, count)):
        for i, rng in enumerate(generators):
            rewind(rng, repeat, i, k)
        for theta in [False] * (steps - 1) + [True]:
            ahead = np.empty_like(x)
            for i, rng in enumerate(generators):
                g = np.empty(problem.d)
                if method.gradients == "exact":
                    exact(oracle, i, x[i], g)
                else:
                    sample(oracle, rng, i, x[i], g)
                ahead[i] = x[i] - method.size * (g - h[i])
            x = np.tile(ahead.mean(axis=0), (problem.n, 1)) if theta else ahead
            h = h + method.p / method.size * (x - ahead)
    return x[0]


@siag.compiled
def round_of_all(oracle, memory, state, model, rng, message):
    """Everyone takes its local steps, and the server takes the mean."""
    for i in range(state.n):
        if compute(memory, oracle, rng, i, model, message):
            receive(state, i, message, 0)
    advance(state, 1.0)


class Federation:
    """A server and its workers, driven by hand."""

    def __init__(self, **settings):
        method = Scaffnew(**settings)
        self.memory, self.state = method.recruit(np.zeros(D), N), method.init(np.zeros(D), N)

    def run(self, count):
        for _ in range(count):
            round_of_all(PROBLEM.oracle(), self.memory, self.state, shown(self.state), blank(), np.empty(D))

    @property
    def error(self):
        return ((self.state.w - PROBLEM.optimum) ** 2).sum()


@pytest.mark.parametrize("gradients", ["exact", "sample"])
@quick
@given(p=chances, count=st.integers(1, 12), coin=st.integers(0, 2**64 - 1), seed=st.integers(0, 2**64 - 1))
def test_it_follows_algorithm_2(gradients, p, count, coin, seed):
    method = Scaffnew(p=p, size=0.2 * SIZE, gradients=gradients, seed=coin)
    run = simulate(PROBLEM, method, Everyone(), ONE, iterations=count, seed=seed, record=2)
    np.testing.assert_allclose(run.w[0], algorithm_2(PROBLEM, method, count, seed), rtol=1e-9, atol=1e-11)


@quick
@given(p=chances, size=st.floats(0.05, 1.0), coin=st.integers(0, 2**64 - 1))
def test_the_control_variates_add_up_to_zero(p, size, coin):
    federation = Federation(p=p, size=size * SIZE, seed=coin)
    for _ in range(20):
        federation.run(1)
        assert np.abs(federation.memory.own.sum(axis=0)).max() < 1e-9


def test_the_control_variates_tend_to_the_gradients_at_the_optimum():
    federation = Federation(p=0.2, size=SIZE)
    federation.run(600)
    assert federation.error < 1e-20
    slopes = [PROBLEM.gradient(i, PROBLEM.optimum) for i in range(N)]
    np.testing.assert_allclose(federation.memory.own, slopes, rtol=0, atol=1e-8)


def test_a_worker_that_forgets_biases_it_for_ever_which_is_why_it_is_not_served():
    federation = Federation(p=0.2, size=SIZE)
    federation.run(300)
    forget(federation.memory, 0)
    federation.run(2000)
    assert federation.error > 1e-4
    assert np.abs(federation.memory.own.sum(axis=0)).max() > 1e-2


def test_the_coin_is_geometric():
    """Mean and P(K > k) of 20 000 draws within 4.5 standard deviations: another seed would fail once in 10 000."""
    for p in (0.05, 0.3, 0.9):
        draws = np.array(coins(p, 3, 20_000))
        assert draws.min() == 1
        assert abs(draws.mean() - 1 / p) < 4.5 * np.sqrt((1 - p) / p**2 / len(draws))
        for k in (1, 3):
            tail = (1 - p) ** k
            assert abs((draws > k).mean() - tail) < 4.5 * np.sqrt(tail * (1 - tail) / len(draws))
    assert coins(1.0, 3, 100) == [1] * 100


def test_even_the_smallest_chance_is_a_number_of_steps():
    assert 1.0 <= toss(fresh(0, 0, COIN), 1e-300) <= 2.0**53


def test_the_coin_is_the_same_in_all_repeats_and_another_with_another_seed():
    runs = [
        simulate(PROBLEM, Scaffnew(p=0.3, size=SIZE, seed=coin), Everyone(), ONE, iterations=30, repeats=3)
        for coin in (0, 1)
    ]
    for run in runs:
        assert (run.samples == run.samples[0]).all()
    assert runs[0].samples[0, -1] != runs[1].samples[0, -1]


def test_gradients_and_numbers_are_counted():
    run = simulate(PROBLEM, Scaffnew(p=0.3, size=SIZE), Everyone(), ONE, iterations=30, record=2)
    assert run.samples[0, -1] == N * sum(coins(0.3, 0, 30))
    assert run.bytes[0, -1] == 30 * N * 8 * (D + (D + 1))


def test_any_step_but_1_is_refused():
    for step in (Constant(0.1), siag.steps.Harmonic(1.0, 1.0)):
        with pytest.raises(siag.Unsuitable, match=r"use Constant\(1.0\)"):
            siag.simulate(PROBLEM, Scaffnew(p=0.3, size=0.1), siag.activity.Everyone(), step, iterations=3)


def test_waiting_for_all_on_a_clock_is_everyone_in_every_round():
    clock = Clock(Exponential(1.0), slowness=[1, 2, 3, 4, 5], server=WaitForAll())
    method = Scaffnew(p=0.3, size=SIZE)
    ends = [simulate(PROBLEM, method, activity, ONE, iterations=30).w for activity in (Everyone(), clock)]
    np.testing.assert_allclose(*ends, rtol=1e-10)  # reports come in another order


def test_it_is_ready_when_everyone_has_reported():
    state = Scaffnew(p=0.5, size=1.0).init(np.zeros(1), 2)
    receive(state, 0, np.array([2.0]), 0)
    assert not ready(state)
    advance(state, 1.0)
    assert state.w.tolist() == [0.0]
    for i in (0, 1):
        receive(state, i, np.array([3.0 * i]), 0)
    assert ready(state)
    advance(state, 1.0)
    assert state.w.tolist() == [1.5]


@pytest.mark.parametrize(
    "activity",
    [Bernoulli(0.5), Sequential(), Clock(Exponential(1.0)), Clock(Exponential(1.0), server=EveryArrivals(N))],
)
def test_rounds_without_some_workers_are_refused(activity):
    with pytest.raises(Unsuitable, match=r"everyone in every round .* SCAFFOLD"):
        siag.simulate(PROBLEM, Scaffnew(p=0.5, size=0.1), activity, ONE, iterations=3)


def test_a_live_server_is_refused():
    with pytest.raises(Unsuitable, match="use SCAFFOLD"):
        Scaffnew(p=0.5, size=0.1).serve()


def test_a_proximal_step_is_refused():
    with pytest.raises(Unsuitable, match="use PIAG"):
        Prox(Scaffnew(p=0.5, size=0.1), l1=0.1)


@pytest.mark.parametrize("wrong", [{"p": 0.0}, {"p": 1.1}, {"p": float("nan")}, {"size": 0.0}, {"seed": -1}])
def test_parameters_of_no_meaning_are_refused(wrong):
    with pytest.raises(BadInput, match=f"{next(iter(wrong))} = .*must be"):
        Scaffnew(**({"p": 0.5, "size": 0.1} | wrong))


def test_with_certain_communication_it_conforms_in_everything():
    # nobody can leave rounds that need everybody
    conform(Scaffnew(p=1.0, size=0.1), skip=["departures_are_obeyed"])


def test_it_conforms_except_that_local_steps_are_not_gradient_descent():
    conform(Scaffnew(p=0.3, size=0.1), skip=["all_active_is_gradient_descent", "departures_are_obeyed"])
