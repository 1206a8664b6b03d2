"""Boards with a past: workers of unequal speed, of which one stalls and one leaves."""

from concurrent.futures import Future

import numpy as np

from siag.live.monitor.dashboard.board import Board
from siag.server.status import Snapshot, State, WorkerView

MODEL = np.arange(5.0)


def worker(row, n, second):
    reports = int(1 + second * 100 / (1 + row))
    state = (
        State.STALLED if row == 1 and 5 <= second < 8 else State.LEFT if row == n - 1 and second > 8 else State.WORKING
    )
    share = 0.0 if state == State.LEFT else 1 / n
    told = {"loss": 2.0 / (1 + second) + 0.01 * row, "mean_age": 1.0 + row, "norm": 3.0, "share": share}
    return WorkerView(row, f"edge-{row}", state, reports, 100 / (1 + row), row, 0.1, 0, "", **told)


def moment(second, n=4, **changes):
    workers = tuple(worker(row, n, second) for row in range(n))
    reports = sum(each.reports for each in workers)
    given = {"target": 5000, "progressive": 2.0 / (1 + second), "step": 0.01, "length": 1.5}
    return Snapshot(reports, reports, 0, second, 208.0, (), workers, **given | changes)


def board(n=4, seconds=10):
    made = Board()
    made.begin({"method": "SIAG()", "problem": "gradient on streams", "activity": f"live, {n} workers", "d": 5})
    for tick in range(4 * seconds + 1):
        made.show(moment(tick / 4, n))
    made.event("worker edge-0 joined, row 0")
    made.read_model = copy_of_model
    return made


def copy_of_model():
    found = Future()
    found.set_result(MODEL)
    return found
