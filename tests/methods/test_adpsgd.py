"""AD-PSGD: pairs average, w is the mean of all models, and the graph must hang together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siag
from plain import simulate
from siag.activity import Clock, Everyone, Exponential, Sequential, Tick
from siag.checks import Bowl, conform
from siag.foundations.errors import BadInput, Unsuitable
from siag.methods import advance, compute, receive, shown
from siag.methods.adpsgd import ADPSGD, RESUM, consensus
from siag.problems import Ridge

BOWL = Bowl(np.random.default_rng(4).random((5, 3)), np.array([0.5, 1.0, 2.0]))
RIDGE = Ridge.random(n=5, d=3, m=4, tilt=0.5, seed=1)  # the claims compile it for exact gradients too
RNG = np.zeros(2, np.uint64)


@pytest.mark.few(1)
@pytest.mark.parametrize("graph", ["ring", "complete", ((0, 1), (1, 2), (1, 3))])
def test_it_conforms(graph):
    # Whom a worker asks is drawn from its own stream of random numbers: other numbers for it, other partners.
    conform(ADPSGD(graph=graph, gradients="exact"), skip=["relabelling_changes_nothing"])


def twin(models, reports, eta):
    """Algorithm 1 written out: each report in its order, on models that are simply there."""
    models = models.copy()
    for i, j, g in reports:
        models[i] = models[j] = (models[i] + models[j]) / 2
        models[i] = models[i] - eta * g
    return models


reports = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.floats(-5, 5), st.floats(-5, 5)), min_size=0, max_size=12
)


@settings(max_examples=60)
@given(st.lists(reports, min_size=1, max_size=4), st.floats(0.0, 1.0))
def test_reports_take_effect_in_their_order_however_many_there_are(rounds, eta):
    state = ADPSGD().init(np.array([1.0, -1.0]), 5)
    models = state.models.copy()
    for these in rounds:
        before = shown(state).copy()
        listed = [(i, (i + k) % 5, np.array([a, b])) for i, k, a, b in these]
        for i, j, g in listed:
            receive(state, i, np.append(g, j), 0)
        assert np.array_equal(shown(state), before)
        advance(state, eta)
        models = twin(models, listed, eta)
        assert np.allclose(state.models, models, rtol=1e-12, atol=1e-12)
        assert np.allclose(state.w, models.mean(axis=0), rtol=1e-12, atol=1e-12)


def test_one_report_at_a_time_is_algorithm_1_bit_for_bit():
    draw = np.random.default_rng(0)
    state = ADPSGD().init(np.zeros(3), 5)
    models = state.models.copy()
    for _ in range(100):
        i, g = int(draw.integers(5)), draw.standard_normal(3)
        j = (i + int(draw.integers(1, 5))) % 5
        receive(state, i, np.append(g, j), 0)
        advance(state, 0.1)
        models = twin(models, [(i, j, g)], 0.1)
        assert np.array_equal(state.models, models)


def test_w_is_averaged_anew_before_rounding_piles_up():
    state, n = ADPSGD().init(np.zeros(1), 3), 3
    state.w[0] = 5.0  # as if it had drifted
    for _ in range(RESUM * n):
        receive(state, 0, np.array([1.0, 1.0]), 0)
        advance(state, 0.01)
    assert state.w[0] == pytest.approx(state.models.mean(), rel=1e-14)


def partners(graph, n, i, draws=200):
    memory = ADPSGD(graph=graph, gradients="exact").recruit(np.zeros(3), n)
    problem = Bowl(np.zeros((n, 3)), np.ones(3))
    rng, out, found = np.array([1, 0x9E3779B97F4A7C15], np.uint64), np.empty(4), []
    with np.errstate(over="ignore"):
        for _ in range(draws):
            assert compute(memory, problem.oracle(), rng, i, np.zeros(3 * (n + 1)), out)
            found.append(int(out[3]))
    return found


@pytest.mark.parametrize(
    ("graph", "n", "i", "near"),
    [
        ("ring", 5, 0, {1, 4}),
        ("ring", 2, 0, {1}),
        ("complete", 4, 2, {0, 1, 3}),
        ([(0, 1), (2, 1), (1, 3)], 4, 1, {0, 2, 3}),
        ([(0, 1), (2, 1), (1, 3)], 4, 2, {1}),
        ([(0, 1), (1, 0), (0, 1), (1, 2)], 3, 1, {0, 2}),
    ],
)
def test_partners_are_neighbours_each_as_often(graph, n, i, near):
    found = partners(graph, n, i)
    assert set(found) == near
    # 200 draws of equally likely partners: 5 standard deviations, less than once in a million by chance.
    share = 1 / len(near)
    slack = 5 * np.sqrt(200 * share * (1 - share)) + 1e-9
    assert all(abs(found.count(j) - 200 * share) <= slack for j in near)


def test_a_worker_computes_at_its_own_model():
    method = ADPSGD(gradients="exact")
    state, memory, out = method.init(np.zeros(3), 5), method.recruit(np.zeros(3), 5), np.empty(4)
    state.models[:] = np.arange(15.0).reshape(5, 3)
    for i in range(5):
        compute(memory, BOWL.oracle(), RNG, i, shown(state), out)
        assert np.allclose(out[:3], BOWL.gradient(i, state.models[i]))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "activity",
    [Sequential(), Everyone(), Clock(Exponential(1.0)), Clock(Exponential(1.0), server=Tick(7.0))],
    ids=["sequential", "all", "clock", "ticks"],
)
def test_it_runs_along_any_activity_compiled_as_plain(activity):
    fast, slow = (
        siag.simulate(
            RIDGE,
            ADPSGD(gradients="exact"),
            activity,
            siag.steps.Constant(0.05),
            iterations=60,
            compiled=compiled,
        )
        for compiled in (True, False)
    )
    assert np.array_equal(fast.w, slow.w)
    assert fast.error[0, -1] < fast.error[0, 0]


@pytest.mark.parametrize("activity", [Sequential(), Clock(Exponential(1.0))], ids=["in turn", "clock"])
def test_a_report_costs_two_models_and_reading_ones_own_nothing(activity):
    """One there and one back, 8 bytes a number; the gradient stays where it was computed."""
    run = simulate(BOWL, ADPSGD(), activity, siag.steps.Constant(0.05), iterations=10)
    assert run.uploads[0, -1] == 10
    assert run.bytes[0, -1] == 10 * 8 * 2 * BOWL.d


def test_consensus_is_the_mean_square_distance_from_the_mean():
    state = ADPSGD().init(np.zeros(3), 5)
    assert consensus(state) == 0.0
    state.models[:] = np.random.default_rng(1).random((5, 3))
    assert consensus(state) == pytest.approx(((state.models - state.models.mean(axis=0)) ** 2).sum() / 5)


@pytest.mark.parametrize(
    ("graph", "words"),
    [("star", "ring"), (3, "pairs"), ([(0, 1, 2)], "pairs"), ([(0, -1)], "pairs"), ([(1, 1)], r"leave \(1, 1\) out")],
)
def test_what_is_no_graph_is_refused(graph, words):
    with pytest.raises(BadInput, match=words):
        ADPSGD(graph=graph)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ([(0, 1), (2, 3), (3, 4)], r"in 2 parts: \[0, 1\], \[2, 3, 4\]; connect them, or use 'ring' or 'complete'"),
        ([(0, 1)], r"in 4 parts"),
        ([], r"in 5 parts"),
        ([(0, 5)], r"\(0, 5\), but workers are numbered from 0 to 4"),
    ],
)
def test_a_graph_that_does_not_fit_is_refused(graph, words):
    with pytest.raises(Unsuitable, match=words):
        siag.simulate(BOWL, ADPSGD(graph=graph), Sequential(), siag.steps.Constant(0.1), iterations=2)


def test_one_worker_has_no_neighbour():
    problem = Bowl(np.zeros((1, 3)), np.ones(3))
    with pytest.raises(Unsuitable, match="use SGD"):
        siag.simulate(problem, ADPSGD(), Sequential(), siag.steps.Constant(0.1), iterations=2)


def test_there_is_no_server_to_serve_it():
    with pytest.raises(Unsuitable, match="simulate it, or serve SIAG"):
        ADPSGD().serve()
