"""The model out of a run's folder, also while its server is at work: nothing is locked, nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from siag.foundations.errors import BadFile, reason_of
from siag.foundations.types import Floats
from siag.storage.disk import LOCAL, Disk, Place
from siag.storage.generations import Scan, all_saves, generations_in, good_scans, join_entries, read_array
from siag.storage.store import LOCK
from siag.storage.urls import disk_of

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
        samples: how many samples each had drawn, by name.
        passes: how often each has been through its data, by name, where these are finite and as far as is known.
        left: the names of those that had left for good.
        step: the steps it took last, in words; "" if nobody has said them.
        about: what the run is of: method, step, n, d and so on.
        written: when its file was last written to, in seconds since 1970; the save is no younger.
        logged: reports and other entries that a durable server has logged since. They are not in w: only a server of
            the same method can take them in.
        newest: the last of them.
        remarks: what was damaged, and what was used instead, one line each.
    """

    w: Floats = field(repr=False)
    version: int
    reports: int
    seconds: float
    workers: dict[str, int] = field(repr=False)
    samples: dict[str, int] = field(repr=False)
    passes: dict[str, int] = field(repr=False)
    left: tuple[str, ...]
    step: str
    about: dict[str, Any] = field(repr=False)
    written: float
    logged: int
    newest: bytes = field(repr=False)
    remarks: tuple[str, ...]


def read_model(folder: Place, *, disk: Disk = LOCAL) -> SavedModel:
    """Read w out of the folder in which a live run saves its state; its server may be at work, or have ended.

    A server saves about twice a second, so what is read is at most a second old. Of files that are damaged the newest
    good save is used, and `remarks` says so. Of a model that was split it is the newest save that all shards have.

    Args:
        folder: the `folder` of `siag.train` or `siag.serve`, a path or a URL.
        disk: where a path is.
    """
    disk, place = disk_of("folder", folder, disk)
    read = _newest_of_all if disk.stat(f"{place}/shard-0") else _newest
    for _ in range(TRIES - 1):
        there = _files(place, disk)
        try:
            model = read(place, disk)
        except BadFile:
            if _files(place, disk) == there:
                raise
        else:
            if not model.remarks or _files(place, disk) == there:
                return model
    return read(place, disk)


def _files(folder: str, disk: Disk) -> set[str]:
    """All that may be replaced while it is read."""
    try:
        names = disk.names(folder)
    except OSError:
        return set()
    below = (_files(f"{folder}/{name}", disk) for name in names if name.startswith("shard-"))
    return set().union(*below, (f"{folder}/{name}" for name in names if name.startswith("state-")))


def _generations(folder: str, disk: Disk) -> dict[int, str]:
    """The saves of a folder, of which there must be one."""
    try:
        found, names = generations_in(folder, disk), disk.names(folder)
    except OSError as error:
        raise BadFile(f"{folder}: cannot be read: {reason_of(error)}") from None
    if found:
        return found
    if any(name.startswith(LOCK) for name in names):
        raise BadFile(f"{folder}: nothing was saved here yet; try again when the server has had a report")
    what = "holds no saved state" if names else "is empty"
    raise BadFile(f"{folder}: {what}; give the folder of a run: siag serve --folder, or siag.train(folder=…)")


def _newest(folder: str, disk: Disk) -> SavedModel:
    """The newest good save."""
    scans, remarks = good_scans(_generations(folder, disk), disk, lambda scan: None, REMEDY)
    return _model(scans[-1:], join_entries(scans)[0], remarks)


def _newest_of_all(folder: str, disk: Disk) -> SavedModel:
    """The newest save that all shards have."""
    shards = [_numbered(f"{folder}/shard-0", disk)]
    count = next((int(scan.header["identity"].get("shards", 1)) for scan in shards[0].values()), 1)
    shards += [_numbered(f"{folder}/shard-{k}", disk) for k in range(1, count)]
    whole = set.intersection(*(set(saves) for saves in shards))
    if not whole:
        raise BadFile(f"{folder}: no save is intact in all {count} shards; {REMEDY}")
    return _model([saves[max(whole)] for saves in shards], [], [])


def _numbered(folder: str, disk: Disk) -> dict[int, Scan]:
    """The intact saves of a shard, by the numbers that all shards know them by."""
    _generations(folder, disk)
    return {int(scan.meta["save"]): scan for scan in all_saves(folder, disk)}


def _model(parts: list[Scan], logged: Sequence[bytes], remarks: list[str]) -> SavedModel:
    """The last save of a file, or of one for each shard."""
    scan, meta = parts[0], parts[0].meta
    try:
        answer = str(meta.get("answer", "w"))  # some methods' is not the w that workers read
        w = np.concatenate([read_array(part, answer) for part in parts])
        members = {str(member["name"]): member for member in meta["members"]}
        return SavedModel(
            w=w,
            version=int(meta["version"]),
            reports=int(meta["reports"]),
            seconds=float(meta["seconds"]),
            workers={name: int(member["reports"]) for name, member in members.items()},
            samples={name: int(member["samples"]) for name, member in members.items()},
            passes=dict(zip(members, map(int, meta.get("passes", ())), strict=False)),
            left=tuple(name for name, member in members.items() if member["left"]),
            step=str(meta["steps"][-1][1]) if "steps" in meta else "",
            about=dict(scan.header["identity"]),
            written=scan.written,
            logged=len(logged),
            newest=logged[-1] if logged else b"",
            remarks=tuple(remarks),
        )
    except BadFile:
        raise
    except (KeyError, TypeError, ValueError):
        raise BadFile(f"{scan.path}: is not the state of a live run") from None
