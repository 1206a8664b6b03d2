"""What a comparison has shown: a table at equal budgets, curves, and how to write them down."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.activity import Activity, Timed
from siag.experiments.comparison.contenders import Contender
from siag.experiments.comparison.memory import memory
from siag.foundations.files import writable_folder, write_text
from siag.foundations.frames import as_frame
from siag.foundations.types import Floats
from siag.problems import Problem
from siag.report import Columns, write_csv
from siag.simulation import Run
from siag.simulation.metrics import WORDS, known_of
from siag.simulation.tuning import WANE, Found

if TYPE_CHECKING:
    from pandas import DataFrame

AXES = {"iterations": "t", "samples": "samples", "bytes": "bytes", "time": "time"}
HEADINGS = {
    "activity": "activity",
    "method": "method",
    "eta": "η",
    "iterations": "error, same iterations",
    "samples": "same samples",
    "bytes": "same bytes",
    "time": "same time",
    "bias": "offset²",
    "bias_error": "± (2 s.e.)",
    "uploads": "uploads",
    "server": "server, bytes",
    "worker": "worker, bytes",
    "claims": "claims",
    "remark": "remark",
}


SHOWN = {
    "method": "method",
    "iterations": "= iterations",
    "samples": "= samples",
    "bytes": "= bytes",
    "time": "= time",
    "bias": "offset² ± 2 s.e.",
    "eta": "η",
    "uploads": "uploads",
    "server": "server, bytes",
    "worker": "worker, bytes",
    "claims": "claims",
}
NAMED = ("method", "claims")  # columns that are no numbers
LEGEND = (
    "Errors at the {axis} that all methods had, for which steps were found, and at what all had of the others. An "
    "exact gradient is no sample, and time is counted on clocks only, where K local steps take K times as long."
)
OFFSET = "offset² is ‖E w − w*‖² at the end, by a jackknife over the runs: bias, and what has not converged yet."
OF_CLAIMS = (
    "Claims: a method reaches what its paper proves, or is consistent with what its paper observed; "
    "docs/reference/claims.md lists what was put to the test, and what was not."
)
BARS = 3  # runs of which the jackknife has a standard error
TWO_RUNS = "Two runs have no standard error, so offset² stands without one here; it takes three runs or more."
TINY = 1e-25  # of offset²: rounding
FIRST, PLACES = 4, 6  # methods and activities of a comparison that are printed


@dataclass(frozen=True, eq=False, repr=False)
class Entry:
    """One method under one activity.

    Attributes:
        contender: the method.
        activity: the name of the activity.
        reason: why it could not run, or failed; nothing if it did neither.
        tuned: the search for its step.
        run: what it did.
        failed: whether it could run, but code of the user's failed.
    """

    contender: Contender
    activity: str
    reason: str
    tuned: Found | None = None
    run: Run | None = None
    failed: bool = False

    def __repr__(self) -> str:
        """Who, where, and with what result."""
        if self.tuned is None or self.run is None:
            return f"Entry({self.contender.name}, {self.activity}: {self.reason})"
        return f"Entry({self.contender.name}, {self.activity}: η = {self.tuned.eta:.3g}, error {self.run.mean[-1]:.3g})"

    def along(self, axis: str) -> Floats:
        """(points,) what had been spent, on average, at each point of the curve."""
        if self.run is None:
            return np.zeros(1)
        spent = np.asarray(getattr(self.run, AXES[axis]), float)
        return spent if axis == "iterations" else np.asarray(spent.mean(axis=0))

    @property
    def timed(self) -> bool:
        """Whether its time is more than the number of iterations."""
        return self.run is not None and not np.array_equal(self.run.time[0], self.run.t)

    @property
    def remark(self) -> str:
        """What must be said of it."""
        if self.reason or self.tuned is None or self.run is None:
            return self.reason
        if (self.run.diverged >= 0).any():
            return f"{int((self.run.diverged >= 0).sum())} of {self.run.repeats} runs diverged"
        if self.contender.elsewhere:
            return "it minimises F and a regulariser; its error is measured from the minimiser of F"
        return "η at the edge of the search" if self.tuned.edge else ""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Methods and activities on one problem.

    Attributes:
        problem: the problem.
        entries: one for every method and activity.
        rule: how steps were found, in words.
        claims: by contender, whether it reaches what its paper proves, and is consistent with what it observed.
        places: the activities by name.
        axis: what all methods had the same of, as far as they could; steps were found for the end of that.
    """

    problem: Problem
    entries: tuple[Entry, ...]
    rule: str
    claims: Mapping[str, str]
    places: Mapping[str, Activity]
    axis: str = "iterations"

    def __repr__(self) -> str:
        """What was compared, and who comes first under each activity."""
        count, places = len({entry.contender.name for entry in self.entries}), self.activities
        lines = [f"Comparison of {count} methods at equal {self.axis}", f"  problem: {self.problem!r}"]
        for activity in places[:PLACES]:
            rows = best_first(map(self.row, self.ran(activity)), self.axis)
            axis = self.axis if rows and not math.isnan(rows[0][self.axis]) else "iterations"
            first = [f"{row['method']} {cell(axis, row)}" for row in rows[:FIRST]]
            more = [f"… {len(rows)} in all"] if len(rows) > FIRST else []
            lines.append(f"  {activity}: {', '.join([*first, *more]) or 'none could run'}")
        return "\n".join([*lines, *([f"  … {len(places)} activities in all"] if len(places) > PLACES else [])])

    @property
    def legend(self) -> str:
        """What the columns are."""
        few = any(entry.run is not None and entry.run.repeats < BARS for entry in self.entries)
        parts = [LEGEND.format(axis=self.axis)]
        if self.problem.optimum is None:
            parts.append(f"No optimum is known: errors are {self.measure}.")
        else:
            parts += [OFFSET, TWO_RUNS] if few else [OFFSET]
        return " ".join([*parts, *([OF_CLAIMS] if self.claims else [])])

    @property
    def measure(self) -> str:
        """What errors are."""
        return "‖w − w*‖²" if self.problem.optimum is not None else WORDS[known_of(self.problem)[0]]

    @property
    def compared(self) -> dict[str, dict[str, str]]:
        """What was compared: every method with its parameters and the η found for it, and every activity."""
        own: dict[str, list[Entry]] = {}
        for entry in self.entries:
            own.setdefault(entry.contender.name, []).append(entry)
        return {
            "methods": {name: abridged(_printed(entries)) for name, entries in own.items()},
            "activities": {name: abridged(repr(self.places[name])) for name in self.activities},
        }

    @property
    def activities(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(entry.activity for entry in self.entries))

    @property
    def shown(self) -> dict[str, str]:
        """The columns people read, with their headings; that of claims only if any were put to the test."""
        shown = {name: heading for name, heading in SHOWN.items() if name != "claims" or self.claims}
        return shown | {name: name for name in self.metrics}

    @property
    def metrics(self) -> list[str]:
        """The names of the user's own metrics."""
        return list(next((entry.run.metrics for entry in self.entries if entry.run is not None), {}))

    def ran(self, activity: str) -> list[Entry]:
        """Those that could run under an activity."""
        return [entry for entry in self.entries if entry.activity == activity and entry.run is not None]

    @cached_property
    def budgets(self) -> dict[str, dict[str, float]]:
        """By activity and axis: what every method had at least, so that all can be read there."""
        return {
            activity: {axis: min(self._spent(activity, axis), default=0.0) for axis in AXES}
            for activity in self.activities
        }

    def _spent(self, activity: str, axis: str) -> list[float]:
        """By each method at the end; if some have a place along the axis, by these."""
        ran, place = self.ran(activity), self.places[activity]
        placed = [entry for entry in ran if not no_place(entry.contender, self.problem, place, axis)]
        return [float(entry.along(axis)[-1]) for entry in placed or ran]

    def table(self) -> Columns:
        """A row for every method and activity; NaN where there is no number."""
        rows = [self.row(entry) for entry in self.entries]
        return {name: [row[name] for row in rows] for name in (*HEADINGS, *self.metrics)}

    def to_frame(self) -> DataFrame:
        """`table` as a `pandas.DataFrame`; `pandas.DataFrame(found.curves())` has the curves."""
        return as_frame(self.table())

    def unplaced(self, activity: str) -> list[str]:
        """Who has no place along the axis under an activity, and why; a line for each reason."""
        why: dict[str, list[str]] = {}
        for entry in self.ran(activity):
            if reason := no_place(entry.contender, self.problem, self.places[activity], self.axis):
                why.setdefault(reason, []).append(entry.contender.name)
        count, tail = len(self.ran(activity)), "not ranked there, but by the error after all iterations"
        return [
            f"{', '.join(names) if len(names) < count else 'all methods'}: {reason}; {tail}"
            for reason, names in why.items()
        ]

    def curves(self) -> Columns:
        """All curves, a row for every point: mean error against iterations, samples, bytes and time."""
        columns: dict[str, list[Any]] = {}
        for entry in self.entries:
            if entry.run is not None:
                table = entry.run.table()
                columns.setdefault("activity", []).extend([entry.activity] * len(entry.run.t))
                columns.setdefault("method", []).extend([entry.contender.name] * len(entry.run.t))
                for name, values in table.items():
                    columns.setdefault(name, []).extend(values.tolist())
        return columns

    def markdown(self) -> str:
        """The tables as Markdown, one for each activity, the best error first."""
        parts = [f"Problem: {self.problem!r}.", self.rule, self.legend]
        for activity in self.activities:
            rows = [self.row(entry) for entry in self.entries if entry.activity == activity]
            shown = self.shown
            sides = ("---" if name in NAMED else "---:" for name in shown)
            lines = ["| " + " | ".join(shown.values()) + " |", "|" + "|".join(sides) + "|"]
            lines += [
                "| " + " | ".join(cell(name, row) for name in shown) + " |" for row in best_first(rows, self.axis)
            ]
            notes = [f"- {note}" for note in self.unplaced(activity)]
            notes += [f"- {row['method']}: {row['remark']}" for row in rows if row["remark"]]
            budget = self.budgets[activity]
            timed = any(entry.timed for entry in self.ran(activity))
            same = ", ".join(f"{budget[axis]:,.0f} {axis}" for axis in AXES if timed or axis != "time")
            parts += [f"## {activity}", "\n".join(lines), f"Compared at {same}.", "\n".join(notes)]
        lines = [f"- {name}: `{text}`" for each in self.compared.values() for name, text in each.items()]
        parts += ["## What was compared", "\n".join(lines)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write the page, tables, curves and figures to a folder; return the page."""
        from siag.experiments.comparison.figures import chapters
        from siag.report import write_report

        place = writable_folder("out", folder)
        write_text(place / "compare.md", self.markdown())
        facts = {"problem": repr(self.problem)}
        page = write_report(place, "Methods compared", facts, chapters(self), name="compare.html", paper=False)
        write_csv(place / "compare.csv", self.table())
        return page

    def row(self, entry: Entry) -> dict[str, Any]:
        """One row of the table."""
        nan = float("nan")
        row: dict[str, Any] = dict.fromkeys((*HEADINGS, *self.metrics), nan)
        row |= {"activity": entry.activity, "method": entry.contender.name, "remark": entry.remark}
        row["claims"] = self.claims.get(entry.contender.name, "")
        if entry.run is not None and entry.tuned is not None:
            row["eta"] = entry.tuned.eta if entry.tuned.tries else nan  # else it has found its steps itself
            place = self.places[entry.activity]
            for axis, budget in self.budgets[entry.activity].items():
                comparable = not no_place(entry.contender, self.problem, place, axis)
                row[axis] = error_at(entry, axis, budget) if comparable else nan
            if self.problem.optimum is not None:
                row["bias"], row["bias_error"] = bias(entry.run.w, self.problem.optimum)
            row["uploads"] = float(entry.run.uploads[:, -1].mean())
            row |= {name: float(entry.run.table()[name][-1]) for name in self.metrics}
        if not entry.failed:
            row["server"], row["worker"] = memory(entry.contender, self.problem)
        return row


def no_place(contender: Contender, problem: Problem, activity: Activity, axis: str) -> str:
    """Why a method cannot be ranked along an axis; nothing if it can."""
    if axis == "samples" and contender.exact(problem.n):
        return "an exact gradient is no sample"
    if axis == "bytes" and not any(contender.method.traffic(problem.d, problem.n)):
        return "it sends and reads nothing"
    if axis == "time" and not isinstance(activity, Timed):
        return "only a clock counts time"
    return ""


def error_at(entry: Entry, axis: str, budget: float) -> float:
    """The mean error at the last point within a budget."""
    if entry.run is None:
        return float("nan")
    within = np.flatnonzero(entry.along(axis) <= budget * (1.0 + 1e-9))
    return float(entry.run.mean[within[-1]])


def bias(w: Floats, optimum: Floats) -> tuple[float, float]:
    """‖E w − w*‖², from independent final iterates, and two standard errors of it by the jackknife.

    The mean of R iterates is off by noise, too, of which tr(cov)/R is expected; that much is taken off, so the result
    may be negative where there is no bias.
    """
    repeats = len(w)

    def square(rows: Floats) -> float:
        noise = float(rows.var(axis=0, ddof=1).sum()) / len(rows)
        return float(((rows.mean(axis=0) - optimum) ** 2).sum()) - noise

    if repeats < BARS:
        return square(w), float("nan")
    left_out = np.array([square(np.delete(w, k, axis=0)) for k in range(repeats)])
    return square(w), 2.0 * float(np.sqrt((repeats - 1) * left_out.var()))


def _printed(entries: list[Entry]) -> str:
    """A method as Python prints it, its step, and the η of all activities."""
    contender, ran = entries[0].contender, [entry for entry in entries if entry.tuned is not None]
    if not ran or ran[0].run is None:
        return f"{contender.method!r}; it ran nowhere"
    if not any(entry.tuned.tries for entry in ran if entry.tuned is not None):
        return repr(contender.method)  # it finds its steps itself
    etas = ", ".join(f"{entry.tuned.eta:.3g} ({entry.activity})" for entry in ran if entry.tuned is not None)
    return f"{contender.printed(float(ran[0].run.t[-1]) / WANE)}; η = {etas}"


def abridged(text: str) -> str:
    """The text without the middle of its long lists of numbers."""
    number = r"[\d.e+-]+"
    return re.sub(rf"({number}, {number}, )(?:{number}, ){{3,}}({number})", r"\1…, \2", text)


def best_first(rows: Iterable[dict[str, Any]], axis: str) -> list[dict[str, Any]]:
    """Those that ran, in the order of their errors along an axis; then those who have none there, by the last ones."""
    ran = [row for row in rows if not math.isnan(row["iterations"])]
    placed = sorted((row for row in ran if not math.isnan(row[axis])), key=lambda row: float(row[axis]))
    return [*placed, *sorted((row for row in ran if math.isnan(row[axis])), key=lambda row: float(row["iterations"]))]


def cell(name: str, row: Mapping[str, Any]) -> str:
    """An entry of the table as people read it."""
    value = row[name]
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "–"
    if name == "bias" and abs(value) < TINY:
        return "–"
    if name == "bias":
        return f"{value:.1e}" + ("" if math.isnan(row["bias_error"]) else f" ± {row['bias_error']:.0e}")
    if name not in HEADINGS:
        return f"{value:.4g}"
    return f"{value:,.0f}" if name in ("uploads", "server", "worker") else f"{value:.1e}"
