"""How figures look: one style for all, readable in grey, labels instead of legends where lines can carry them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from siag.foundations.types import Floats, Integers

INK = "#1c2733"
BLUE, ORANGE, PURPLE = "#0b6e8a", "#c2571a", "#7a4fa3"

STYLE: Any = {
    "figure.facecolor": "white",
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#d9dfe5",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "siag",
    "svg.fonttype": "path",
}


@contextmanager
def styled() -> Iterator[None]:
    """Everything drawn inside looks the same; to be entered before the first figure is made."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        yield


def figure(
    columns: int = 1, *, width: float = 9.0, height: float = 4.2, same_scale: bool = True
) -> tuple[Figure, list[Axes]]:
    """An empty figure with panels side by side."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(1, columns, sharey=same_scale, squeeze=False)
    return made, list(axes[0])


def shades(count: int) -> list[Any]:
    """Colours from light to dark, so that their order survives a grey print."""
    from matplotlib import colormaps

    return [colormaps["viridis_r"](x) for x in np.linspace(0.28, 1.0, count)]


def logarithmic(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Both axes logarithmic, and what they show."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(xlabel)
    if ylabel:
        ax.set_ylabel(ylabel)


def name_ends(ax: Axes, lines: Sequence[tuple[Floats | Integers, Floats, str, Any]]) -> None:
    """Write the name of each line (x, y, name, colour) right of its last point, moved apart where they would touch.

    To be called when everything is drawn, since it needs the final limits of a logarithmic vertical axis.
    """
    low, high = np.log10(ax.get_ylim())
    apart, last = 0.05 * (high - low), -np.inf
    for x, y, name, color in sorted(lines, key=lambda line: float(line[1][-1])):
        height = max(float(np.log10(y[-1])), last + apart)
        last = height
        ax.annotate(
            name,
            (float(x[-1]), 10.0**height),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=color,
            annotation_clip=False,
        )
