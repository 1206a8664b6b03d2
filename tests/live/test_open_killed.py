"""A server that is open and durable, killed again and again while workers join: nothing acknowledged is lost."""

import json
import socket
import subprocess
import threading

import numpy as np
import pytest

import siag
from siag.activity.trace import Trace
from siag.foundations.rng import SAMPLES, blank, key, rewind
from siag.methods import SIAG, compute
from siag.streams import Stream
from terminals import SIAG as COMMAND
from waiting import PATIENCE, wait_until

WORKERS, KILLS, MOST, ETA, SEED = 5, 20, 12, 0.05, 7
PROBLEM = siag.problems.LeastSquares.random(n=WORKERS, d=3, p=4, noise=0.1, seed=1)


class Counted(Stream):
    """The numbers of samples, until told to end; it is told how many the server has acknowledged."""

    def __init__(self, worker, first=0):
        self._worker, self._first = worker, first

    def samples(self, stop):
        k = self._first
        while not (stop.is_set() or self._worker.crowd.enough.is_set()):
            yield k
            k += 1

    def after(self, samples):
        return Counted(self._worker, samples)

    def accepted(self, samples):
        self._worker.acknowledge(samples)


class Member:
    """A worker of the problem: its k-th sample is that of a simulation with the same seed."""

    def __init__(self, crowd, row, address):
        self.crowd, self.acknowledged, self.lost = crowd, 0, []
        method = SIAG()
        memory, oracle, rng = method.recruit(np.zeros(PROBLEM.d), WORKERS), PROBLEM.oracle(), blank()

        def gradient(w, k):
            if k < self.acknowledged:
                self.lost.append(k)
            out = np.zeros(PROBLEM.d)
            rewind(rng, key(SEED, 0, SAMPLES), row, k)
            compute(memory, oracle, rng, row, w, out)
            return out

        given = {"name": f"w{row}", "give_up": PATIENCE}
        self.thread = threading.Thread(target=siag.work, args=(address, gradient, Counted(self)), kwargs=given)
        self.thread.daemon = True
        self.thread.start()

    def acknowledge(self, samples):
        self.acknowledged = max(self.acknowledged, samples)


class Crowd:
    """Workers that come one after the other, each when the one before has its row for good."""

    def __init__(self, address):
        self.address, self.enough, self.members = address, threading.Event(), []

    @property
    def acknowledged(self):
        return sum(member.acknowledged for member in self.members)

    def grow(self):
        self.members.append(Member(self, len(self.members), self.address))

    def wait_for(self, more):
        """Until so many more reports were acknowledged."""
        least = self.acknowledged + more
        wait_until(lambda: self.acknowledged >= least)

    def leave(self):
        self.enough.set()
        for member in self.members:
            member.thread.join(PATIENCE)
            assert not member.thread.is_alive()


@pytest.mark.thorough
def test_twenty_kills_of_a_server_that_grows_lose_nothing_that_was_acknowledged(tmp_path):
    """Killed by the number of acknowledged reports; in the end the trace, run again, gives the same w to the bit."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = f"serve --open --max-workers {WORKERS} --dimension {PROBLEM.d} --method SIAG --eta {ETA} --durable --json"
    command += f" --folder state --trace run.trace --departed keep --port {port}"

    def start():
        with open(tmp_path / "said", "w") as said:
            return subprocess.Popen([COMMAND, *command.split()], cwd=tmp_path, stdout=said)

    crowd, chance = Crowd(f"127.0.0.1:{port}"), np.random.default_rng(3)
    server = start()
    try:
        for k in range(KILLS):
            if k % (KILLS // WORKERS) == 0:
                crowd.grow()
            crowd.wait_for(int(chance.integers(1, MOST)))
            wait_until(lambda: crowd.members[-1].acknowledged)
            server.kill()
            server.wait()
            server = start()
        crowd.wait_for(MOST)
        crowd.leave()
        server.terminate()
        assert server.wait(PATIENCE) == 0
    finally:
        server.kill()
    assert [member.lost for member in crowd.members] == [[]] * WORKERS
    result = json.loads((tmp_path / "said").read_text().splitlines()[-1])
    trace = Trace.read(tmp_path / "run.trace")
    reports = np.isnan(trace.factor)
    for row, member in enumerate(crowd.members):
        samples = trace.sample[reports & (trace.worker == row)].tolist()
        assert samples == list(range(len(samples)))  # each once
        assert len(samples) >= member.acknowledged > 0
    step = siag.steps.Constant(ETA)
    replayed = siag.simulate(PROBLEM, SIAG(), trace, step, iterations=trace.length, seed=SEED)
    assert replayed.w[0].tolist() == result["w"]
