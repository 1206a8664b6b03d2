"""Memory that a server and its workers share: the same numbers as over TCP, and nothing is left behind."""

import errno
import multiprocessing
import os
import signal

import numpy as np
import pytest
from peers import Client, D, Noting, Served, wait_until
from splits import Split, finish, hands, of_problem, same

import siag
from siag.foundations.encodings import FLOAT64
from siag.live.protocol import wire
from siag.live.reasons import Ending
from siag.live.transports.tcp import memory as tcp_memory
from siag.live.until import Until
from siag.problems import LeastSquares

LARGE = 8200  # numbers; a little more than 64 KiB
PROBLEM = LeastSquares.random(n=2, p=4, d=LARGE, noise=0.1, seed=3)
STEP = siag.steps.Constant(1e-5)

pytestmark = pytest.mark.skipif(not os.path.isdir(tcp_memory.PLACE), reason="there is no /dev/shm")


def files():
    return [name for name in os.listdir(tcp_memory.PLACE) if name.startswith(tcp_memory.PREFIX)]


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch):
    monkeypatch.setattr(tcp_memory, "PREFIX", f"siag-test-{os.getpid()}-")  # others may be at work
    yield
    assert files() == []


class Sharing(Client):
    """A worker by hand that shares memory."""

    def join(self, **more):
        welcome = super().join(memory=True, **more)
        self.memory = tcp_memory.accepted(welcome.get("memory"), LARGE, LARGE)
        return welcome

    def report(self, numbers, stamp=0, sample=0):
        self.memory.report[:] = numbers
        self.send(wire.head(wire.SHARED_REPORT, 0, stamp, sample))

    def shared(self):
        """The version of a model in shared memory, and the model."""
        length, kind, _, stamp, _, _ = wire.HEADER.unpack(self.exactly(wire.HEADER.size))
        assert (length, kind) == (0, wire.SHARED_MODEL)
        return stamp, self.memory.model.copy()


def large(workers=1, **given):
    return Served(workers, LARGE, share=True, **given)


def kinds(monkeypatch):
    """The kinds of all frames whose header anybody reads from now on."""
    seen, parse = set(), wire.parse_head

    def noting(*given):
        head = parse(*given)
        seen.add(head.kind)
        return head

    monkeypatch.setattr(wire, "parse_head", noting)
    return seen


@pytest.mark.parametrize("durable", [False, True])
def test_a_run_through_shared_memory_is_its_replay_bit_for_bit(tmp_path, monkeypatch, durable):
    seen, path = kinds(monkeypatch), tmp_path / "run.trace"
    given = {"folder": tmp_path / "run", "durable": True} if durable else {}
    with large(2, step=1e-5, until=Until(reports=200), trace=path, **given) as served:
        workers = [of_problem(("127.0.0.1", served.port), name, problem=PROBLEM, share=True) for name in ("0", "1")]
        for worker in workers:
            worker.thread.join(20)
            assert worker.outcome == Ending.REACHED.sentence
    again = siag.replay(path, PROBLEM, siag.methods.SIAG(), STEP, seed=0, w0=np.zeros(LARGE))
    assert served.run.w.any()
    assert served.run.w.tobytes() == again.w.tobytes()
    assert wire.REPORT not in seen
    assert {wire.SHARED_REPORT, wire.SHARED_MODEL} <= seen


@pytest.mark.few(1)
@pytest.mark.parametrize(("messages", "d"), [("float64", 2 * LARGE), ("float32", 4 * LARGE), ("int8", 131_077)])
def test_a_model_that_is_split_is_shared_slice_by_slice(messages, d, tmp_path, monkeypatch):
    seen, path = kinds(monkeypatch), tmp_path / "run.trace"
    problem = LeastSquares.random(n=2, p=4, d=d, noise=0.1, seed=3)
    given = {"w0": np.zeros(d), "names": ["0", "1"], "step": STEP, "until": Until(reports=200), "messages": messages}
    with Split(2, **given, trace=path, share=True) as split:
        run = finish(split, hands(split, problem=problem, share=True))
        assert same(path, split, run, problem)
    assert wire.REPORT not in seen
    assert {wire.SHARED_REPORT, wire.SHARED_MODEL} <= seen


def test_reports_and_models_are_where_both_ends_see_them():
    with large(step=0.5) as served, Sharing(served.port) as client:
        path = client.join()["memory"]
        assert not os.path.exists(path)  # whoever has it removes it
        for k in range(3):
            client.report(np.ones(LARGE), k, k)
            version, w = client.shared()
            assert version == k + 1
            assert w.tolist() == [-0.5 * (k + 1)] * LARGE
        client.send(wire.head(wire.SKIP, 0, 3, 3))
        assert client.shared()[0] == 4


def test_the_file_is_its_owners_alone_and_goes_with_the_first_shared_report():
    with large() as served, Client(served.port) as client:
        path = client.join(memory=True)["memory"]
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(path).st_size == 16 * LARGE
        client.send(wire.head(wire.SKIP))
        assert client.frame()[0] == wire.MODEL  # who knows whether it could be opened
        assert os.path.exists(path)
        client.send(wire.head(wire.SHARED_REPORT, 0, 1, 1))
        assert client.exactly(wire.HEADER.size)[4] == wire.SHARED_MODEL
        assert not os.path.exists(path)


@pytest.mark.parametrize("hang_up", [False, True])
def test_memory_that_is_not_used_goes_with_the_connection_or_the_server(hang_up):
    with large() as served, Client(served.port) as client:
        path = client.join(memory=True)["memory"]
        assert os.path.exists(path)
        if hang_up:
            client.socket.close()
            wait_until(lambda: not os.path.exists(path))
        else:
            served.stop()
            assert not os.path.exists(path)


def test_a_report_over_the_connection_gives_the_memory_up():
    with large() as served, Client(served.port) as client:
        path = client.join(memory=True)["memory"]
        client.report(np.ones(LARGE))
        assert client.frame()[0] == wire.MODEL
        assert not os.path.exists(path)
        client.send(wire.head(wire.SHARED_REPORT, 0, 1, 1))
        kind, _, content = client.frame()
        assert (kind, content["final"]) == (wire.REFUSAL, False)
        assert "no memory" in content["reason"]
        assert client.hung_up()


@pytest.mark.parametrize(("share", "says"), [(False, "now REPORT or SKIP"), (True, "no memory")])
def test_a_shared_report_without_an_offer_is_a_bad_frame(share, says):
    with Served(1, LARGE, share=share) as served, Client(served.port) as client:
        client.join()
        before = served.state()
        client.send(wire.head(wire.SHARED_REPORT))
        kind, _, content = client.frame()
        assert kind == wire.REFUSAL
        assert says in content["reason"]
        assert client.hung_up()
        assert served.state() == before


@pytest.mark.parametrize(("d", "share", "asks"), [(LARGE, False, True), (D, True, True), (LARGE, True, False)])
def test_memory_is_offered_to_whoever_asks_where_it_is_shared_and_arrays_are_large(d, share, asks):
    with Served(1, d, share=share) as served, Client(served.port) as client:
        assert "memory" not in client.join(**({"memory": True} if asks else {}))


def test_memory_is_not_offered_where_there_is_none_or_too_little_or_to_another_machine(monkeypatch):
    places = {"sockname": ("10.0.0.1", 1), "peername": ("10.0.0.1", 2)}

    class Transport:
        def get_extra_info(self, what):
            return places[what]

    def no_room(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def offer(size=LARGE):
        return tcp_memory.offered(Transport(), {"memory": True}, size, size)

    memory = offer()
    memory.remove()
    assert memory.report.size == memory.model.size == LARGE
    assert offer(1 << 48) is None
    with monkeypatch.context() as patch:
        patch.setattr(tcp_memory, "PLACE", "/nowhere")
        assert offer() is None
    with monkeypatch.context() as patch:
        patch.setattr(tcp_memory, "NATIVE", False)
        assert offer() is None
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", no_room)
        assert offer() is None
    places["peername"] = ("10.0.0.2", 2)
    assert offer() is None


def test_a_worker_takes_only_what_is_a_servers_of_the_same_user(tmp_path, monkeypatch):
    memory = tcp_memory._made(LARGE, LARGE, FLOAT64)
    try:
        elsewhere, link = tmp_path / os.path.basename(memory.path), f"{memory.path}-link"
        elsewhere.write_bytes(bytes(16 * LARGE))
        os.symlink(elsewhere, link)
        for path in (None, 3, "", "\0", str(elsewhere), link, f"{memory.path}\0", f"{memory.path}-none"):
            assert tcp_memory.accepted(path, LARGE, LARGE) is None
        os.unlink(link)
        assert tcp_memory.accepted(memory.path, LARGE, LARGE + 1) is None
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: -1)
            assert tcp_memory.accepted(memory.path, LARGE, LARGE) is None
        other = tcp_memory.accepted(memory.path, LARGE, LARGE)
        memory.report[-1], memory.model[0] = 1.0, 2.0
        assert (other.report[-1], other.model[0]) == (1.0, 2.0)
    finally:
        memory.remove()


def test_a_worker_that_cannot_open_the_memory_goes_on_over_the_connection(monkeypatch):
    seen = kinds(monkeypatch)
    monkeypatch.setattr("siag.live.transports.tcp.client.accepted", lambda *given: None)
    with large() as served:
        with Noting(served.port, d=LARGE, share=True) as worker:
            worker.more(20)
            assert files() == []
            served.stop()
        assert worker.machine.refused == 0
    assert wire.REPORT in seen
    assert wire.SHARED_REPORT not in seen


def test_a_refused_report_changes_nothing_and_the_worker_goes_on():
    with large() as served, Sharing(served.port) as client:
        client.join()
        before = served.state()
        client.report(np.full(LARGE, np.nan))
        kind, _, content = client.frame()
        assert (kind, content["final"]) == (wire.REFUSAL, False)
        assert "not finite" in content["reason"]
        assert client.shared()[0] == 0
        assert served.state() == before
        client.report(np.ones(LARGE), 0, 1)
        version, w = client.shared()
        assert version == 1
        assert w.any()


def test_a_connection_that_is_opened_again_has_memory_of_its_own():
    with large(step=0.5) as served:
        with Noting(served.port, 1, d=LARGE, share=True) as worker:
            worker.more(5)
            served.cut()
            worker.more(20)
        wait_until(lambda: not served.connections.connections)


def work(port):
    with Noting(port, 1, d=LARGE, share=True) as worker:
        worker.thread.join()


def test_nothing_is_left_of_a_worker_that_is_killed():
    with large(step=0.5) as served:
        process = multiprocessing.get_context("spawn").Process(target=work, args=(served.port,))
        process.start()
        wait_until(lambda: served.ask(lambda: served.server.version) > 20)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        wait_until(lambda: served.states() == ["away"])
        assert files() == []
        with Noting(served.port, 1, d=LARGE, name="0", share=True) as worker:
            worker.more(20)
