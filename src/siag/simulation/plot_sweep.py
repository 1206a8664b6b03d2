"""The runs of a sweep on one pair of axes: colours for what is compared, line styles for whatever else differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from siag.foundations.errors import BadInput, SiagError, Unsuitable
from siag.simulation.parameters import shown
from siag.simulation.plot import LABELS, band, name_of
from siag.simulation.swept import ROLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from siag.simulation.swept import Sweep

SIZE = (8.0, 4.8)  # inches
LINES: Sequence[Any] = ("-", "--", ":", "-.", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 4)))
CYCLE = 10  # colours that are easily told apart; more are shades
FEW = 6  # entries of a legend that leave room for the lines
SHADES = 8  # of many that the legend has
WIDE = 10.0  # from the largest to the smallest: more needs a logarithmic axis


class Line(NamedTuple):
    """Combinations that belong together: one, or where x is a parameter, one for each of its values."""

    color: str  # in words, what its colour stands for
    rest: str  # in words, what its style stands for
    which: list[int]  # combinations


def draw_sweep(sweep: Sweep, ax: Axes | None, x: str, by: str | Sequence[str] | None, style: dict[str, Any]) -> Axes:
    """See `Sweep.plot`."""
    if ax is not None:
        return _draw(sweep, ax, x, by, style, new=False)
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=SIZE, layout="constrained")
    try:
        return _draw(sweep, ax, x, by, style, new=True)
    except SiagError:
        pyplot.close(figure)
        raise


def figure_of(sweep: Sweep) -> Figure:
    """The curves as a figure of their own, for a file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    _draw(sweep, figure.subplots(), "t", None, {}, new=True)
    return figure


def _draw(sweep: Sweep, ax: Axes, x: str, by: str | Sequence[str] | None, style: dict[str, Any], *, new: bool) -> Axes:
    """Draw on axes, which are labelled if they are new."""
    if not sweep.runs:
        raise Unsuitable("this sweep has no run that could be drawn")
    along = _along(sweep, x)
    names = _compared(sweep, by, [x] if along else [])
    lines = _lines(sweep, names, x if along else "")
    colors, styles = _colors([line.color for line in lines]), _styles([line.rest for line in lines])
    for line in lines:
        look = {"color": colors[line.color], **styles[line.rest], **style}
        if along:
            _draw_ends(sweep, ax, along, line.which, look)
        else:
            sweep.runs[line.which[0]].plot(ax, x, **look)
    _scale(sweep, ax, along)
    if new:
        _label(sweep, ax, x, bool(along))
    _legend(ax, new, _entries(colors, styles))
    return ax


def column(sweep: Sweep, name: str) -> list[Any]:
    """Of every combination a parameter, or the label of its problem, method, activity or step; `None`: it has none."""
    return [label[name] for label in sweep.labels] if name in ROLES else [row.get(name) for row in sweep.parameters]


def _compared(sweep: Sweep, by: str | Sequence[str] | None, taken: list[str]) -> list[str]:
    """What colours are for; by default nothing that is told by what is taken."""
    if by is None:
        varying = [role for role in sweep.varying if not _told(sweep, taken, role)]
        return ["method"] if "method" in varying else varying[:1]
    names = [by] if isinstance(by, str) else list(by)
    known = dict.fromkeys([*ROLES, *(name for row in sweep.parameters for name in row)])
    for name in names:
        if name not in known:
            raise BadInput("by", name, f"one of {', '.join(known)}")
    return names


def _along(sweep: Sweep, x: str) -> list[Any]:
    """Of every combination the parameter x; nothing if x is a column of the curves."""
    if x in LABELS:
        return []
    numbers = {
        name: None
        for row in sweep.parameters
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if x not in numbers:
        raise BadInput("x", x, f"one of {', '.join([*LABELS, *numbers])}")
    return column(sweep, x)


def _lines(sweep: Sweep, names: list[str], x: str) -> list[Line]:
    """What is joined by a line, in the order of the grid."""
    colors = _words(sweep, names)
    rests = _words(sweep, _others(sweep, [*names, *([x] if x else [])]))
    lines: dict[tuple[Any, ...], Line] = {}
    for k, (color, rest) in enumerate(zip(colors, rests, strict=True)):
        key = (color, rest) if x else (color, rest, k)
        lines.setdefault(key, Line(color, rest, [])).which.append(k)
    return list(lines.values())


def _others(sweep: Sweep, taken: list[str]) -> list[str]:
    """What else differs between combinations that are alike in all that is taken."""
    others = []
    for role in sweep.varying:
        if _told(sweep, taken, role):
            continue
        inner = {name: None for row in sweep.parameters for name in row if name.startswith(f"{role}.")}
        if taken and inner.keys() & set(taken):
            others += [name for name in inner if not _told(sweep, taken, name)]
        else:
            others.append(role)
    return others


def _told(sweep: Sweep, taken: list[str], name: str) -> bool:
    """Whether what is taken says what the value of `name` is."""
    values = column(sweep, name)
    keys = zip(*(column(sweep, each) for each in taken), strict=True) if taken else [()] * len(values)
    first: dict[tuple[Any, ...], Any] = {}
    return all(first.setdefault(key, value) == value for key, value in zip(keys, values, strict=True))


def _words(sweep: Sweep, names: list[str]) -> list[str]:
    """Of every combination what it has under these names, in words."""
    columns = [
        [value if name in ROLES or value is None else f"{name.partition('.')[2]} = {shown(value)}" for value in values]
        for name, values in ((name, column(sweep, name)) for name in names)
    ]
    return [", ".join(word for word in row if word) for row in zip(*columns, strict=True)] or [""] * len(sweep.runs)


def _colors(words: list[str]) -> dict[str, Any]:
    """A colour for each; shades from dark to light if they are many."""
    distinct = list(dict.fromkeys(words))
    if len(distinct) <= CYCLE:
        return {word: f"C{k}" for k, word in enumerate(distinct)}
    from matplotlib import colormaps

    return {word: colormaps["viridis"](0.95 * k / (len(distinct) - 1)) for k, word in enumerate(distinct)}


def _styles(words: list[str]) -> dict[str, dict[str, Any]]:
    """A line style for each; thin lines alike if they are too many."""
    distinct = list(dict.fromkeys(words))
    if len(distinct) > len(LINES):
        return {word: {"linewidth": 0.8} for word in distinct}
    return {word: {"linestyle": LINES[k]} for k, word in enumerate(distinct)}


def _draw_ends(sweep: Sweep, ax: Axes, along: list[Any], which: list[int], look: dict[str, Any]) -> None:
    """The error at the end against a parameter."""
    there = sorted((k for k in which if along[k] is not None), key=lambda k: float(along[k]))
    if not there:
        return
    runs = [sweep.runs[k] for k in there]
    at, mean = np.array([float(along[k]) for k in there]), np.array([run.mean[-1] for run in runs])
    (line,) = ax.plot(at, mean, **{"marker": "o", "markersize": 4, **look})
    band(ax, at, mean, np.array([run.standard_error[-1] for run in runs]), line.get_color())


def _scale(sweep: Sweep, ax: Axes, along: list[Any]) -> None:
    """Logarithmic axes wherever they can be; a parameter's only if its values are far apart."""
    ends = np.concatenate([run.mean for run in sweep.runs])
    ax.set_yscale("linear" if (ends[np.isfinite(ends)] <= 0).any() else "log")
    values = [float(value) for value in along if value is not None]
    if values and min(values) > 0 and max(values) >= WIDE * min(values):
        ax.set_xscale("log")


def _label(sweep: Sweep, ax: Axes, x: str, ends: bool) -> None:
    """What the axes are, and in the title what all runs have in common."""
    run = sweep.runs[0]
    ax.set_xlabel(x if ends else name_of(run, x))
    ax.set_ylabel(name_of(run, "error") + (", at the end" if ends else ""))
    ax.set_title(" · ".join(sweep.labels[0][role] for role in ROLES if role not in sweep.varying))


def _entries(colors: dict[str, Any], styles: dict[str, dict[str, Any]]) -> list[Line2D]:
    """Lines for the legend: a few of the shades if there are many, and no styles if they are too many."""
    from matplotlib.lines import Line2D

    shades = list(colors)
    if len(shades) > CYCLE:
        shades = [shades[round(k * (len(shades) - 1) / (SHADES - 1))] for k in range(SHADES)]
    entries = [Line2D([], [], color=colors[word], label=word) for word in shades if len(colors) > 1]
    if len(styles) > len(LINES):
        return [*entries, Line2D([], [], color="0.4", linewidth=0.8, label=f"{len(styles)} combinations of the rest")]
    return [*entries, *(Line2D([], [], color="0.4", label=word, **styles[word]) for word in styles if len(styles) > 1)]


def _legend(ax: Axes, new: bool, entries: list[Line2D]) -> None:
    """Within the axes if it is short, else beside them."""
    if new and len(entries) > FEW and ax.figure is not None:
        ax.figure.legend(handles=entries, loc="outside right upper")
    elif entries:
        ax.legend(handles=entries, fontsize="small" if len(entries) > FEW else None)
