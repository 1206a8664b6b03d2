"""The root's side of relays: what a sum counts for, how old it is, who may claim what; nothing changes if refused."""

import json
import shutil

import numpy as np
import pytest
from pair import Desk, begun

from siag.activity import EveryArrivals, Trace
from siag.activity.trace import WEIGHED
from siag.foundations.errors import BadInput
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.reception import Limits
from siag.live.security import Tokens, read_token
from siag.methods import (
    ACE,
    IAG,
    MIFA,
    PIAG,
    SAG,
    SGD,
    SIAG,
    Adam,
    AsyncSGD,
    Automatic,
    Averaged,
    Clipped,
    CurvatureIAG,
    DuDe,
    FedAvg,
    Momentum,
    Prox,
    Weighted,
)
from siag.server.guard import Guard
from siag.server.parameter_server import ParameterServer
from siag.server.status import State
from siag.server.sums import Sum, no_relays, weights_of
from siag.steps import Constant
from siag.storage.disk import LOCAL

MANY = Limits(max_weight=200)


def desk_of(limits=MANY, tokens=None, **given):
    return Desk(begun(names=("relay", "b"), **given), tokens, limits)


def weight(caller, c, mean=0, oldest=0):
    caller.give(wire.head(wire.WEIGHT, 0, mean, oldest, c))


def summed(caller, numbers, c, *, stamp=0, sample=0, mean=None, oldest=None):
    """A relay's report; the answer."""
    mean = stamp if mean is None else mean
    weight(caller, c, mean, mean if oldest is None else oldest)
    return caller.report(numbers, stamp, sample)


def test_a_sum_counts_for_as_many_as_it_says():
    desk = desk_of(step=1.0)
    relay, other = desk.call(), desk.call()
    relay.join(weight=3)
    other.join()
    _, version, w = summed(relay, [3.0, 6.0], 3.0)
    assert (version, w.tolist()) == (1, [-0.75, -1.5])  # of 4: the other has a row of zeros
    _, _, w = other.report([1.0, 0.0])
    assert w.tolist() == [-0.75 - 1.0, -1.5 - 1.5]
    _, _, w = summed(relay, [1.0, 0.0], 1.0, stamp=1, sample=1)
    assert w.tolist() == [-1.75 - 1.0, -3.0]  # the weight went down with the sum


def test_before_its_first_report_a_relay_counts_for_as_many_zeros():
    desk = desk_of(step=1.0)
    relay, other = desk.call(), desk.call()
    other.join(worker="b")
    relay.join(worker="relay", weight=3)
    assert other.report([4.0, 0.0])[2].tolist() == [-1.0, 0.0]
    weight(relay, 7.0)  # one of its members is a relay that has come
    assert other.report([8.0, 0.0], 1, 1)[2].tolist() == [-2.0, 0.0]


@pytest.mark.parametrize(
    ("claim", "limits", "method", "words"),
    [
        (2, Limits(), SIAG(), "at most 1; start the server with a larger max-weight"),
        (201, MANY, SIAG(), "weight 201: worker relay may count for at most 200"),
        (-1, MANY, SIAG(), "weight -1: must be a number of at least 0"),
        ("many", MANY, SIAG(), "of an unknown kind: must be a number of at least 0"),
        (True, MANY, SIAG(), "of an unknown kind"),
        (3, MANY, SGD(), "SGD does not take the sum of several workers' messages for one; use SIAG"),
        (3, MANY, SIAG(average=3), "no relays here: SIAG(average=3) does not take the sum"),
        (3, MANY, Clipped(SIAG(), norm=1.0), "no relays here"),
        (3, MANY, Weighted(SIAG(), "samples"), "no relays here: SIAG with weights 'samples' does not take the sum"),
        (3, MANY, Weighted(SIAG(), [6, 1]), "no relays here: SIAG with weights (6.0, 1.0) does not take the sum"),
    ],
)
def test_a_relay_that_claims_too_much_or_for_a_method_of_no_sums_is_refused_and_nothing_changes(
    claim, limits, method, words
):
    desk = desk_of(limits, method=method)
    before = desk.state()
    kind, _, content = desk.call().hello(weight=claim)
    assert (kind, content["final"]) == (wire.REFUSAL, True)
    assert words in content["reason"]
    assert desk.state() == before
    assert desk.states() == [State.EXPECTED] * 2


@pytest.mark.parametrize("method", [SIAG(), Automatic(), Weighted(SIAG(), [1.0, 1.0])], ids=lambda m: type(m).__name__)
def test_methods_that_take_sums(method):
    assert desk_of(method=method).call().join(weight=3)["row"] == 0


MIFA2 = MIFA(steps=2, size=0.1)
LINEAR = [SIAG(), DuDe(), ACE(), MIFA2, Prox(SIAG(), l1=0.1), Momentum(SIAG()), Adam(SIAG()), Averaged(MIFA2)]


@pytest.mark.parametrize("method", LINEAR, ids=repr)
def test_a_sum_is_to_these_methods_what_its_messages_are(method):
    """Two of three workers behind a relay; both servers step when all were heard, and whole numbers are exact."""
    given = Constant(0.5), np.zeros(2)
    flat = ParameterServer(method, *given, 3, server=EveryArrivals(3))
    behind = ParameterServer(method, *given, 2, server=EveryArrivals(2))
    for server in (flat, behind):
        for row in range(server.n):
            server.join(row, 0.0)
    for version in range(2):
        g = np.random.default_rng(version).integers(-8, 9, (3, 2)).astype(float)
        for row in range(3):
            flat.push(row, version, g[row], version, 1.0)
        behind.push_sum(0, version, g[0] + g[1], version, 1.0, Sum(2.0, version, version))
        behind.push(1, version, g[2], version, 1.0)
    assert flat.version == behind.version == 2
    assert behind.w.tolist() == flat.w.tolist() != [0.0, 0.0]


@pytest.mark.parametrize(
    "method", [IAG(), PIAG(), SAG(), CurvatureIAG(), FedAvg(steps=2, size=0.1), AsyncSGD()], ids=repr
)
def test_methods_that_take_no_sums_say_so_in_one_line(method):
    words = no_relays(method)
    assert words.startswith(f"{type(method).__name__} does not take the sum of several workers' messages for one; use")


@pytest.mark.parametrize("c", [200.5, -1.0, float("nan"), float("inf")])
def test_more_weight_than_is_allowed_is_refused_for_good_at_any_time(c):
    desk = desk_of()
    relay = desk.call()
    relay.join(weight=3)
    summed(relay, [1.0, 1.0], 3.0)
    before = desk.state()
    weight(relay, c)
    kind, _, content = relay.frame()
    assert (kind, content["final"], relay.closed) == (wire.REFUSAL, True, True)
    assert ("at most 200" if c > 200.0 else "at least 0") in content["reason"]
    assert desk.state() == before


def test_a_worker_cannot_send_a_weight_and_a_relay_must():
    desk = desk_of()
    worker, relay = desk.call(), desk.call()
    worker.join(worker="b")
    weight(worker, 1.0)
    assert "WEIGHT: now REPORT" in worker.frame()[2]["reason"]
    relay.join(weight=3)
    assert "says WEIGHT before" in relay.report([1.0, 1.0])[2]["reason"]
    assert desk.server.reports == 0


def test_a_token_may_allow_a_relay_and_no_more(tmp_path):
    make_certificates(tmp_path, hosts=[], workers=["relay", "b"], max_weight=5)
    tokens = Tokens.load(tmp_path / "tokens.json", ["relay", "b"])
    secret = read_token(tmp_path / "relay.token")
    desk = desk_of(Limits(), tokens)
    assert "at most 5" in desk.call().hello(weight=6, token=secret)[2]["reason"]
    assert desk.call().join(weight=5, token=secret)["row"] == 0


@pytest.mark.parametrize("wrong", [{"c": 2.0}, {"b": 0}, {"b": True}, {"b": None}, 7, {"b": 1e999}])
def test_a_file_with_other_weights_is_refused(tmp_path, wrong):
    make_certificates(tmp_path, hosts=[], workers=["b"])
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_weight": wrong}))
    with pytest.raises(ValueError, match="max_weight"):
        Tokens.load(path, ["b"])


def test_a_refused_sum_leaves_the_weight_as_it_was():
    desk = desk_of()
    relay = desk.call()
    relay.join(weight=3)
    for k in range(2):
        summed(relay, [1.0, 1.0], 3.0, stamp=k, sample=k)
    before = desk.state()
    for numbers, given in (
        ([np.nan, 0.0], {"stamp": 2, "sample": 2}),
        ([1.0, 0.0], {"stamp": 0, "sample": 2}),  # read before its last report
        ([1.0, 0.0], {"stamp": 2, "sample": 2, "mean": 3}),
        ([1.0, 0.0], {"stamp": 2, "sample": 2, "mean": 0, "oldest": 1}),
    ):
        assert summed(relay, numbers, 2.0, **given)[0] == wire.REFUSAL
        relay.frame()
        assert desk.state() == before


def test_a_worker_that_comes_in_a_relays_place_counts_for_one():
    desk = desk_of(step=1.0)
    relay, other = desk.call(), desk.call()
    relay.join(weight=3)
    other.join()
    summed(relay, [3.0, 6.0], 3.0)
    relay.lose()
    desk.now = 10.0
    worker = desk.call()
    assert worker.join(worker="relay")["samples"] == 1
    assert weights_of(desk.server.state).tolist() == [3.0, 1.0]  # the sum is there until it is replaced
    worker.report([1.0, 0.0], 1, 1)
    assert weights_of(desk.server.state).tolist() == [1.0, 1.0]


def test_ages_are_counted_by_the_mean_stamp_and_the_guard_looks_at_the_oldest():
    desk = desk_of(guard=Guard(age=3, jump=None))
    relay = desk.call()
    relay.join(weight=3)
    for k in range(4):
        assert (
            summed(relay, [1.0, 1.0], 3.0, stamp=k, sample=k, mean=max(0, k - 2), oldest=max(0, k - 3))[0] == wire.MODEL
        )
    assert desk.server.members[0].aged == 0 + 1 + 2 + 2
    assert desk.server.members[0].stamp == 1
    kind, _, content = summed(relay, [1.0, 1.0], 3.0, stamp=4, sample=4, mean=3, oldest=0)
    assert (kind, content["reason"]) == (wire.REFUSAL, "age 4: at most 3 is allowed; read w anew")


def test_norms_are_those_of_the_mean_so_that_a_sum_of_many_is_no_jump():
    desk = desk_of(guard=Guard(norm=2.0, jump=None))
    relay = desk.call()
    relay.join(weight=100)
    assert summed(relay, [100.0, 100.0], 100.0)[0] == wire.MODEL
    assert desk.server.members[0].norm == pytest.approx(np.sqrt(2.0))
    assert summed(relay, [200.0, 200.0], 100.0, stamp=1, sample=1)[0] == wire.REFUSAL


def test_weights_survive_a_crash_of_a_durable_server(assembled, tmp_path):
    folder = str(tmp_path / "run")
    first = assembled(folder=folder, durable=True)
    first.begin(0.0)
    first.join(0, 0.0)
    first.weigh(0, 4.0, 0.0)
    first.push(0, 0, np.array([3.0, 3.0, 3.0]), 0, 0.1, what=Sum(3.0, 0, 0))
    first.commit()
    w = np.array(first.server.w)
    shutil.copytree(folder, tmp_path / "crashed")
    again = assembled(folder=str(tmp_path / "crashed"), durable=True)
    assert weights_of(again.server.state).tolist() == [3.0, 1.0]
    assert np.array_equal(again.server.w, w)


@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_a_trace_says_what_a_relay_counts_for_and_is_not_replayed(assembled, tmp_path, weight):
    path = tmp_path / "run.trace"
    session = assembled(trace=path, disk=LOCAL)
    session.begin(0.0)
    session.join(0, 0.0)
    for k in range(3):
        session.push(0, k, np.ones(3), k, 0.1 * k, what=Sum(weight + (k > 1), max(0, k - 2), 0))
    session.finish(1.0)
    trace = Trace.read(path)
    weighed = trace.factor == WEIGHED
    assert trace.loss[weighed].tolist() == [weight, weight + 1.0]
    assert trace.version[weighed].tolist() == [0, 2]
    assert trace.stamp[~weighed].tolist() == [0, 0, 0]
    with pytest.raises(BadInput, match="with relays, such as worker 0"):
        trace.bound(2)
