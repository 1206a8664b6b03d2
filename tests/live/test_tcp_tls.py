"""TLS over TCP: who is trusted, handshakes that do not end, large models."""

import os
from contextlib import suppress

import numpy as np
import pytest
from peers import Client, D, Noting, Served, in_thread, memory, pull, target, wait_until

from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import Dismissed
from siag.live.security import Tokens, client_context, read_token, server_context
from siag.live.serve import work
from siag.live.transports.tcp.client import ClientConnection


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
        ("tls", {"token": "ours"}, "the server refused: this server uses TLS; give the worker ca or tls"),
        ("plain", {"ca": "ours", "token": "ours"}, "does not speak TLS; leave out ca and tls"),
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
        _, payload = connection.receive({wire.WELCOME: wire.JSON_FROM_SERVER})
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
