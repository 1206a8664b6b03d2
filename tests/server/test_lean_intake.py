"""The machine code that takes reports counts no references, which would take it about twice as long."""

import numpy as np
import pytest

from siag.methods import SIAG, Automatic, Weighted
from siag.server.guard import Guard
from siag.server.intake import warm_up, warm_up_many


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("method", [SIAG(), Automatic(), Weighted(SIAG(), "samples")], ids=repr)
def test_reports_are_taken_by_lean_machine_code(method, kind):
    bounds = Guard().bounds
    for made in (warm_up(method, bounds, kind), warm_up_many(method, bounds, kind)):
        assert made.targetoptions["_nrt"] is False
