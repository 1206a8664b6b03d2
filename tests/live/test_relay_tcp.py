"""Relays over TCP and TLS: they join, train, are cut off, are refused, and end with their root."""

import threading
import time

import numpy as np
import pytest
from peers import Served, in_thread, pull, target, wait_until

import siag
from siag.activity import Tick
from siag.foundations.errors import BadInput, Missing
from siag.live.certificates import make_certificates
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import Dismissed
from siag.live.protocol.worker import GaveUp
from siag.live.reasons import Ending
from siag.live.security import Tokens, server_context
from siag.methods import SGD
from siag.runtimes import relay
from siag.server import Departed
from siag.server.sums import weights_of

MANY = Limits(max_weight=10)


class Relayed:
    """`siag.relay` in a thread."""

    def __init__(self, address, workers=2, **given):
        self.outcome, self.place, self.said = [], [], []
        options = {"port": 0, "progress": False, "say": self.said.append, "ready": lambda *at: self.place.append(at)}

        def run():
            try:
                self.outcome.append(relay(address, workers, **options | given))
            except Exception as error:
                self.outcome.append(error)

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    @property
    def address(self):
        host, port = wait_until(lambda: self.place or self.outcome)[0]
        return f"{host}:{port}"

    def ended(self):
        self.thread.join()
        return self.outcome[0]


def reports(served, row=0):
    return served.ask(lambda: served.server.members[row].reports)


@pytest.mark.parametrize("pace", [siag.activity.EveryArrivals(1), Tick(0.01)], ids=repr)
def test_workers_behind_a_relay_train_with_those_that_are_not_and_count_the_same(pace):
    step = 0.002  # hundreds of reports of the worker may come between two of the relay's, and must not lead far
    with Served(["relay", "own"], step=step, limits=MANY) as served:
        relayed = Relayed(served.address, name="relay", pace=pace)
        workers = [in_thread(relayed.address, pull, target(k)) for k in (1, 3)]
        workers.append(in_thread(served.address, pull, target(8), name="own"))
        wait_until(lambda: np.allclose(served.ask(served.server.w.copy), 4.0, atol=0.1))
        assert served.ask(lambda: weights_of(served.server.state).tolist()) == [2.0, 1.0]
        views = served.ask(lambda: served.server.snapshot(time.monotonic())).workers
        assert [(view.weight, round(view.share, 6)) for view in views] == [(2.0, 0.666667), (1.0, 0.333333)]
        served.stop("enough")
    run = relayed.ended()
    assert run.about["ending"] == Ending.ROOT_DONE
    assert (run.about["method"], run.about["name"]) == (f"relay of {served.address}", "relay")
    assert run.w.shape == (1, 5)
    for thread, outcome in workers:
        thread.join()
        assert outcome[0].refused == 0
        assert outcome[0].reports > 0


def test_a_tree_of_relays():
    with Served(1, step=0.05, limits=MANY) as served:
        upper = Relayed(served.address, limits=MANY)
        lower = Relayed(upper.address)
        workers = [in_thread(lower.address, pull, target(k)) for k in (1, 2)]
        workers.append(in_thread(upper.address, pull, target(6)))
        wait_until(lambda: np.allclose(served.ask(served.server.w.copy), 3.0, atol=0.1))
        served.stop()
    assert upper.ended().about["ending"] == lower.ended().about["ending"] == Ending.ROOT_DONE
    for thread, _ in workers:
        thread.join()


def test_a_relay_connects_again_to_a_root_that_was_away():
    with Served(1, step=0.05, limits=MANY) as served:
        relayed = Relayed(served.address)
        workers = [in_thread(relayed.address, pull, target(k)) for k in (1, 3)]
        wait_until(lambda: reports(served) > 20)
        served.cut()
        before = reports(served)
        wait_until(lambda: reports(served) > before + 20)
        served.stop()
    relayed.ended()
    assert any("trying again" in text for text in relayed.said)
    for thread, _ in workers:
        thread.join()


def test_when_all_members_have_left_the_relay_leaves():
    with Served(["relay", "own"], limits=MANY) as served:
        relayed = Relayed(served.address, name="relay")
        workers = [in_thread(relayed.address, pull, iter([np.ones(5)] * 20)) for _ in range(2)]
        assert relayed.ended().about["ending"] == Ending.ALL_LEFT
        assert served.states() == ["left", "expected"]
    for thread, _ in workers:
        thread.join()


def test_over_tls_with_tokens_that_say_what_a_relay_may_count_for(tmp_path):
    make_certificates(tmp_path, hosts=[], workers=["relay"], max_weight=2)
    context = server_context(tmp_path / "server.pem", tmp_path / "server.key")
    tokens = Tokens.load(tmp_path / "tokens.json", ["relay"])
    given = {"token": tmp_path / "relay.token", "ca": tmp_path / "ca.pem"}
    with Served(["relay"], context=context, tokens=tokens) as served:
        error = Relayed(served.address, 3, **given).ended()
        assert isinstance(error, Dismissed)
        assert "weight 3: worker relay may count for at most 2" in str(error)
        relayed = Relayed(served.address, 2, **given)
        workers = [in_thread(relayed.address, pull, target(k)) for k in (1, 3)]
        wait_until(lambda: reports(served) > 20)
        served.stop()
    relayed.ended()
    for thread, _ in workers:
        thread.join()


@pytest.mark.parametrize(("method", "why"), [(SGD(), "SGD does not take the sum"), (None, "may count for at most 1")])
def test_a_root_that_wants_no_relay_says_why(method, why):
    with Served(2, method=method, limits=None if method is None else MANY) as served:
        before = served.state()
        error = Relayed(served.address).ended()
        assert isinstance(error, Dismissed)
        assert why in str(error)
        assert served.state() == before


def test_without_a_root_it_gives_up_when_told_to():
    assert isinstance(Relayed("127.0.0.1:9", give_up=0.0).ended(), GaveUp)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"workers": 0}, BadInput, "workers"),
        ({"workers": None}, Missing, "workers"),
        ({"workers": ["a", "a"]}, BadInput, "workers"),
        ({"address": "host:99999"}, BadInput, "address"),
        ({"pace": 3}, BadInput, "pace"),
        ({"give_up": -1}, BadInput, "give_up"),
        ({"departed": Departed(half_life=5)}, BadInput, "departed"),
        ({"host": "0.0.0.0"}, BadInput, "host"),
        ({"limits": Limits(max_weight=1), "port": -1}, BadInput, "port"),
    ],
)
def test_mistakes_are_told_before_anything_is_connected(given, error, words):
    with pytest.raises(error, match=words):
        relay(**{"address": "127.0.0.1:9", "workers": 2, **given})


@pytest.mark.parametrize("wrong", [0.5, -1, float("nan"), "many"])
def test_a_limit_on_weights_is_a_number_of_at_least_1(wrong):
    with pytest.raises(BadInput, match="max_weight"):
        Limits(max_weight=wrong)
