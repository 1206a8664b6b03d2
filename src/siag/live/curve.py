"""What is kept of a live run: a curve, as a simulation has one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from siag.foundations.errors import SiagError
from siag.foundations.schedule import points
from siag.foundations.types import Floats
from siag.live.task import last_words
from siag.live.until import Until
from siag.simulation import Run

GROWTH = 1.05  # without a last iteration to aim at, the next point of the curve is so much further, at first
FURTHEST = 100.0  # and no further than this in the end
REFRESH = 1.0  # seconds after which w is measured again, for whoever watches
SHARE = 0.01  # of all time that may take


class Curve:
    """Collects the points of a live run's curve, and keeps what was last measured fresh.

    Args:
        until: when the run will end, as far as is known.
        record: how many points to keep, about.
        measure: what to write down of w: the error, the loss; `None`: nothing is known of it.
        clock: by which the measure is timed.
    """

    def __init__(
        self,
        until: Until,
        record: int,
        measure: Callable[[Floats], float] | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._measure, self._most, self._growth, self._clock = measure, 2 * record + 2, GROWTH, clock
        self._open = not until.iterations
        ahead = points(until.iterations, record).tolist() if until.iterations else []
        self._ahead: list[int] = ahead[::-1]
        self._rows: list[tuple[int, float, int, float, int]] = []
        self._apart = REFRESH  # seconds after which an open end gets a point in any case
        self._measured, self._measured_at, self._cost = -1, 0.0, 0.0
        self.next = 0
        self.latest: float | None = None
        self.trouble: str | None = None  # why w cannot be measured

    @property
    def measures(self) -> bool:
        """Whether it looks at w at all."""
        return self._measure is not None

    @property
    def begun(self) -> bool:
        """Whether it has a point."""
        return bool(self._rows)

    def saved(self) -> dict[str, Any]:
        """What outlives the server, ready for JSON."""
        rows = [(t, None if math.isnan(value) else value, *rest) for t, value, *rest in self._rows]
        return {"rows": rows, "growth": self._growth, "apart": self._apart}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on with the curve of an earlier server; points that are behind are not written down again."""
        self._growth, self._apart = float(saved["growth"]), float(saved["apart"])
        self._rows = [
            (int(t), math.nan if value is None else float(value), int(reports), float(seconds), int(skips))
            for t, value, reports, seconds, skips in saved["rows"]
        ]
        if self._rows:
            version, value, _, seconds, _ = self._rows[-1]
            self._measured, self._measured_at = version, seconds
            self.latest = None if math.isnan(value) else value
            self._aim_after(version)

    def note(
        self,
        version: int,
        w: Floats | None,
        reports: int,
        seconds: float,
        measured: float | None = None,
        skips: int = 0,
    ) -> None:
        """Write down a point, if it is time: `version` has reached `next`. `skips` of the reports sent nothing.

        Without w, which only the measure looks at, it is the one last measured.
        """
        self._look_at(w, version, seconds, measured)
        value = float("nan") if self.latest is None else self.latest
        if self._rows and self._rows[-1][0] == version:
            self._rows.pop()
        self._rows.append((version, value, reports, seconds, skips))
        if len(self._rows) > self._most:  # an open end is far: every second point will do
            self._rows[1:-1] = self._rows[2:-1:2]
            self._growth = min(self._growth**2, FURTHEST)
            self._apart *= 2
        self._aim_after(version)

    def due(self, version: int, seconds: float) -> bool:
        """Whether w was measured long ago."""
        return version != self._measured and seconds - self._measured_at >= max(REFRESH, self._cost / SHARE)

    def refresh(self, version: int, w: Floats | None, reports: int, seconds: float, skips: int = 0) -> None:
        """Measure w if that was long ago; with an open end this may be a point of the curve, too.

        The points of a run with a known end are those of a simulation, and no others.
        """
        if not self.due(version, seconds):
            return
        if self._open and self._rows and seconds - self._rows[-1][3] >= self._apart:
            self.note(version, w, reports, seconds, skips=skips)
        else:
            self._look_at(w, version, seconds)

    def _aim_after(self, version: int) -> None:
        """Find where the next point is."""
        while self._ahead and self._ahead[-1] <= version:
            self._ahead.pop()
        self.next = self._ahead[-1] if self._ahead else max(version + 1, int(version * self._growth))

    def _look_at(self, w: Floats | None, version: int, seconds: float, measured: float | None = None) -> None:
        self._measured, self._measured_at = version, seconds
        if self._measure is None:
            return
        if measured is not None:
            self.latest = measured
        elif w is not None:
            began = self._clock()
            try:
                self.latest, self.trouble = float(self._measure(w)), None
            except Exception as error:  # whatever a user's loss raises
                if not self._rows:  # it never worked: a mistake
                    raise
                self.latest, self.trouble = None, self.trouble or _reason(error)
            self._cost = self._clock() - began

    def run(self, w: Floats, diverged: int, about: dict[str, Any], gradients: int = 1) -> Run:
        """The curve as a run, a report being made of so many gradients."""
        t, value, reports, seconds, skips = (np.array(column) for column in zip(*self._rows, strict=True))
        reports, skips = reports.astype(np.int64)[None], skips.astype(np.int64)[None]
        return Run(
            t.astype(np.int64),
            value.astype(float)[None],
            gradients * reports,
            seconds.astype(float)[None],
            w.copy()[None],
            np.array([diverged], np.int64),
            about,
            reports,
            reports - skips,
        )


def _reason(error: Exception) -> str:
    """Why a loss has failed; where siag has put that into words, what the user's code raised."""
    return last_words(error.__cause__ if isinstance(error, SiagError) and error.__cause__ else error)
