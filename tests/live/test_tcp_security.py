"""Whoever connects and whatever is sent: a server changes nothing that it should not, and neither dies nor grows."""

import random
import socket
import threading
from contextlib import suppress

import numpy as np
import pytest
from peers import Client, D, Noting, Served, pull, target, wait_until

from siag.foundations.errors import BadInput
from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.protocol.reception import Limits
from siag.live.protocol.welcome import Dismissed
from siag.live.security import Tokens, read_token
from siag.live.serve import work
from siag.live.transports.tcp.endpoint import RESERVE, _room
from siag.streams import Follow

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
    with pytest.raises(BadInput, match=r"^token = .*: must be sent over TLS beyond this machine; give ca or tls"):
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
        before.join(**({"worker": "a"} if known else {}))
        before.report(np.zeros(D), sample=3)
        assert before.frame()[0] == wire.MODEL
        before.send(wire.text(wire.LEAVE, {"reason": "", "failed": False}))
        assert before.hung_up()
        work(served.address, gradient, Follow(path, "lines", wait=False), name="a" if known else None)
    assert seen == ([4, 5] if known else [0, 1, 2, 3, 4, 5])


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


def test_a_server_raises_its_own_limit_of_open_files_as_far_as_it_may(monkeypatch):
    resource = pytest.importorskip("resource")
    limits, wanted = [256, 3000], []
    monkeypatch.setattr(resource, "getrlimit", lambda which: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda which, both: wanted.append(both))
    assert _room(1000) == 1000
    assert wanted == [(1000 + RESERVE, 3000)]
    assert _room(5000) == 3000 - RESERVE
    assert wanted[-1] == (3000, 3000)
    limits[1] = resource.RLIM_INFINITY
    assert _room(10**6) == 10**6
