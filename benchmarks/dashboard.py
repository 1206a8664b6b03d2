"""What a dashboard costs training: updates per second of four workers on this machine, with and without it."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import siag
from benchmarks.targets import Target, table
from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.messages import Sender
from siag.live.monitor.dashboard.server import Served

N, D, SECONDS, ROUNDS = 4, 20, 4.0, 15
CROWD, LOOKS = 1000, 40
READ = """
import sys, urllib.request
stream = urllib.request.urlopen(sys.argv[1] + "stream")
print("open", flush=True)
for line in stream:
    pass
"""
PROBLEM = siag.problems.LeastSquares.random(n=N, d=D, p=2, noise=0.1, seed=0)


class Busy(Served):
    """A dashboard that knows how long its thread has worked."""

    worked = 0.0

    def _serve(self) -> None:
        try:
            super()._serve()
        finally:
            Busy.worked = time.thread_time()


class Watched(siag.runtimes.Quiet):
    """Opens the page once training has begun, and reads its stream in a process of its own."""

    def __init__(self) -> None:
        from siag.runtimes import Dashboard

        self.served = Busy(Dashboard(port=0))
        for name in ("begin", "model", "event", "problem"):
            setattr(self, name, getattr(self.served, name))
        self._reader = subprocess.Popen([sys.executable, "-c", READ, self.served.address], stdout=subprocess.PIPE)
        self._reader.stdout.readline()  # its start is over before training begins

    def show(self, snapshot: siag.server.Snapshot) -> None:
        """On the page."""
        self.served.show(snapshot)

    def close(self) -> None:
        """The page, and the process that reads it."""
        self.served.close()
        self._reader.wait()
        self._reader.stdout.close()


def rate(watched: bool) -> tuple[float, float]:
    """Updates per second of a run, and the seconds of a second that the dashboard's thread worked."""
    progress = Watched() if watched else False
    Busy.worked = 0.0
    run = siag.train(problem=PROBLEM, until=siag.runtimes.Until(seconds=SECONDS), progress=progress)
    return float(run.t[-1]) / SECONDS, Busy.worked / SECONDS


def traffic() -> tuple[float, float]:
    """Of a browser that watches a thousand workers that all report: messages and kilobytes per second."""
    board, sender, sizes = Board(), Sender(), []
    server = siag.server.ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.1), [0.0] * D, CROWD)
    for look in range(LOOKS):
        now = look / 4
        for row in range(CROWD):
            if look == 0:
                server.join(row, now)
            server.push(row, server.version, PROBLEM.optimum, look, now)
        board.show(server.snapshot(now))
        sizes.append(len(board.next_message(sender)))
    return len(sizes) * 4 / LOOKS, sum(sizes) * 4 / LOOKS / 1000


def chapter() -> tuple[str, list[Target]]:
    """In words, and what was asked for."""
    rate(True)  # compiles, imports
    rounds = []
    for k in range(ROUNDS):  # each is the first of a pair as often as the other
        first = rate(k % 2 == 0)
        pair = first, rate(k % 2 == 1)
        rounds.append(pair[::-1] if k % 2 == 0 else pair)
    ratios = [watched[0] / alone[0] for alone, watched in rounds]
    alone = statistics.median(each[0][0] for each in rounds)
    share = statistics.median(each[1][1] for each in rounds)
    messages, kilobytes = traffic()
    targets = [
        Target(statistics.median(ratios), "of the updates per second without a dashboard", least=0.98),
        Target(100 * share, "% of a core that the dashboard's thread takes", most=2.0),
        Target(kilobytes, f"kB/s to a browser, of {CROWD:,} workers that all report", most=50.0),
        Target(messages, "messages a second to a browser", most=4.0),
    ]
    text = (
        f"## The dashboard\n\n{N} workers on this machine, d = {D}, {SECONDS:g} seconds a run, with the page's stream "
        f"read by one other process, and without a dashboard: {alone:,.0f} updates per second without; ratios of "
        f"{ROUNDS} pairs from {min(ratios):.3f} to {max(ratios):.3f}.\n\n{table(targets)}\n"
    )
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
