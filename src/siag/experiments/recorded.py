"""A saved trace as a page to look at: what happened, and where it can be run again the loss and the model, too."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from siag.activity import Trace
from siag.experiments.replay import made_again
from siag.foundations.errors import SiagError
from siag.live.monitor.dashboard.recorded import Recorded
from siag.methods import Method
from siag.server.gauges import counts_alike
from siag.simulation import Run


def recorded(path: str | os.PathLike[str], method: Method | None = None, run: Run | None = None) -> Recorded:
    """The board of a trace.

    Args:
        path: of the trace.
        method: that of the run, if it is not as the trace says.
        run: the same run again, if there is one.
    """
    trace = Trace.read(path)
    return Recorded(trace, _alike(trace, path, method), run)


def _alike(trace: Trace, path: str | os.PathLike[str], method: Any) -> bool | None:
    """Whether all workers count the same with the method of the run, if it is known."""
    try:
        used: Method = made_again("method", trace.about, path) if method is None else method
    except SiagError:
        return None
    return counts_alike(used.init(np.zeros(used.least), int(trace.about.get("workers", 1))))
