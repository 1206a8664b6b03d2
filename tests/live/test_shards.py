"""A model that is split over several servers: to the bit what one server would have made of the same reports."""

import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from peers import Client, Working, wait_until
from smoothed import Smoothed
from splits import PROBLEM, Split, finish, hands, of_problem, same

from siag.activity import EveryArrivals, Tick
from siag.foundations.errors import BadFile, DivergenceWarning, SiagError
from siag.live.protocol import wire
from siag.live.protocol.welcome import make_method
from siag.live.reasons import Ending
from siag.live.sharding.client import ShardedConnection, connect
from siag.live.task import FromProblem, FromStream, StreamEnded
from siag.live.until import Until
from siag.methods import SGD, SIAG, Averaged
from siag.server import Departed
from siag.server.guard import Guard
from siag.steps import Constant, DelayAdaptive

SLOW = Constant(0.005)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "step", "server"),
    [
        (SIAG(), SLOW, EveryArrivals(1)),
        (SGD(), SLOW, EveryArrivals(3)),
        (SIAG(resum=1, wait=1.0), DelayAdaptive(0.01), EveryArrivals(1)),
        (Averaged(SIAG(), start=20), SLOW, EveryArrivals(1)),
        (Smoothed(), SLOW, EveryArrivals(1)),
        (SIAG(), Constant(1e-5), Tick(0.002)),  # stable even if reports come a thousand ticks late
    ],
    ids=str,
)
def test_the_trace_of_a_split_run_leads_to_the_same_w_with_one_server(method, step, server, tmp_path):
    path = tmp_path / "run.trace"
    with Split(3, method=method, step=step, server=server, trace=path) as split:
        run = finish(split, workers := hands(split, method=method))
        assert [worker.outcome for worker in workers] == [Ending.REACHED.sentence] * PROBLEM.n
    assert run.reads[0, -1] == 400
    assert same(path, split, run)


def test_large_slices_and_a_loss_that_looks_at_the_whole_model(tmp_path):
    target = np.arange(3000.0) / 3000
    seen = []

    def loss(w):
        seen.append(w.size)
        return float(np.square(w - target).sum())

    def make(description, w0):
        return FromStream(lambda w, sample: w - target, lambda: iter(range(200)), make_method(description), w0)

    about = {"problem": "a pull", "seed": None}
    given = {"w0": np.zeros(3000), "names": ["a", "b"], "until": Until(reports=100), "loss": loss, "about": about}
    with Split(3, step=Constant(0.2), **given) as split, ExitStack() as stack:
        for name in "ab":
            stack.enter_context(Working(split.addresses, make, name=name, connect=connect))
        split.wait()
    assert set(seen) == {3000}
    run = split.run
    assert run.error[0, -1] < 0.01 * run.error[0, 0]
    assert np.allclose(run.w[0], target, atol=0.05)


class Exhausted(FromProblem):
    """A worker whose stream ends."""

    def compute(self, w, out):
        if self._drawn >= 30:
            raise StreamEnded
        return super().compute(w, out)


@pytest.mark.few(1)
@pytest.mark.parametrize("half_life", [0, 5])
def test_a_row_that_fades_does_so_in_all_shards(half_life, tmp_path):
    path = tmp_path / "run.trace"
    departed = Departed(half_life=half_life)
    with Split(3, step=DelayAdaptive(0.01), departed=departed, trace=path) as split:
        leaver = Working(
            split.addresses, lambda description, w0: Exhausted(PROBLEM, SIAG(), 0, w0), name="0", connect=connect
        )
        with leaver:
            run = finish(split, [of_problem(split.addresses, name, pause=0.001) for name in "123"])
    assert split.server.fades > 0
    assert split.server.members[0].reports == 30
    assert same(path, split, run)


@pytest.mark.thorough
def test_refused_reports_change_no_shard(tmp_path):
    path = tmp_path / "run.trace"
    method = Smoothed()
    with Split(3, method=method, guard=Guard(age=2, jump=None), trace=path) as split:
        workers = hands(split, method=method)
        run = finish(split, workers)
    assert sum(worker.machine.refused for worker in workers) > 10
    assert split.server.fades > 0  # of memories that were lost
    assert same(path, split, run)


def test_a_report_that_is_not_finite_in_one_slice_is_refused_whole():
    with Split(2, names=["a"], w0=np.zeros(4)) as split:
        connection = ShardedConnection(split.addresses(), None)
        connection.send(wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, "worker": "a", **connection.extras}))
        _, payload = connection.receive({wire.WELCOME: wire.JSON_FROM_SERVER, wire.REFUSAL: wire.JSON_FROM_SERVER})
        assert wire.parse_text(payload)["shards"] == 2
        expected, w = {wire.MODEL: (32, 32), wire.REFUSAL: wire.JSON_FROM_SERVER}, np.empty(4)
        assert connection.receive(expected, w)[0].stamp == 0
        connection.send(wire.head(wire.REPORT, 32, 0, 0), np.array([1.0, 2.0, 3.0, np.nan]))
        head, payload = connection.receive(expected, w)
        assert head.kind == wire.REFUSAL
        assert "not finite" in wire.parse_text(payload)["reason"]
        assert connection.receive(expected, w)[0].stamp == 0
        assert not w.any()
        connection.send(wire.head(wire.REPORT, 32, 0, 1), np.array([1.0, 2.0, 3.0, 4.0]))
        assert connection.receive(expected, w)[0].stamp == 1
        assert np.array_equal(w, -0.005 * np.array([1.0, 2.0, 3.0, 4.0]))
        connection.close()


def test_a_w_that_leaves_the_range_of_numbers_in_a_follower_ends_the_run():
    def make(description, w0):
        def gradient(w, sample):
            return np.array([0.0, 0.0, 0.0, -w[3] - 1.0])

        return FromStream(gradient, lambda: iter(range(10**6)), make_method(description), w0)

    about = {"problem": "a push", "seed": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        split = Split(2, names=["a"], w0=np.zeros(4), step=Constant(1.0), until=Until(), about=about)
        with split, Working(split.addresses, make, name="a", connect=connect):
            split.wait()
    assert split.run.diverged[0] > 0
    assert split.session.ended.ending is Ending.DIVERGED
    assert abs(split.run.w[0, 3]) > 1e15
    assert not split.run.w[0, :3].any()


# What is refused


def test_a_lead_without_the_secret_is_refused():
    with pytest.raises(SiagError, match=r"shard 1 .*the secret is not this server's"):
        Split(2, secret="a guess")


def test_a_lead_of_another_run_is_refused():
    with Split(2, method=SGD()) as split:
        with pytest.raises(SiagError, match=r"shards is 2 here, 3 at the lead"):
            Split(3, method=SGD(), followers=2 * split.followers)
        with pytest.raises(SiagError, match=r"run is \w+ here, \w+ at the lead"):
            Split(2, followers=split.followers)


@pytest.mark.parametrize("place", [str, Path.as_uri])
def test_folders_of_split_and_whole_runs_are_not_mixed_up(tmp_path, place):
    (tmp_path / "shard-0").mkdir()
    with pytest.raises(BadFile, match=f"^{place(tmp_path)}: .* was split over several servers"):
        Split(1, folder=place(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    (other / "state-000001.siag").write_bytes(b"")
    with pytest.raises(BadFile, match=f"^{place(other)}: .* was not split"):
        Split(2, folder=place(other))


def test_a_worker_that_calls_only_one_of_the_servers_is_told():
    with Split(2) as split:
        for port in (split.port, split.addresses()[1][1]):
            with Client(port) as client:
                kind, _, content = client.hello(worker="0")
                assert (kind, content["final"]) == (wire.REFUSAL, True)
                assert "split over 2 servers" in content["reason"]
        with Client(split.addresses()[1][1]) as client:
            client.send(wire.text(wire.HELLO, {"protocol": 99}))
            assert "protocol" in client.frame()[2]["reason"]


def test_a_callable_address_that_raises_means_not_now():
    with Split(2) as split:
        asked = []

        def addresses():
            asked.append(1)
            if len(asked) < 3:
                raise ConnectionRefusedError("not yet")
            return split.addresses()

        workers = [of_problem(addresses, name) for name in split.names]
        finish(split, workers)
    assert len(asked) >= 3
    assert any("not yet" in remark for worker in workers for remark in worker.remarks)


def test_a_worker_without_a_name_gets_a_row_as_ever():
    with Split(2) as split:
        workers = [of_problem(split.addresses, None) for _ in split.names]
        finish(split, workers)
    assert {worker.machine.name for worker in workers} == set(split.names)
    assert wait_until(lambda: all(worker.outcome for worker in workers))
