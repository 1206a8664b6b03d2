"""Descriptions of runs for tests whose workers are whoever the test says."""

from dataclasses import replace

import numpy as np

from siag.live.assembly import Assembly
from siag.live.spec import Spec
from siag.methods import SIAG
from siag.steps import Constant
from siag.storage.background import OneThread
from siag.storage.disk import LOCAL


def spec_of(workers=("a", "b"), d=3, **given):
    """A description with nothing left out."""
    usual = {"step": Constant(0.1), "w0": np.zeros(d), "names": workers, "progress": False}
    method = given.pop("method", SIAG())  # any: the workers may have whatever it needs
    return replace(Spec(**usual | given).validate(serving=True), method=method)


def assembly_of(*workers, disk=LOCAL, background=OneThread, **given):
    """A session, put together; its files are on that disk."""
    spec = spec_of(*workers, **given)
    return Assembly(spec, disk=disk, background=background)
