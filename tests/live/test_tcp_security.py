"""Whoever connects and whatever is sent: a server changes nothing that it should not, and neither dies nor grows."""

import math
import os
import random
import socket
import threading
from contextlib import suppress

import numpy as np
import pytest
from peers import Client, D, Noting, Served, in_thread, memory, pull, target, wait_until

import siag
from refusals import refused
from siag.foundations.errors import BadInput, Unsuitable
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import Dismissed
from siag.live.security import Tokens, client_context, read_token, server_context
from siag.live.serve import parse_address, serve, work
from siag.live.transports.tcp.client import ClientConnection
from siag.streams import Follow

NONSENSE = np.full(D, np.nan).tobytes()


@pytest.fixture(scope="session")
def secrets(tmp_path_factory):
    """A folder made by `siag certs`, and one of somebody else's."""
    pytest.importorskip("cryptography")
    folder = tmp_path_factory.mktemp("secrets")
    make_certificates(folder / "ours", hosts=["localhost"], workers=3)
    make_certificates(folder / "theirs", hosts=["localhost"], workers=3)
    return folder


@pytest.fixture
def secure(secrets):
    """What a server with TLS and tokens is made with."""
    ours = secrets / "ours"
    return {
        "context": server_context(ours / "server.pem", ours / "server.key"),
        "tokens": Tokens.load(ours / "tokens.json", [str(row) for row in range(3)]),
    }


# Tokens


@pytest.fixture
def tokens(tmp_path):
    make_certificates(tmp_path / "ours", hosts=[], workers=3)
    make_certificates(tmp_path / "theirs", hosts=[], workers=3)
    secret = {
        (whose, row): read_token(tmp_path / whose / f"worker-{row}.token")
        for whose in ("ours", "theirs")
        for row in range(3)
    }
    return Tokens.load(tmp_path / "ours" / "tokens.json", [str(row) for row in range(3)]), secret


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "0.0.0.0", "both"])
@pytest.mark.parametrize("given", ["file", "variable"])
def test_a_token_is_never_sent_in_clear_beyond_this_machine(tokens, tmp_path, monkeypatch, host, given):
    known = {"both": ["127.0.0.1", "192.0.2.7"]}
    resolve = socket.getaddrinfo

    def look(name, port, *rest, **more):
        found = [resolve(each, port, *rest, **more) for each in known.get(name, [name])]
        return [entry for each in found for entry in each]

    reached = []
    monkeypatch.setattr(socket, "getaddrinfo", look)
    monkeypatch.setattr(socket, "create_connection", lambda *place, **_: reached.append(place))
    path = tmp_path / "ours" / "worker-0.token"
    if given == "variable":
        monkeypatch.setenv("SIAG_TOKEN", path.read_text())
    with pytest.raises(BadInput, match=r"^token = .*: must be sent over TLS beyond this machine; give --ca or --tls"):
        work(f"{host}:7460", pull, target(1), token=path if given == "file" else None, give_up=0)
    assert reached == []


@pytest.mark.parametrize("known", [True, False])
def test_a_stream_goes_on_only_if_its_worker_is_known_to_be_the_same(tmp_path, known):
    path = tmp_path / "data"
    path.write_text("".join(f"{k}\n" for k in range(6)))
    seen = []

    def gradient(w, sample):
        seen.append(int(sample))
        return np.zeros(D)

    with Served(["a", "b"]) as served, Client(served.port) as other, Client(served.port) as before:
        other.join(worker="b")
        before.join(worker="a")
        before.report(np.zeros(D), sample=3)
        assert before.frame()[0] == wire.MODEL
        before.send(wire.text(wire.LEAVE, {"reason": "", "failed": False}))
        assert before.hung_up()
        work(served.address, gradient, Follow(path, "lines", wait=False), name="a" if known else None)
    assert seen == ([4, 5] if known else [0, 1, 2, 3, 4, 5])


# Problems


PROBLEM = siag.problems.LeastSquares.random(n=2, d=D, p=3, noise=0.1)
STEP = siag.steps.Constant(0.02)


def test_a_server_of_a_problem_takes_all_from_it_and_its_trace_says_all(tmp_path):
    place, result = [], []
    options = {"until": 200, "port": 0, "trace": tmp_path / "t", "ready": lambda *at: place.append(at)}
    server = threading.Thread(target=lambda: result.append(serve(problem=PROBLEM, seed=6, step=STEP, **options)))
    server.start()
    host, port = wait_until(lambda: place)[0]
    workers = [in_thread(f"{host}:{port}", problem=PROBLEM, seed=6)[0] for _ in range(2)]
    for thread in (server, *workers):
        thread.join()
    (run,) = result
    assert (run.about["problem"], run.about["seed"]) == (repr(PROBLEM), 6)
    assert run.error[0, -1] == np.square(run.w[0] - PROBLEM.optimum).sum()
    assert np.array_equal(siag.replay(tmp_path / "t").w[0], run.w[0])


def test_a_worker_of_a_problem_the_server_does_not_have_is_refused():
    for n, d in ((3, D), (2, D + 1)):
        other = siag.problems.LeastSquares.random(n=n, d=d, p=3, noise=0.1)
        with (
            Served(2) as served,
            pytest.raises(BadInput, match=rf"one of 2 workers and {D} parameters, as the server's"),
        ):
            work(served.address, problem=other)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"^w0 is missing; give .*, or a problem"),
        ({"w0": np.zeros(2)}, r"^workers is missing; .*, or a problem"),
        ({"w0": np.zeros(2), "workers": 1, "method": siag.methods.IAG()}, r"^IAG needs exact gradients"),
        ({"w0": np.zeros(2), "workers": 1, "method": siag.methods.SAG()}, r"^SAG draws one sample per iteration"),
        ({"problem": PROBLEM, "method": siag.methods.SAG()}, r"^SAG draws one sample per iteration"),
        ({"problem": PROBLEM, "w0": np.zeros(2)}, r"^w0 = "),
        ({"problem": PROBLEM, "workers": 3}, r"^workers = 3: must be 2, as many as the problem has"),
        ({"problem": PROBLEM, "seed": -1}, r"^seed = -1"),
        ({"problem": "LeastSquares"}, r"^problem = 'LeastSquares': must be a Problem"),
        ({"problem": PROBLEM, "linger": -1}, r"^linger = -1"),
        ({"problem": PROBLEM, "linger": math.nan}, r"^linger = nan"),
        ({"problem": PROBLEM, "linger": "long"}, r"^linger = 'long'"),
    ],
)
def test_a_server_that_cannot_be_is_refused_in_one_line(given, words):
    with pytest.raises((BadInput, Unsuitable), match=words):
        serve(**given, step=STEP, port=0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"^gradient is missing"),
        ({"gradient": pull}, r"^stream is missing"),
        ({"gradient": pull, "stream": "data.csv"}, r"^stream = 'data.csv': must be a stream, not a name; siag.streams"),
        ({"gradient": pull, "stream": 5}, r"^stream = 5: must be something to iterate over"),
        ({"gradient": pull, "problem": PROBLEM}, r"^problem = .*: must be given alone"),
        ({"problem": 5}, r"^problem = 5: must be a Problem"),
        ({"problem": PROBLEM, "seed": "x"}, r"^seed = 'x'"),
        ({"problem": PROBLEM, "pause": -1}, r"^pause = -1"),
    ],
)
def test_a_worker_that_cannot_be_is_refused_before_it_connects(given, words):
    with pytest.raises(BadInput, match=words):
        work("127.0.0.1:1", **given)


def test_a_function_that_makes_a_name_makes_no_stream():
    with Served(1) as served, pytest.raises(BadInput, match=r"^stream = 'data.csv': must be a stream, not a name"):
        work(served.address, pull, lambda: "data.csv")


@pytest.mark.parametrize(
    "text", ["::1", "::1:7460", "fe80::1", "[::1", "[::1]x", "::1]", "a b:1", "host:\u0662", "[]:1"]
)
def test_an_address_that_can_be_read_in_two_ways_is_refused(text):
    with pytest.raises(BadInput, match=r"^address = .*: must be like host:7460") as caught:
        parse_address(text)
    assert ("in brackets, as in [::1]:7460" in str(caught.value)) == (text.count(":") > 1 and "[" not in text)


# TLS


def test_training_over_tls_with_tokens(secure, secrets):
    with Served(2 + 1, **secure) as served:
        ours = secrets / "ours"
        threads = [
            in_thread(served.address, pull, target(k), ca=ours / "ca.pem", token=ours / f"worker-{k}.token")
            for k in range(2)
        ]
        wait_until(lambda: served.ask(lambda: min(m.reports for m in served.server.members[:2])) > 50)
        assert served.gap() < 1e-12
        served.stop("done")
    for thread, outcome in threads:
        thread.join()
        assert outcome[0].refused == 0


def test_a_server_of_another_authority_is_not_trusted(secure, secrets):
    with Served(3, **secure) as served:
        with pytest.raises(Dismissed, match="certificate is not trusted"):
            work(served.address, pull, target(1), ca=secrets / "theirs" / "ca.pem")
        with pytest.raises(Dismissed, match="certificate is not trusted"):
            work(served.address, pull, target(1), tls=True)
        assert served.states() == ["expected"] * 3


@pytest.mark.parametrize(
    ("server", "worker", "says"),
    [
        ("tls", {"ca": "ours", "token": "theirs"}, "the server refused: the token is not one of this server's"),
        ("tls", {"ca": "ours"}, "the server refused: the token is missing"),
        ("tls", {"ca": "theirs", "token": "ours"}, "certificate is not trusted"),
        ("tls", {"tls": True, "token": "ours"}, "certificate is not trusted"),
        ("tls", {"token": "ours"}, "the server refused: this server uses TLS; give the worker --ca or --tls"),
        ("plain", {"ca": "ours", "token": "ours"}, "does not speak TLS; leave out --ca and --tls"),
        ("plain", {"token": "theirs"}, "the server refused: the token is not one of this server's"),
    ],
)
def test_a_worker_that_can_never_be_let_in_ends_at_once_with_the_reason(secure, secrets, server, worker, says):
    files = {"ca": "ca.pem", "token": "worker-0.token"}
    given = {what: what == "tls" or secrets / whose / files[what] for what, whose in worker.items()}
    with Served(3, **{**secure, **({} if server == "tls" else {"context": None})}) as served:
        remarks = []
        with pytest.raises(Dismissed, match=says):
            work(served.address, pull, target(1), say=remarks.append, **given)
        assert remarks == []  # it has not tried again
        assert served.states() == ["expected"] * 3


@pytest.fixture
def client(secrets):
    """What a worker with TLS and a token is made with."""
    context, token = client_context(secrets / "ours" / "ca.pem"), read_token(secrets / "ours" / "worker-0.token")
    return {"context": context, "token": token}


def test_over_tls_signs_of_life_do_not_disturb_large_models(secure, client):
    """Two threads share one connection; OpenSSL allows only one call at a time."""
    d = 30_000
    with Served(3, d, **secure) as served:
        with Noting(served.port, 1, d=d, heartbeat=0.0004, **client) as worker:
            worker.more(100)
            assert worker.machine.refused == 0
            assert sum("joined" in remark for remark in worker.remarks) == 1
        wait_until(lambda: served.states()[0] == "left")


def test_over_tls_nothing_is_waiting_when_only_tls_has_spoken(secure, client):
    """TLS 1.3 sends session tickets after the handshake: the socket can be read, but there is nothing to read."""
    with Served(3, **secure) as served:
        connection = ClientConnection(("127.0.0.1", served.port), client["context"])
        wait_until(lambda: len(served.connections.connections) == 1)
        assert not connection.waiting()
        connection.send(wire.text(wire.HELLO, {"protocol": 1, "token": client["token"]}))
        wait_until(connection.waiting)
        _, payload = connection.receive({wire.WELCOME: wire.TOLD})
        assert wire.parse_text(payload)["row"] == 0
        head, _ = connection.receive({wire.MODEL: (8 * D, 8 * D)}, np.empty(D))
        assert head.kind == wire.MODEL
        assert not connection.waiting()
        connection.close()


def descriptors():
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))


HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # how one begins


@pytest.mark.parametrize("begin", [b"", HANDSHAKE])
def test_callers_that_hang_up_in_the_handshake_leave_nothing_and_workers_get_in(secure, client, begin):
    with Served(3, **secure) as served:
        size, open_before = memory(), descriptors()
        for _ in range(3):
            callers = [Client(served.port) for _ in range(100)]
            for caller in callers:
                caller.send(begin)
                caller.socket.close()
            with Noting(served.port, 1, name="0", **client) as worker:
                worker.more(3)
            wait_until(lambda: served.states()[0] == "left")
        wait_until(lambda: descriptors() <= open_before)
        assert memory() - size < 60e6


def test_callers_in_the_handshake_count_as_connections_and_make_room(secure, client):
    with Served(3, limits=Limits(connections=5), **secure) as served:
        callers = [Client(served.port) for _ in range(12)]
        callers[-1].send(HANDSHAKE)
        ours = len(callers) + descriptors() - len(callers)
        with Noting(served.port, 1, name="0", **client) as worker:
            worker.more(3)
            assert descriptors() <= ours + 2 + 5
        gone = 0
        for caller in callers:
            caller.socket.settimeout(0.0)
            with suppress(BlockingIOError):
                gone += caller.exactly(1) is None
            caller.socket.close()
        assert gone >= 12 - 5


def test_a_handshake_that_does_not_end_is_ended(secure):
    with Served(3, limits=Limits(hello=0.2), **secure) as served, Client(served.port) as a, Client(served.port) as b:
        b.send(HANDSHAKE)
        assert a.exactly(1) is None
        assert b.exactly(1) is None


# Limits


def test_there_are_only_so_many_connections_and_strangers_make_room():
    with Served(5, limits=Limits(connections=5)) as served:
        idle = [Client(served.port) for _ in range(10)]
        wait_until(lambda: len(served.connections.connections) == 5)
        workers = [Client(served.port) for _ in range(5)]
        for worker in workers:
            worker.join()
        with Client(served.port) as late:
            kind, _, content = late.frame()
            assert (kind, content) == (wire.REFUSAL, {"reason": "too many connections", "final": False})
            assert late.hung_up()
        workers[0].report(np.ones(D))
        assert workers[0].frame()[0] == wire.MODEL
        for client in idle + workers:
            client.socket.close()


def test_strangers_that_send_garbage_trickle_or_say_nothing_leave_nothing_behind():
    chance = random.Random(3)
    with Served(8, limits=Limits(hello=0.5)) as served, Client(served.port) as good:
        good.join(worker="0")
        before = served.state()
        strangers = [Client(served.port) for _ in range(300)]
        for stranger in strangers[:200]:
            with suppress(ConnectionError):
                stranger.send(chance.randbytes(chance.randrange(1, 100)))
        for stranger in strangers:
            assert stranger.hung_up()
            stranger.socket.close()
        assert served.state() == before
        good.report(np.ones(D))
        assert good.frame()[:2] == (wire.MODEL, 1)
        wait_until(lambda: len(served.connections.connections) == 1)


def test_a_worker_survives_any_server():
    """Whatever a server says, a worker tries again, gives up, or says why not."""
    chance = random.Random(5)
    welcome = {"protocol": 1, "row": 0, "name": "0", "workers": 1, "d": D, "samples": 0, "method": {"kind": "SIAG"}}
    answers = [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(30),
        wire.text(wire.WELCOME, {}),
        wire.text(wire.WELCOME, welcome) + wire.head(wire.MODEL, 8),
        wire.text(wire.WELCOME, welcome) + wire.head(wire.MODEL, 8 * D) + bytes(8),
        wire.text(wire.WELCOME, welcome) + wire.head(wire.HELLO, 2) + b"{}",
        wire.head(wire.WELCOME, 1 << 17),
        wire.head(wire.REFUSAL, 5) + b"[[[[[",
        *(chance.randbytes(100) for _ in range(10)),
        wire.text(wire.REFUSAL, {"reason": "no\nmore", "final": True}),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            for each in answers:
                caller, _ = listener.accept()
                with caller, suppress(ConnectionError):
                    caller.recv(1 << 12)
                    caller.sendall(each)

        thread = threading.Thread(target=answer)
        thread.start()
        with Noting(listener.getsockname()[1], wait=1e-6) as worker:  # doubled each time
            thread.join()
            wait_until(lambda: worker.outcome is not None)
    assert isinstance(worker.outcome, Dismissed)
    assert str(worker.outcome) == "the server refused: no more"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "0.0.0.0", "insecure": "false"}, "insecure = 'false': must be True or False"),
        ({"host": 3}, "host = 3: must be an address or a name; write it as text"),
        ({"tokens": 3}, "tokens = 3: must be a path"),
    ],
)
def test_what_opens_a_server_is_never_taken_for_something_else(given, says):
    with pytest.raises(siag.BadInput, match=says):
        siag.runtimes.Network(**given).secured(["a"])


@pytest.mark.parametrize("given", [{"seed": 3}, {"pause": 3.0}])
def test_a_worker_on_a_stream_has_neither_seed_nor_pause(given):
    with refused(*given):
        siag.work("127.0.0.1:1", abs, [1.0], give_up=0.0, **given)
