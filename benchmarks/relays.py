"""Relays: 10 000 workers behind 20 of them on this machine, against the same workers at one server; 10⁶ in simulation.

`python -m benchmarks.relays live` prints what each took, `… kill` what killing a relay for ten seconds costs, `…
simulated` a million workers. Workers are played by a few processes, many each, which answer at once. Worker i's
gradient at w is w − x_i − ξ with noise ξ of unit variance; the best w is the mean of the x_i, so that the error of
gradients that were drawn T times in all is about d/T at best, however they travel.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

import siag
from siag.live.protocol import wire
from siag.live.relays.server import NEVER, Gather, RelayServer
from siag.runtimes import Limits, Quiet
from siag.server.parameter_server import ParameterServer
from siag.server.status import Snapshot

D, WORKERS, RELAYS, ROUNDS, PLAYERS = 20, 10_000, 20, 40, 4
FRAME = wire.HEADER.size + 8 * D
BETA, GAMMA = 2.0, 10.0  # the step is β/(t + γ), γ in rounds of all workers


def centers(workers: int) -> np.ndarray:
    """(workers, D) the x_i."""
    return np.random.default_rng(0).normal(size=(workers, D))


def hello(port: int, name: str) -> tuple[socket.socket, int, bytes]:
    """A connection on which everything up to the first w has been said; its version, and w."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.sendall(wire.text(wire.HELLO, {"protocol": wire.PROTOCOL, "worker": name, "token": None}))
    kind = stamp = 0
    payload = b""
    while kind != wire.MODEL:
        length, kind, _, stamp, *_ = wire.HEADER.unpack(line.recv(wire.HEADER.size, socket.MSG_WAITALL))
        payload = line.recv(length, socket.MSG_WAITALL)
    return line, stamp, payload


class Player:
    """Some of the workers; worker i of all is one of place i // size, by its number there."""

    def __init__(self, ports: list[int], mine: range, size: int, all_there: Any) -> None:
        self._all_there, self._ports, self._mine, self._size = all_there, ports, mine, size
        self._x, self._rng = centers(WORKERS), np.random.default_rng(mine.start)
        self._poll = select.epoll()
        self._by_number: dict[int, list[Any]] = {}
        self._away: list[int] = []

    def join(self, i: int) -> Callable[[], None]:
        """Connect worker i; what has it report for the first time."""
        line, stamp, payload = hello(self._ports[i // self._size], str(i % self._size))
        self._by_number[line.fileno()] = entry = [line, i, int(time.monotonic_ns())]
        self._poll.register(line.fileno(), select.EPOLLIN)
        return lambda: self._report(entry, stamp, payload)

    def _report(self, entry: list[Any], stamp: int, payload: bytes) -> None:
        gradient = np.frombuffer(payload) - self._x[entry[1]] - self._rng.normal(size=D)
        entry[2] += 1  # samples go up, whoever answers
        entry[0].sendall(wire.head(wire.REPORT, 8 * D, stamp, entry[2]) + gradient.tobytes())

    def run(self) -> None:
        """Until the end; a place that is gone is called again."""
        first = [self.join(i) for i in self._mine]
        self._all_there.wait()
        for report in first:
            report()
        called = time.monotonic()
        while self._by_number or self._away:
            for number, _ in self._poll.poll(0.2):
                self._hear(number)
            if self._away and time.monotonic() > called + 0.5:
                called, again, self._away = time.monotonic(), self._away, []
                for i in again:
                    try:
                        self.join(i)()
                    except (OSError, wire.struct.error):
                        self._away.append(i)

    def _hear(self, number: int) -> None:
        entry = self._by_number[number]
        try:
            head = entry[0].recv(wire.HEADER.size, socket.MSG_WAITALL)
            length, kind, _, stamp, *_ = wire.HEADER.unpack(head)
            payload = entry[0].recv(length, socket.MSG_WAITALL)
            if kind == wire.MODEL:
                self._report(entry, stamp, payload)
            elif kind == wire.GOODBYE and json.loads(payload).get("done"):
                self._drop(number)
        except (OSError, wire.struct.error):
            self._away.append(self._drop(number))

    def _drop(self, number: int) -> int:
        line, i, _ = self._by_number.pop(number)
        line.close()
        return int(i)


def play(told: Any, mine: range, size: int, all_there: Any) -> None:
    """A process that is some of the workers, once it is told where they connect."""
    with suppress(OSError, wire.struct.error):
        Player(told.get(), mine, size, all_there).run()


def relay(told: Any, name: str, size: int, say: Any, every: int) -> None:
    """A process that is a relay, once it is told where the root is; it says its port, and in the end how much came."""
    pace, (root, port) = siag.activity.EveryArrivals(every), told.get()
    given = {"name": name, "pace": pace, "port": port, "progress": Quiet()}
    run = siag.relay(f"127.0.0.1:{root}", size, ready=lambda _, found: None if port else say.put(found), **given)
    say.put(sum(each["reports"] for each in run.about["by_worker"]))


def warm_up() -> None:
    """Have the machine code ready before processes are made, so that they have it, too."""
    given = siag.steps.Constant(1.0), np.zeros(D), 1
    ParameterServer(siag.methods.SIAG(), *given).warm_up()
    RelayServer(Gather(numbers=D, gradient=D), *given, server=NEVER).warm_up()


class Watch(Quiet):
    """Keeps how far the root is, and how large the error was when."""

    version, seconds = 0, 0.0

    def __init__(self) -> None:
        self.curve: list[tuple[float, int, float]] = []

    def show(self, snapshot: Snapshot) -> None:
        """A look at the root."""
        self.version, self.seconds = snapshot.version, snapshot.seconds
        if snapshot.loss is not None:
            self.curve.append((round(snapshot.seconds, 1), snapshot.version, float(f"{snapshot.loss:.3g}")))


class Run:
    """A root, its relays, if there are any, and the processes that play workers."""

    def __init__(self, relays: int, rounds: int = 0, seconds: float = 0.0) -> None:
        self.relays, self.size = relays, WORKERS // max(1, relays)
        updates = rounds * (relays or WORKERS)
        self.until = siag.Until(iterations=updates) if rounds else siag.Until(seconds=seconds)
        self.context = multiprocessing.get_context("fork")
        self.roots, self.said = ([self.context.SimpleQueue() for _ in range(relays)] for _ in range(2))
        self.places = [self.context.SimpleQueue() for _ in range(PLAYERS)]
        self.ports = list[int]()
        part = WORKERS // PLAYERS
        self.processes = [self.relay(k) for k in range(relays)]
        all_there = self.context.Barrier(PLAYERS)
        for k in range(PLAYERS):
            mine = range(k * part, (k + 1) * part)
            self.processes.append(self._process(play, self.places[k], mine, self.size, all_there))
        self.spare, self.watch = self.context.SimpleQueue(), Watch()
        if seconds:  # made before the root has threads
            self.processes.append(self._process(relay, self.spare, "r0", self.size, self.said[0], self.size))

    def relay(self, k: int) -> Any:
        """A process of the k-th relay."""
        return self._process(relay, self.roots[k], f"r{k}", self.size, self.said[k], self.size)

    def _process(self, target: Any, *args: Any) -> Any:
        process = self.context.Process(target=target, args=args, daemon=True)
        process.start()
        return process

    def start(self, host: str, port: int) -> None:
        """The root listens: tell the others, in a thread of its own."""
        self.root = port
        threading.Thread(target=self._start, daemon=True).start()

    def _start(self) -> None:
        for queue in self.roots:
            queue.put((self.root, 0))
        self.ports = [queue.get() for queue in self.said] or [self.root]
        for queue in self.places:
            queue.put(self.ports)

    def serve(self) -> dict[str, Any]:
        """To its end; what came out."""
        x = centers(WORKERS).mean(axis=0)
        per_round = self.relays or WORKERS
        names = [f"r{k}" for k in range(self.relays)] or [str(i) for i in range(WORKERS)]
        used = os.times()
        run = siag.serve(
            np.zeros(D),
            names,
            siag.methods.SIAG(wait=1.0),
            siag.steps.Harmonic(BETA, GAMMA * per_round),
            self.until,
            port=0,
            loss=lambda w: float(np.square(w - x).sum()),
            limits=Limits(connections=2 * WORKERS, max_weight=float(self.size)),
            progress=self.watch,
            ready=self.start,
        )
        cpu = sum(os.times()[:2]) - sum(used[:2])
        behind = sum(queue.get() for queue in self.said) if self.relays else int(run.samples[0, -1])
        up, down = FRAME + wire.HEADER.size * bool(self.relays), FRAME
        for process in self.processes:
            process.join(20)
        return {
            "relays": self.relays,
            "updates": int(run.t[-1]),
            "reports of workers": behind,
            "MB at the root": round((up + down) * int(run.t[-1]) / 1e6, 4),
            "seconds": round(float(run.time[0, -1]), 1),
            "cpu of the root": round(cpu, 2),
            "error": float(run.error[0, -1]),
            "d / reports": D / behind,
        }


def kill(seconds: int) -> None:
    """A relay is killed when a third of the run is over, and back ten seconds later; how the error goes meanwhile."""
    run = Run(RELAYS, seconds=float(seconds))
    moments = dict[str, float]()

    def meanwhile() -> None:
        while not run.ports or run.watch.seconds < seconds / 3:
            time.sleep(0.05)
        run.processes[0].kill()
        moments["killed"] = run.watch.seconds
        time.sleep(10.0)
        run.spare.put((run.root, run.ports[0]))
        moments["started again"] = run.watch.seconds

    threading.Thread(target=meanwhile, daemon=True).start()
    found = run.serve() | moments
    print(json.dumps(found | {"curve": run.watch.curve[:: max(1, len(run.watch.curve) // 40)]}), flush=True)


def live(rounds: int) -> None:
    """Both, one after the other."""
    for relays in (RELAYS, 0):
        print(json.dumps(Run(relays, rounds).serve()), flush=True)


def simulated(rounds: int, workers: int = 1_000_000, relays: int = 1000, repeats: int = 2) -> None:
    """A million workers behind a thousand relays, each of which sends its sum once it has heard all its members."""
    problem = siag.problems.LeastSquares.random(n=workers, d=4, p=1, noise=1.0, seed=0)
    order = np.tile(np.arange(workers), rounds)
    for name, updates in (("flat", rounds * workers), ("relays", rounds * relays)):
        start = np.arange(updates + 1) * (rounds * workers // updates)
        activity = siag.activity.Recorded(siag.activity.recorded.Tape(start.astype(np.int64), order))
        step = siag.steps.Harmonic(BETA / problem.constants()[0], GAMMA * updates / rounds)
        began = time.monotonic()
        given = {"iterations": updates, "repeats": repeats, "seed": 1, "record": 20}
        run = siag.simulate(problem, siag.methods.SIAG(wait=1.0), activity, step, **given)
        found = {"workers": workers, "updates": updates, "error": float(run.error[:, -1].mean())}
        size = 2 * FRAME + (wire.HEADER.size if name == "relays" else 0)
        found |= {"GB at the root, d = 20": updates * size / 1e9, "seconds": round(time.monotonic() - began, 1)}
        print(json.dumps({name: found}), flush=True)


def main(what: str, rounds: int = ROUNDS) -> None:
    """One of the parts."""
    if what == "simulated":
        simulated(rounds)
        return
    warm_up()
    (live if what == "live" else kill)(rounds)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
