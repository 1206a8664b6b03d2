"""`siag relay` as users meet it; the command is in this process, the root and the workers are in threads."""

import json
import socket
import threading

import numpy as np
import pytest

import siag
from siag.runtimes import Limits
from terminals import PATIENCE, Desk, Shell
from waiting import wait_until


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    with Desk(tmp_path, "") as desk:
        yield Shell(desk, monkeypatch, capsys)


@pytest.fixture
def port():
    """One that is free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def root(until, **given):
    """A root in a thread; its address."""
    place = []
    options = {"step": siag.steps.Constant(0.05), "port": 0, "progress": False} | given
    ready = lambda host, port: place.append(f"{host}:{port}")  # noqa: E731
    thread = threading.Thread(target=lambda: siag.serve(np.zeros(3), 1, until=until, ready=ready, **options))
    thread.start()
    return thread, wait_until(lambda: place)[0]


def work(port, value, all_there):
    """A worker that begins when all are connected: one that came after the end would wait for ever."""

    def stream():
        all_there.wait(PATIENCE)
        while True:
            yield np.full(3, value)

    thread = threading.Thread(target=siag.work, args=(f"127.0.0.1:{port}", lambda w, x: w - x, stream), daemon=True)
    thread.start()
    return thread


def test_a_relay_serves_until_its_root_is_done(shell, port):
    server, address = root(100, limits=Limits(max_weight=2))
    all_there = threading.Barrier(2)
    workers = [work(port, value, all_there) for value in (1.0, 3.0)]
    ended = shell(f"relay {address} --workers 2 --port {port} --json")
    server.join(PATIENCE)
    for worker in workers:
        worker.join(PATIENCE)
    last = json.loads(ended.out[-1])
    assert (ended.status, last["result"], last["ending"]) == (0, True, "root done")


def test_a_root_that_wants_no_relay_is_a_mistake(shell, port):
    server, address = root(siag.Until(seconds=0.2), linger=0.5)
    assert "weight 2: worker 0 may count for at most 1" in shell(f"relay {address} --workers 2 --port {port}").err[-1]
    server.join(PATIENCE)


def test_without_a_root_it_gives_up_with_status_1(shell, port):
    ended = shell(f"relay 127.0.0.1:{port} --workers 2 --port 0 --give-up 0 --quiet")
    assert ended.status == 1
    assert ended.err[0].startswith(f"siag: no server at 127.0.0.1:{port} for 0 seconds: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "workers is missing; give --workers N"),
        ("--workers 0", "workers = 0: must be a whole number of at least 1"),
        ("--workers 2 --member a", "leave out workers or names"),
        ("--workers 2 --every 0", "every = 0: must be"),
        ("--workers 2 --tick 0", "tick = 0.0: must be"),
        ("--workers 2 --departed 5", "departed = Departed(half_life=5.0): must be DROP or KEEP"),
        ("--workers 2 --max-weight 0", "max-weight = 0.0: must be"),
        ("--workers 2 --give-up -1", "give-up = -1.0: must be"),
        ("--workers 2 --host 0.0.0.0", "or insecure if you trust everyone"),
    ],
)
def test_mistakes_are_told_in_a_line(shell, words, told):
    assert told in shell.mistake(f"relay 127.0.0.1:9 {words}")
