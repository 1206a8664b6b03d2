"""Workers whose stream waits for data: they hear the server all the same, and come back to it."""

import signal
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from peers import PATIENCE, D, Served, Working, pull, target, wait_until

import siag
from siag.live.interrupt import wakeable
from siag.live.protocol import wire
from siag.live.task import FromStream
from siag.live.transports.tcp.client import ClientConnection
from siag.methods import SIAG
from siag.streams import Follow

SCRIPT = """
    import sys
    from itertools import chain
    sys.path.insert(0, {here!r})
    from peers import pull, target
    import siag
    from siag.streams import Follow
    from siag.live.protocol.welcome import Dismissed

    def waiting():
        samples = target(1)
        for _ in range(5):
            yield next(samples)
        yield from Follow({file!r}, poll=0.05)

    import signal, threading, time

    def asleep():
        yield from (sample for sample, _ in zip(target(1), range(5)))
        time.sleep({patience})

    handlers = dict(usual=signal.default_int_handler, ignored=signal.SIG_IGN, own=lambda *_: print("heard", flush=True))
    signal.signal(signal.SIGINT, handlers[{handler!r}])
    try:
        worker = siag.work({address!r}, pull, {stream}, name="0")
        print("ended", worker.reports, flush=True)
    except Dismissed as error:
        print("dismissed", error, flush=True)
"""


class Idle:
    """A worker in the main thread of a process of its own, with five samples and then none."""

    def __init__(self, folder, address, stream="waiting", handler="usual"):
        (folder / "empty.csv").touch()
        here = str(Path(__file__).parent)
        given = {"stream": stream, "handler": handler, "patience": 2 * PATIENCE}
        text = textwrap.dedent(SCRIPT).format(here=here, file=str(folder / "empty.csv"), address=address, **given)
        (folder / "idle.py").write_text(text)
        command, pipes = [sys.executable, folder / "idle.py"], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, **pipes, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self):
        """What it prints, and its status."""
        out, err = self.process.communicate(timeout=PATIENCE)
        assert err == ""
        return out.strip(), self.process.returncode


@contextmanager
def silent_instead_of(served):
    """A server vanishes, and one in its place, which never says a word, has heard a worker's hello."""
    port = served.port
    served.vanish()
    with socket.create_server(("127.0.0.1", port)) as silent:
        silent.settimeout(PATIENCE)
        line, _ = silent.accept()
        with line:
            assert line.recv(1, socket.MSG_PEEK)
            yield


def reported(served, row=0):
    return served.ask(lambda: served.server.members[row].reports)


@pytest.mark.few(1)
@pytest.mark.parametrize("stream", ["waiting", "asleep"])
@pytest.mark.parametrize("handler", ["usual", "ignored", "own"])
def test_a_worker_that_waits_for_data_ends_when_the_server_is_done(tmp_path, stream, handler):
    with Served(1) as served, Idle(tmp_path, served.address, stream, handler) as idle:
        wait_until(lambda: reported(served) == 5)
        served.stop()
        assert idle.end() == ("ended 5", 0)


def worker(served, stream, **given):
    """One of row 0 with a quick heart, in a thread."""
    place = ("127.0.0.1", served.port)
    return Working(place, lambda _, w0: FromStream(pull, stream, SIAG(), w0), name="0", heartbeat=0.1, **given)


def test_a_stream_that_waits_for_data_ends_with_the_server_in_any_thread(tmp_path):
    (tmp_path / "empty.csv").touch()
    with Served(1) as served, worker(served, Follow(tmp_path / "empty.csv")) as idle:
        wait_until(lambda: served.states() == ["working"])
        served.stop("enough")
    assert (idle.outcome, idle.machine.reports) == ("enough", 0)


def test_code_that_fails_while_a_server_is_called_that_does_not_answer_is_not_waited_for():
    called = threading.Event()

    def failing():
        yield next(target(1))
        assert called.wait(PATIENCE)
        raise ValueError("the user's own")

    with Served(1) as served, worker(served, failing) as broken:
        wait_until(lambda: reported(served) == 1)
        with silent_instead_of(served):
            called.set()
            wait_until(lambda: broken.outcome is not None)
    assert "the user's own" in str(broken.outcome)


@pytest.mark.thorough
def test_a_worker_that_calls_a_server_which_does_not_answer_can_be_interrupted(tmp_path):
    with Served(1) as served, Idle(tmp_path, served.address) as idle:
        wait_until(lambda: reported(served) == 5)
        with silent_instead_of(served):
            idle.process.send_signal(signal.SIGINT)
            _, err = idle.process.communicate(timeout=PATIENCE)
    assert "KeyboardInterrupt" in err


def test_ctrl_c_means_what_it_meant_while_nobody_is_to_be_woken():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with wakeable(lambda: False) as wake:
            signal.raise_signal(signal.SIGINT)
            assert heard == [signal.SIGINT]
            wake()
            assert heard == [signal.SIGINT]  # that was nobody's Ctrl-C
        signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.thorough
def test_a_worker_that_waits_for_data_comes_back_to_a_server_that_was_away(tmp_path):
    with Served(1, folder=tmp_path / "state") as first, Idle(tmp_path, first.address) as idle:
        wait_until(lambda: reported(first) == 5)
        port = first.port
        first.vanish()
        with Served(1, folder=tmp_path / "state", port=port) as second:
            wait_until(lambda: second.states() == ["working"])
            assert reported(second) == 5
            second.stop()
        assert idle.end() == ("ended 5", 0)


def test_what_was_computed_meanwhile_is_reported_to_the_server_that_is_back(tmp_path):
    gate = threading.Event()

    def slowly():
        samples = target(1)
        yield next(samples)
        assert gate.wait(PATIENCE)
        yield from samples

    with Served(1, folder=tmp_path / "state") as first, worker(first, slowly) as waiting:
        wait_until(lambda: reported(first) == 1)
        port = first.port
        first.vanish()
        with Served(1, folder=tmp_path / "state", port=port) as second:
            wait_until(lambda: second.states() == ["working"])
            gate.set()
            wait_until(lambda: reported(second) > 5)
            assert second.ask(lambda: second.server.members[0].refused) == 0
            second.stop()
    assert waiting.machine.refused == 0


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("no")])
def test_code_that_wants_to_end_is_reported_by_name(error):
    def gradient(w, sample):
        raise error

    with Served(1) as served:
        outcome = []

        def run():
            try:
                siag.work(served.address, gradient, [0.0], name="0")
            except BaseException as raised:
                outcome.append(raised)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(PATIENCE)
        assert outcome == [error]
        wait_until(lambda: served.notes.told(f"worker 0 failed: {type(error).__name__}"))


def test_an_interrupted_frame_is_not_followed_by_another(monkeypatch):
    with Served(1, d=D) as served:
        line = ClientConnection(("127.0.0.1", served.port), None)
        assert line.whole

        def torn(content):
            raise KeyboardInterrupt

        monkeypatch.setattr(line, "_send", torn)
        with pytest.raises(KeyboardInterrupt):
            line.send(wire.head(wire.SKIP))
        assert line.whole  # a signal that comes with the last byte of something small
        with pytest.raises(KeyboardInterrupt):
            line.send(wire.head(wire.REPORT, 8 << 20), np.ones(1 << 20))
        assert not line.whole
        line.close()
