"""A server and its workers over TCP: who joins as whom, what is said, and how it ends."""

import threading

import numpy as np
import pytest
from peers import PATIENCE, Client, D, Notes, Noting, Served, in_thread, pull, target, wait_until

import siag
from siag.foundations.errors import BadInput, Missing
from siag.live.protocol import wire
from siag.live.protocol.reception import Limits
from siag.live.reasons import Ending
from siag.live.security import check_binding
from siag.live.serve import parse_address, serve
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
    assert result[0].about["ending"] == Ending.REACHED


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
        ({"seed": 4}, "the server's seed is 3, this worker's 4; give both ends the same seed"),
        (
            {"problem": siag.problems.LeastSquares.random(n=2, d=D, p=3, noise=0.2)},
            "noise=0.1, .* this worker's LeastSquares.* noise=0.2",
        ),
        ({"problem": None, "seed": 0, "gradient": pull, "stream": target(1)}, "this worker's none"),
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


def test_a_worker_whose_stream_ends_leaves_and_all_leaving_ends_the_run():
    with Served(["a", "b"]) as served:
        with Noting(served.port, stream=iter([np.ones(D)] * 7), name="a") as a:
            wait_until(lambda: a.outcome == "the stream ended")
            assert a.machine.reports == 7
            wait_until(lambda: served.states() == ["left", "expected"])
            assert served.notes.told(
                "worker a left after 7 samples: its stream ended; the model goes on to fit the other 1"
            )
        with Noting(served.port, stream=iter([np.ones(D)] * 3), name="b") as b:
            wait_until(lambda: b.outcome == "the stream ended")
        served.wait()
        assert served.session.ended.ending is Ending.ALL_LEFT
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
        with Client(served.port) as again:  # not lost: it can be started again at once
            assert again.join(worker="b")["name"] == "b"


def test_what_a_gradient_must_return_is_said():
    with Served(["a"]) as served:
        with Noting(served.port, gradient=lambda w, sample: [1.0, 2.0]) as worker:
            wait_until(lambda: worker.outcome is not None)
        assert "gradient returned [1.0, 2.0]" in str(worker.outcome)


@pytest.mark.parametrize("d", [20_000, 10**6])
def test_models_that_a_socket_does_not_take_at_once_travel(d):
    numbers = np.linspace(-1.0, 1.0, d)
    with Served(1, d, step=1.0) as served, Client(served.port) as client:
        client.join()
        for k in range(3):
            client.report(numbers, k, k)
            _, version, w = client.frame()
            assert version == k + 1
            assert np.array_equal(w, -(k + 1) * numbers)
        with Noting(served.port, 1, d=d, name="0") as worker:
            client.socket.close()
            worker.more(3)


def test_a_worker_whose_connection_is_cut_goes_on():
    with Served(2) as served, Noting(served.port, 4, name="0") as worker:
        worker.more()
        served.cut()
        wait_until(lambda: served.notes.told("worker 0 is gone"))
        worker.more()
        assert worker.machine.refused == 0
        assert served.gap() < 1e-12


@pytest.mark.parametrize("heartbeat", [0.05, 60.0])
def test_goodbye_ends_workers_even_in_a_long_gradient(heartbeat):
    """The server is gone by the time the gradient is done; what it said last is read all the same."""
    busy, go = threading.Event(), threading.Event()

    def slow(w, sample):
        busy.set()
        assert go.wait(PATIENCE)
        return w

    with Served(1) as served, Noting(served.port, gradient=slow, heartbeat=heartbeat) as worker:
        assert busy.wait(PATIENCE)
        served.stop("that was all")
        go.set()
        wait_until(lambda: worker.outcome is not None)
    assert worker.outcome == "that was all"


def test_signs_of_life_are_sent_while_a_gradient_takes_long():
    go = threading.Event()

    def slow(w, sample):
        assert go.wait(PATIENCE)
        return w

    with Served(1) as served, Noting(served.port, gradient=slow, heartbeat=0.02) as worker:
        wait_until(lambda: served.states() == ["working"])
        first = served.ask(lambda: served.server.members[0].heard)
        wait_until(lambda: served.ask(lambda: served.server.members[0].heard) > first + 0.1)
        go.set()
        worker.more(3)


def test_a_connection_has_nothing_waiting_until_something_was_said():
    with Served(1) as served:
        connection = ClientConnection(("127.0.0.1", served.port), None)
        assert not connection.waiting()
        connection.send(wire.text(wire.HELLO, {"protocol": 2}))
        wait_until(connection.waiting)
        _, payload = connection.receive({wire.REFUSAL: wire.JSON_FROM_SERVER})
        assert wire.parse_text(payload)["final"]
        with pytest.raises(ConnectionResetError):
            wait_until(connection.waiting)
        connection.close()


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
        served.wait()
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
    from siag.live import serve as network

    listen = network.listen
    monkeypatch.setattr(network, "listen", lambda host, port: listen("0.0.0.0", port))
    check_binding("localhost", False, False, False)
    with pytest.raises(BadInput, match="loopback"):
        serve(np.zeros(2), 1, step=siag.steps.Constant(0.1), host="localhost", port=0)
