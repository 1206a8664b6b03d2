"""What is kept of a live run: a curve, as a simulation has one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from siag.foundations.errors import SiagError
from siag.foundations.last_words import last_words
from siag.foundations.schedule import points
from siag.foundations.types import Floats
from siag.live.until import Until
from siag.server.parameter_server import ParameterServer
from siag.simulation import Run
from siag.simulation.metrics import PROGRESSIVE, as_curve, checked_metric

COARSE = 1.1  # how much further the next point of the curve is, once it is in the last decade no longer
FURTHEST = 100.0  # and no further than this in the end
REFRESH = 1.0  # seconds after which w is measured again, for watchers
SHARE = 0.01  # of all time that may take


class Point(NamedTuple):
    """A point of the curve."""

    version: int
    value: float | None  # what was measured of w
    reports: int
    seconds: float
    skips: int  # of the reports, those that sent nothing
    progressive: float | None = None  # the workers' recent losses
    metrics: Sequence[Any] = ()  # what the user's own functions say of w, each a number, or one for each worker


class Curve:
    """Collects the points of a live run's curve, and keeps what was last measured fresh.

    Args:
        until: when the run will end, as far as is known.
        record: how many points to keep, about.
        measure: what to write down of w: the error, the loss; `None`: nothing is known of it.
        clock: by which the measure is timed.
        evaluate: the user's own metrics, functions of w by name.

    Attributes:
        until: as given.
        next: the version of the next point.
        latest: what was last measured.
        metrics: the same of the user's own.
        trouble: why w cannot be measured.
    """

    def __init__(
        self,
        until: Until,
        record: int,
        measure: Callable[[Floats], float] | None,
        clock: Callable[[], float] = time.perf_counter,
        evaluate: Mapping[str, Callable[[Floats], Any]] | None = None,
    ) -> None:
        self.until, self._measure, self._clock, self._evaluate = until, measure, clock, dict(evaluate or {})
        self._most, self._growth = 2 * record + 2, 1.0 + 2.0 / record
        self._open = not until.iterations
        self._ahead: list[int] = points(until.iterations, record).tolist()[::-1] if until.iterations else []
        self._points: list[Point] = []
        self._apart = REFRESH  # seconds after which an open end gets a point in any case
        self._measured, self._measured_at, self._cost = -1, 0.0, 0.0
        self.next = 0
        self.latest: float | None = None
        self.metrics: dict[str, Any] = {}
        self.trouble: str | None = None

    @property
    def begun(self) -> bool:
        """Whether it has a point."""
        return bool(self._points)

    @property
    def seconds(self) -> float:
        """When its last point was."""
        return self._points[-1].seconds if self._points else 0.0

    def saved(self) -> dict[str, Any]:
        """What outlives the server, ready for JSON."""
        return {"rows": self._points, "growth": self._growth, "apart": self._apart}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on with the curve of an earlier server; points that are behind are not written down again."""
        self._growth, self._apart = float(saved["growth"]), float(saved["apart"])
        self._points = [Point(*row) for row in saved["rows"]]
        if self._points:
            last = self._points[-1]
            self._measured, self._measured_at = last.version, last.seconds
            self.latest = last.value
            self._aim_after(last.version)

    def note(self, server: ParameterServer, now: float, diverged: bool = False) -> None:
        """Write down a point; after a divergence there is nothing to measure."""
        version, seconds = server.version, server.seconds(now)
        self._look_at(server, seconds, diverged)
        if self._points and self._points[-1].version == version:
            self._points.pop()
        told = server.gauges.progressive_loss
        found = tuple(self.metrics.values())
        self._points.append(Point(version, self.latest, server.reports, seconds, server.skips, told, found))
        if len(self._points) > self._most:  # an open end is far
            self._thin()
        self._aim_after(version)

    def refresh(self, server: ParameterServer, now: float) -> None:
        """Measure w if that was long ago; with an open end this may be a point of the curve, too.

        The points of a run with a known end are those of a simulation, and no others.
        """
        seconds = server.seconds(now)
        if server.version == self._measured or seconds - self._measured_at < max(REFRESH, self._cost / SHARE):
            return
        if self._open and self._points and seconds - self._points[-1].seconds >= self._apart:
            self.note(server, now)
        else:
            self._look_at(server, seconds)

    def _thin(self) -> None:
        """Keep the last decade fine, and of what is before it a point for every tenth more; if need be, fewer."""
        begin, coarse = self._points[-1].version / 10, COARSE
        while len(self._points) > self._most * 7 // 8:
            kept = self._points[:1]
            for point in self._points[1:]:
                if point.version >= min(begin, kept[-1].version * coarse):
                    kept.append(point)
            if coarse > COARSE:
                late = next(k for k, point in enumerate(kept) if point.version >= begin)
                kept[late:-1] = kept[late + 1 : -1 : 2]
                self._growth, self._apart = min(self._growth**2, FURTHEST), 2 * self._apart
            self._points, coarse = kept, coarse**2

    def _aim_after(self, version: int) -> None:
        """Find where the next point is."""
        while self._ahead and self._ahead[-1] <= version:
            self._ahead.pop()
        self.next = self._ahead[-1] if self._ahead else max(version + 1, int(version * self._growth))

    def _look_at(self, server: ParameterServer, seconds: float, diverged: bool = False) -> None:
        self._measured, self._measured_at = server.version, seconds
        if self._measure is None and not self._evaluate:
            return
        if diverged:
            self.latest = None if self._measure is None else math.nan
            self.metrics = dict.fromkeys(self._evaluate, math.nan)
            return
        began = self._clock()
        try:
            w = server.w
            self.latest = None if self._measure is None else float(self._measure(w))
            self.metrics = {name: _metric(name, function, w, server.n) for name, function in self._evaluate.items()}
            self.trouble = None
        except Exception as error:  # whatever a user's function raises
            if not self._points:  # it never worked: a mistake
                raise
            self.latest, self.metrics = None, dict.fromkeys(self._evaluate, math.nan)
            self.trouble = self.trouble or _reason(error)
        self._cost = self._clock() - began

    def run(self, w: Floats, diverged: int, about: dict[str, Any], gradients: float = 1.0) -> Run:
        """The curve as a run, of reports that took `gradients` each, on average."""
        t, value, reports, seconds, skips, progressive, metrics = zip(*self._points, strict=True)
        found = {name: [row[k] if row else math.nan for row in metrics] for k, name in enumerate(self._evaluate)}
        if any(each is not None for each in progressive):
            found[PROGRESSIVE] = progressive
            if self._measure is None:
                value, about = progressive, about | {"measure": PROGRESSIVE}
        accepted = np.array([reports], np.int64)
        return Run(
            np.array(t, np.int64),
            np.array([value], float),
            np.rint(gradients * accepted).astype(np.int64),
            np.array([seconds], float),
            w.copy()[None],
            np.array([diverged], np.int64),
            about,
            accepted,
            accepted - np.array([skips], np.int64),
            {name: as_curve(values)[None] for name, values in found.items()},
        )


def _metric(name: str, function: Callable[[Floats], Any], w: Floats, n: int) -> float | list[float]:
    """What a user's metric says of w; what it raises becomes one line."""
    try:
        said = function(w)
    except Exception as error:  # whatever the user's code raises
        raise SiagError(f"evaluate[{name!r}] raised {last_words(error)}") from None
    found = checked_metric(name, said)
    if isinstance(found, list) and len(found) != n:
        what = f"evaluate[{name!r}] returned {len(found)} numbers"
        raise SiagError(f"{what}; it must return one, or one for each of the {n} workers")
    return found


def _reason(error: Exception) -> str:
    """Why a loss or a metric has failed, in one line; where siag has worded that, what the user's code raised."""
    cause = error.__cause__ if isinstance(error, SiagError) else error
    return str(error) if cause is None else last_words(cause)
