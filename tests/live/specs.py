"""Descriptions of runs for tests whose workers are whoever the test says."""

import numpy as np

from siag.live.assembly import Assembly
from siag.live.spec import Spec
from siag.methods import SIAG
from siag.steps import Constant


def spec_of(workers=("a", "b"), d=3, **given):
    """A description with nothing left out."""
    usual = {"method": SIAG(), "step": Constant(0.1), "w0": np.zeros(d), "names": workers, "progress": False}
    return Spec(**usual | given).validate(serving=True)


def assembly_of(*workers, **given):
    """A session, put together."""
    return Assembly(spec_of(*workers, **given))
