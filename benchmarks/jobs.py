"""siag's own live sides, each in a process of its own that answers as a peer does: `python -m benchmarks.jobs tcp`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path

import numpy as np

import siag
from benchmarks import copies
from benchmarks.peers.live_job import ETA, WARM, described, gradient, serve, together
from siag.live.certificates import make_certificates
from siag.server.parameter_server import ParameterServer
from siag.server.status import Snapshot

STEP = siag.steps.Constant(ETA)
JOINING = 0.4  # seconds in which all workers should be there; what they take more is taken from the measured time
STARTING = 1.5  # the same on Ray
COPIES = {"copies": False, "copies-tls": True}
SHARDS = {"ray": 1, "ray-shards": 2}
MESSAGES = {"tcp": "float64", "tcp-short": "float32", "tcp-int8": "int8"}
ROUGH = 0.1  # of w: how far rounding at random may take any of a million coordinates, after a hundred updates
ENOUGH = 0.3  # of the time that should have been measured


class Watch:
    """Notes how many reports there were when, from when all workers have reported and a moment has passed."""

    def __init__(self, working: int, here: int = 0) -> None:
        self.working, self.here = working, max(here, working)
        self.since = np.inf
        self.points: list[tuple[float, int]] = []

    def show(self, snapshot: Snapshot) -> None:
        """A look at the server."""
        there = sum(worker.state != "expected" for worker in snapshot.workers)
        reporting = sum(worker.reports > 0 for worker in snapshot.workers)
        if there >= self.here and reporting >= self.working:
            self.since = min(self.since, snapshot.seconds + WARM)
        if snapshot.seconds >= self.since:
            self.points.append((snapshot.seconds, snapshot.reports))

    def event(self, text: str) -> None:
        """A remark: joining and leaving are none of our business, trouble is."""
        if any(word in text for word in ("refused", "problem", "failed", "gone", "diverged")):
            print(text, file=sys.stderr)

    def close(self) -> None:
        """Nothing to close."""

    @property
    def seconds(self) -> float:
        """How long it measured."""
        return self.points[-1][0] - self.points[0][0] if self.points else 0.0

    @property
    def rate(self) -> float:
        """Reports per second; 0 if nothing was measured."""
        return self.seconds and (self.points[-1][1] - self.points[0][1]) / self.seconds


def answer(run: siag.Run, watch: Watch) -> dict[str, object]:
    """What a peer would report; the gap of the sum is not known from outside."""
    return {
        "rate": watch.rate,
        "updates": int(run.samples[0, -1]),
        "gap": 0.0,
        **described(run.w[0]),
    }


def ending(seconds: float) -> siag.Until:
    """When to end."""
    return siag.Until(seconds=seconds + WARM + JOINING)


def embedded(d: int, workers: int, seconds: float) -> dict[str, object]:
    """`siag.train`."""
    watch = Watch(workers)
    streams = [repeat(i) for i in range(workers)]
    run = siag.train(gradient, streams, np.zeros(d), step=STEP, until=ending(seconds), progress=watch)
    if watch.seconds < ENOUGH * seconds:
        return embedded(d, workers, seconds + 1.0)
    return answer(run, watch)


def method_for(messages: str) -> siag.methods.SIAG:
    """sIAG with rows that hold messages exactly."""
    return siag.methods.SIAG(rows="float64" if messages == "float64" else "float32")


def served(outbox, ports, certificates, messages: str, d: int, workers: int, seconds: float) -> None:
    """The server's process."""
    watch = Watch(workers)
    secret = {}
    if certificates is not None:
        secret = {"certificate": certificates / "server.pem", "key": certificates / "server.key"}

    def ready(host: str, port: int) -> None:
        for _ in range(workers):
            ports.put((port, certificates))

    method = method_for(messages)
    given = {"messages": messages, "port": 0, "ready": ready, "progress": watch, **secret}
    run = siag.serve(np.zeros(d), workers, method, STEP, until=ending(seconds), **given)
    outbox.send((answer(run, watch) | ({"rough": ROUGH} if messages == "int8" else {}), watch.seconds))


def worked(ports, i: int) -> None:
    """A worker's process."""
    port, certificates = ports.get()
    ca = None if certificates is None else certificates / "ca.pem"
    siag.work(f"127.0.0.1:{port}", gradient, repeat(i), name=str(i), ca=ca)


def network(certificates: Path | None, messages: str, d: int, workers: int, seconds: float) -> dict[str, object]:
    """`siag.serve` and `siag.work`."""
    found, measured = together(served, worked, workers, certificates, messages, d, workers, seconds)
    if measured < ENOUGH * seconds:
        return network(certificates, messages, d, workers, seconds + 1.0)
    return found


def busy() -> float:
    """Seconds that the cores of this machine have worked, all together."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Load(Watch):
    """Notes how much the machine worked while reports were counted."""

    def __init__(self, working: int) -> None:
        super().__init__(working)
        self.looks: list[tuple[float, float]] = []

    def show(self, snapshot: Snapshot) -> None:
        """A look at the server."""
        super().show(snapshot)
        if self.points:
            self.looks.append((time.perf_counter(), busy()))

    @property
    def cores(self) -> float:
        """How many cores were at work, on average."""
        (began, before), (ended, after) = self.looks[0], self.looks[-1]
        return (after - before) / (ended - began)


def on_ray(shards: int, d: int, workers: int, seconds: float) -> dict[str, object]:
    """`siag.train` on the Ray cluster of this process; its workers take their time to start."""
    watch = Load(workers)
    streams = [repeat(i) for i in range(workers)]
    until = siag.Until(seconds=seconds + WARM + STARTING)
    runtime = siag.runtimes.Ray(shards=shards)
    run = siag.train(gradient, streams, np.zeros(d), step=STEP, until=until, progress=watch, runtime=runtime)
    if watch.seconds < ENOUGH * seconds:
        return on_ray(shards, d, workers, seconds + 2.0)
    return {**answer(run, watch), "cores": watch.cores}


@contextmanager
def cluster() -> Iterator[None]:
    """A Ray cluster on this machine, with room for all processes."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    import ray  # it reads its settings when it is imported

    ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        ray.shutdown()


def main(side: str) -> None:
    """Answer requests."""
    for messages in MESSAGES.values():
        warm = ParameterServer(method_for(messages), STEP, np.zeros(2), workers=1, messages=messages)
        warm.warm_up()
        kind = warm.encoding
        warm.push(0, stamp=0, message=np.zeros(kind.length(2), kind.dtype), sample=0, now=0.0)
    with tempfile.TemporaryDirectory() as folder:
        if side == "embedded":
            serve(embedded)
        elif side in MESSAGES:
            serve(partial(network, None, MESSAGES[side]))
        elif side in COPIES:
            serve(lambda d, workers, seconds: {"rate": copies.rate(COPIES[side], 8 * d, workers, seconds)})
        elif side in SHARDS:
            with cluster():
                serve(partial(on_ray, SHARDS[side]))
        else:
            made = make_certificates(Path(folder) / "certificates", hosts=["127.0.0.1"], workers=4)
            serve(partial(network, made[0].parent, "float64"))


if __name__ == "__main__":
    main(sys.argv[1])
