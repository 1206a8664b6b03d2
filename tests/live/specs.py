"""Descriptions of runs for tests whose workers are whoever the test says."""

from dataclasses import replace

import numpy as np

from siag.live.assembly import Assembly
from siag.live.spec import Spec
from siag.methods import SIAG
from siag.steps import Constant


def spec_of(workers=("a", "b"), d=3, **given):
    """A description with nothing left out."""
    usual = {"step": Constant(0.1), "w0": np.zeros(d), "names": workers, "progress": False}
    method = given.pop("method", SIAG())  # any: the workers may have whatever it needs
    return replace(Spec(**usual | given).validate(serving=True), method=method)


def assembly_of(*workers, **given):
    """A session, put together."""
    return Assembly(spec_of(*workers, **given))
