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
    from siag.storage import SavedModel


@siag.command(epilog="Example: siag export state w.npy")
@click.argument("folder")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
def export(folder: str, file: Path) -> None:
    """Write the model w that the live run in FOLDER saved last to FILE.

    FOLDER is the --folder of siag train or siag serve, a path or a URL. The server may be at work; w is then about a
    second old at most, or as old as the last save at a URL. What a durable server has logged since its last save is
    counted, but not in w.

    FILE may end in .npy (for numpy.load), .csv (a header, then a number on each line) or .txt (numbers only); - prints
    the numbers.
    """
    import numpy as np

    from siag.foundations.files import write_atomically, write_text
    from siag.storage import read_model

    on_interrupt(NOTHING_HALF)
    aside = str(file) == "-"
    if not aside and file.suffix not in (".npy", ".csv", ".txt"):
        raise BadInput("file", str(file), "a name that ends in .npy, .csv or .txt, or - for the standard output")
    if file.is_dir():
        raise BadInput("file", str(file), "a file", "there is a folder of this name")
    model = read_model(folder)
    tell(*model.remarks)
    lines = "".join(f"{value!r}\n" for value in model.w.tolist()) if file.suffix != ".npy" else ""
    if aside:
        print(lines, end="")
    elif file.suffix == ".npy":
        write_atomically(file, lambda stream: np.save(stream, model.w))
    else:
        write_text(file, f"w\n{lines}" if file.suffix == ".csv" else lines)
    print(_summary(model), file=sys.stderr if aside else sys.stdout)


def _summary(model: SavedModel) -> str:
    """What was exported, in one line."""
    from siag.live.monitor.view import duration

    ago = duration(max(0.0, time.time() - model.written))
    what = f"version {model.version:,}, {_count(model.reports, 'report', 'reports')}, d = {model.w.size:,}"
    if not model.logged:
        return f"{what}, saved {ago} ago"
    more, last = (_count(model.logged, "entry", "entries"), "it" if model.logged == 1 else "the last")
    return f"{what}; not in it: {more} that the server has logged since that save, {last} {ago} ago"


def _count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"
