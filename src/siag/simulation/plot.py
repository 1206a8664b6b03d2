"""One curve on axes: a mean with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from siag.foundations import check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from siag.simulation.run import Run

LABELS = {"t": "iteration t", "time": "time", "samples": "gradients computed", "bytes": "bytes sent"}


def draw(run: Run, ax: Axes | None = None, x: str = "t", **style: Any) -> Axes:
    """The mean error of a run against x, both logarithmic, and a band of two standard errors around it."""
    check.choice("x", x, tuple(LABELS))
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
        ax.set_xlabel(LABELS[x])
        ax.set_ylabel("‖wᵗ − w*‖², mean over repeats")
        ax.set_title(" · ".join(str(run.about[key]) for key in ("method", "activity") if key in run.about))
    ax.set_xscale("log")
    ax.set_yscale("log")
    along = run.table()[x]
    shown = (along > 0) & np.isfinite(run.mean)
    t, mean = along[shown], run.mean[shown]
    (line,) = ax.plot(t, mean, **style)
    if run.repeats > 1:
        half = 2.0 * run.standard_error[shown]
        low = np.maximum(mean - half, mean * 1e-3)  # a band may reach zero, a logarithmic axis not
        ax.fill_between(t, low, mean + half, color=line.get_color(), alpha=0.25, linewidth=0)
    return ax
