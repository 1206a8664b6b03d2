"""Whatever happens to processes, lines and disks: the state stays whole, and training goes on."""

import errno
import json
import os
import random
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from peers import Client, D, Noting, Proxy, Served, memory, wait_until

from siag.live import wire
from siag.live import connection as server_connection
from siag.live.connection import Limits
from siag.live.transports.tcp.client import ClientConnection
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


@pytest.mark.parametrize("durable", [False, True])
def test_a_server_killed_at_twenty_random_instants_goes_on_each_time(durable, tmp_path):
    chance = random.Random(7 + durable)
    given = {"workers": ["a", "b"], "d": D, "folder": str(tmp_path / "state"), "durable": durable}
    with Nursery() as nursery:
        port = nursery.start(port=0, **given)["port"]
        with Noting(port, 1, name="a") as a, Noting(port, 3, name="b") as b:
            for _ in range(20):
                a.more(3), b.more(3)
                time.sleep(chance.uniform(0.0, 0.15))  # the instant is what is random here
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
            assert ended["ended"] == "stopped by SIGTERM"
            assert ended["gap"] < 1e-9
            found = nursery.start(port=port, **given)
            assert (found["version"], found["reports"]) == (ended["version"], ended["reports"])
            a.more(), b.more()
            assert (a.machine.refused, b.machine.refused) == (0, 0)
            assert (a.machine.name, b.machine.name) == ("a", "b")
            assert a.machine.task.sample + 1 >= a.machine.reports


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_workers_keep_trying(number, tmp_path):
    given = {"workers": ["a"], "d": D, "folder": str(tmp_path / "state"), "durable": False}
    with Nursery() as nursery:
        port = nursery.start(port=0, **given)["port"]
        with Noting(port, 1) as a:
            a.more()
            nursery.kill(number)
            ended = nursery.said()
            assert ended["ended"] == f"stopped by {signal.Signals(number).name}"
            assert ended["version"] >= a.seen
            wait_until(lambda: any("stopped by" in remark for remark in a.remarks))
            assert a.outcome is None
            assert nursery.start(port=port, **given)["version"] == ended["version"]
            a.more()


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


def delay(chance, data):
    time.sleep(chance.uniform(0.0, 0.003))
    return data


def cut(chance, data):
    return None if chance.random() < 0.05 else data


def truncate(chance, data):
    return data[: chance.randrange(len(data))] if chance.random() < 0.02 and b"protocol" not in data else data


def corrupt(chance, data):
    """Any byte but those of the texts that say who is who: on a line that changes those only TLS helps."""
    if chance.random() > 0.05 or b"protocol" in data:
        return data
    place = chance.randrange(len(data))
    return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]


@pytest.mark.parametrize("spoil", [delay, cut, truncate, corrupt])
def test_training_goes_on_over_a_bad_line(spoil):
    guard = Guard(norm=100.0, jump=None, strikes=1000)
    # a third is expected for ever: the server does not end when the first two have left
    with Served(3, guard=guard, limits=Limits(frame=0.3)) as served, Proxy(served.port, spoil) as proxy:
        given = {"connect": lambda places, context: ClientConnection(places[0], context, answer=0.2)}
        with Noting(proxy.port, 1, name="0", **given) as a, Noting(proxy.port, 3, name="1", **given) as b:
            a.more(80), b.more(80)
            wait_until(lambda: proxy.passed > 8 or spoil is delay)
        assert served.gap() < 1e-9
        version, reports, _ = served.state()
        assert version == reports >= 100
        with Noting(served.port, 1, name="0") as good:
            good.more(5)


# Disks


@pytest.fixture
def disk(monkeypatch):
    """A disk that can be full, or slow."""

    class Disk:
        full = False
        forced = 0
        free = threading.Event()

    disk, write, fsync = Disk(), os.write, os.fsync
    disk.free.set()

    def limited(file, data):
        if disk.full and stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    def slow(file):
        assert disk.free.wait(10)
        fsync(file)
        disk.forced += 1

    monkeypatch.setattr(os, "write", limited)
    monkeypatch.setattr(os, "fsync", slow)
    yield disk
    disk.full = False
    disk.free.set()


def silent(client, seconds):
    return not select.select([client.socket], [], [], seconds)[0]


def test_in_durable_mode_an_answer_comes_after_the_disk(disk, tmp_path):
    with Served(1, folder=tmp_path, durable=True) as served, Client(served.port) as client:
        client.join()
        for k in range(5):
            before = disk.forced
            client.report(np.ones(D), k, k)
            assert client.frame()[:2] == (wire.MODEL, k + 1)
            assert disk.forced > before
        disk.free.clear()
        client.report(np.ones(D), 5, 5)
        assert silent(client, 0.2)
        disk.free.set()
        assert client.frame()[:2] == (wire.MODEL, 6)


def test_a_full_disk_is_reported_and_nothing_acknowledged_until_there_is_room(disk, tmp_path):
    with Served(2, folder=tmp_path, durable=True) as served:
        with Client(served.port) as client, Client(served.port) as other:
            client.join()
            client.report(np.ones(D))
            client.frame()
            disk.full = True
            client.report(np.ones(D), 1, 1)
            wait_until(lambda: served.notes.told("nothing is acknowledged until it is on disk"))
            other.send(wire.text(wire.HELLO, {"protocol": 1}))
            client.send(wire.head(wire.ALIVE))
            assert silent(client, 0.3)
            assert silent(other, 0.0)
            assert sum("acknowledged" in event for event in served.notes.events) == 1
            disk.full = False
            assert client.frame()[:2] == (wire.MODEL, 2)
            assert other.frame()[0] == wire.WELCOME
            wait_until(lambda: served.notes.told("on disk again"))
            client.report(np.ones(D), 2, 2)
            assert client.frame()[:2] == (wire.MODEL, 3)
        state = served.state()
        served.vanish()
    with Served(2, folder=tmp_path, durable=True) as again:
        assert again.state() == state


def test_a_worker_leaves_once_that_is_on_disk(disk, tmp_path):
    with Served(2, folder=tmp_path, durable=True) as served, Client(served.port) as client:
        client.join()
        disk.free.clear()
        client.send(wire.text(wire.LEAVE, {"reason": "enough"}))
        assert silent(client, 0.2)
        disk.free.set()
        assert client.hung_up()
        assert served.states()[0] == "left"


def test_in_durable_mode_the_answer_must_be_waited_for(tmp_path):
    with Served(1, folder=tmp_path, durable=True) as served, Client(served.port) as client:
        client.join()
        client.send(wire.head(wire.SKIP) * 2)
        kind, _, content = client.frame()
        assert (kind, content["final"]) == (wire.REFUSAL, False)
        assert "must be waited for" in content["reason"]


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


def test_a_worker_that_stops_reading_does_not_fill_the_servers_memory(monkeypatch):
    d = 50_000
    monkeypatch.setattr(server_connection, "SLOWEST", 1 << 30)
    options = {"limits": Limits(frame=0.5), "guard": Guard(strikes=10**9)}
    with Served(2, d, **options) as served, Client(served.port) as deaf, Client(served.port) as good:
        deaf.join(), good.join()
        deaf.socket.settimeout(0.2)
        sent = 0
        with suppress(TimeoutError, ConnectionError):
            while sent < 10**7:
                sent += deaf.socket.send(wire.head(wire.SKIP) * 100)
        assert sent < 10**7
        size = served.ask(lambda: max(each.place.transport.get_write_buffer_size() for each in served.connections.connections))
        assert size <= served.connections.unread() + 8 * d + 100
        good.send(wire.head(wire.SKIP))
        assert good.frame()[0] == wire.MODEL
        wait_until(lambda: served.states() == ["away", "working"])
        assert len(served.connections.connections) == 1
