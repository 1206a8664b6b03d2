"""Ray: the server is an actor, and so are the workers.

Two ways, told apart by the argument: Ray's documented asynchronous parameter server, in which the driver waits for
gradients and passes them on ("driver"), and workers that call the server's actor themselves ("direct").
"""

from __future__ import annotations

import os
import sys

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

import ray  # it reads its settings when it is imported

from live_job import Meter, Server, gradient, serve

WORKERS = 4


@ray.remote
class ParameterServer:
    """The update, one call at a time."""

    def begin(self, d: int, workers: int, seconds: float) -> None:
        """Forget the last run."""
        self.server = Server(workers, d, seconds)

    def w(self):
        """Where to start."""
        return self.server.w

    def push(self, i: int, g):
        """A gradient of worker i; returns w, or nothing when it is over."""
        if not self.server.meter.over:
            self.server.update(i, g)
        return None if self.server.meter.over else self.server.w

    def answer(self) -> dict[str, object]:
        """What came out."""
        return self.server.answer()


@ray.remote
class Worker:
    """Worker i."""

    def __init__(self, i: int) -> None:
        self.i = i

    def compute(self, w):
        """Its gradient; nothing when it is over."""
        return None if w is None else gradient(w, self.i)

    def work(self, server) -> None:
        """Call the server until it is over."""
        w = ray.get(server.w.remote())
        while w is not None:
            w = ray.get(server.push.remote(self.i, gradient(w, self.i)))


def driver(server, workers, meter: Meter) -> None:
    """As in Ray's documentation: whoever is ready is passed on to the server, and what it returns to the worker."""
    w = server.w.remote()
    gradients = {worker.compute.remote(w): (i, worker) for i, worker in enumerate(workers)}
    while not meter.over:
        (ready,), _ = ray.wait(list(gradients))
        i, worker = gradients.pop(ready)
        w = server.push.remote(i, ready)
        gradients[worker.compute.remote(w)] = (i, worker)
        meter(i)
    ray.wait(list(gradients), num_returns=len(gradients))


def main(way: str) -> None:
    """Answer requests; the actors stay."""
    ray.init("local", num_cpus=2 * WORKERS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    server = ParameterServer.remote()
    actors = [Worker.remote(i) for i in range(WORKERS)]

    def run(d: int, workers: int, seconds: float) -> dict[str, object]:
        if way == "direct":
            ray.get(server.begin.remote(d, workers, seconds))
            ray.get([worker.work.remote(server) for worker in actors[:workers]])
            return ray.get(server.answer.remote())
        ray.get(server.begin.remote(d, workers, float("inf")))
        meter = Meter(workers, seconds)
        driver(server, actors[:workers], meter)
        return {**ray.get(server.answer.remote()), "rate": meter.rate}

    serve(run)
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
