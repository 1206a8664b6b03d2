"""Over TCP, a server and its workers on one machine look before they sleep; those on other machines do not."""

import socket
from contextlib import contextmanager

import numpy as np
import pytest
from peers import D, Served, wait_until

from siag.live.certificates import make_certificates
from siag.live.protocol import wire
from siag.live.security import client_context, server_context
from siag.live.transports import waiting as spin
from siag.live.transports.tcp.client import ClientConnection
from siag.live.transports.waiting import Spinner

MODELS = {wire.MODEL: (8 * D, 8 * D)}


@contextmanager
def joined(served, context=None):
    """A line on which everything up to the first model has been said."""
    line = ClientConnection(("127.0.0.1", served.port), context)
    try:
        line.send(wire.text(wire.HELLO, {"protocol": wire.PROTOCOL}))
        line.receive({wire.WELCOME: wire.JSON_FROM_SERVER})
        receive(line)
        yield line
    finally:
        line.close()


def receive(line):
    line.receive(MODELS, np.empty(D))


def exchange(line, sample):
    """A report, the server stepping with each, and its answer."""
    line.send(wire.head(wire.REPORT, 8 * D, sample, sample), np.zeros(D))
    receive(line)


@pytest.fixture
def spinners(monkeypatch):
    """Those of the servers that are started."""
    made = []

    def make(**given):
        made.append(Spinner(**given))
        return made[-1]

    monkeypatch.setattr("siag.live.transports.tcp.server.Spinner", make)
    return made


def test_a_server_looks_as_long_as_a_worker_of_its_own_machine_is_there(spinners):
    with Served(2) as served:
        (spinner,) = spinners
        assert not spinner.able
        with joined(served):
            with joined(served):
                assert spinner.able
            assert wait_until(lambda: "away" in served.states())
            assert spinner.able
        assert wait_until(lambda: not spinner.able)


def test_for_workers_on_other_machines_a_server_sleeps(spinners, monkeypatch):
    monkeypatch.setattr("siag.live.transports.tcp.peer.same_machine", lambda transport: False)
    with Served(1) as served, joined(served) as line:
        exchange(line, 0)
        assert not spinners[0].able


@pytest.mark.parametrize("secure", [False, True], ids=["TCP", "TLS"])
def test_an_answer_that_is_there_soon_is_found_by_looking(secure, tmp_path, monkeypatch):
    monkeypatch.setattr(spin, "SPIN", 2.0)  # however slow this machine is now
    theirs = ours = None
    if secure:
        make_certificates(tmp_path / "certs", hosts=["127.0.0.1"], workers=1)
        theirs = server_context(tmp_path / "certs" / "server.pem", tmp_path / "certs" / "server.key")
        ours = client_context(tmp_path / "certs" / "ca.pem")
    with Served(1, context=theirs) as served, joined(served, ours) as line:
        monkeypatch.setattr(line, "_wait", lambda *given: pytest.fail("it went to sleep"))
        for sample in range(20):
            exchange(line, sample)


@pytest.mark.parametrize(("host", "able"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_a_worker_looks_if_the_server_has_its_own_address(host, able):
    with socket.create_server((host, 0)) as listener:
        line = ClientConnection(listener.getsockname(), None)
        assert line._spinner.able is able
        line.close()
