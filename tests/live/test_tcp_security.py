"""Whoever connects and whatever is sent: a server changes nothing that it should not, and neither dies nor grows."""

import json
import math
import random
import socket
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from peers import Client, D, Noting, Served, in_thread, memory, pull, target, wait_until

import siag
from siag.foundations.errors import BadInput, Unsuitable
from siag.live import wire
from siag.live.certificates import make_certificates, make_tokens
from siag.live.network import parse_address, serve, work
from siag.live.security import Tokens, client_context, read_token, server_context
from siag.live import connection as server_connection
from siag.live.transports.tcp import client as tcp_line
from siag.live import connections as server_connections
from siag.live.transports.tcp import worker as tcp_worker
from siag.live.connection import Limits
from siag.live.welcome import Dismissed
from siag.server.guard import Guard
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
        "tokens": Tokens.load(ours / "tokens.json"),
    }


# Tokens


@pytest.fixture
def tokens(tmp_path):
    make_tokens(tmp_path / "ours", workers=3)
    make_tokens(tmp_path / "theirs", workers=3)
    secret = {
        (whose, row): read_token(tmp_path / whose / f"worker-{row}.token").secret
        for whose in ("ours", "theirs")
        for row in range(3)
    }
    return Tokens.load(tmp_path / "ours" / "tokens.json"), secret


def test_a_token_binds_a_worker_to_its_row(tokens):
    known, secret = tokens
    with Served(["a", "b", "c"], tokens=known) as served, Client(served.port) as b, Client(served.port) as a:
        assert b.join(token=secret["ours", 1])["name"] == "b"
        assert a.join(token=secret["ours", 0], worker="a")["row"] == 0
        with Client(served.port) as twice:
            kind, _, content = twice.hello(token=secret["ours", 1])
            assert (kind, content["final"]) == (wire.REFUSAL, False)


def test_a_wrong_token_or_none_or_anothers_is_refused(tokens):
    known, secret = tokens
    with Served(["a", "b", "c"], tokens=known) as served:
        hellos = [
            ({}, "token is missing"),
            ({"token": None}, "token is missing"),
            ({"token": ""}, "token is missing"),
            ({"worker": "a"}, "token is missing"),
            ({"token": secret["theirs", 0]}, "not one of this server's"),
            ({"token": secret["ours", 0][:-1]}, "not one of this server's"),
            ({"token": [secret["ours", 0]]}, "not one of this server's"),
            ({"token": "\ud800"}, "not one of this server's"),
            ({"token": secret["ours", 0], "worker": "b"}, "another's row"),
            ({"token": secret["ours", 0], "worker": "nobody"}, "not among"),
        ]
        for hello, says in hellos:
            with Client(served.port) as client:
                kind, _, content = client.hello(**hello)
                assert (kind, content["final"]) == (wire.REFUSAL, True), hello
                assert says in content["reason"]
                assert client.hung_up()
        assert served.states() == ["expected"] * 3
        assert served.notes.told("from 127.0.0.1 was turned away: the token is missing")
        assert len(served.notes.events) <= 3  # somebody who tries often does not fill the log
        assert secret["ours", 0] not in "".join(served.notes.events)


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


def test_the_row_of_a_worker_that_left_is_given_to_a_new_one():
    with Served(2) as served, Client(served.port) as stays, Client(served.port) as leaves:
        assert (stays.join()["row"], leaves.join()["row"]) == (0, 1)
        leaves.report(np.ones(D), sample=4)
        assert leaves.frame()[0] == wire.MODEL
        leaves.send(wire.text(wire.LEAVE, {"reason": "its stream ended", "failed": False}))
        assert leaves.hung_up()
        assert served.states() == ["working", "left"]
        with Client(served.port) as new:
            welcome = new.join()
            assert (welcome["row"], welcome["samples"]) == (1, 5)
            new.report(np.zeros(D), stamp=1, sample=5)
            assert new.frame()[0] == wire.MODEL
            assert served.states() == ["working", "working"]
            assert served.ask(lambda: served.server.members[1].reports) == 2


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


def test_work_takes_its_token_from_a_file(tokens, tmp_path):
    known, _ = tokens
    with Served(["a", "b", "c"], tokens=known) as served:
        thread, outcome = in_thread(served.address, pull, target(1), token=tmp_path / "ours" / "worker-2.token")
        wait_until(lambda: served.ask(lambda: served.server.members[2].reports) > 5)
        with pytest.raises(Dismissed, match="not one of this server's"):
            work(served.address, pull, target(1), token=tmp_path / "theirs" / "worker-2.token")
        with pytest.raises(Dismissed, match="missing"):
            work(served.address, pull, target(1))
        served.stop()
        thread.join()
        assert outcome[0].name == "c"


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


def test_over_tls_signs_of_life_do_not_disturb_large_models(secure, secrets, monkeypatch):
    """Two threads share one connection; OpenSSL allows only one call at a time."""
    monkeypatch.setattr(tcp_worker, "HEARTBEAT", 0.0004)
    d = 30_000
    token = read_token(secrets / "ours" / "worker-0.token").secret
    context = client_context(secrets / "ours" / "ca.pem")
    with Served(3, d, **secure) as served:
        with Noting(served.port, 1, d=d, context=context, token=token) as worker:
            worker.more(150)
            assert worker.machine.refused == 0
            assert sum("joined" in remark for remark in worker.remarks) == 1
        wait_until(lambda: served.states()[0] == "left")


def test_over_tls_nothing_is_waiting_when_only_tls_has_spoken(secure, secrets):
    """TLS 1.3 sends session tickets after the handshake: the socket can be read, but there is nothing to read."""
    context = client_context(secrets / "ours" / "ca.pem")
    token = read_token(secrets / "ours" / "worker-0.token").secret
    with Served(3, **secure) as served:
        line = ClientConnection(("127.0.0.1", served.port), context)
        assert line._channel._socket.version() == "TLSv1.3"
        wait_until(lambda: len(served.connections.connections) == 1)
        assert not line.waiting()
        line.send(wire.text(wire.HELLO, {"protocol": 1, "token": token}))
        wait_until(line.waiting)
        before = {wire.WELCOME: wire.TOLD}
        assert line.text(line.receive(before))["row"] == 0
        out = np.empty(D)
        assert line.receive({wire.MODEL: (8 * D, 8 * D)}).kind == wire.MODEL
        line.array(out)
        assert not line.waiting()
        served.stop("enough")
        wait_until(line.waiting)
        line.close()


def test_a_server_of_another_authority_is_not_trusted(secure, secrets):
    with Served(3, **secure) as served:
        with pytest.raises(Dismissed, match="certificate is not trusted"):
            work(served.address, pull, target(1), ca=secrets / "theirs" / "ca.pem")
        with pytest.raises(Dismissed, match="certificate is not trusted"):
            work(served.address, pull, target(1), tls=True)
        assert served.states() == ["expected"] * 3


def test_a_plain_worker_is_told_that_the_server_uses_tls(secure):
    remarks = []
    with Served(3, **secure) as served:
        with pytest.raises(Dismissed, match="no server"):
            work(served.address, pull, target(1), give_up=0.3, say=remarks.append)
        assert any("if it uses TLS, give --ca or --tls" in remark for remark in remarks)
        assert served.states() == ["expected"] * 3


def test_a_tls_worker_is_told_that_the_server_is_plain(secrets):
    with Served(1) as served, pytest.raises(Dismissed, match="does not speak TLS"):
        work(served.address, pull, target(1), ca=secrets / "ours" / "ca.pem")


def test_a_handshake_that_does_not_end_is_ended(secure):
    with Served(3, limits=Limits(hello=0.2), **secure) as served, Client(served.port) as silent:
        assert silent.exactly(1) is None
        wait_until(lambda: not served.connections._arriving)


def test_handshakes_count_as_connections(secure, secrets):
    """The oldest makes room; a worker still gets in."""
    with Served(3, limits=Limits(connections=5), **secure) as served:
        idle = [Client(served.port) for _ in range(12)]
        wait_until(lambda: len(served.connections._arriving) == 5)
        context = client_context(secrets / "ours" / "ca.pem")
        token = read_token(secrets / "ours" / "worker-0.token").secret
        with Client(served.port, context=context) as worker:
            assert worker.join(token=token)["row"] == 0
        for client in idle:
            client.socket.close()


# Limits


def test_a_hello_must_come_in_time():
    with Served(1, limits=Limits(hello=0.2)) as served, Client(served.port) as silent, Client(served.port) as slow:
        slow.send(wire.text(wire.HELLO, {"protocol": 1})[:30])
        for client in (silent, slow):
            kind, _, content = client.frame()
            assert (kind, content) == (wire.REFUSAL, {"reason": "no complete frame in time", "final": False})
            assert client.hung_up()


@pytest.mark.parametrize("d", [D, 1000])
def test_a_frame_must_end_in_time_however_its_bytes_trickle(d, monkeypatch):
    monkeypatch.setattr(server_connection, "SLOWEST", 1 << 30)
    with Served(1, d, limits=Limits(frame=0.3)) as served, Client(served.port) as loris:
        loris.join()
        before = served.state()
        frame = wire.head(wire.REPORT, 8 * d) + bytes(8 * d)
        began = time.monotonic()
        with suppress(ConnectionError):
            for k in range(len(frame) - 1):
                loris.send(frame[k : k + 1])
                if not socket_silent(loris, 0.02):
                    break
        assert loris.frame()[2]["reason"] == "no complete frame in time"
        assert 0.2 < time.monotonic() - began < 10.0
        assert served.state() == before


def socket_silent(client, seconds):
    import select

    return not select.select([client.socket], [], [], seconds)[0]


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


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "no frame"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), "no frame"),
        (wire.head(wire.REPORT, 40) + bytes(40), "REPORT: now HELLO is expected"),
        (wire.head(wire.SKIP), "SKIP: now HELLO is expected"),
        (wire.head(wire.HELLO, 2**32 - 1), "HELLO, 4294967295 bytes: 2 to 4072"),
        (wire.head(wire.HELLO, 4073), "HELLO, 4073 bytes: 2 to 4072"),
        (wire.head(wire.HELLO, 4) + b"nope", "JSON"),
        (wire.head(wire.HELLO, 4000) + b"[" * 4000, "JSON"),
        (wire.text(wire.HELLO, {"protocol": 2**64}), "protocol 18446744073709551616"),
    ],
)
def test_what_is_no_hello_is_answered_once_and_hung_up_on(sent, says):
    with Served(1) as served, Client(served.port) as client:
        client.send(sent)
        kind, _, content = client.frame()
        assert kind == wire.REFUSAL
        assert says in content["reason"]
        assert client.hung_up()
        assert served.connections.garbage == 1
        assert served.states() == ["expected"]


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (wire.text(wire.HELLO, {"protocol": 1}), "HELLO: now REPORT or SKIP or ALIVE or LEAVE is expected"),
        (wire.head(wire.MODEL, 8 * D) + bytes(8 * D), "MODEL: now"),
        (wire.head(wire.REPORT, 8 * D + 8), "REPORT, 48 bytes: 40"),
        (wire.head(wire.REPORT, 2**31), "REPORT, 2147483648 bytes: 40"),
        (wire.head(wire.ALIVE, 5) + b"hello", "ALIVE, 5 bytes: 0"),
        (wire.head(wire.LEAVE, 3) + b"[1]", "JSON object"),
        (wire.head(wire.REPORT, 8 * D, 0, 2**62) + bytes(8 * D), "sample 4611686018427387904"),
    ],
)
def test_what_is_no_frame_for_a_server_ends_the_connection_and_counts_against_the_worker(sent, says):
    with Served(1, guard=Guard(strikes=2)) as served:
        for final in (False, True):
            with Client(served.port) as client:
                client.join(worker="0")
                before = served.state()
                client.send(sent)
                kind, _, content = client.frame()
                assert (kind, content["final"]) == (wire.REFUSAL, final)
                assert says in content["reason"]
                assert client.hung_up()
                assert served.state() == before
            wait_until(lambda: not served.connections.by_row)
        assert served.states() == ["refused"]


def test_reasons_of_workers_are_shown_without_what_a_terminal_obeys():
    with Served(1) as served, Client(served.port) as client:
        client.join()
        client.send(wire.text(wire.LEAVE, {"reason": "\x1b[2J\nbye" + "x" * 2000, "failed": True}))
        assert client.hung_up()
        event = next(event for event in served.notes.events if "failed" in event)
        assert "\x1b" not in event
        assert "\n" not in event
        assert len(event) < 600


# Fuzz


def frames(chance):
    """A frame that was good once, or never, and whether another may follow it.

    None of them is a report that could be accepted. One without its end might become that with the bytes of another.
    """
    good = [
        wire.head(wire.REPORT, len(NONSENSE), 0, chance.randrange(100)) + NONSENSE,
        wire.head(wire.SKIP, 0, -1, -1),
        wire.head(wire.ALIVE),
        wire.text(wire.HELLO, {"protocol": 1, "worker": str(chance.randrange(1, 8))}),
        wire.head(wire.MODEL, 8 * D) + NONSENSE,
        wire.text(wire.REFUSAL, {"reason": "no", "final": True}),
        wire.text(wire.GOODBYE, {"done": True}),
        wire.text(wire.WELCOME, {"row": 0}),
        wire.head(wire.LEAVE, 4000) + b'{"a":' + b"[" * 3995,
        wire.head(wire.REPORT, chance.choice([0, 8, 2**31, 2**32 - 1])),
        json.dumps({"protocol": 1}).encode() + bytes(20),
    ]
    raw = bytearray(chance.choice(good))
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 200)), False
    if kind == 1:
        return bytes(raw[: chance.randrange(len(raw))]), False
    if kind > 2:
        for _ in range(chance.randrange(1, 4)):
            raw[chance.randrange(min(len(raw), 24))] = chance.randrange(256)
    return bytes(raw), len(raw) > 24


def test_ten_thousand_bad_frames_change_nothing(monkeypatch):
    monkeypatch.setattr(server_connections, "OCCUPIED", 0.0)
    chance = random.Random(3)
    with Served(8, guard=Guard(strikes=10**9)) as served, Client(served.port) as good:
        good.join(worker="0")
        good.report(np.ones(D))
        good.frame()
        before, size = served.state(), None
        sent = 0
        while sent < 10_000:
            with Client(served.port) as client, suppress(OSError):
                if chance.random() < 0.9:
                    client.send(wire.text(wire.HELLO, {"protocol": 1, "worker": str(chance.randrange(1, 8))}))
                more = True
                while more and sent < 10_000:
                    frame, more = frames(chance)
                    client.send(frame)
                    sent += 1
                    more = more and chance.random() < 0.5
                client.socket.shutdown(socket.SHUT_WR)
                while client.socket.recv(1 << 16):
                    pass
            if sent > 3000 and size is None:
                size = memory()
        assert memory() - size < 8e6
        assert served.state() == before
        assert served.connections.garbage > 100
        good.report(np.ones(D), 1, 1)
        assert good.frame()[:2] == (wire.MODEL, 2)
        wait_until(lambda: len(served.connections.connections) == 1)
        assert served.connections._answers == []


def test_a_worker_survives_any_server():
    """Whatever a server says, a worker tries again, gives up, or says why not."""
    chance = random.Random(5)
    welcome = {"protocol": 1, "row": 0, "name": "0", "workers": 1, "d": D, "samples": 0, "method": {"kind": "SIAG"}}
    answers = [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(30),
        wire.text(wire.WELCOME, {}),
        wire.text(wire.WELCOME, {**welcome, "d": 10**18}),
        wire.text(wire.WELCOME, {**welcome, "d": -1}),
        wire.text(wire.WELCOME, {**welcome, "row": "0"}),
        wire.text(wire.WELCOME, {**welcome, "samples": None}),
        wire.text(wire.WELCOME, welcome) + wire.head(wire.MODEL, 8),
        wire.text(wire.WELCOME, welcome) + wire.head(wire.MODEL, 8 * D) + bytes(8),
        wire.text(wire.WELCOME, welcome) + wire.head(wire.HELLO, 2) + b"{}",
        wire.head(wire.WELCOME, 1 << 17),
        wire.head(wire.REFUSAL, 5) + b"[[[[[",
        *(chance.randbytes(100) for _ in range(10)),
    ]
    left = list(answers)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while left:
                caller, _ = listener.accept()
                with caller, suppress(ConnectionError):
                    caller.recv(1 << 12)
                    caller.sendall(left.pop(0))
            caller, _ = listener.accept()
            with caller:
                caller.recv(1 << 12)
                caller.sendall(wire.text(wire.REFUSAL, {"reason": "no\nmore", "final": True}))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tcp_worker, "FIRST_WAIT", 0.001)
            patch.setattr(tcp_worker, "LONGEST_WAIT", 0.001)
            with pytest.raises(Dismissed, match="the server refused: no more"):
                work(f"127.0.0.1:{listener.getsockname()[1]}", pull, target(1))
        thread.join()
