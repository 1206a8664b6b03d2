"""The model out of a run's folder, also while its server is at work: nothing is locked, nothing is changed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siag.foundations.errors import BadFile
from siag.foundations.types import Floats
from siag.server.generations import generations_in, good_scans, join_entries, read_last, remarks_on
from siag.server.records import reason_of

TRIES = 10  # looks at a folder whose files are replaced while they are read
REMEDY = "put back a copy of the folder"


@dataclass(frozen=True, eq=False)
class SavedModel:
    """The newest good save of a live run.

    Attributes:
        w: (d,) the model.
        version: iterations done by then.
        reports: accepted by then.
        seconds: since the first report, by then.
        workers: how many reports of each worker were accepted, by name.
        about: what the run is of: method, step, n, d and so on.
        written: when its file was last written to, in seconds since 1970; the save is no younger.
        logged: reports and other entries that a durable server has logged since. They are not in w: only a server of
            the same method can take them in.
        remarks: what was damaged, and what was used instead, one line each.
    """

    w: Floats
    version: int
    reports: int
    seconds: float
    workers: dict[str, int]
    about: dict[str, Any]
    written: float
    logged: int
    remarks: tuple[str, ...]


def read_model(folder: str | os.PathLike[str]) -> SavedModel:
    """Read w out of the folder in which a live run saves its state; its server may be at work, or have ended.

    A server saves about twice a second, so what is read is at most a second old. Of files that are damaged the newest
    good save is used, and `remarks` says so.

    Args:
        folder: the `folder` of `siag.train` or `siag.serve`.
    """
    place = Path(folder)
    for _ in range(TRIES - 1):
        there = _generations(place)
        try:
            model = _newest(there)
        except BadFile:
            if _generations(place) == there:
                raise
        else:
            if not model.remarks or _generations(place) == there:
                return model
    return _newest(_generations(place))


def _generations(folder: Path) -> dict[int, Path]:
    """The saves of a folder, of which there must be one."""
    try:
        found = generations_in(folder)
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise BadFile(f"{folder}: cannot be read: {reason_of(error).lower()}") from None
    if found:
        return found
    if "lock" in names:
        raise BadFile(f"{folder}: nothing was saved here yet; try again when the server has had a report")
    what = "holds no saved state" if names else "is empty"
    raise BadFile(f"{folder}: {what}; give the folder of a run: siag serve --folder, or siag.train(folder=…)")


def _newest(generations: dict[int, Path]) -> SavedModel:
    """The newest good save."""
    scans, refused = good_scans(generations, lambda scan: None, REMEDY)
    scan = scans[-1]
    try:
        meta, w = read_last(scan, "w")
        result = str(meta.get("answer", "w"))  # some methods' is not the w that workers read
        if result != "w":
            w = read_last(scan, result)[1]
        return SavedModel(
            w=w,
            version=int(meta["version"]),
            reports=int(meta["reports"]),
            seconds=float(meta["seconds"]),
            workers={str(member["name"]): int(member["reports"]) for member in meta["members"]},
            about=dict(scan.header["identity"]),
            written=scan.written,
            logged=len(join_entries(scans)[0]),
            remarks=tuple(remarks_on(scan, refused)),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{scan.path}: is not the state of a live run") from None
