"""The job of all live sides: a parameter server doing sIAG's update, and workers whose gradient costs next to nothing.

Worker i's gradient is fixed numbers, the same for all workers, but at `PROBES` coordinates, spread evenly, where it is
w − c_i. So w goes to the mean of the c_i there; everywhere else it is a known multiple of the fixed numbers, whoever
reports when: a row that was lost, torn or counted twice would be seen.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from functools import lru_cache
from multiprocessing import connection

import numpy as np

ETA, PROBES, WARM = 0.05, 20, 0.2


def fixed(d: int) -> np.ndarray:
    """(d,) the fixed numbers, all of which a float32 holds exactly."""
    return np.random.default_rng(1).uniform(1.0, 2.0, d).astype(np.float32).astype(np.float64)


def center(i: int) -> np.ndarray:
    """(PROBES,) what worker i wants w to be."""
    return np.random.default_rng([2, i]).random(PROBES)


@lru_cache(maxsize=8)
def prepared(i: int, d: int, kind: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """A worker's gradient, its part that depends on w, c_i, and the distance between two probes."""
    gradient, stride = fixed(d).astype(kind), d // PROBES
    return gradient, gradient[::stride], center(i), stride


def gradient(w: np.ndarray, i: int) -> np.ndarray:
    """Worker i's gradient, in an array of numbers like those of w that is used again."""
    whole, part, wanted, stride = prepared(i, w.size, w.dtype)
    np.subtract(w[::stride], wanted, out=part, casting="same_kind")
    return whole


class Meter:
    """Counts updates from when all workers have reported and a moment has passed, for some seconds."""

    def __init__(self, n: int, seconds: float) -> None:
        self.missing, self.seconds = set(range(n)), seconds
        self.count, self.began, self.first, self.ends, self.rate = 0, float("inf"), 0, float("inf"), 0.0
        self.over = False

    def __call__(self, i: int) -> None:
        """One update more."""
        self.count += 1
        now = time.perf_counter()
        if self.missing:
            self.missing.discard(i)
            if not self.missing:
                self.began = now + WARM
        elif self.first == 0:
            if now >= self.began:
                self.began, self.first, self.ends = now, self.count, now + self.seconds
        elif now >= self.ends and not self.over:
            self.rate, self.over = (self.count - self.first) / (now - self.began), True


class Server:
    """The update in NumPy, in place, without temporaries."""

    def __init__(self, n: int, d: int, seconds: float) -> None:
        self.n, self.d = n, d
        self.w, self.total, self.rows, self.scratch = np.zeros(d), np.zeros(d), np.zeros((n, d)), np.empty(d)
        for array in (self.w, self.total, self.rows):
            array.fill(0.0)  # so that the system gives the memory now
        self.meter = Meter(n, seconds)

    def update(self, i: int, g: np.ndarray) -> None:
        """A gradient of worker i."""
        row, scratch = self.rows[i], self.scratch
        np.subtract(g, row, out=scratch)
        np.add(self.total, scratch, out=self.total)
        np.copyto(row, g)
        np.multiply(self.total, -ETA / self.n, out=scratch)
        np.add(self.w, scratch, out=self.w)
        self.meter(i)

    def answer(self) -> dict[str, object]:
        """What a peer reports."""
        return report(self.meter, self.w, self.total, self.rows)


def report(meter: Meter, w: np.ndarray, total: np.ndarray, rows: np.ndarray) -> dict[str, object]:
    """Rate, updates, w where it depends on w and everywhere else, and how far the sum is from the sum of the rows."""
    found = described(w)
    return {"rate": meter.rate, "updates": meter.count, "gap": float(np.abs(rows.sum(axis=0) - total).max()), **found}


def described(w: np.ndarray) -> dict[str, object]:
    """The probes of w, and the smallest and largest multiple of the fixed numbers that it is elsewhere."""
    stride = w.size // PROBES
    elsewhere = np.arange(w.size) % stride != 0
    multiples = w[elsewhere] / fixed(w.size)[elsewhere]
    span = [float(multiples.min()), float(multiples.max())] if stride > 1 else []
    return {"probes": w[::stride].tolist(), "multiples": span}


def together(server, work, workers: int, *arguments):
    """Run server(outbox, ports, *arguments) and work(ports, i) for every i, as processes; return what the server sends.

    They are forked from this process, which has imported everything and started nothing.
    """
    context = multiprocessing.get_context("fork")
    (inbox, outbox), ports = context.Pipe(duplex=False), context.SimpleQueue()
    processes = [context.Process(target=server, args=(outbox, ports, *arguments))]
    processes += [context.Process(target=work, args=(ports, i)) for i in range(workers)]
    for process in processes:
        process.start()
    ready = connection.wait([inbox, processes[0].sentinel], timeout=60)
    found = inbox.recv() if inbox in ready else None
    for process in processes:
        process.join(10 if found is not None else 0)
        if process.is_alive():
            process.kill()
    if found is None:
        raise SystemExit("the server ended without an answer, or gave none in a minute")
    return found


def serve(run) -> None:
    """Answer "d workers seconds updates" with what run(d, workers, seconds) returns; end with the input."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not look like an answer
    for line in sys.stdin:
        d, workers, seconds = line.split()
        answers.write(json.dumps(run(int(d), int(workers), float(seconds))) + "\n")
        answers.flush()
