"""A saved trace as a page to look at: what happened, and where it can be run again the loss and the model, too."""

from __future__ import annotations

import os

import numpy as np

from siag.activity import Trace
from siag.experiments.replay import made_again, weighted_again
from siag.foundations.errors import SiagError
from siag.foundations.types import Floats
from siag.live.monitor.dashboard.recorded import Recorded
from siag.methods import Method, check_weights
from siag.methods.weighted import without_weights
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
    used = _used(trace, path, method)
    return Recorded(trace, None if used is None else _alike(used, trace), run, None if used is None else _weights(used))


def _used(trace: Trace, path: str | os.PathLike[str], method: Method | None) -> Method | None:
    """The method of the run, with its weights, if it is known."""
    try:
        found: Method = made_again("method", trace.about, path) if method is None else method
        return weighted_again(found, trace.about, path)
    except SiagError:
        return None


def _alike(method: Method, trace: Trace) -> bool:
    """Whether fast workers replace their own reports, and nobody else's."""
    return counts_alike(method.init(np.zeros(method.least), int(trace.about.get("workers", 1))))


def _weights(method: Method) -> Floats | str | None:
    """What workers count for beside others."""
    weights = without_weights(method)[1]
    return weights if weights is None or isinstance(weights, str) else check_weights(weights)
