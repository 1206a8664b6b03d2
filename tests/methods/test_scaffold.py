"""SCAFFOLD: Algorithm 1 line by line, its control variates, and what a crash means."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import conform, simulate
from siag.activity import Bernoulli, Clock, EveryArrivals, Everyone, Exponential, Recorded, WaitForAll
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import advance, compute, fade, forget, ready, receive, shown
from siag.methods.prox import Prox
from siag.methods.scaffold import SCAFFOLD
from siag.problems import Ridge, exact, sample
from siag.steps import Constant

N, D = 5, 3
NOISY = Ridge.random(n=N, d=D, m=6, tilt=0.5, regularization=0.1, seed=2)
DRIFTING = Ridge.random(n=10, d=5, m=20, spread=1.0, tilt=0.5, regularization=0.1, seed=7)
SIZE = 0.1 / DRIFTING.smoothness.max()

quick = settings(deadline=None, max_examples=40)
traces = st.lists(st.sets(st.integers(0, N - 1)), min_size=1, max_size=25)
options = pytest.mark.parametrize("option", [1, 2])


def algorithm_1(problem, method, trace, eta, seed=0, crashes=()):
    """The paper's pseudo-code, its server keeping c alone; `crashes` are pairs (round, worker)."""
    oracle, rng, repeat = problem.oracle(), blank(), key(seed, 0, SAMPLES)
    drawn, x, c = np.zeros(problem.n, int), np.zeros(problem.d), np.zeros(problem.d)
    variates = np.zeros((problem.n, problem.d))

    def gradient(i, y):
        g = np.empty(problem.d)
        if method.gradients == "exact":
            exact(oracle, i, y, g)
        else:
            sample(oracle, rng, i, y, g)
        return g

    for t, active in enumerate(trace):
        for when, who in crashes:
            if when == t:
                variates[who] = 0.0
        moves, changes = np.zeros(problem.d), np.zeros(problem.d)
        for i in sorted(active):
            rewind(rng, repeat, i, drawn[i])
            drawn[i] += 1
            y = x.copy()
            for _ in range(method.steps):
                y = y - method.size * (gradient(i, y) - variates[i] + c)
            new = gradient(i, x) if method.option == 1 else variates[i] - c + (x - y) / (method.steps * method.size)
            moves, changes = moves + (y - x), changes + (new - variates[i])
            variates[i] = new
        if active:
            x = x + eta / len(active) * moves
        c = c + changes / problem.n
    return x


@siag.compiled
def rounds(oracle, memory, state, model, rng, workers, message, count):
    """So many rounds in which all of these workers take part, with the server's step 1."""
    for _ in range(count):
        for i in workers:
            if compute(memory, oracle, rng, i, model, message):
                receive(state, i, message, 0)
        advance(state, 1.0)


class Federation:
    """A server and its workers, driven by hand on exact gradients."""

    def __init__(self, problem, option, steps=5, size=SIZE):
        self.problem, method = problem, SCAFFOLD(steps=steps, size=size, gradients="exact", option=option)
        w0 = np.zeros(problem.d)
        self.memory, self.state = method.recruit(w0, problem.n), method.init(w0, problem.n)
        self.message = np.empty(method.message(problem.d, problem.n))

    def run(self, count, workers=None):
        workers = np.arange(self.problem.n) if workers is None else np.array(workers, int)
        model, rng = shown(self.state), blank()
        rounds(self.problem.oracle(), self.memory, self.state, model, rng, workers, self.message, count)

    @property
    def error(self):
        return ((self.state.w - self.problem.optimum) ** 2).sum()

    @property
    def c(self):
        return self.state.model[self.problem.d :]


@pytest.mark.parametrize("gradients", ["sample", "exact"])
@options
@quick
@given(trace=traces, steps=st.integers(1, 4), eta=st.sampled_from([1.0, 0.3]), seed=st.integers(0, 2**64 - 1))
def test_it_follows_algorithm_1_on_any_activity(gradients, option, trace, steps, eta, seed):
    method = SCAFFOLD(steps=steps, size=0.02, gradients=gradients, option=option)
    activity = Recorded([sorted(active) for active in trace])
    run = simulate(NOISY, method, activity, Constant(eta), iterations=len(trace), seed=seed, record=2)
    np.testing.assert_allclose(run.w[0], algorithm_1(NOISY, method, trace, eta, seed), rtol=1e-10, atol=1e-12)


@pytest.mark.thorough
@options
@quick
@given(trace=traces, steps=st.integers(1, 4))
def test_the_servers_c_is_the_mean_of_the_workers(option, trace, steps):
    federation = Federation(NOISY, option, steps, size=0.02)
    for active in trace:
        federation.run(1, sorted(active))
        np.testing.assert_allclose(federation.c, federation.memory.own.mean(axis=0), rtol=0, atol=1e-12)


@options
@quick
@given(trace=traces, crashes=st.lists(st.tuples(st.integers(0, 24), st.integers(0, N - 1)), max_size=5))
def test_the_servers_c_is_the_mean_again_once_those_who_forgot_have_reported(option, trace, crashes):
    federation = Federation(NOISY, option, steps=2, size=0.02)
    for t, active in enumerate(trace):
        for when, who in crashes:
            if when == t:
                forget(federation.memory, who)
        federation.run(1, sorted(active))
    federation.run(1)
    np.testing.assert_allclose(federation.c, federation.memory.own.mean(axis=0), rtol=0, atol=1e-12)


@options
def test_crashes_leave_no_trace(option):
    federation = Federation(DRIFTING, option)
    federation.run(500)
    assert federation.error < 1e-18
    forget(federation.memory, 0)
    forget(federation.memory, 3)
    federation.run(1)
    assert federation.error > 1e-6  # it does matter for a while
    federation.run(1500)
    assert federation.error < 1e-20


@pytest.mark.thorough
def test_with_differences_on_the_wire_a_crash_would_bias_the_server_for_ever():
    method = SCAFFOLD(steps=10, size=0.5 / NOISY.smoothness.max(), gradients="exact")
    trace, crashes = [range(N)] * 200, [(100, 0), (100, 3)]
    sound, struck = (algorithm_1(NOISY, method, trace, 1.0, crashes=those) for those in ((), crashes))
    assert ((sound - NOISY.optimum) ** 2).sum() < 1e-20
    assert ((struck - NOISY.optimum) ** 2).sum() > 1e-3


@options
def test_without_a_worker_that_has_left_for_good_it_finds_the_optimum_of_the_others(option):
    federation = Federation(DRIFTING, option)
    federation.run(300)
    fade(federation.state, 0, 0.0)
    federation.run(1500, range(1, 10))
    others = Ridge(DRIFTING.features[1:], DRIFTING.targets[1:], DRIFTING.regularization)
    assert ((federation.state.w - others.optimum) ** 2).sum() < 1e-20
    assert ((federation.state.w - DRIFTING.optimum) ** 2).sum() > 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("eta", [0.1, 1.0])
@options
def test_unequal_speeds_do_not_bias_it_when_reports_are_old(option, eta):
    clock = Clock(Exponential(1.0), slowness=np.linspace(1, 10, 10), server=EveryArrivals(1))
    method = SCAFFOLD(steps=5, size=SIZE, gradients="exact", option=option)
    run = siag.simulate(DRIFTING, method, clock, Constant(eta), iterations=20_000, record=2)
    assert run.error[0, -1] < 1e-20


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::siag.DivergenceWarning")
def test_on_a_clock_the_papers_step_diverges_and_one_by_the_age_of_reports_does_not():
    problem = Ridge.random(n=4, d=4, m=20, spread=1, tilt=0.5, regularization=0.1, seed=7)
    clock = Clock(Exponential(1.0), slowness=[1, 2, 3, 4])
    method = SCAFFOLD(steps=5, size=0.3 / problem.smoothness.max(), gradients="exact", option=1)
    bold, careful = (
        siag.simulate(problem, method, clock, Constant(eta), iterations=4000).error[0, -1]
        for eta in (1.0, 1 / (1 + 3))  # a report is 3 steps old on average: the others of 4 have reported meanwhile
    )
    assert not bold < 1
    assert careful < 1e-20


@pytest.mark.parametrize(("option", "each"), [(1, 8), (2, 7)])
def test_gradients_and_numbers_are_counted(option, each):
    method = SCAFFOLD(steps=7, size=0.01, option=option)
    run = simulate(NOISY, method, Everyone(), Constant(1.0), iterations=3, record=2)
    assert run.samples[0, -1] == 3 * N * each
    assert run.bytes[0, -1] == 3 * N * 8 * (2 * D + 2 * D)


def test_waiting_for_all_on_a_clock_is_everyone_in_every_round():
    method = SCAFFOLD(steps=3, size=0.02)
    clock = Clock(Exponential(1.0), server=WaitForAll())
    ends = [simulate(NOISY, method, activity, Constant(1.0), iterations=20).w for activity in (Everyone(), clock)]
    np.testing.assert_allclose(*ends, rtol=1e-12)  # reports come in another order


def test_the_rows_are_summed_anew():
    federation = Federation(NOISY, 2, size=0.02)
    federation.state.table.total[:] += 1.0
    federation.run(64)
    np.testing.assert_allclose(federation.c, federation.state.table.rows.mean(axis=0), rtol=0, atol=1e-12)


def test_it_is_ready_when_somebody_has_reported():
    method = SCAFFOLD(steps=1, size=0.1)
    state = method.init(np.zeros(2), 3)
    assert not ready(state)
    receive(state, 1, np.ones(4), 0)
    assert ready(state)
    advance(state, 1.0)
    assert not ready(state)
    assert shown(state).tolist() == [-1.0, -1.0, 1 / 3, 1 / 3]


@pytest.mark.parametrize("option", [0, 3, 1.5, True, "II"])
def test_an_option_of_no_meaning_is_refused(option):
    with pytest.raises(BadInput, match=r"option = .* a whole number from 1 to 2"):
        SCAFFOLD(steps=1, size=0.1, option=option)


def test_a_proximal_step_behind_local_steps_is_refused():
    with pytest.raises(Unsuitable, match="use PIAG"):
        Prox(SCAFFOLD(steps=1, size=0.1), l1=0.1)


@options
def test_one_local_step_conforms_in_everything(option):
    conform(SCAFFOLD(steps=1, size=1.0, gradients="exact", option=option))


@options
def test_local_steps_conform_except_that_they_are_not_gradient_descent(option):
    method = SCAFFOLD(steps=3, size=0.05, gradients="exact", option=option)
    conform(method, skip=["all_active_is_gradient_descent"])


def test_a_live_server_can_run_it():
    SCAFFOLD(steps=2, size=0.1).serve()
    SCAFFOLD(steps=2, size=0.1).suit(NOISY, Bernoulli(0.2))
