"""The run that a folder holds, where one with another way to choose steps begins from its w.

A run goes on with another `Constant` or `Harmonic` as if it had always meant to. Automatic steps, and steps that look
at ages, keep numbers of their own that reports of the other kind do not bring. So they begin at version 0, from the w
that was reached and with samples that were not used yet.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile
from siag.foundations.types import Floats, Integers
from siag.live.durable_log import DIVERGED
from siag.storage.disk import Disk, Stat
from siag.storage.generations import generations_in, newest_identity
from siag.storage.saved_model import SavedModel, read_model

MAY_DIFFER = {"method", "step"}
WAYS = {"SIAG", "Automatic"}  # methods that differ in how they choose steps, and in nothing else
MEANWHILE = "has changed while it was read; start again when no other server uses it"


@dataclass(frozen=True, eq=False)
class Predecessor:
    """A run from whose w another begins.

    Attributes:
        folder: where it is.
        model: what was saved of it.
        samples: (n,) how many each worker had drawn.
        words: what it was.
    """

    folder: str
    model: SavedModel
    samples: Integers
    words: str
    _files: dict[str, Stat | None]

    @property
    def diverged(self) -> bool:
        """Whether it was durable and has ended since its w left the range of numbers."""
        return self.model.newest[:1] == bytes([DIVERGED])

    @property
    def w(self) -> Floats:
        """(d,) where it was."""
        return self.model.w

    def check(self, disk: Disk) -> None:
        """Refuse what has changed since it was read, or has reports that w lacks, but for those it diverged with."""
        if _files(self.folder, disk) != self._files:
            raise BadFile(f"{self.folder}: {MEANWHILE}")
        if self.model.logged and not self.diverged:
            raise BadFile(
                f"{self.folder}: its run, {self.words}, was cut off, and what was logged since then, "
                f"{self.model.logged} in number, would be lost; go on with it until it has ended, and change it then"
            )


def predecessor(folder: str, disk: Disk, identity: dict[str, Any]) -> Predecessor | None:
    """The run in a folder, if it differs from the given one in how it chose its steps; `None` if it is the same.

    One that differs in more is left for the store to refuse, and so is one that cannot be read.
    """
    here, there = json.loads(json.dumps(identity)), newest_identity(folder, disk)
    if not _another_way(here, there):
        return None
    files = _files(folder, disk)
    model = read_model(folder, disk=disk)
    there = model.about  # if the newest is damaged, it is the one before that counts
    if not _another_way(here, there):
        return None
    samples = np.array([model.samples[name] for name in here["workers"]], np.int64)
    words = f"{there['method']} with {model.step}, {model.reports} reports"
    return Predecessor(folder, model, samples, words, files)


def _another_way(here: dict[str, Any], there: dict[str, Any]) -> bool:
    """Whether two runs differ in how they choose steps, and in nothing else."""
    differs = {key for key in {*here, *there} if here.get(key) != there.get(key)}
    if not there or not differs or differs - MAY_DIFFER:
        return False
    return "method" not in differs or {_kind(str(each["method"])) for each in (here, there)} == WAYS


def _kind(method: str) -> str:
    """The name of a method as it prints; w is the same whether it was trained on columns as if standardised."""
    return method.removeprefix("Standardised(method=").partition("(")[0]


def _files(folder: str, disk: Disk) -> dict[str, Stat | None]:
    """The generations of a folder, and how long and how old each is."""
    with suppress(OSError):
        return {path: disk.stat(path) for path in generations_in(folder, disk).values()}
    return {}
