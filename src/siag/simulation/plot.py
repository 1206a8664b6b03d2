"""One curve on axes: a mean with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from siag.simulation.run import Run


def draw(run: Run, ax: Axes | None = None, **style: Any) -> Axes:
    """The mean error of a run against t, both logarithmic, and a band of two standard errors around it."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots()[1]
        ax.set_xlabel("iteration t")
        ax.set_ylabel("‖wᵗ − w*‖², mean over repeats")
        ax.set_title(" · ".join(str(run.about[key]) for key in ("method", "activity") if key in run.about))
    ax.set_xscale("log")
    ax.set_yscale("log")
    shown = (run.t > 0) & np.isfinite(run.mean)
    t, mean = run.t[shown], run.mean[shown]
    (line,) = ax.plot(t, mean, **style)
    if run.repeats > 1:
        half = 2.0 * run.standard_error[shown]
        low = np.maximum(mean - half, mean * 1e-3)  # a band may reach zero, a logarithmic axis not
        ax.fill_between(t, low, mean + half, color=line.get_color(), alpha=0.25, linewidth=0)
    return ax
