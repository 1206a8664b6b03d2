"""Workers in the server's own process; as plain Python, so that nothing is compiled."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest

from siag.foundations.dispatch import plainly
from siag.foundations.errors import Unsuitable
from siag.methods import IAG, SGD, SIAG, Automatic, Averaged, FedAvg, compute, forget
from siag.problems import again, sample
from siag.server import Diverged, ParameterServer
from siag.server.in_process import InProcess
from siag.server.ledger import REPORTS
from siag.server.method_state import move
from siag.steps import Constant, DelayAdaptive, Harmonic

D = 3


class Points(NamedTuple):
    """½ ‖w − x‖², the mean over the points of a report."""

    x: np.ndarray
    whose: np.ndarray
    starts: np.ndarray
    span: np.ndarray
    told: np.ndarray


@sample.when(Points)
def draw(oracle, rng, i, w, out):
    points = oracle.x[oracle.span[0] : oracle.span[1]]
    out[:] = w - points.mean(axis=0)
    oracle.told[0] = 0.5 * out @ out


@again.when(Points)
def draw_again(oracle, rng, i, w, out):
    out[:] = w - oracle.x[oracle.span[0] : oracle.span[1]].mean(axis=0)


def points(workers, count=60, seed=0):
    draw = np.random.default_rng(seed)
    x, whose = draw.standard_normal((count, D)), draw.integers(workers, size=count)
    whose[:workers] = np.arange(workers)
    return Points(x, whose, np.arange(count + 1), np.zeros(2, np.int64), np.zeros(1))


def part(data, begin, end):
    """Some of the reports."""
    return data._replace(whose=data.whose[begin:end], starts=data.starts[begin : end + 1])


@pytest.fixture(autouse=True)
def as_plain_python():
    with plainly(), np.errstate(over="ignore", invalid="ignore"):
        yield


def test_the_sum_is_over_the_sources_heard_so_far_however_many_there_will_be():
    data, eta = points(5), 0.1
    learner, w, latest = InProcess(SIAG(), Constant(eta), np.zeros(D)), np.zeros(D), {}
    for k, i in enumerate(data.whose):
        learner.grow(int(max(data.whose[: k + 1])) + 1)
        learner.learn(part(data, k, k + 1))
        latest[i] = w - data.x[k]
        w = w - eta * np.mean(list(latest.values()), axis=0)
    np.testing.assert_allclose(learner.w, w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", [Automatic(), SIAG(average=3), SGD(), Averaged(SIAG())], ids=repr)
def test_reports_are_those_a_server_would_be_sent(method):
    data = points(3)
    step = method.default_step or Harmonic(beta=0.5, gamma=10)
    here, server, memory = (
        InProcess(method, step, np.zeros(D), 3),
        ParameterServer(method, step, np.zeros(D), 3),
        method.recruit(np.zeros(D), 3),
    )
    here.server = ParameterServer(method, step, np.zeros(D), 3)  # in which all rows count from the start
    for row in range(3):
        server.join(row, 0.0)
        here.server.join(row, 0.0)
    here.learn(data)
    out, rng, counts = np.empty(server.message_size), np.zeros(2, np.uint64), [0] * 3
    for k, i in enumerate(data.whose.tolist()):
        data.span[:] = data.starts[k : k + 2]
        compute(memory, data, rng, i, server.shown, out)
        server.push(i, server.version, out.copy(), counts[i], 0.0, loss=data.told[0])
        counts[i] += 1
    assert np.array_equal(here.w, server.w)
    assert np.array_equal(here.server.ledger, server.ledger)
    assert (here.server.version, here.server.reports) == (60, 60)


@pytest.mark.parametrize("method", [Automatic(), SIAG()], ids=repr)
def test_room_for_more_workers_changes_nothing(method):
    data = points(4)
    step = method.default_step or Constant(0.1)
    at_once, grown = InProcess(method, step, np.zeros(D), 4), InProcess(method, step, np.zeros(D), 4)
    at_once.learn(data)
    grown.learn(part(data, 0, 20))
    grown.grow(5)
    assert grown.server.n == 8
    grown.learn(part(data, 20, 60))
    np.testing.assert_allclose(grown.w, at_once.w, rtol=1e-12)


@pytest.mark.parametrize("method", [Automatic(), SIAG(average=3), Averaged(Automatic(), decay=8.0)], ids=repr)
def test_coordinates_that_come_later_were_0_before(method):
    places, data = np.array([1, 4, 2]), points(4)
    wide = data._replace(x=np.zeros((60, D + 2)))
    wide.x[:, places] = data.x
    wide.x[30:, 3] = 1.0
    step = method.default_step or Constant(0.1)
    early, late = InProcess(method, step, np.zeros(D + 2), 4), InProcess(method, step, np.zeros(D), 4)
    early.learn(wide)
    late.learn(part(data, 0, 30))
    late.widen(D + 2, places)
    late.learn(part(wide, 30, 60))
    np.testing.assert_allclose(late.w, early.w, rtol=1e-12)
    assert late.w[3] != 0.0
    assert np.array_equal(late.server.ledger[:, REPORTS], early.server.ledger[:, REPORTS])


def test_a_worker_that_is_left_out_counts_no_longer_until_it_reports_again():
    data, eta = points(3), 0.1
    learner, w, latest = InProcess(SIAG(), Constant(eta), np.zeros(D), 3), np.zeros(D), {}
    for k, i in enumerate(data.whose):
        if k in (20, 40):
            learner.leave_out(1)
            latest.pop(1, None)
        if 20 <= k < 30 and i == 1:
            continue
        learner.learn(part(data, k, k + 1))
        latest[i] = w - data.x[k]
        w = w - eta * np.mean(list(latest.values()), axis=0)
    np.testing.assert_allclose(learner.w, w, rtol=0, atol=1e-12)


def test_growth_one_by_one_copies_ever_more_seldom():
    learner, sizes = InProcess(SIAG(), Constant(0.1), np.zeros(D)), set()
    for workers in range(1, 101):
        learner.grow(workers)
        sizes.add(learner.server.n)
    assert sorted(sizes) == [1, 2, 4, 8, 16, 32, 64, 128]


def test_a_pickled_copy_goes_on_to_the_same_numbers():
    data = points(3)
    data.whose[:20] %= 2
    learner = InProcess(Automatic(), Constant(1.0), np.zeros(D), 2)
    learner.learn(part(data, 0, 20))
    copy = pickle.loads(pickle.dumps(learner))
    for each in (learner, copy):
        each.grow(3)
        each.learn(part(data, 20, 60))
    assert np.array_equal(copy.w, learner.w)


@pytest.mark.parametrize(
    ("method", "step", "words"),
    [
        (IAG(), Constant(0.1), "exact gradients"),
        (FedAvg(steps=5, size=0.1), Constant(1.0), "several gradients"),
        (SIAG(wait=1.0), Constant(0.1), "leave out wait"),
        (SIAG(), DelayAdaptive(gamma=0.1), "looks at ages"),
        (Automatic(), Harmonic(1.0, 1.0), "chooses its steps itself"),
    ],
)
def test_what_needs_more_than_a_gradient_at_a_time_is_refused(method, step, words):
    with pytest.raises(ValueError, match=words):
        InProcess(method, step, np.zeros(D))


def test_a_gradient_that_is_not_finite_is_told_and_changes_nothing():
    data = points(1)
    data.x[5] = np.inf
    learner = InProcess(SIAG(), Constant(0.1), np.zeros(D))
    with pytest.raises(Diverged, match="not finite at version 5"):
        learner.learn(data)
    assert learner.server.version == 5
    assert np.isfinite(learner.w).all()


def test_a_worker_whose_report_is_refused_forgets_what_it_remembers():
    data = points(1)
    data.x[5] = np.inf
    refused, other = (InProcess(Automatic(), Constant(1.0), np.zeros(D)) for _ in range(2))
    with pytest.raises(Diverged):
        refused.learn(data)
    other.learn(part(data, 0, 5))
    forget(other._memory, 0)
    for each in (refused, other):
        each.learn(part(data, 6, 30))
    assert np.array_equal(refused.w, other.w)


def test_a_w_that_overflows_is_told():
    with pytest.raises(Diverged, match="w left the range of numbers"):
        InProcess(SIAG(), Constant(3.0), np.zeros(D)).learn(points(1, count=100))


@pytest.mark.parametrize("method", [SIAG(), Automatic(), Averaged(Automatic())], ids=repr)
def test_workers_count_for_their_weights_however_many_come_later(method):
    """As a server that has known them all, and their weights, from the beginning."""
    data, each = points(5, 80), [3.0, 1.0, 0.0, 2.0, 0.5]
    step = Constant(1.0 if method != SIAG() else 0.1)
    grown, known = (InProcess(method, step, np.zeros(D), n, weighted=True) for n in (1, 5))
    for row, weight in enumerate(each):
        known.count_for(row, weight)
    for row in range(5):
        grown.grow(row + 1)
        grown.count_for(row, each[row])
        for learner in (grown, known):
            learner.learn(part(data, row, row + 1))
    for learner in (grown, known):
        learner.learn(part(data, 5, 80))
    assert np.allclose(grown.w, known.w, rtol=1e-12)
    copy = pickle.loads(pickle.dumps(grown))
    for learner in (grown, copy):
        learner.learn(data)
    assert np.array_equal(copy.w, grown.w)
    plain = InProcess(method, step, np.zeros(D), 5)
    plain.learn(data)
    assert not np.allclose(known.w, plain.w)


def test_a_weight_that_changes_counts_at_once():
    data = Points(np.eye(D), np.array([0, 1]), np.arange(3), np.zeros(2, np.int64), np.zeros(1))
    learner = InProcess(SIAG(), Constant(1e-12), np.zeros(D), 2, weighted=True)
    learner.learn(data)
    learner.count_for(0, 3.0)
    assert learner.server.gauges.shares == [0.75, 0.25]
    before = learner.w.copy()
    move(learner.server.state, 1.0)
    assert np.allclose(learner.w - before, [0.75, 0.25, 0.0])


def test_weights_need_a_table():
    with pytest.raises(Unsuitable, match="SGD keeps no table"):
        InProcess(SGD(), Constant(0.1), np.zeros(D), weighted=True)
