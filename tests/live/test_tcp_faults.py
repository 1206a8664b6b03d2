"""Whatever happens to processes, lines and disks: the state stays whole, and training goes on."""

import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from peers import Client, D, Noting, Served, memory, wait_until
from proxy import Proxy

from siag.live.protocol import wire
from siag.live.protocol.reception import Limits
from siag.live.reasons import Ending
from siag.live.transports.tcp.client import ClientConnection
from siag.live.transports.tcp.peer import Peer
from siag.server.guard import Guard

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


class Nursery:
    """A process that starts servers; the one that runs can be killed."""

    def __enter__(self):
        script = Path(__file__).with_name("nursery.py")
        command = [sys.executable, str(script)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = None
        return self

    def __exit__(self, *_):
        self.kill(signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def start(self, **given):
        """Start a server; what it says when it listens."""
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        said = self.said()
        self.pid = said["pid"]
        return said

    def said(self):
        return json.loads(self._process.stdout.readline())

    def kill(self, number):
        """Send a signal to the server, and wait until it is gone."""
        if self.pid is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(self.pid, number)
            wait_until(self._gone)
            self.pid = None

    def _gone(self):
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False


@pytest.mark.thorough
@pytest.mark.parametrize("durable", [False, True])
def test_a_server_killed_at_random_instants_goes_on_each_time(durable, tmp_path):
    chance = random.Random(7 + durable)
    given = {"workers": ["a", "b"], "d": D, "folder": str(tmp_path / "state"), "durable": durable}
    with Nursery() as nursery:
        port = nursery.start(port=0, **given)["port"]
        with Noting(port, 1, name="a") as a, Noting(port, 3, name="b") as b:
            for _ in range(5):
                a.more(3), b.more(3)
                time.sleep(chance.uniform(0.0, 0.1))  # the instant is what is random here
                nursery.kill(signal.SIGKILL)
                seen = max(a.seen, b.seen)
                found = nursery.start(port=port, **given)
                assert found["gap"] < 1e-9
                assert found["reports"] == found["version"]
                if durable:
                    assert found["version"] >= seen
                else:
                    a.machine.stamps.clear(), b.machine.stamps.clear()  # what was not saved is lost
            a.more(), b.more()
            nursery.kill(signal.SIGTERM)
            ended = nursery.said()
            assert ended["ending"] == Ending.STOPPED
            assert ended["gap"] < 1e-9
            found = nursery.start(port=port, **given)
            assert (found["version"], found["reports"]) == (ended["version"], ended["reports"])
            a.more(), b.more()
            assert (a.machine.refused, b.machine.refused) == (0, 0)
            assert (a.machine.name, b.machine.name) == ("a", "b")
            assert a.machine.task.sample + 1 >= a.machine.reports


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_workers_keep_trying(number, tmp_path):
    given = {"workers": ["a"], "d": D, "folder": str(tmp_path / "state"), "durable": False}
    with Nursery() as nursery:
        port = nursery.start(port=0, **given)["port"]
        with Noting(port, 1) as a:
            a.more()
            nursery.kill(number)
            ended = nursery.said()
            assert (ended["ending"], ended["detail"]) == (Ending.STOPPED, signal.Signals(number).name)
            assert ended["version"] >= a.seen
            wait_until(lambda: any("stopped by" in remark for remark in a.remarks))
            assert a.outcome is None
            assert nursery.start(port=port, **given)["version"] == ended["version"]
            a.more()


@pytest.mark.thorough
def test_a_server_that_was_stopped_for_a_while_goes_on(tmp_path):
    given = {"workers": ["a"], "d": D}
    with Nursery() as nursery:
        port = nursery.start(port=0, **given)["port"]
        with Noting(port, 1) as a:
            a.more()
            os.kill(nursery.pid, signal.SIGSTOP)
            count = len(a.machine.stamps)
            time.sleep(0.2)  # nothing can happen now
            assert len(a.machine.stamps) <= count + 1
            os.kill(nursery.pid, signal.SIGCONT)
            a.more()
            assert a.machine.refused == 0


# Lines


def cut(chance, data):
    return None if chance.random() < 0.05 else data


def corrupt(chance, data):
    """Any byte but those of the texts that say who is who: on a line that changes those only TLS helps."""
    if chance.random() > 0.05 or b"protocol" in data:
        return data
    place = chance.randrange(len(data))
    return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]


@pytest.mark.few(1)
@pytest.mark.parametrize("spoil", [cut, corrupt])
def test_training_goes_on_over_a_bad_line(spoil):
    guard = Guard(norm=100.0, jump=None, strikes=1000)
    # a third is expected for ever: the server does not end when the first two have left
    with Served(3, guard=guard, limits=Limits(frame=0.3)) as served, Proxy(served.port, spoil) as proxy:
        given = {"connect": lambda places, context: ClientConnection(places[0], context, answer=0.2)}
        with Noting(proxy.port, 1, name="0", **given) as a, Noting(proxy.port, 3, name="1", **given) as b:
            a.more(40), b.more(40)
            wait_until(lambda: proxy.passed > 4)
        assert served.gap() < 1e-9
        version, reports, _ = served.state()
        assert version == reports >= 40
        with Noting(served.port, 1, name="0") as good:
            good.more(5)


# Crowds


def test_three_hundred_idle_connections_cost_little_and_slow_nobody_down():
    idle = 300
    with Served(idle + 1, limits=Limits(connections=400)) as served, Client(served.port) as active:
        active.join(worker="0")
        before = memory()
        clients = [Client(served.port) for _ in range(idle)]
        try:
            for client in clients[: idle - 20]:
                client.join()
            each = (memory() - before) / idle
            assert each < 40_000  # both ends of it
            began = time.monotonic()
            for k in range(300):
                active.report(np.ones(D), k, k)
                assert active.frame()[:2] == (wire.MODEL, k + 1)
            assert time.monotonic() - began < 5.0  # 0.1 s on a machine with nothing else to do
        finally:
            for client in clients:
                client.socket.close()
        wait_until(lambda: len(served.connections.connections) == 1)


def test_a_worker_that_stops_reading_does_not_fill_the_servers_memory():
    d = 50_000
    options = {"limits": Limits(frame=0.5, slowest=1 << 30), "guard": Guard(strikes=10**9)}
    with Served(2, d, **options) as served, Client(served.port) as deaf, Client(served.port) as good:
        deaf.join(), good.join()
        deaf.socket.settimeout(0.2)
        sent = 0
        with suppress(TimeoutError, ConnectionError):
            while sent < 10**7:
                sent += deaf.socket.send(wire.head(wire.SKIP) * 100)
        assert sent < 10**7
        size = served.ask(
            lambda: max(each.place.transport.get_write_buffer_size() for each in served.connections.connections)
        )
        assert size <= served.connections.unread() + 8 * d + 100
        good.send(wire.head(wire.SKIP))
        assert good.frame()[0] == wire.MODEL
        wait_until(lambda: served.states() == ["away", "working"])
        assert len(served.connections.connections) == 1


def test_a_worker_that_hung_up_just_before_the_server_does_is_no_error():
    """Asyncio may not know yet that a connection is gone, and then the system says so."""
    done = []

    def write_eof():
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    peer = Peer(SimpleNamespace(reception=None))
    peer.transport = SimpleNamespace(
        can_write_eof=lambda: True, write_eof=write_eof, abort=lambda: done.append("abort")
    )
    peer.hang_up()
    assert done == ["abort"]


@pytest.mark.parametrize(("plain", "waiting"), [(True, 0), (True, 7), (False, 0)])
def test_a_model_is_sent_as_it_was_though_w_moves_on_before_all_of_it_is(plain, waiting):
    numbers, head = np.arange(1 << 18, dtype=float), wire.head(wire.MODEL, 8 << 18, 7)
    expected, kept = head + numbers.tobytes(), []
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        peer = Peer(SimpleNamespace(reception=None))
        peer.transport = SimpleNamespace(get_write_buffer_size=lambda: waiting, write=kept.append)
        peer.socket = here if plain else None
        peer.send(head, numbers.data.cast("B"))
        numbers[:] = 0.0
        here.close()
        taken = b"".join(iter(lambda: there.recv(1 << 20), b""))
    assert bool(taken) == (plain and not waiting)  # what is sent before must arrive before
    assert taken + b"".join(kept) == expected


def test_frames_do_not_wait_for_those_before_them_to_be_acknowledged():
    with Served(1) as served, Client(served.port) as client:
        client.join()
        places = served.ask(lambda: [each.place for each in served.connections.connections])
        sockets = [place.transport.get_extra_info("socket") for place in places]
        assert [each.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0 for each in sockets] == [True]
