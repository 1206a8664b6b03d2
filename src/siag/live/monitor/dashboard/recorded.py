"""A board over a saved trace: the run at any moment of it."""

from __future__ import annotations

import math
from concurrent.futures import Future
from typing import Any

import numpy as np

from siag.activity.trace import FORGOTTEN, WEIGHED, Trace
from siag.foundations.types import Floats, Integers
from siag.live.monitor.dashboard.board import Board
from siag.live.monitor.dashboard.history import SHOWN, most_columns
from siag.live.monitor.dashboard.messages import now_of, row_of
from siag.server.gauges import kind_of, shares
from siag.server.ledger import WINDOW
from siag.server.members import LONGEST, PATIENCE, RECENT, USUAL
from siag.server.status import Snapshot, State, WorkerView
from siag.simulation import Run


class Recorded(Board):
    """A run that is over, as its trace tells it.

    Args:
        trace: who reported when.
        alike: whether the method counts all workers the same; `None`: that is not known.
        run: the same run again, for its curve and its model, if there is one.
        weights: (n,) what workers count for beside others, or "samples"; `None`: the same.
    """

    slider = True

    def __init__(
        self, trace: Trace, alike: bool | None = None, run: Run | None = None, weights: Floats | str | None = None
    ) -> None:
        super().__init__()
        self._weights = weights
        self._trace, self._alike, self._again = trace, alike, run
        self._n = int(trace.about.get("workers", int(trace.worker.max(initial=-1)) + 1))
        self._seconds = float(trace.seconds[-1]) if len(trace.seconds) else 0.0
        is_report = np.isnan(trace.factor)
        self._of = [np.flatnonzero(is_report & (trace.worker == row)) for row in range(self._n)]
        self._faded = [np.flatnonzero((trace.factor >= 0) & (trace.worker == row)) for row in range(self._n)]
        self._weighed = np.flatnonzero(trace.factor == WEIGHED)
        self._usual = [self._habit(places) for places in self._of]
        self._sums = [_running(np.zeros(0) if trace.loss is None else trace.loss[places]) for places in self._of]
        self._ages = [_running((trace.version - trace.stamp)[places].astype(float)) for places in self._of]
        self.begin(trace.about)
        self._tell()
        for moment in np.linspace(0.0, self._seconds, most_columns(min(self._n, SHOWN)) + 1):
            self.show(self.moment(float(moment)))
        self.end()
        if run is not None:
            w = np.array(run.w[0])
            self.read_model = lambda: _known(w)

    @property
    def more(self) -> dict[str, Any]:
        """What the page must know of the board itself."""
        return super().more | {"slider": {"end": self._seconds}}

    def at(self, seconds: float) -> dict[str, Any] | None:
        """All there is to see at a moment."""
        if not 0.0 <= seconds < math.inf:
            return None
        snapshot = self.moment(seconds)
        rows = [[worker.row, *row_of(worker)] for worker in snapshot.workers[:SHOWN]]
        return {"run": self.run, "now": now_of(snapshot), "rows": rows}

    def moment(self, seconds: float) -> Snapshot:
        """How things stood after so many seconds."""
        trace = self._trace
        lines = int(np.searchsorted(trace.seconds, seconds, "right"))
        over = lines == len(trace.seconds)
        version = trace.versions if over else int(trace.version[lines - 1]) + 1 if lines else 0
        done = [int(np.searchsorted(places, lines)) for places in self._of]
        gone = [self._is_gone(row, lines, count) for row, count in enumerate(done)]
        weights = self._now(done, lines)
        parts = self._shares(done, gone, weights)
        counts = [1.0] * self._n if weights is None else weights.tolist()
        views = tuple(
            self._view(row, done[row], version, seconds, gone[row], parts[row], counts[row]) for row in range(self._n)
        )
        since = int(np.searchsorted(trace.seconds, seconds - 1.0))
        steps = version - (int(trace.version[since - 1]) + 1 if since else 0)
        return Snapshot(
            version=version,
            reports=sum(done),
            refused=0,
            seconds=seconds,
            rate=steps / min(max(seconds, 1e-9), 1.0) if steps else 0.0,
            ages=(),
            workers=views,
            target=trace.versions,
            loss=self._error(version),
            progressive=self._progressive(views, weights),
            done=over,
            alike=self._alike is not False,
            weights=kind_of(self._weights),
        )

    def _shares(self, done: list[int], gone: list[bool], weights: Floats | None) -> list[float]:
        if self._alike is None or not sum(done):
            return [math.nan] * self._n
        return shares(self._alike, done, [0.0 if out else 1.0 for out in gone], weights)

    def _now(self, done: list[int], lines: int) -> Floats | None:
        """(n,) what each counts for beside others, after so many reports, and lines in which relays say it."""
        weights = np.array(done, float) if isinstance(self._weights, str) else self._weights
        said = self._weighed[self._weighed < lines]
        if len(said) and self._trace.loss is not None:
            weights = np.ones(self._n) if weights is None else weights.copy()
            weights[self._trace.worker[said]] = self._trace.loss[said]  # the last one of each
        return weights

    def _progressive(self, views: tuple[WorkerView, ...], weights: Floats | None) -> float | None:
        """The mean of the workers' losses, weighted as the objective is."""
        told = [view for view in views if view.loss is not None and view.state != State.LEFT]
        each = np.ones(len(told)) if weights is None else weights[[view.row for view in told]]
        return float(np.average([view.loss for view in told], weights=each)) if each.any() else None

    def _view(
        self, row: int, count: int, version: int, seconds: float, gone: bool, share: float, weight: float
    ) -> WorkerView:
        trace, places = self._trace, self._of[row]
        last = int(places[count - 1]) if count else -1
        silent = seconds - float(trace.seconds[last]) if count else math.inf
        state = State.WORKING if count else State.EXPECTED
        if count and silent > self._usual[row]:
            state = State.STALLED
        recent = count - int(np.searchsorted(trace.seconds[places[:count]], seconds - RECENT))
        return WorkerView(
            row=row,
            name=str(row),
            state=State.LEFT if gone and count else state,  # rows that nobody has yet count for nothing, too
            reports=count,
            rate=recent / min(max(seconds, 1e-9), RECENT),
            age=version - int(trace.stamp[last]) if count else -1,
            silent=silent,
            refused=0,
            reason="",
            loss=_mean(self._sums[row], count, WINDOW),
            mean_age=_mean(self._ages[row], count, count) or 0.0 if count else math.nan,
            share=share,
            weight=weight,
        )

    def _is_gone(self, row: int, lines: int, count: int) -> bool:
        """Whether it had left, and has not reported since."""
        faded = self._faded[row]
        k = int(np.searchsorted(faded, lines))
        return bool(k) and (not count or faded[k - 1] > self._of[row][count - 1])

    def _habit(self, places: Integers) -> float:
        """Seconds of silence after which a worker counts as stalled."""
        gaps = np.diff(self._trace.seconds[places])
        return (
            max(PATIENCE, USUAL * float(np.median(gaps)), LONGEST * float(np.quantile(gaps, 0.99)))
            if len(gaps)
            else PATIENCE
        )

    def _error(self, version: int) -> float | None:
        """Of the run that was run again."""
        if self._again is None:
            return None
        k = int(np.searchsorted(self._again.t, version, "right")) - 1
        return float(self._again.error[0, max(k, 0)])

    def _tell(self) -> None:
        """Who left, who lost its memory, and who is a relay."""
        trace = self._trace
        for k in np.flatnonzero(~np.isnan(trace.factor)):
            row, factor = trace.worker[k], trace.factor[k]
            what = {FORGOTTEN: "has lost what it remembered", 0.0: "has left; its row counts no more"}.get(factor)
            if factor == WEIGHED and trace.loss is not None:
                what = f"is a relay, and counts for {trace.loss[k]:g}"
            if what is None or (factor == 0.0 and not (self._of[row] < k).any()):
                continue  # a row that fades does so many times; one that nobody has yet has not left
            self.note(float(trace.seconds[k]), f"worker {row} {what}")
        if self._again is None:
            self.note(self._seconds, "the run could not be run again, so the model and its loss are not shown")


def _running(values: Floats) -> tuple[Floats, Integers]:
    """Sums of the values so far that are known, and how many those are; each begins with 0."""
    known = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    return sums, np.concatenate([[0], np.cumsum(known)])


def _mean(running: tuple[Floats, Integers], count: int, window: int) -> float | None:
    """Of the last ones before `count`; `None` if none is known."""
    sums, known = running
    if len(sums) <= count:
        return None
    first = max(0, count - window)
    number = known[count] - known[first]
    return float((sums[count] - sums[first]) / number) if number else None


def _known(w: Floats) -> Future[Floats]:
    found: Future[Floats] = Future()
    found.set_result(w)
    return found
