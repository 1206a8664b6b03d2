"""One curve on axes: a mean with its band, or the pace of a run of which nothing was measured; a run in a notebook."""

from __future__ import annotations

from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.foundations import check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from siag.foundations.types import Floats, Integers
    from siag.simulation.run import Run

LABELS = {"t": "iteration t", "time": "time", "samples": "gradients computed", "bytes": "bytes sent"}
SECONDS = "seconds"
WIDE = 56  # characters of a title that fit above a figure
NO_ERROR = "no loss was recorded: this is the pace of the run"
NO_STEP = "no step was taken"
NO_NUMBER = "diverged before the first point"


def draw(run: Run, ax: Axes | None = None, x: str | None = None, **style: Any) -> Axes:
    """The mean error of a run against x, both logarithmic, and a band of two standard errors around it.

    Without an error, its pace. A loss that is negative somewhere gets a linear axis.
    """
    if x is not None:
        check.choice("x", x, tuple(LABELS))
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
        label(run, ax, x)
    if run.measure:
        _draw_error(run, ax, "t" if x is None else x, style)
    elif ax.has_data():  # errors of others: numbers of another kind do not belong there
        ax.plot([], [], **style)
    else:
        _draw_pace(run, ax, x, style)
    return ax


def label(run: Run, ax: Axes, x: str | None = None) -> None:
    """Say on both axes what `draw` shows, and in the title what was run."""
    along, up = _shown(run, x)
    ax.set_xlabel(name_of(run, along))
    ax.set_ylabel(name_of(run, up))
    facts = [str(run.about[key]) for key in ("method", "activity") if key in run.about]
    ax.set_title(("\n" if len(" · ".join(facts)) > WIDE else " · ").join(facts))


def _shown(run: Run, x: str | None) -> tuple[str, str]:
    """The columns of the table that are drawn, right and up."""
    if run.measure:
        return "t" if x is None else x, "error"
    along = "time" if x is None else x
    return along, "t" if along in ("samples", "bytes") else "samples"


def name_of(run: Run, column: str) -> str:
    """What a column is; a live run's time is in seconds."""
    if column == "error":
        return run.measure + (", mean over repeats" if run.repeats > 1 else "")
    return SECONDS if column == "time" and "ended" in run.about else LABELS[column]


def _draw_error(run: Run, ax: Axes, x: str, style: dict[str, Any]) -> None:
    along = run.table()[x]
    shown = (along > 0) & np.isfinite(run.mean)
    t, mean = along[shown], run.mean[shown]
    negative = bool((mean < 0).any())
    ax.set_xscale("log")
    ax.set_yscale("linear" if negative else "log")
    (line,) = ax.plot(t, mean, **_visible(t, style))
    if not t.size:
        _note(ax, NO_STEP if run.t[-1] == run.t[0] else NO_NUMBER)
    else:
        band(ax, t, mean, run.standard_error[shown], line.get_color())


def band(ax: Axes, x: Floats | Integers, mean: Floats, standard_error: Floats, color: Any) -> None:
    """Two standard errors around a mean; nothing where there are none, as of a single run."""
    if not np.isfinite(standard_error).any():
        return
    half = 2.0 * standard_error
    low = mean - half if (mean < 0).any() else np.maximum(mean - half, mean * 1e-3)  # a logarithmic axis has no zero
    ax.fill_between(x, low, mean + half, color=color, alpha=0.25, linewidth=0)


def _draw_pace(run: Run, ax: Axes, x: str | None, style: dict[str, Any]) -> None:
    along, up = (run.table()[column] for column in _shown(run, x))
    ax.plot(along, up, **_visible(along, style))
    _note(ax, NO_STEP if run.t[-1] == run.t[0] else NO_ERROR)


def _visible(points: Floats | Integers, style: dict[str, Any]) -> dict[str, Any]:
    """A line of one point needs a mark to be seen."""
    return {"marker": "o", **style} if points.size == 1 else style


def _note(ax: Axes, text: str) -> None:
    """A line of text where a curve that rises leaves room."""
    ax.text(0.02, 0.97, text, transform=ax.transAxes, va="top", style="italic")


def as_html(run: Run) -> str:
    """A run for a notebook: a small table, and the curve as a picture within the text."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.2), layout="constrained")
    ax = figure.subplots()
    label(run, ax)
    ax.set_title("")
    draw(run, ax)
    picture = StringIO()
    figure.savefig(picture, format="svg")
    _, _, drawing = picture.getvalue().partition("<svg")
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(key)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for key, value in run.summary().items()
    )
    return f"<table>{cells}</table><svg{drawing}"
