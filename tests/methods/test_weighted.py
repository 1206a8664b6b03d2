import numpy as np
import pytest

from siag import simulate
from siag.activity import Clock, Everyone, Exponential, Nonuniform, Recorded
from siag.foundations.errors import SiagError
from siag.methods import (
    ADPSGD,
    EF21,
    SGD,
    SIAG,
    Automatic,
    Averaged,
    Clipped,
    FedAsync,
    FedAvg,
    Momentum,
    Scaffnew,
    Weighted,
    advance,
    fade,
    receive,
    weigh,
    with_weights,
)
from siag.methods.automatic import sum_ages_anew
from siag.problems import LeastSquares
from siag.steps import Constant, Harmonic

N, D = 4, 3
SHARES = (0.5, 3.0, 1.0, 1.5)  # their mean is not 1
PROBLEM = LeastSquares.random(n=N, d=D, p=2, noise=0.1, seed=3)


def plain_siag(reports, weights, eta):
    """Σ p_i g_i over the rows there are, as the definition has it."""
    w, rows = np.zeros(D), np.zeros((N, D))
    weights = np.array(weights) / np.sum(weights)
    for i, message in reports:
        rows[i] = message
        w = w - eta * weights @ rows
    return w


def draws(count=30, seed=0):
    draw = np.random.default_rng(seed)
    return [(int(draw.integers(N)), draw.standard_normal(D)) for _ in range(count)]


def run(method, reports, eta=0.1):
    state = method.init(np.zeros(D), N)
    for i, message in reports:
        receive(state, i, message, 0)
        advance(state, eta)
    return state


def test_the_step_is_along_the_weighted_average():
    reports = draws()
    assert np.allclose(run(Weighted(SIAG(), SHARES), reports).w, plain_siag(reports, SHARES, 0.1), rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.1, 7.0])
@pytest.mark.parametrize("method", [SIAG(), Automatic(), SGD(), EF21(k=2)], ids=repr)
def test_equal_weights_change_nothing_to_the_bit(method, scale):
    step = None if isinstance(method, Automatic) else Harmonic(1.0, 50.0)
    runs = [
        simulate(PROBLEM, each, Nonuniform(2, 6), step, iterations=300, seed=2, compiled=False)
        for each in (method, with_weights(method, [scale] * N))
    ]
    assert np.array_equal(runs[0].w, runs[1].w)


@pytest.mark.parametrize("method", [SIAG(), Automatic(), Momentum(SIAG()), Averaged(SIAG())], ids=repr)
def test_it_leads_to_the_optimum_of_the_weighted_objective(method):
    """Within a fifth of the distance between the two optima."""
    step = None if isinstance(method, Automatic) else Harmonic(1.0, 100.0)
    found = simulate(PROBLEM, with_weights(method, SHARES), Nonuniform(2, 6), step, iterations=8000, seed=1).w[0]
    wanted = np.average(PROBLEM.centers, axis=0, weights=SHARES)
    apart = np.linalg.norm(wanted - PROBLEM.optimum)
    assert np.linalg.norm(found - wanted) < 0.2 * apart


def test_local_steps_count_by_how_far_they_came():
    """With everybody active and weights n_k it is McMahan's average of models with n_k/n."""
    method, step = FedAvg(steps=3, size=0.1, gradients="exact"), Constant(1.0)
    found = simulate(PROBLEM, Weighted(method, SHARES), Everyone(), step, iterations=1).w[0]
    models = []
    for i in range(N):
        y = np.zeros(D)
        for _ in range(3):
            y -= 0.1 * PROBLEM.gradient(i, y)
        models.append(y)
    assert np.allclose(found, np.average(models, axis=0, weights=SHARES), rtol=1e-12)


def test_counted_weights_are_the_reports_so_far():
    reports = draws(40, seed=4)
    w, rows, counts = np.zeros(D), np.zeros((N, D)), np.zeros(N)
    for i, message in reports:
        rows[i], counts[i] = message, counts[i] + 1
        w = w - 0.1 * counts @ rows / counts.sum()
    assert np.allclose(run(Weighted(SIAG(), "samples"), reports).w, w, rtol=1e-12)


def test_who_leaves_leaves_its_weight_to_the_others():
    state = run(Weighted(SIAG(), SHARES), [(i, np.full(D, float(i))) for i in range(N)])
    fade(state, 1, 0.0)
    before = state.w.copy()
    advance(state, 1.0)
    left = np.array([SHARES[i] for i in (0, 2, 3)])
    assert np.allclose(before - state.w, left @ [0.0, 2.0, 3.0] / left.sum(), rtol=1e-12)
    receive(state, 1, np.full(D, 1.0), 0)
    before = state.w.copy()
    advance(state, 1.0)
    assert np.allclose(before - state.w, np.array(SHARES) @ np.arange(4.0) / sum(SHARES), rtol=1e-12)


def test_clipping_comes_before_weights():
    state = run(with_weights(Clipped(SIAG(), norm=1.0), SHARES), [(1, np.array([30.0, 0.0, 0.0]))], eta=1.0)
    assert state.w == pytest.approx([-3.0 / 6.0, 0.0, 0.0])


def test_automatic_steps_do_not_depend_on_the_unit_of_weights():
    """A table of rows that count c each, told so, takes the steps of one whose rows count 1."""
    reports = [(i, np.append(message, [0.1, 2.0])) for i, message in draws(25, seed=6)]
    plain, heavy = (Automatic().init(np.ones(D), N) for _ in range(2))
    for i in range(N):
        weigh(heavy, i, 8.0)
    for i, message in reports:
        for state, scale in ((plain, 1.0), (heavy, 8.0)):
            receive(state, i, scale * message, 3)
            advance(state, 1.0)
    assert np.array_equal(plain.w, heavy.w)
    assert np.array_equal(plain.mean, heavy.mean)


def test_sums_over_ages_follow_a_weight_that_changes():
    state = Automatic().init(np.ones(D), 2)
    for i in (0, 1):
        receive(state, i, np.append(np.ones(D), [0.0, 1.0 + i]), 2 + i)
        advance(state, 1.0)
    weigh(state, 1, 4.0)
    sums = state.sums.copy()
    sum_ages_anew(state)
    assert np.allclose(sums, state.sums, rtol=1e-12)


@pytest.mark.parametrize(
    ("weights", "word"),
    [
        ([1.0, -1.0, 1.0, 1.0], "0 or more"),
        ([0.0] * N, "above 0"),
        ([1.0, np.nan, 1.0, 1.0], "finite"),
        ("sizes", "samples"),
    ],
)
def test_weights_that_are_none_are_refused(weights, word):
    with pytest.raises(SiagError, match=word):
        Weighted(SIAG(), weights)


def test_weights_for_other_workers_are_refused():
    with pytest.raises(SiagError, match="3 weights do not fit 4 workers"):
        simulate(PROBLEM, Weighted(SIAG(), [1.0, 2.0, 3.0]), Everyone(), Constant(0.1), iterations=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Weighted(ADPSGD(), SHARES),
        lambda: Weighted(Scaffnew(p=0.5, size=0.1), SHARES),
        lambda: Weighted(FedAsync(steps=2, size=0.1), SHARES),
        lambda: Weighted(Clipped(SIAG(), norm=1.0), SHARES),
        lambda: Weighted(Weighted(SIAG(), SHARES), SHARES),
        lambda: Weighted(SGD(), "samples"),
    ],
)
def test_methods_that_cannot_be_weighted_say_what_can(make):
    with pytest.raises(SiagError, match=r"use|write|multiply"):
        make()


def test_a_recorded_and_a_timed_activity_take_weights():
    for activity in (Recorded([[0, 1], [2], [3]] * 20), Clock(Exponential(1.0))):
        found = simulate(PROBLEM, Weighted(SIAG(), SHARES), activity, Constant(0.02), iterations=50)
        assert np.isfinite(found.w).all()
