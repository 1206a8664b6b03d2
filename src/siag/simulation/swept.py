"""What a sweep has shown: a run for every combination, as one tidy table, a DataFrame or a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.foundations.errors import SiagError
from siag.foundations.frames import as_frame
from siag.foundations.types import Floats, Integers
from siag.simulation.parameters import Scalar, columns_of
from siag.simulation.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

ROLES = ("problem", "method", "activity", "step")
MANY = 6  # labels of a role that are printed


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """What a sweep has shown: a run for every combination, in the order of the grid.

    Attributes:
        runs: the runs.
        steps: the step of each, as it prints; "its own" of a method that found its steps itself.
        parameters: of each combination, those that are numbers or words: `problem.n`, `method.average`, `step.beta`,
            …; with `Tuned` those of the step that was found, `tuned.eta`, and whether it was at the edge of the search.
        labels: of each combination a short name for the problem, method, activity and step that were asked for.
    """

    runs: Sequence[Run]
    steps: Sequence[str]
    parameters: Sequence[Mapping[str, Scalar]]
    labels: Sequence[Mapping[str, str]]

    def __repr__(self) -> str:
        """How large it is, what differs, and the range of errors at the end."""
        repeats = max((run.repeats for run in self.runs), default=0)
        each = f", {repeats} repeats each" if repeats > 1 else ""
        lines = [f"Sweep of {len(self.runs)} {'run' if len(self.runs) == 1 else 'runs'}{each}"]
        for role in ROLES:
            names = list(dict.fromkeys(label[role] for label in self.labels))
            more = [f"… {len(names)} in all"] if len(names) > MANY else []
            lines.append(f"  {role}: {', '.join([*names[:MANY], *more])}")
        ends = np.array([run.mean[-1] for run in self.runs])
        if np.isfinite(ends).any():
            best = int(np.nanargmin(ends))
            what = " × ".join(self.labels[best][role] for role in self.varying) or "the only one"
            lines.append(f"  {self.runs[best].measure}: from {ends[best]:.4g} ({what}) to {np.nanmax(ends):.4g}")
        wrong = sum(bool((run.diverged >= 0).any()) for run in self.runs)
        return "\n".join([*lines, *([f"  diverged: {wrong} of {len(self.runs)}"] if wrong else [])])

    @property
    def varying(self) -> list[str]:
        """Those of problem, method, activity and step of which there is more than one."""
        return [role for role in ROLES if len({label[role] for label in self.labels}) > 1]

    def table(self) -> dict[str, np.ndarray[Any, Any]]:
        """One tidy table: a row for every combination and recorded point.

        The first columns are problem, method, activity and step as they print. Those after `diverged` are their
        parameters; where a part has no such parameter, the number is NaN and the word is empty. Then comes the curve.
        """
        columns: dict[str, list[Any]] = {}
        own = columns_of(self.parameters)
        curves: list[Mapping[str, Floats | Integers]] = [run.table() for run in self.runs]
        measured = dict.fromkeys(name for curve in curves for name in curve)  # not all of them of every run
        for k, (run, step, curve) in enumerate(zip(self.runs, self.steps, curves, strict=True)):
            facts = {name: run.about[name] for name in ROLES} | {"step": step}
            facts |= {name: run.about[name] for name in ("repeats", "seed")}
            facts |= {"diverged": int((run.diverged >= 0).sum())}
            facts |= {name: values[k] for name, values in own.items()}
            for name, value in facts.items():
                columns.setdefault(name, []).extend([value] * len(run.t))
            for name in measured:
                columns.setdefault(name, []).extend(curve[name].tolist() if name in curve else [np.nan] * len(run.t))
        return {name: np.array(values) for name, values in columns.items()}

    def to_frame(self) -> DataFrame:
        """`table` as a `pandas.DataFrame`."""
        return as_frame(self.table())

    def plot(self, ax: Axes | None = None, x: str = "t", by: str | Sequence[str] | None = None, **style: Any) -> Axes:
        """Draw all runs, each the mean over its repeats with a band of 2 standard errors; return the axes.

        Colours are for the values of `by`, line styles for whatever else differs, and the legend has both.

        Args:
            ax: where to draw; its labels are left alone. By default new axes with labels.
            x: "t", "time", "samples" or "bytes" for curves; or a parameter that is a number, such as "problem.n":
                then the error at the end is drawn against it.
            by: "problem", "method", "activity" or "step", a parameter such as "method.average", or several of these;
                by default the method if there are several, else the first that differs.
            style: as of matplotlib's `plot`.

        Example:
            >>> import siag
            >>> problems = [siag.problems.LeastSquares.random(n=n, d=3, p=2, noise=0.1) for n in (5, 10, 20)]
            >>> parts = siag.methods.SIAG(), siag.activity.Uniform(3), siag.steps.Harmonic(1.0, 100)
            >>> ax = siag.sweep(problems, *parts, iterations=200, repeats=2).plot(x="problem.n")
            >>> ax.get_xlabel(), len(ax.lines[0].get_xdata())
            ('problem.n', 3)
        """
        from siag.simulation.plot_sweep import draw_sweep

        return draw_sweep(self, ax, x, by, style)


class Incomplete(SiagError):
    """Some combinations of a sweep have failed; all others are finished.

    Attributes:
        failed: why, by combination.
        sweep: the others.
    """

    def __init__(self, failed: Mapping[str, str], sweep: Sweep, where: str = "") -> None:
        self.failed, self.sweep, self._where = dict(failed), sweep, where
        total = len(failed) + len(sweep.runs)
        rest = f"; the others are finished{where}" if sweep.runs else ""
        lines = [f"{len(failed)} of {total} combinations failed{rest}:"]
        super().__init__("\n".join([*lines, *(f"{name}: {reason}" for name, reason in failed.items())]))

    def __reduce__(self) -> tuple[type[Incomplete], tuple[object, ...]]:
        """It travels between processes with its parts."""
        return type(self), (self.failed, self.sweep, self._where)
