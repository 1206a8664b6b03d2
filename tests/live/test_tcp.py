"""A server and its workers over TCP: who joins as whom, what is said, and how it ends."""

import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from peers import Client, D, Notes, Noting, Served, in_thread, pull, target, wait_until

import siag
from siag.foundations.errors import BadInput, Missing
from siag.live import wire
from siag.live.network import parse_address, serve, work
from siag.live.security import check_binding
from siag.live import connections as server_connections
from siag.live.transports.tcp import worker as tcp_worker
from siag.live.connection import Limits
from siag.live.welcome import Dismissed
from siag.live.transports.tcp.client import ClientConnection


def test_workers_train_a_model_together():
    with Served(2, step=0.05) as served:
        with Noting(served.port, 1) as one, Noting(served.port, 3) as three:
            one.more(50), three.more(50)
            wait_until(lambda: np.allclose(served.ask(served.server.w.copy), 2.0, atol=0.2))
            assert served.gap() < 1e-12
            served.stop("enough")
        assert {one.outcome, three.outcome} == {"enough"}
        assert {one.machine.name, three.machine.name} == {"0", "1"}


def test_serve_and_work_are_two_calls():
    """Whoever is first asks for the port; the run is what the server returns."""
    import threading

    place, result = [], []
    arguments = {"until": 300, "step": siag.steps.Constant(0.05), "port": 0, "ready": lambda *at: place.append(at)}
    server = threading.Thread(target=lambda: result.append(serve(np.zeros(D), ["a", "b"], **arguments)))
    server.start()
    host, port = wait_until(lambda: place)[0]
    threads = [in_thread(f"{host}:{port}", pull, target(k), name=name) for k, name in ((1, "a"), (3, "b"))]
    server.join()
    for thread, outcome in threads:
        thread.join()
        assert outcome[0].reports > 0
    assert result[0].t[-1] == 300
    assert result[0].about["ended"] == "as many iterations or reports as asked"


def test_a_worker_of_a_problem_draws_its_own_samples():
    problem = siag.problems.LeastSquares.random(n=2, d=D, p=3, noise=0.1)
    with Served(2) as served:
        threads = [in_thread(served.address, problem=problem, seed=3, name=str(k)) for k in range(2)]
        wait_until(lambda: served.ask(lambda: min(m.samples for m in served.server.members)) > 20)
        served.stop()
    for thread, outcome in threads:
        thread.join()
        assert outcome[0].refused == 0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"seed": 4}, "the server's seed is 3, this worker's 4; give both ends the same --seed"),
        (
            {"problem": siag.problems.LeastSquares.random(n=2, d=D, p=3, noise=0.2)},
            "noise=0.1, .* this worker's LeastSquares.* noise=0.2",
        ),
        ({"problem": None, "gradient": pull, "stream": target(1)}, "this worker's none"),
    ],
)
def test_a_worker_with_another_problem_or_seed_than_the_servers_gives_up(given, why):
    problem, place = siag.problems.LeastSquares.random(n=2, d=D, p=3, noise=0.1), []
    options = {
        "problem": problem,
        "seed": 3,
        "step": siag.steps.Constant(0.01),
        "port": 0,
        "progress": False,
        "linger": 5.0,
    }
    ready = {"ready": lambda host, port: place.append(f"{host}:{port}"), "until": siag.Until(reports=40)}
    server = threading.Thread(target=lambda: serve(**options, **ready))
    server.start()
    address = wait_until(lambda: place)[0]
    with pytest.raises(siag.SiagError, match=why):
        siag.work(address, **{"problem": problem, "seed": 3, **given})
    siag.work(address, problem=problem, seed=3)
    server.join()


def test_a_welcome_says_all_that_a_worker_needs():
    with Served(["a", "b"]) as served, Client(served.port) as first, Client(served.port) as second:
        welcome = first.join()
        assert welcome == {
            "protocol": 1,
            "siag": siag.__version__,
            "row": 0,
            "name": "a",
            "workers": 2,
            "d": D,
            "message": D,
            "shown": D,
            "samples": 0,
            "method": {"kind": "SIAG", "resum": 64, "wait": 0.0, "rows": "float64"},
        }
        assert second.join()["name"] == "b"
        with Client(served.port) as third:
            kind, _, content = third.hello()
            assert (kind, content["final"]) == (wire.REFUSAL, False)
            assert "all rows are taken" in content["reason"]


def test_each_report_is_answered_with_the_new_model():
    with Served(1, step=0.5) as served, Client(served.port) as client:
        client.join()
        for k in range(3):
            client.report(np.ones(D), k, k)
            kind, version, w = client.frame()
            assert (kind, version) == (wire.MODEL, k + 1)
            assert w.tolist() == [-0.5 * (k + 1)] * D
        client.send(wire.head(wire.ALIVE))
        client.report(np.zeros(D), 3, 3)
        assert client.frame()[:2] == (wire.MODEL, 4)
        assert served.state()[:2] == (4, 4)


def test_that_there_is_nothing_to_send_is_a_report_and_lets_the_server_step():
    with Served(1, step=0.5) as served, Client(served.port) as client:
        client.join()
        client.report(np.ones(D))
        assert client.frame()[2].tolist() == [-0.5] * D
        client.send(wire.head(wire.SKIP, 0, 1, 1))
        kind, version, w = client.frame()
        assert (kind, version, w.tolist()) == (wire.MODEL, 2, [-1.0] * D)
        assert served.state()[:2] == (2, 2)
        assert served.ask(lambda: (served.server.skips, served.server.members[0].samples)) == (1, 2)


@pytest.mark.parametrize(
    ("stamp", "sample", "reason"),
    [(7, 1, "stamp 7"), (0, 1, "from before"), (1, 0, "sample 0"), (1, 1 << 53, "fewer than")],
)
def test_a_skip_must_have_a_stamp_and_a_sample_as_a_report(stamp, sample, reason):
    with Served(1) as served, Client(served.port) as client:
        client.join()
        client.send(wire.head(wire.SKIP))
        client.frame()
        client.report(np.ones(D), 1, 1)
        client.frame()
        before = served.state()
        client.send(wire.head(wire.SKIP, 0, stamp, sample))
        kind, _, content = client.frame()
        assert kind == wire.REFUSAL
        assert reason in content["reason"]
        assert served.state() == before


def test_frames_may_come_in_any_pieces():
    with Served(1) as served, Client(served.port) as client:
        frames = wire.text(wire.HELLO, {"protocol": 1}) + wire.head(wire.SKIP) + wire.head(wire.SKIP, 0, 0, 1)
        for k in range(len(frames)):
            client.send(frames[k : k + 1])
        assert [client.frame()[0] for _ in range(4)] == [wire.WELCOME, wire.MODEL, wire.MODEL, wire.MODEL]
        client.report(np.ones(D), 1, 2)
        client.report(np.ones(D), 2, 3)
        assert [client.frame()[1] for _ in range(2)] == [3, 4]


@pytest.mark.parametrize("d", [509, 510, 512, 20_000])
def test_models_of_any_size_travel(d):
    """509 numbers just fit on the stage, 510 do not; 20 000 are more than a socket takes at once."""
    with Served(1, d, step=1.0) as served, Client(served.port) as client:
        client.join()
        numbers = np.linspace(-1.0, 1.0, d)
        for k in range(3):
            client.report(numbers, k, k)
            _, version, w = client.frame()
            assert version == k + 1
            assert (w == -(k + 1) * numbers).all()
        with Noting(served.port, 1, d=d, name="0") as worker:
            client.socket.close()
            worker.more(3)


def test_a_refused_report_changes_nothing_and_is_followed_by_the_model():
    with Served(1) as served, Client(served.port) as client:
        client.join()
        client.report(np.ones(D))
        client.frame()
        before = served.state()
        for numbers, stamp, sample, says in (
            (np.full(D, np.nan), 1, 1, "not finite"),
            (np.ones(D), 99, 1, "stamp 99"),
            (np.ones(D), -1, 1, "stamp -1"),
            (np.ones(D), 1, 0, "sample 0"),
            (np.ones(D), 1, -5, "sample -5"),
            (np.full(D, 1e9), 1, 1, "norm"),
        ):
            client.report(numbers, stamp, sample)
            kind, _, content = client.frame()
            assert (kind, content["final"]) == (wire.REFUSAL, False)
            assert says in content["reason"]
            assert client.frame()[0] == wire.MODEL
        assert served.state() == before


def test_a_worker_refused_too_often_is_dismissed_for_good():
    def nonsense(w, sample):
        return np.full(D, np.nan)

    with Served(1) as served:
        with Noting(served.port, gradient=nonsense) as worker:
            wait_until(lambda: worker.outcome is not None)
        assert isinstance(worker.outcome, Dismissed)
        assert "not finite" in str(worker.outcome)
        assert served.states() == ["refused"]
        with Client(served.port) as client:
            kind, _, content = client.hello(worker="0")
            assert (kind, content["final"]) == (wire.REFUSAL, True)


@pytest.mark.parametrize("protocol", [0, 2, None, "1", 1.5, [1], {"a": [[]]}, 10**4000, "x" * 3000])
def test_another_protocol_is_refused_with_both_versions(protocol):
    with Served(1) as served, Client(served.port) as client:
        client.send(wire.text(wire.HELLO, {"protocol": protocol}))
        kind, _, content = client.frame()
        assert (kind, content["final"]) == (wire.REFUSAL, True)
        assert f"siag {siag.__version__}, speaks 1; install the same version" in content["reason"]
        assert client.hung_up()
        assert served.states() == ["expected"]


def test_a_worker_of_another_protocol_ends_with_the_servers_words(monkeypatch):
    with Served(1) as served:
        monkeypatch.setattr(wire, "text", _other_protocol(wire.text))
        with pytest.raises(Dismissed, match=r"protocol 2: this server, siag .*, speaks 1"):
            work(served.address, pull, target(1))


def _other_protocol(text):
    def changed(kind, content, stamp=0):
        return text(kind, {**content, "protocol": 2} if kind == wire.HELLO else content, stamp)

    return changed


def test_a_name_that_is_not_the_servers_is_refused():
    with Served(["a", "b"]) as served:
        for name in ("c", "", 0, ["a"], "\x1b[2J" * 100):
            with Client(served.port) as client:
                kind, _, content = client.hello(worker=name)
                assert (kind, content["final"]) == (wire.REFUSAL, True), name
                assert "not among this server's" in content["reason"]
                assert "\x1b" not in content["reason"]
        with pytest.raises(Dismissed, match="not among"):
            work(served.address, pull, target(1), name="c")
        assert served.notes.told("turned away: worker c")
        assert served.states() == ["expected", "expected"]


def test_two_workers_cannot_have_one_row():
    with Served(["a", "b"]) as served, Client(served.port) as first, Client(served.port) as second:
        first.join(worker="a")
        kind, _, content = second.hello(worker="a")
        assert (kind, content) == (wire.REFUSAL, {"reason": "worker a is connected already", "final": False})
        first.report(np.ones(D))
        assert first.frame()[:2] == (wire.MODEL, 1)


def test_a_row_whose_worker_is_silent_can_be_taken_over():
    with Served(["a"]) as served, Client(served.port) as first:
        first.join(worker="a")
        first.report(np.ones(D))
        first.frame()
        served.ask(lambda: setattr(served.server.members[0], "heard", time.monotonic() - 6.0))
        with Client(served.port) as second:
            assert second.join(worker="a")["samples"] == 1
            assert first.frame()[2]["reason"].startswith("another connection")
            assert first.hung_up()
            second.report(np.ones(D), 1, 1)
            assert second.frame()[:2] == (wire.MODEL, 2)
            assert served.states() == ["working"]
            assert not served.notes.told("is gone")


def test_a_row_that_is_away_is_kept_for_its_worker_for_a_while(monkeypatch):
    with Served(1) as served:
        with Client(served.port) as client:
            client.join()
            client.report(np.ones(D))
            client.frame()
        wait_until(lambda: served.states() == ["away"])
        assert served.notes.told("worker 0 is gone: its connection was lost; its row stays")
        with Client(served.port) as stranger:
            kind, _, content = stranger.hello()
            assert (kind, content["final"]) == (wire.REFUSAL, False)
            assert "may come back" in content["reason"]
        monkeypatch.setattr(server_connections, "OCCUPIED", 0.0)
        with Client(served.port) as stranger:
            assert stranger.join()["samples"] == 1


def test_a_worker_that_was_away_goes_on_and_its_row_stays():
    with Served(2) as served, Client(served.port) as other:
        other.join()
        with Noting(served.port, 4) as worker:
            worker.more(20)
            line = worker._line
            drawn = worker.machine.task.sample
            line._channel.shut()
            wait_until(lambda: served.notes.told("worker 1 is gone"))
            assert served.ask(served.server.state.rows[1].any)
            worker.more(20)
            assert worker.machine.task.sample > drawn
            assert worker.machine.refused == 0
            assert worker.machine.name == "1"
        assert served.gap() < 1e-12


def test_late_joiners_are_welcome():
    with Served(3) as served, Noting(served.port, 1) as early:
        early.more(100)
        with Noting(served.port, 2) as late, Noting(served.port, 3) as later:
            late.more(20), later.more(20)
            assert late.seen >= 100
            assert served.states() == ["working"] * 3


def test_a_worker_whose_stream_ends_leaves_and_all_leaving_ends_the_run():
    with Served(["a", "b"]) as served:
        with Noting(served.port, stream=[np.ones(D)] * 7, name="a") as a:
            wait_until(lambda: a.outcome == "the stream ended")
            assert a.machine.reports == 7
            wait_until(lambda: served.states() == ["left", "expected"])
            assert served.notes.told("worker a left: its stream ended")
        with Noting(served.port, stream=[np.ones(D)] * 3, name="b") as b:
            wait_until(lambda: b.outcome == "the stream ended")
        served._thread.join()
        assert served.session.why == "all workers have left"
        assert served.server.reports == 10


def test_a_gradient_that_raises_is_reported_with_the_workers_name_and_the_others_go_on():
    def broken(w, sample):
        if w[0] > 0:
            raise FileNotFoundError("no such\nsample")
        return w - sample

    with Served(["a", "b"], step=0.1) as served, Noting(served.port, 1, name="a") as good:
        good.more(5)
        with Noting(served.port, 1, name="b", gradient=broken) as bad:
            wait_until(lambda: bad.outcome is not None)
        assert isinstance(bad.outcome, FileNotFoundError)
        assert bad.outcome.__notes__ == [f"in worker b of {served.address}"]
        wait_until(lambda: served.notes.told("worker b failed: FileNotFoundError: no such sample (test_tcp.py, line"))
        good.more(5)
        assert served.states() == ["working", "away"]
        with Client(served.port) as again:  # not lost: it can be started again at once, even without its name
            assert again.join()["name"] == "b"


def test_what_a_gradient_must_return_is_said():
    with Served(["a"]) as served:
        with Noting(served.port, gradient=lambda w, sample: [1.0, 2.0]) as worker:
            wait_until(lambda: worker.outcome is not None)
        assert "gradient returned [1.0, 2.0]" in str(worker.outcome)


def test_goodbye_ends_workers_even_in_a_long_gradient(monkeypatch):
    """The server is gone by the time the gradient is done; what it said last is read all the same."""
    import threading

    monkeypatch.setattr(tcp_worker, "HEARTBEAT", 0.05)
    busy, go = threading.Event(), threading.Event()

    def slow(w, sample):
        busy.set()
        go.wait()
        return w

    with Served(1) as served, Noting(served.port, gradient=slow) as worker:
        assert busy.wait(10)
        served.stop("that was all")
        go.set()
        wait_until(lambda: worker.outcome is not None)
    assert worker.outcome == "that was all"


@pytest.mark.parametrize("durable", [False, True])
def test_whatever_comes_after_the_end_is_not_heeded(durable, tmp_path):
    with Served(3, folder=tmp_path, durable=durable) as served, ExitStack() as stack:
        clients = [stack.enter_context(Client(served.port)) for _ in range(3)]
        for client in clients:
            client.join()
        before = served.state()
        served.session.end("enough")
        clients[0].report(np.ones(D))
        clients[1].send(wire.text(wire.LEAVE, {"reason": "late"}))
        clients[2].send(b"nonsense" * 10)
        for client in clients[:2]:
            assert client.frame()[2] == {"done": True, "reason": "enough"}
        served._thread.join()
        assert served.server.version == before[0]


def test_signs_of_life_are_sent_while_a_gradient_takes_long(monkeypatch):
    import threading

    monkeypatch.setattr(tcp_worker, "HEARTBEAT", 0.02)
    go = threading.Event()

    def slow(w, sample):
        go.wait()
        return w

    with Served(1) as served, Noting(served.port, gradient=slow) as worker:
        wait_until(lambda: worker.machine.name == "0")
        first = served.ask(lambda: served.server.members[0].heard)
        wait_until(lambda: served.ask(lambda: served.server.members[0].heard) > first + 0.1)
        assert served.server.reports == 0
        go.set()
        worker.more(3)


def test_a_worker_gives_up_after_the_time_it_was_given():
    with Served(1) as served, Noting(served.port, 1, give_up=0.3) as worker:
        worker.more(5)
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 0.4)  # longer than it would wait: what counts is the loss
        served.vanish()
        wait_until(lambda: worker.outcome is not None)
    assert isinstance(worker.outcome, Dismissed)
    assert time.monotonic() - began > 0.7
    assert sum("trying again" in remark for remark in worker.remarks) > 1
    with pytest.raises(Dismissed, match=r"no server at 127.0.0.1:\d+ for .* seconds: connection refused"):
        work(served.address, pull, target(1), give_up=0.2)


def test_a_worker_that_others_stood_in_for_reports_no_sample_twice(monkeypatch):
    problem = siag.problems.LeastSquares.random(n=1, d=D, p=3, noise=0.1)
    for given in ({"gradient": pull, "stream": target(1)}, {"problem": problem}):
        with Served(1) as served:
            workers = []
            monkeypatch.setattr(tcp_worker.Worker, "_work", _noted(tcp_worker.Worker._work, workers))
            thread, outcome = in_thread(served.address, **given)
            wait_until(lambda: workers and workers[0].reports > 5)  # noqa: B023  # waited for within the loop
            served.ask(lambda: _stood_in(served))
            wait_until(lambda: served.ask(lambda: served.server.members[0].samples) > 10**6 + 5)
            served.stop()
            thread.join()
            assert outcome[0].refused <= tcp_worker.REJOIN
        monkeypatch.undo()


def _stood_in(served):
    """Others have reported in the worker's place, and its connection is lost, both at once."""
    served.server.members[0].samples = 10**6
    for connection in list(served.connections.connections):
        connection.transport.abort()


def _noted(method, workers):
    def noted(self):
        workers.append(self)
        return method(self)

    return noted


def test_a_worker_does_not_work_for_another_server_in_the_same_place():
    with Served(2) as first, Noting(first.port, 1) as worker:
        worker.more(5)
        first.vanish()
        with Served(3, port=first.port):
            wait_until(lambda: worker.outcome is not None)
    assert "another than before: row 0 of 3, d = 5, not row 0 of 2, d = 5" in str(worker.outcome)


def test_a_line_is_not_waiting_until_something_was_said():
    with Served(1) as served:
        line = ClientConnection(("127.0.0.1", served.port), None)
        assert not line.waiting()
        line.send(wire.text(wire.HELLO, {"protocol": 2}))
        wait_until(line.waiting)
        head = line.receive({wire.REFUSAL: wire.TOLD})
        assert line.text(head)["final"]
        with pytest.raises(ConnectionResetError):
            wait_until(line.waiting)
        line.close()


def test_a_method_of_ones_own_is_given_to_both_sides():
    from dataclasses import dataclass

    from siag.methods import SIAG

    @dataclass(frozen=True, kw_only=True)
    class Mine(SIAG):
        pass

    with Served(1) as served:
        served.ask(lambda: None)
        thread, outcome = in_thread(served.address, pull, target(1), method=Mine())
        wait_until(lambda: served.ask(lambda: served.server.reports) > 5)
        served.stop()
        thread.join()
        assert outcome[0].refused == 0


def test_an_error_of_the_watcher_ends_the_server_and_not_the_workers():
    class Clumsy(Notes):
        def show(self, snapshot):
            if snapshot.reports > 3:
                raise ZeroDivisionError("of the watcher")

    with Served(1, progress=Clumsy(), step=0.1) as served, Noting(served.port, 1) as worker:
        served._thread.join()
        assert isinstance(served.error, ZeroDivisionError)
        served.error = None
        wait_until(lambda: any("an error of the server's); trying again" in remark for remark in worker.remarks))
        assert worker.outcome is None


@pytest.mark.parametrize(
    ("text", "place"),
    [("host:80", ("host", 80)), ("host", ("host", 7460)), ("[::1]:9", ("::1", 9)), ("[::1]", ("::1", 7460))],
)
def test_addresses_are_host_and_port(text, place):
    assert parse_address(text) == place


@pytest.mark.parametrize("text", ["", ":80", "host:", "host:0", "host:65536", "host:http", "host:-1"])
def test_other_addresses_are_refused(text):
    with pytest.raises(BadInput, match="address"):
        parse_address(text)


def test_the_servers_parameters_are_checked_before_it_listens(tmp_path):
    step = siag.steps.Constant(0.1)
    with pytest.raises(Missing, match="key"):
        serve(np.zeros(2), 1, step=step, certificate=tmp_path / "a")
    with pytest.raises(BadInput, match="port"):
        serve(np.zeros(2), 1, step=step, port=70_000, folder=tmp_path / "never")
    with pytest.raises(BadInput, match="connections"):
        Limits(connections=0)
    with pytest.raises(BadInput, match="hello"):
        Limits(hello=0)
    assert not (tmp_path / "never").exists()


def test_a_port_that_is_taken_is_refused_before_anything_is_written(tmp_path):
    with Served(1) as served, pytest.raises(BadInput, match="address already in use"):
        serve(
            np.zeros(2),
            1,
            step=siag.steps.Constant(0.1),
            port=served.port,
            folder=tmp_path / "a",
            trace=tmp_path / "t",
        )
    assert list(tmp_path.iterdir()) == []


def test_only_this_machine_is_served_without_tls_and_tokens():
    step = siag.steps.Constant(0.1)
    for host in ("0.0.0.0", "", "::"):
        with pytest.raises(BadInput, match="loopback"):
            serve(np.zeros(2), 1, step=step, host=host, port=0)
    places = []
    given = {"host": "0.0.0.0", "port": 0, "insecure": True, "linger": 0.01}
    serve(np.zeros(2), 1, step=step, ready=lambda *place: places.append(place), **given)
    assert places[0][0] == "0.0.0.0"


def test_a_name_that_means_another_address_than_it_seems_is_found_out(monkeypatch):
    """Whatever the resolver says when it is asked first, the socket's own address is what counts."""
    from siag.live import network

    listen = network.listen
    monkeypatch.setattr(network, "listen", lambda host, port: listen("0.0.0.0", port))
    check_binding("localhost", False, False, False)
    with pytest.raises(BadInput, match="loopback"):
        serve(np.zeros(2), 1, step=siag.steps.Constant(0.1), host="localhost", port=0)
