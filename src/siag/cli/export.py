"""`siag export`: the model out of a run's folder, into a file that anything can read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from siag.cli.app import on_interrupt, siag
from siag.foundations.errors import BadInput

if TYPE_CHECKING:
    from siag.foundations.types import Floats
    from siag.storage import SavedModel


@siag.command(epilog="Example: siag export state w.npy")
@click.argument("folder")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
def export(folder: str, file: Path) -> None:
    """Write the model w that the live run in FOLDER saved last to FILE.

    FOLDER is the --folder of siag train or siag serve, a path or a URL. The server may be at work; w is then about a
    second old at most, or as old as the last save at a URL. What a durable server has logged since its last save is
    counted, but not in w.

    A FILE that ends in .npy is for numpy.load, .csv has a header and a number on each line, .txt has the numbers only,
    and so has the standard output, which is -.
    """
    from siag.foundations.files import write_atomically
    from siag.storage import read_model

    on_interrupt("no half-written file was left behind")
    write = None if str(file) == "-" else _writer(file)
    model = read_model(folder)
    for remark in model.remarks:
        print(f"siag: {remark}", file=sys.stderr)
    if write is None:
        print(_lines(model.w), end="")
    else:
        write_atomically(file, lambda stream: write(stream, model.w))
    print(_summary(model), file=sys.stderr if write is None else sys.stdout)


def _writer(file: Path) -> Callable[[IO[bytes], Floats], None]:
    """How to write a file of this name."""
    if file.suffix not in WRITERS:
        raise BadInput("file", str(file), "a name that ends in .npy, .csv or .txt, or - for the standard output")
    if file.is_dir():
        raise BadInput("file", str(file), "a file", "there is a folder of this name")
    return WRITERS[file.suffix]


def _write_npy(stream: IO[bytes], w: Floats) -> None:
    import numpy as np

    np.save(stream, w)


def _write_csv(stream: IO[bytes], w: Floats) -> None:
    stream.write(("w\n" + _lines(w)).encode())


def _write_txt(stream: IO[bytes], w: Floats) -> None:
    stream.write(_lines(w).encode())


WRITERS: dict[str, Callable[[IO[bytes], Floats], None]] = {".npy": _write_npy, ".csv": _write_csv, ".txt": _write_txt}


def _lines(w: Floats) -> str:
    """Each number in full precision, on a line of its own."""
    return "".join(f"{value!r}\n" for value in w.tolist())


def _summary(model: SavedModel) -> str:
    """What was exported, in one line."""
    ago = _ago(max(0.0, time.time() - model.written))
    what = f"version {model.version:,}, {_count(model.reports, 'report', 'reports')}, d = {model.w.size:,}"
    if not model.logged:
        return f"{what}, saved {ago} ago"
    more, last = (_count(model.logged, "entry", "entries"), "it" if model.logged == 1 else "the last")
    return f"{what}; not in it: {more} that the server has logged since that save, {last} {ago} ago"


def _count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


def _ago(seconds: float) -> str:
    """A time span in words.

    >>> _ago(0.25), _ago(90.0), _ago(7200.0), _ago(3e5)
    ('0.2 s', '90 s', '2.0 h', '3.5 days')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} days"
