"""What the machine takes for the parts of a live update, each alone."""

from __future__ import annotations

import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle

import numpy as np

import siag
from benchmarks.copies import send_and_read
from benchmarks.peers.live_job import ETA
from benchmarks.rounds import ratio
from siag.server.method_state import NOWHERE, take
from siag.server.parameter_server import ParameterServer

SMALL, LARGE, FEW, MANY = 20, 10**6, 1, 4  # numbers of a model, and workers
ROUNDS = 5


def timed(what: Callable[[], object], times: int = 1) -> float:
    """Seconds a call takes."""
    began = time.perf_counter()
    for _ in range(times):
        what()
    return (time.perf_counter() - began) / times


@dataclass(frozen=True)
class Limits:
    """What the machine takes for the parts of an update, in seconds."""

    fused: float  # the compiled update at d = 10⁶
    over_copy: float  # the same, in copies of as many bytes
    plain: float  # the same in NumPy
    handed: float  # to copy w to a worker's place
    push: float  # all that the server does with a report at d = 20
    pipes: float  # a byte to another process and back
    loopback: float  # the same over a connection
    carried: float  # 8 MB to another process over a connection, and back


def limits() -> Limits:
    """Measure them."""
    state = siag.methods.SIAG(resum=0).init(np.zeros(LARGE), MANY)
    message = np.ones(LARGE)
    moved = 7 * 8 * LARGE  # message, row, sum and w are read; row, sum and w are written
    source, target = np.ones(moved // 16), np.zeros(moved // 16)
    rows, total, w, scratch = np.zeros((MANY, LARGE)), np.zeros(LARGE), np.zeros(LARGE), np.zeros(LARGE)
    rows.fill(0.0)

    def plain(i: int) -> None:
        np.subtract(message, rows[i], out=scratch)
        np.add(total, scratch, out=total)
        np.copyto(rows[i], message)
        np.multiply(total, -ETA / MANY, out=scratch)
        np.add(w, scratch, out=w)

    turns = cycle(range(MANY))
    parts = (
        lambda: take(state, next(turns), message, 0, 1, 1e-9, NOWHERE),
        lambda: np.copyto(target, source),
        lambda: plain(next(turns)),
        lambda: np.copyto(scratch, w),
    )
    times: list[list[float]] = [[] for _ in parts]
    for _ in range(3 * ROUNDS):
        for taken, part in zip(times, parts, strict=True):
            part()
            taken.append(timed(part, MANY))
    fused, copied, numpy, handed = times
    return Limits(
        statistics.median(fused),
        ratio(fused, copied),
        statistics.median(numpy),
        statistics.median(handed),
        statistics.median(pushes() for _ in range(ROUNDS)),
        *echoes(),
    )


def pushes(times: int = 3000) -> float:
    """Seconds the server takes for a report at d = 20, nothing being carried."""
    server = ParameterServer(siag.methods.SIAG(), siag.steps.Constant(ETA), np.zeros(SMALL), MANY)
    server.warm_up()
    for i in range(MANY):
        server.join(i, 0.0)
    message = np.ones(SMALL)
    samples = iter(range(times + 1))
    server.push(0, 0, message, next(samples), 0.0)
    return timed(lambda: server.push(0, server.version, message, next(samples), 1.0), times)


def echo(line: socket.socket, size: int) -> None:
    """Send everything back, until the other end hangs up."""
    view = memoryview(bytearray(size))
    try:
        while True:
            send_and_read(line, view, first=False)
    except (EOFError, OSError):
        return


@contextmanager
def echoing(size: int, pipes: bool) -> Iterator[Callable[[], None]]:
    """A process that sends back what it gets; yields one way to it and back."""
    context = multiprocessing.get_context("fork")
    if pipes:
        (a, b), (c, d) = os.pipe(), os.pipe()

        def bounce() -> None:
            while os.read(a, 1) == b"x":
                os.write(d, b"x")

        process = context.Process(target=bounce)
        process.start()
        yield lambda: (os.write(b, b"x"), os.read(c, 1))
        os.write(b, b"y")
        for descriptor in (a, b, c, d):
            os.close(descriptor)
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
        for line in (here, there):
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def answer() -> None:
            here.close()
            echo(there, size)

        process = context.Process(target=answer)
        process.start()
        there.close()
        view = memoryview(bytearray(size))
        yield lambda: send_and_read(here, view, first=True)
        here.close()
        listener.close()
    process.join()


def echoes() -> tuple[float, float, float]:
    """Seconds to another process and back: a byte through pipes, over a connection, and 8 MB over a connection."""
    found = []
    for size, pipes, times in ((1, True, 2000), (1, False, 2000), (8 * LARGE, False, 10)):
        with echoing(size, pipes) as there_and_back:
            there_and_back()
            found.append(statistics.median(timed(there_and_back, times) for _ in range(ROUNDS)))
    return found[0], found[1], found[2]
