"""A comparison as pictures: who ends where, and how everybody got there."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from siag.experiments.comparison.contenders import EXACT, FAMILIES, FRESH, TABLE, VARIATES
from siag.experiments.comparison.result import AXES, NAMED, Comparison, best_first, cell
from siag.report import BLUE, INK, ORANGE, PURPLE, Chapter, figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {TABLE: BLUE, FRESH: ORANGE, VARIATES: PURPLE, EXACT: INK, "": INK}
MARKERS = ("o", "s", "D", "^", "v", "P")
NAMES = 2  # of curves that end together
UNTIMED = [axis for axis in AXES if axis != "time"]
LABELS = {"iterations": "iterations", "samples": "gradients computed", "bytes": "bytes sent", "time": "time"}


def chapters(comparison: Comparison) -> list[Chapter]:
    """The comparison as two chapters of a page."""
    ends, curves = comparison.table(), comparison.curves()
    with styled():
        pictures = draw_ends(comparison), draw_curves(comparison)
    places = _listed(comparison.activities)
    first = Chapter(
        "compare",
        "Where every method ends",
        [
            f"The problem is <code>{escape(repr(comparison.problem))}</code>.",
            escape(comparison.rule),
            escape(comparison.legend),
            *(html_table(comparison, activity) for activity in comparison.activities),
            html_compared(comparison),
        ],
        pictures[0],
        f"Error at the same {comparison.axis} ({places}); a bar is offset², where it is more than "
        "twice its standard error.",
        {"compare": ends},
    )
    second = Chapter(
        "curves",
        "How they get there",
        ["Mean error against iterations, gradients computed, bytes sent, and time, on a clock in simulated seconds."],
        pictures[1],
        "Every curve ends where its method's run ends: methods differ in what an iteration costs them.",
        {"curves": curves},
    )
    return [first, second]


def draw_ends(comparison: Comparison) -> Figure:
    """A line for every method, a mark for every activity; errors below all that streams allow are at the left edge."""
    order, floor = _order(comparison), _floor(comparison)
    picture, (ax,) = figure(width=8.2, height=1.6 + 0.32 * len(order))
    tables = [{e.contender.name: comparison.row(e) for e in comparison.ran(a)} for a in comparison.activities]
    for height, (name, family) in enumerate(order):
        rows = [(k, table[name]) for k, table in enumerate(tables) if name in table]
        for place, (k, row) in enumerate(rows):
            color, level = COLORS[family], height + min(0.22, 0.8 / len(rows)) * (place - (len(rows) - 1) / 2)
            error = row["iterations"] if np.isnan(row[comparison.axis]) else row[comparison.axis]
            below = error < floor
            marker, face = "<" if below else MARKERS[k % len(MARKERS)], "white" if k == 0 else color
            ax.plot(max(error, floor), level, marker, color=color, markerfacecolor=face, markersize=6)
            if row["bias"] > row["bias_error"] and row["bias"] > floor and not below:
                ax.plot(row["bias"], level, "|", color=color, markersize=9, markeredgewidth=2)
    ax.set_xscale("log")
    ax.set_yticks(range(len(order)), [name for name, _ in order])
    for label, (_, family) in zip(ax.get_yticklabels(), order, strict=True):
        label.set_color(COLORS[family])
    ax.set_xlabel(f"mean {comparison.measure} at the end (◁ below {floor:.0e})")
    ax.margins(y=0.03)
    _legend(picture, comparison.activities, [family for family in FAMILIES if any(family == of for _, of in order)])
    return _settled(picture)


def _floor(comparison: Comparison) -> float:
    """A power of ten below all errors but those of exact gradients."""
    ends = [
        float(entry.run.mean[-1])
        for entry in comparison.entries
        if entry.run is not None
        and entry.contender.family != EXACT
        and not entry.contender.exact(comparison.problem.n)
        and entry.run.mean[-1] > 0
    ]
    return float(10.0 ** np.floor(np.log10(min(ends)) - 0.5)) if ends else 1e-30


def _legend(picture: Figure, activities: list[str], families: list[str]) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=INK, marker=marker, linestyle="", markerfacecolor="white" if k == 0 else INK)
        for k, marker in enumerate(MARKERS[k % len(MARKERS)] for k in range(len(activities)))
    ]
    if activities:
        marks.append(Line2D([], [], color=INK, marker="|", linestyle="", markersize=9, markeredgewidth=2))
    lines = [Line2D([], [], color=COLORS[family], linewidth=4) for family in families]
    picture.legend(
        [*marks, *lines],
        [*activities, *(["offset²"] if activities else []), *families],
        loc="outside lower center",
        ncols=4,
    )


def draw_curves(comparison: Comparison) -> Figure:
    """A row of panels for every activity, one for each way to count."""
    from matplotlib.figure import Figure

    activities, floor = comparison.activities, _floor(comparison)
    picture = Figure(figsize=(12.0, 3.8 * len(activities)), layout="constrained")
    clocked = any(entry.timed for entry in comparison.entries)
    axes = AXES if clocked else UNTIMED
    panels = picture.subplots(len(activities), len(axes), sharey="row", squeeze=False)
    for row, activity in zip(panels, activities, strict=True):
        entries = comparison.ran(activity)
        highest = max((float(entry.run.error[:, 0].max()) for entry in entries if entry.run is not None), default=1.0)
        timed = any(entry.timed for entry in entries)
        row[-1].set_visible(timed or not clocked)
        for ax, axis in zip(row, AXES if timed else UNTIMED, strict=False):
            ends = []
            for entry in entries:
                if entry.run is not None:
                    x, y = entry.along(axis)[1:], entry.run.mean[1:]
                    color = COLORS[entry.contender.family]
                    ax.plot(x, y, color=color, linewidth=1.1, alpha=0.85)
                    ends.append((float(x[-1]), float(y[-1]), entry.contender.name, color))
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel(LABELS[axis])
            if axis == "iterations":
                ax.set_ylabel(f"{activity}\nmean {comparison.measure}")
            ax.set_ylim(floor, 3.0 * highest)
            ax.minorticks_off()  # they would take most of the time of drawing
            if axis == ("time" if timed else "bytes"):
                _name_beside(ax, [end for end in ends if end[1] >= floor], free=clocked and not timed)
    _legend(
        picture, [], [family for family in FAMILIES if any(e.contender.family == family for e in comparison.entries)]
    )
    return _settled(picture)


def _settled(picture: Figure) -> Figure:
    """Laid out once for all files that are written of it, which takes longer than to write one."""
    picture.draw_without_rendering()
    picture.set_layout_engine("none")
    return picture


def _name_beside(ax: Any, ends: list[tuple[float, float, str, str]], free: bool) -> None:
    """The names of curves right of the panel, one below the other, each with a line to where its curve ends.

    Curves of one colour that end within 1 % of each other share a line of text. If the place beside the panel is free,
    no room is made for them.
    """
    groups: list[list[tuple[float, float, str, str]]] = []
    for end in sorted(ends, key=lambda each: (each[1], each[3])):
        like = next((g for g in groups if g[0][3] == end[3] and end[1] <= 1.01 * g[0][1]), None)
        if like is None:
            groups.append([end])
        else:
            like.append(end)
    low, high = np.log10(ax.get_ylim())
    wanted = [(np.log10(group[0][1]) - low) / (high - low) for group in groups]
    for place, group in zip(_apart(wanted, 0.05), groups, strict=True):
        x, y, _, color = group[0]
        name = ax.annotate(
            _together([name for _, _, name, _ in group]),
            (x, y),
            xytext=(1.06, place),
            textcoords="axes fraction",
            va="center",
            fontsize=8.5,
            color=color,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 2,
                "relpos": (0, 0.5),
            },
        )
        name.set_in_layout(not free)


def _together(names: list[str]) -> str:
    """Names that share a line of text, in the room there is for it."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return " = ".join(names[:NAMES]) + more


def _apart(wanted: list[float], gap: float) -> list[float]:
    """Ascending places, as near to those wanted as can be with a gap between any two, and below 1."""
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + gap if places else 0.0))
    over = max(0.0, places[-1] - 0.98) if places else 0.0
    for k in range(len(places) - 1, -1, -1):
        ceiling = places[k + 1] - gap if k + 1 < len(places) else places[k] - over
        places[k] = min(places[k], ceiling)
    return places


def _order(comparison: Comparison) -> list[tuple[str, str]]:
    """Methods by family, within it by their worst error, the best at the top."""
    worst: dict[str, float] = {}
    families: dict[str, str] = {}
    for activity in comparison.activities:
        for entry in comparison.ran(activity):
            name, error = entry.contender.name, float(entry.run.mean[-1]) if entry.run is not None else np.inf
            worst[name], families[name] = max(worst.get(name, 0.0), error), entry.contender.family
    places = {family: k for k, family in enumerate((*FAMILIES, ""))}
    return sorted(families.items(), key=lambda each: (-places[each[1]], -worst[each[0]]))


def html_table(comparison: Comparison, activity: str) -> str:
    """The table of one activity."""
    rows = [comparison.row(entry) for entry in comparison.entries if entry.activity == activity]
    shown = comparison.shown
    kinds = {name: f" class='{name}'" if name in NAMED else "" for name in shown}
    head = "".join(f"<th{kinds[name]}>{escape(heading)}</th>" for name, heading in shown.items())
    body = "".join(
        "<tr>" + "".join(f"<td{kinds[name]}>{escape(cell(name, row))}</td>" for name in shown) + "</tr>"
        for row in best_first(rows, comparison.axis)
    )
    said = [*comparison.unplaced(activity), *(f"{row['method']}: {row['remark']}" for row in rows if row["remark"])]
    notes = "".join(f"<li>{escape(each)}</li>" for each in said)
    table = f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    return f"<b>{escape(activity)}</b></p>{table}<ul class='notes'>{notes}</ul><p>"


def html_compared(comparison: Comparison) -> str:
    """What was compared, a line for every method and activity."""
    lines = [
        f"<li>{escape(name)}: <code>{escape(text)}</code></li>"
        for each in comparison.compared.values()
        for name, text in each.items()
    ]
    return f"<b>What was compared</b></p><ul class='notes'>{''.join(lines)}</ul><p>"


def _listed(names: list[str]) -> str:
    return ", ".join(names)
