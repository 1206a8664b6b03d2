"""Over TCP nobody sleeps where each process on the machine has a core of its own, and all do where it has not."""

from contextlib import contextmanager

import numpy as np
import pytest
from peers import Client, D, Served, wait_until

from siag.runtimes import spin, tcp_line, wire
from siag.runtimes.certificates import make_certificates
from siag.runtimes.security import client_context, server_context
from siag.runtimes.spin import Spinner

MODELS = {wire.MODEL: (8 * D, 8 * D)}


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(spin, "cores", lambda: 2)


@contextmanager
def joined(served, name, context=None):
    """A line on which everything up to the first model has been said."""
    line = tcp_line.Line(("127.0.0.1", served.port), context)
    try:
        head = line.hello(wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, "worker": name}), {wire.WELCOME: wire.TOLD})
        line.text(head)
        receive(line)
        yield line
    finally:
        line.close()


def receive(line):
    head = line.receive(MODELS)
    line.array(np.empty(D))
    return head


def exchange(line, sample):
    """A report, the server stepping with each; the header of the answer."""
    line.send(wire.head(wire.REPORT, 8 * D, sample, sample), np.zeros(D))
    return receive(line)


def able(line):
    return line._channel.spinner.able


def test_one_worker_on_two_cores_is_told_not_to_sleep_until_another_comes():
    with Served(2) as served, joined(served, "0") as line:
        assert exchange(line, 0).sample == 1
        assert able(line)
        with Client(served.port) as other:
            other.join(worker="1")
            assert exchange(line, 1).sample == 0
            assert not able(line)
        assert wait_until(lambda: served.states()[1] == "away")
        assert exchange(line, 2).sample == 1
        assert able(line)


def test_a_server_that_nobody_is_connected_to_sleeps(monkeypatch):
    spinners = []
    monkeypatch.setattr("siag.runtimes.tcp_server.Spinner", lambda: spinners.append(Spinner()) or spinners[-1])
    with Served(1) as served:
        (spinner,) = spinners
        assert not spinner.able
        with joined(served, "0") as line:
            exchange(line, 0)
            assert spinner.able
        assert wait_until(lambda: not spinner.able)


def test_a_worker_on_another_machine_sleeps_whatever_it_is_told():
    with Served(1) as served, joined(served, "0") as line:
        line._near = False
        assert exchange(line, 0).sample == 1
        assert not able(line)


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_from_another_machine_no_core_is_taken(monkeypatch, cores):
    monkeypatch.setattr(spin, "cores", lambda: cores)
    monkeypatch.setattr("siag.runtimes.tcp_connection.same_machine", lambda transport: False)
    with Served(1) as served, joined(served, "0") as line:
        assert exchange(line, 0).sample == 0


@pytest.mark.parametrize("secure", [False, True], ids=["TCP", "TLS"])
def test_an_answer_that_is_there_soon_is_found_by_looking(secure, tmp_path, monkeypatch):
    monkeypatch.setattr(spin, "SPIN", 2.0)  # however slow this machine is now
    theirs = ours = None
    if secure:
        make_certificates(tmp_path / "certs", hosts=["127.0.0.1"], workers=1)
        theirs = server_context(tmp_path / "certs" / "server.pem", tmp_path / "certs" / "server.key")
        ours = client_context(tmp_path / "certs" / "ca.pem")
    with Served(1, context=theirs) as served, joined(served, "0", ours) as line:
        monkeypatch.setattr(tcp_line, "_wait", lambda *given: pytest.fail("it went to sleep"))
        looks, look = [], line._channel._look
        line._channel._look = lambda: looks.append(1) or look()
        for sample in range(20):
            exchange(line, sample)
        assert looks
