"""`siag.train` on a Ray cluster against Ray's documented parameter server, one server against two, and sizing.

Both sides run with the Ray of siag's own environment: the environment of the peers is bound to that of Flower.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable

import numpy as np

import siag
from benchmarks import sizing
from benchmarks.crowd import Scale
from benchmarks.jobs import ENOUGH, STEP, ending, worked
from benchmarks.live import RAY, ROUNDS, Side, our_side, peer
from benchmarks.peers.live_job import together
from benchmarks.rounds import ratio, rounds
from benchmarks.targets import Target, table

SMALL, MIDDLE, LARGE = SIZES = (20, 10**4, 10**6)
WORKERS, SECONDS = 4, 1.2
ONE, TWO = "siag on Ray", "siag on Ray, 2 shards"
DOCUMENTED = RAY[0]
NAMES = {SMALL: "20", MIDDLE: "10⁴", LARGE: "10⁶"}

Rates = dict[str, dict[int, list[float]]]


def side_by_side() -> tuple[Rates, dict[str, list[float]]]:
    """Updates per second of all sides, round by round, all taking turns; and cores at work with the largest model."""
    wanted = {ONE: SIZES, TWO: (SMALL, LARGE), DOCUMENTED: SIZES}
    rates: Rates = {name: {d: [] for d in sizes} for name, sizes in wanted.items()}
    cores: dict[str, list[float]] = {ONE: [], TWO: []}
    start: dict[str, Callable[[], Side]] = {
        ONE: lambda: our_side(ONE, "ray"),
        TWO: lambda: our_side(TWO, "ray-shards"),
        DOCUMENTED: lambda: peer(DOCUMENTED, sys.executable),
    }
    sides: list[Side] = []
    try:
        for begin in start.values():
            sides.append(begin())
            sides[-1](SMALL, WORKERS, 0.1)
        for _ in rounds(ROUNDS):
            for d in SIZES:
                for side in sides:
                    if d in rates[side.name]:
                        rates[side.name][d].append(side(d, WORKERS, SECONDS))
                        if d == LARGE and side.name in cores:
                            cores[side.name].append(side.found["cores"])
    finally:
        for side in sides:
            side.close()
    return rates, cores


def served(outbox, ports, d: int, seconds: float) -> None:
    """A server's process: sends its own seconds for an update, and how long it measured."""
    watch = Scale(WORKERS)

    def ready(host: str, port: int) -> None:
        for _ in range(WORKERS):
            ports.put((port, None))

    siag.serve(np.zeros(d), WORKERS, step=STEP, until=ending(seconds), port=0, ready=ready, progress=watch)
    reports = watch.rate * watch.seconds
    outbox.send(((watch.used - watch.began) / reports if reports else 0.0, watch.seconds))


def own_time(d: int, seconds: float) -> float:
    """Seconds that the server itself takes for an update, whatever else the cores do."""
    found, measured = together(served, worked, WORKERS, d, seconds)
    return found if measured >= ENOUGH * seconds else own_time(d, seconds + 1.0)


def costs() -> list[tuple[int, float]]:
    """The same for all sizes."""
    return [(d, statistics.median(own_time(d, 0.5 * SECONDS) for _ in range(3))) for d in SIZES]


def goals(rates: Rates, own: dict[int, float]) -> list[Target]:
    """What was asked for."""

    def because(d: int) -> str:
        between = 1 / statistics.median(rates[ONE][d])
        unit, scale = ("µs", 1e6) if between < 1e-3 else ("ms", 1e3)
        return (
            f"the server's own time is {own[d] * scale:.1f} {unit} of the {between * scale:.1f} {unit} between two "
            f"updates; the rest is the workers' part of carrying, on the same {os.cpu_count()} cores"
        )

    return [
        Target(
            ratio(rates[ONE][d], rates[DOCUMENTED][d]),
            f"× the updates per second of Ray's documented parameter server, d = {NAMES[d]}, {WORKERS} workers",
            least=least,
            because=because(d),
        )
        for d, least in ((SMALL, 10), (LARGE, 2))
    ]


def sharding(rates: Rates, cores: dict[str, list[float]], own: float) -> str:
    """What two servers gain over one, and why."""
    gain = ratio(rates[TWO][LARGE], rates[ONE][LARGE])
    at_work = {name: statistics.median(found) for name, found in cores.items()}
    spent = {name: 1e3 * at_work[name] / statistics.median(rates[name][LARGE]) for name in cores}
    cpus = os.cpu_count() or 1
    full = min(at_work.values()) > 0.85 * cpus
    why = (
        f"""All {cpus} cores are at work either way: a second server has no core of its own, it takes its time from the
workers. What is gained or lost is what an update costs all processes together."""
        if full
        else """Not all cores are at work: processes wait for each other, since a report is complete, and w goes
back, only when both servers have done their half."""
    )
    return f"""Two servers, each with half of the model, do {gain:.2f} times the updates of one at d = 10⁶. Cores at
work: {at_work[ONE]:.2f} of {cpus} with one server, {at_work[TWO]:.2f} with two; core time for an update, workers
included: {spent[ONE]:.1f} ms and {spent[TWO]:.1f} ms. Over TCP alone, one server's own time
is {1e3 * own:.1f} ms.
{why}
Shards are for tables that exceed a node, and for servers on nodes of their own, where each has its own cores and
network."""


def chapter() -> tuple[str, list[Target]]:
    """Measure everything; the text and the targets. The table of docs/howto/cluster.md is written anew."""
    import ray

    measured = costs()
    own = dict(measured)
    sizing.write(measured)
    rates, cores = side_by_side()
    targets = goals(rates, own)
    lines = [
        f"| {name} | "
        + " | ".join(f"{statistics.median(found[d]):,.0f}" if d in found else "" for d in SIZES)
        + f" | {' | '.join(f'{ratio(rates[ONE][d], found[d]):.1f}' if d in found else '' for d in SIZES)} |"
        for name, found in rates.items()
    ]
    text = f"""## On Ray

The same job as above, {WORKERS} workers, on a Ray cluster on this machine, Ray {ray.__version__} on all sides.
`siag.train(…, runtime=siag.runtimes.Ray())` has Ray place a server and workers, which then talk over TCP; arrays of
64 KiB and more go through shared memory, since all are on one node. Ray's documented asynchronous parameter server has
a driver that passes gradients and parameters on as Ray objects, which lie in shared memory, too. Updates per second
from when all workers have reported, by the server's clock; every run was checked as above.

| updates per second | d = 20 | d = 10⁴ | d = 10⁶ | siag is × faster: d = 20 | 10⁴ | 10⁶ |
|---|---:|---:|---:|---:|---:|---:|
{chr(10).join(lines)}

{table(targets)}

### Two shards

{sharding(rates, cores, own[LARGE])}
"""
    return text, targets


if __name__ == "__main__":
    print(chapter()[0])
