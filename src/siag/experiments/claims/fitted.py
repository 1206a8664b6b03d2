"""Rates are fitted, not asserted: the slope of a straight line through points on logarithmic axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from siag.foundations.types import Floats, Integers


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """The exponent a of y ∝ xᵃ, by least squares of log y over log x; NaN, which fulfils nothing, if some y is not one.

    >>> round(slope([1, 2, 4], [8, 2, 0.5]), 6)
    -2.0
    """
    values = np.asarray(y, float)
    if not (np.isfinite(values).all() and (values > 0).all()):
        return float("nan")
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(values), 1)[0])


def first_below(values: Floats, level: float, at: Floats | Integers) -> float:
    """Where a curve first is at or below a level; infinite if nowhere."""
    found = np.flatnonzero(values <= level)
    return float(at[found[0]]) if len(found) else np.inf
