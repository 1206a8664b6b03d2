"""`siag export`: the model out of a run's folder, into a file that anything can read."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from siag.cli.app import NOTHING_HALF, on_interrupt, siag
from siag.cli.printing import tell
from siag.foundations.errors import BadInput

if TYPE_CHECKING:
    from siag.foundations.types import Floats
    from siag.storage import SavedModel


@siag.command(epilog="Example: siag export state w.npy")
@click.argument("folder")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), required=False)
@click.option("--version", type=int, help="An earlier version, which the run has kept: siag train --keep 10.")
@click.option("--versions", is_flag=True, help="List the versions that there are, instead of writing one.")
def export(folder: str, file: Path | None, version: int | None, versions: bool) -> None:
    """Write the model w that the live run in FOLDER saved last to FILE.

    FOLDER is the --folder of siag train or siag serve, a path or a URL. The server may be at work; w is then about a
    second old at most, or as old as the last save at a URL. What a durable server has logged since its last save is
    counted, but not in w.

    FILE may end in .npy (for numpy.load), .csv (a header, then a number on each line) or .txt (numbers only); - prints
    the numbers.
    """
    on_interrupt(NOTHING_HALF)
    if versions:
        if file is not None or version is not None:
            raise click.UsageError("--versions lists them, and goes with FOLDER alone")
        print(*_list(folder), sep="\n")
        return
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    aside = str(file) == "-"
    if not aside and file.suffix not in (".npy", ".csv", ".txt"):
        raise BadInput("file", str(file), "a name that ends in .npy, .csv or .txt, or - for the standard output")
    if file.is_dir():
        raise BadInput("file", str(file), "a file", "there is a folder of this name")
    w, summary = _newest(folder) if version is None else _earlier(folder, version)
    _write(w, file)
    print(summary, file=sys.stderr if aside else sys.stdout)


def _write(w: Floats, file: Path) -> None:
    """In the format that the file's name says; - is the standard output."""
    import numpy as np

    from siag.foundations.files import write_atomically, write_text

    lines = "".join(f"{value!r}\n" for value in w.tolist()) if file.suffix != ".npy" else ""
    if str(file) == "-":
        print(lines, end="")
    elif file.suffix == ".npy":
        write_atomically(file, lambda stream: np.save(stream, w))
    else:
        write_text(file, f"w\n{lines}" if file.suffix == ".csv" else lines)


def _newest(folder: str) -> tuple[Floats, str]:
    """The model saved last, and what is told of it."""
    from siag.storage import read_model

    model = read_model(folder)
    tell(*model.remarks)
    return model.w, _summary(model)


def _earlier(folder: str, version: int) -> tuple[Floats, str]:
    """A version that was kept, or the last save if that is it, and what is told of it."""
    from siag.storage import read_model, read_version, read_versions

    kept = {each.version: each.written for each in read_versions(folder)}
    if version not in kept and read_model(folder).version == version:
        return _newest(folder)
    w = read_version(folder, version)
    return w, f"version {version:,}, d = {w.size:,}, saved {_ago(kept[version])} ago"


def _list(folder: str) -> list[str]:
    """The versions that were kept, one line each, and the last save."""
    from siag.storage import read_model, read_versions

    kept = [f"version {each.version}, kept {_ago(each.written)} ago" for each in read_versions(folder)]
    newest = read_model(folder)
    return [*kept, f"version {newest.version}, the last save, {_ago(newest.written)} ago"]


def _ago(written: float) -> str:
    from siag.live.monitor.view import duration

    return duration(max(0.0, time.time() - written))


def _summary(model: SavedModel) -> str:
    """What was exported, in one line."""
    ago = _ago(model.written)
    what = f"version {model.version:,}, {_count(model.reports, 'report', 'reports')}, d = {model.w.size:,}"
    if not model.logged:
        return f"{what}, saved {ago} ago"
    more, last = (_count(model.logged, "entry", "entries"), "it" if model.logged == 1 else "the last")
    return f"{what}; not in it: {more} that the server has logged since that save, {last} {ago} ago"


def _count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"
