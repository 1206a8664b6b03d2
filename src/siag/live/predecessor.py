"""The run that a folder holds, where one with another way to choose steps begins from its w.

A run goes on with another `Constant` or `Harmonic` as if it had always meant to. Automatic steps, and steps that look
at ages, keep numbers of their own that reports of the other kind do not bring. So they begin at version 0, from the w
that was reached and with samples that were not used yet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile
from siag.foundations.types import Floats, Integers
from siag.storage.disk import Disk
from siag.storage.generations import newest_identity
from siag.storage.saved_model import read_model

WAYS = ("SIAG(", "Automatic(")  # how methods print that differ in how they choose steps, and in nothing else
MAY_DIFFER = {"method", "step"}


@dataclass(frozen=True, eq=False)
class Predecessor:
    """What is taken over of a run.

    Attributes:
        w: (d,) where it was.
        samples: (n,) how many each worker had drawn.
        words: what it was.
    """

    w: Floats
    samples: Integers
    words: str


def predecessor(folder: str, disk: Disk, identity: dict[str, Any]) -> Predecessor | None:
    """The run in a folder, if it differs from the given one in how it chose its steps; `None` if it is the same.

    One that differs in more is left for the store to refuse, and so is one that cannot be read.
    """
    here, there = json.loads(json.dumps(identity)), newest_identity(folder, disk)
    differs = {key for key in {*here, *there} if here.get(key) != there.get(key)}
    if not there or not differs or differs - MAY_DIFFER:
        return None
    if "method" in differs and not all(str(each["method"]).startswith(WAYS) for each in (here, there)):
        return None
    model = read_model(folder, disk=disk)
    words = f"{there['method']} with {model.step}"
    if model.logged:
        raise BadFile(
            f"{folder}: its run, {words}, ended in the middle; go on with that and let it end, "
            f"so that {model.logged} reports after its last save are not lost; change it then"
        )
    samples = np.array([model.samples[name] for name in here["workers"]], np.int64)
    return Predecessor(model.w, samples, f"{words}, {model.reports} reports")
