"""How far a simulated mean is from its exact expectation."""

from __future__ import annotations

import numpy as np

from siag.foundations.types import Floats
from siag.simulation import Run
from siag.theory import Curve


def deviation(run: Run, curve: Curve) -> Floats:
    """(points,) in standard errors.

    Before the first report the error is not random, and rounding is all that is left of its spread.
    """
    return np.asarray((run.mean - curve.error) / np.maximum(run.standard_error, 1e-9 * curve.error))
