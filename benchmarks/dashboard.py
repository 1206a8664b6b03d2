"""What a dashboard costs training: updates per second of two workers on two cores, with and without it.

Their gradients take about half a millisecond, so that both cores compute all the time and whatever the dashboard takes
is taken from them. Of gradients that cost nothing the rate is that of processes waking each other, which scatters by
tens of percent and would hide what is looked for.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import siag
from benchmarks.targets import Target, table
from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.messages import Sender
from siag.live.monitor.dashboard.server import Served

N, D, PAIRS = 2, 20, 40
WORK = 20_000  # additions in Python for a gradient
WINDOW, SETTLING = 2.0, 0.75  # seconds with a dashboard, then as many without; how many at the start do not count
CROWD, LOOKS = 1000, 40
READ = """
import sys, urllib.request
for address in sys.stdin:
    for line in urllib.request.urlopen(address.strip() + "stream"):
        pass
"""


def laborious(w: np.ndarray, sample: float) -> np.ndarray:
    """A gradient that keeps a core busy for a while."""
    sum(range(WORK))
    return w - sample


def samples() -> Iterator[float]:
    """Without end."""
    return itertools.repeat(1.0)


class Busy(Served):
    """A dashboard that knows how long its thread has worked."""

    worked = 0.0

    def _serve(self) -> None:
        try:
            super()._serve()
        finally:
            Busy.worked += time.thread_time()


class Alternating(siag.runtimes.Quiet):
    """Opens and closes a dashboard again and again within one run, and notes how fast that is in each window.

    What differs from run to run, and most of what other programs do meanwhile, is the same for both of a pair. Opening
    and closing are another thread's work, and a process that is there all the time reads the stream.
    """

    def __init__(self) -> None:
        self.rates: list[float] = []  # of the windows, the first without
        self._served: Busy | None = None
        self._begin: tuple[float, int] | None = None
        self._work = ThreadPoolExecutor(1)
        self._reader = subprocess.Popen([sys.executable, "-c", READ], stdin=subprocess.PIPE, text=True)

    def show(self, snapshot: siag.server.Snapshot) -> None:
        """On the page, if there is one."""
        if self._served is not None:
            self._served.show(snapshot)
        window = int(snapshot.seconds / WINDOW)
        if window > len(self.rates) and self._begin is not None:
            seconds, version = self._begin
            self.rates.append((snapshot.version - version) / (snapshot.seconds - seconds))
            self._begin = None
            self._work.submit(self._open if window % 2 else self._shut)
        if self._begin is None and snapshot.seconds >= len(self.rates) * WINDOW + SETTLING:
            self._begin = snapshot.seconds, snapshot.version

    def _open(self) -> None:
        self._served = Busy(siag.runtimes.Dashboard(port=0))
        self._reader.stdin.write(f"{self._served.address}\n")
        self._reader.stdin.flush()

    def _shut(self) -> None:
        served, self._served = self._served, None
        if served is not None:
            served.close()

    def close(self) -> None:
        """The page, and the process that reads it."""
        self._work.submit(self._shut)
        self._work.shutdown()
        self._reader.stdin.close()
        self._reader.wait()


def traffic() -> tuple[float, float]:
    """Of a browser that watches a thousand workers that all report: messages and kilobytes per second."""
    board, sender, sizes = Board(), Sender(), []
    server = siag.server.ParameterServer(siag.methods.SIAG(), siag.steps.Constant(0.1), [0.0] * D, CROWD)
    for look in range(LOOKS):
        now = look / 4
        for row in range(CROWD):
            if look == 0:
                server.join(row, now)
            server.push(row, server.version, np.ones(D), look, now)
        board.show(server.snapshot(now))
        sizes.append(len(board.next_message(sender)))
    return len(sizes) * 4 / LOOKS, sum(sizes) * 4 / LOOKS / 1000


def centre(ratios: np.ndarray) -> tuple[float, float, float]:
    """Hodges and Lehmann's estimate of the centre, and Wilcoxon's interval that holds it 19 times of 20."""
    n = len(ratios)
    first, second = np.triu_indices(n)
    means = np.sort((ratios[first] + ratios[second]) / 2.0)
    out = int(n * (n + 1) / 4.0 - 1.96 * np.sqrt(n * (n + 1) * (2 * n + 1) / 24.0))
    return float(np.median(means)), float(means[out]), float(means[-1 - out])


def chapter() -> tuple[str, list[Target]]:
    """In words, and what was asked for."""
    watcher = Alternating()
    until = siag.runtimes.Until(seconds=(2 * PAIRS + 2) * WINDOW)
    siag.train(laborious, [samples] * N, np.zeros(D), until=until, progress=watcher)
    alone, watched = (np.array(watcher.rates[k : 2 * PAIRS + 1 : 2]) for k in (0, 1))
    middle, low, high = centre(watched / ((alone[:-1] + alone[1:]) / 2.0))  # what drifts is the same before and after
    share = Busy.worked / (PAIRS * WINDOW)
    messages, kilobytes = traffic()
    targets = [
        Target(middle, "of the updates per second without a dashboard", least=0.98, because="see the interval above"),
        Target(100 * share, "% of a core that the dashboard's thread takes", most=2.0),
        Target(kilobytes, f"kB/s to a browser, of {CROWD:,} workers that all report", most=50.0),
        Target(messages, "messages a second to a browser", most=4.0),
    ]
    text = (
        f"## The dashboard\n\n{N} workers on this machine, d = {D}, whose gradients keep both cores busy, in one run "
        f"that has a dashboard for {WINDOW:g} seconds, read by one other process, and none for the next: "
        f"{statistics.median(alone):,.0f} updates per second without. Each window is compared with those before and "
        f"after it: the ratio is {middle:.3f}, between {low:.3f} and {high:.3f} at 95 % (Hodges and Lehmann's estimate "
        f"and Wilcoxon's interval, {PAIRS} windows).\n\n{table(targets)}\n"
    )
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
