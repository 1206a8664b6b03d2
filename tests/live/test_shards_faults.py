"""Split models when things go wrong: lines cut, servers killed, garbage, wrong tokens, disks that are full."""

import hashlib
import socket
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from peers import Client, wait_until
from proxy import Proxy
from smoothed import Smoothed
from splits import PROBLEM, Process, Split, finish, hands, of_problem, same
from tests.specs import spec_of

from siag.foundations.errors import BadFile, SiagError
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.welcome import Dismissed
from siag.live.reasons import Ending
from siag.live.security import Tokens, client_context, server_context
from siag.live.sharding import ShardLost
from siag.live.sharding.slices import Shard, ShardStore
from siag.live.until import Until
from siag.methods import SIAG
from siag.storage.saved_model import read_model


@pytest.mark.thorough
def test_a_worker_whose_line_to_one_shard_is_cut_joins_again_everywhere(tmp_path):
    path, method = tmp_path / "run.trace", Smoothed()
    with Split(3, method=method, trace=path, until=Until(reports=800)) as split:

        def cut(numbers, data):
            return None if numbers.random() < 0.02 else data

        with Proxy(split.addresses()[2][1], cut) as proxy:
            lead, first, _ = split.addresses()
            workers = [
                of_problem(lambda: [lead, first, ("127.0.0.1", proxy.port)], name, method=method) for name in "01"
            ]
            workers += [of_problem(split.addresses, name, method=method, pause=0.005) for name in "23"]
            run = finish(split, workers)
            assert proxy.passed > 4
    assert all(len(worker.machine.stamps) > 20 for worker in workers)
    assert same(path, split, run)


def test_ten_thousand_random_bytes_do_not_hurt(tmp_path):
    path = tmp_path / "run.trace"
    garbage = np.random.default_rng(5)
    with Split(2, trace=path, until=Until(reports=10**6)) as split:
        workers = hands(split, pause=0.001)
        port = split.addresses()[1][1]
        for size in (10_000, 1, wire.HEADER.size, wire.HEADER.size - 1, 4096):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(garbage.bytes(size))
                if size >= wire.HEADER.size:
                    with suppress(ConnectionError):
                        while stranger.recv(1 << 16):
                            pass
        for frame in (wire.head(wire.ORDERS, 32) + bytes(32), wire.text(wire.SAID, {"saved": 1})):
            with Client(port) as stranger:
                stranger.send(frame)
                assert stranger.frame()[0] == wire.REFUSAL
                assert stranger.hung_up()
        wait_until(lambda: split.server.reports > 100)
        split.end("enough")
        run = finish(split, workers)
    assert [worker.outcome for worker in workers] == ["enough"] * PROBLEM.n
    assert same(path, split, run)


def tokens_of(words):
    return Tokens(tuple((row, hashlib.sha256(word.encode()).digest()) for row, word in enumerate(words)))


def test_tokens_are_asked_for_by_all_servers_and_bind_rows():
    words = [f"token of worker {row}" for row in range(PROBLEM.n)]
    with Split(2, tokens=tokens_of(words)) as split:
        stranger = of_problem(split.addresses, "0", token="not a token of anybody's")
        wait_until(lambda: stranger.outcome)
        assert isinstance(stranger.outcome, Dismissed)
        with Client(split.addresses()[1][1]) as client:
            kind, _, content = client.hello(visit=5, shards=2)
            assert (kind, content["final"]) == (wire.REFUSAL, True)
        workers = [of_problem(split.addresses, name, token=words[int(name)]) for name in split.names]
        finish(split, workers)
    assert [worker.outcome for worker in workers] == [Ending.REACHED.sentence] * PROBLEM.n


def test_over_tls_too(tmp_path):
    make_certificates(tmp_path / "certs", hosts=["127.0.0.1"], workers=1)
    given = server_context(tmp_path / "certs" / "server.pem", tmp_path / "certs" / "server.key")
    client = client_context(tmp_path / "certs" / "ca.pem")
    path = tmp_path / "run.trace"
    with Split(3, context=given, client=client, trace=path) as split:
        run = finish(split, hands(split, context=client))
    assert same(path, split, run)


# Saves


@pytest.mark.thorough
def test_a_follower_that_was_killed_is_restored_and_the_run_goes_on(tmp_path):
    path, folder = tmp_path / "run.trace", tmp_path / "state"
    killed, standby = Process(2, 1, folder), Process(2, 1, folder)
    places = {}

    def addresses():
        if not places:
            raise ConnectionRefusedError("no server now")
        return places["now"]

    workers = [of_problem(addresses, str(i), pause=0.01, wait=0.02) for i in range(PROBLEM.n)]
    first = Split(2, folder=folder, trace=path, until=Until(reports=10**6), followers=[killed])
    first.__enter__()
    places["now"] = first.addresses()
    wait_until(lambda: first.server.reports > 100)
    begun = first.session.store._common + 1  # perhaps of a moment before
    wait_until(lambda: first.session.store._common > begun)
    killed.stop()
    first.wait()
    places.clear()
    with pytest.raises(ShardLost, match=r"shard 1 .* is lost"):
        first.__exit__(None, None, None)
    reports = first.server.reports + 100
    second = Split(2, folder=folder, trace=path, until=Until(reports=reports), followers=[standby])
    assert 0 < second.server.version <= first.server.version
    with second:
        places["now"] = second.addresses()
        run = finish(second, workers)
    standby.stop()
    assert run.t[0] == 0  # the whole curve
    assert run.reads[0, -1] == reports
    assert same(path, second, run)


@pytest.mark.parametrize("place", [str, Path.as_uri])
def test_a_lead_that_begins_again_takes_its_followers_back_with_it(tmp_path, place):
    path, folder = tmp_path / "run.trace", place(tmp_path / "state")
    first = Split(2, folder=folder, trace=place(path), until=Until(reports=200))
    with first:
        finish(first, hands(first))
        second = Split(2, folder=folder, trace=place(path), until=Until(reports=400), followers=first.followers)
        assert second.server.reports == 200
        with second:
            run = finish(second, hands(second))
    assert run.reads[0, -1] == 400
    assert same(path, second, run)
    model = read_model(folder)
    assert np.array_equal(model.w, run.w[0])
    assert (model.version, model.about["shards"]) == (run.t[-1], 2)


def test_the_model_of_a_save_that_one_shard_has_not_is_that_of_the_save_before(tmp_path):
    folder = tmp_path / "state"
    first = Split(2, folder=folder, until=Until(reports=100))
    with first:
        run = finish(first, hands(first))
        kept = {path: path.read_bytes() for path in (folder / "shard-1").glob("state-*.siag")}
        second = Split(2, folder=folder, until=Until(reports=200), followers=first.followers)
        with second:
            finish(second, hands(second))
    for path in (folder / "shard-1").glob("state-*.siag"):
        path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)
    assert np.array_equal(read_model(folder).w, run.w[0])
    for path in (folder / "shard-1").glob("state-*.siag"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadFile, match="no save is intact in all 2 shards"):
        read_model(folder)


def test_without_a_folder_a_new_lead_begins_at_the_beginning(tmp_path):
    with Split(2) as first:
        finish(first, hands(first))
        path = tmp_path / "run.trace"
        second = Split(2, trace=path, followers=first.followers)
        assert second.server.version == 0
        assert not second.server.w.any()
        with second:
            run = finish(second, hands(second))
    assert same(path, second, run)


def test_a_follower_without_the_folder_is_refused(tmp_path):
    with (
        Split(2) as first,
        pytest.raises(SiagError, match="at the lead"),
    ):
        Split(2, folder=tmp_path, followers=first.followers)


class Shards:
    """Two shards that save the same numbers, or one that fails to."""

    def __init__(self, folder):
        self._folder = folder
        self.arrays = [{"w": np.zeros(3), "rows": np.zeros((2, 3))} for _ in range(2)]
        self.open()

    def open(self):
        spec = spec_of(folder=self._folder)
        self.stores = [ShardStore(self._folder, Shard(spec, k, 2), spare=200) for k in range(2)]

    def crash(self):
        for store in self.stores:
            store.close()
        for arrays in self.arrays:
            for array in arrays.values():
                array[:] = 0.0
        self.open()


def test_all_shards_go_back_to_the_newest_save_that_all_have_whatever_failed(tmp_path):
    chance = np.random.default_rng(2)
    shards, common, number, value, kept = Shards(tmp_path), 0, 0, 0, 0
    for _ in range(150):
        number, value = number + 1, value + 1
        done = 0
        for store, arrays in zip(shards.stores, shards.arrays, strict=True):
            for array in arrays.values():
                array[:] = value
            if chance.random() < 0.7:
                assert store.save_as(number, common, arrays, np.arange(2), {})
                store.wait()
                done += store.problem is None
        common = number if done == 2 else common
        kept = value if done == 2 else kept
        if chance.random() < 0.2:
            shards.crash()
            known = [store.known(arrays) for store, arrays in zip(shards.stores, shards.arrays, strict=True)]
            whole = set(known[0][0]) & set(known[1][0])
            assert max(whole, default=0) == common
            number = max([0, *known[0][0], *known[1][0]])
            for store, arrays in zip(shards.stores, shards.arrays, strict=True):
                store.go_back(common, arrays)
                assert all((array == (kept if common else 0)).all() for array in arrays.values())
    assert common > 20
    for store in shards.stores:
        store.close()


def test_a_shard_whose_saves_are_gone_is_named(tmp_path):
    folder = tmp_path / "state"
    with Split(2, folder=folder, until=Until(reports=100)) as first:
        finish(first, hands(first))
        second = Split(2, folder=folder, until=Until(reports=200), followers=first.followers)
        with second:
            pass
    for path in (folder / "shard-1").glob("state-*.siag"):
        path.unlink()
    with pytest.raises(BadFile, match=r"save \d+ is missing in shard 1; put back a copy"):
        Split(2, folder=folder)


def test_another_run_is_refused_in_the_folder(tmp_path):
    folder = tmp_path / "state"
    with Split(2, folder=folder, until=Until(reports=100)) as first:
        finish(first, hands(first))
    with pytest.raises(SiagError, match=r"method is .*wait=0.0.* there and .*wait=1.0.* here"):
        Split(2, folder=folder, method=SIAG(wait=1.0))
