"""What a run leaves in a folder: each file by itself, so that one that cannot be written costs no other."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.foundations.errors import SiagError, reason_of

if TYPE_CHECKING:
    from siag.simulation import Run

FILES = ("run.npz", "run.csv", "run.png", "run.svg")
MODEL = "w.npy"
PLAIN: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def keep(result: Run, folder: Path, *more: str) -> tuple[list[str], list[str]]:
    """Write the files of a run, and before them `more`; their names, and a line for each that was not written."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)  # it may be gone since it was tried
    writers = _writers(result)
    written, lost = [], []
    for name in (*more, *FILES):
        try:
            writers[name](folder / name)
        except Exception as error:  # whatever it is, the other files are worth a try
            lost.append(_line(folder / name, error))
        else:
            written.append(name)
    return written, lost


def _writers(result: Run) -> dict[str, Callable[[Path], None]]:
    """How each file is written, whole or not at all."""
    import numpy as np

    from siag.foundations.files import write_atomically, write_bytes
    from siag.report import write_csv

    picture = cache(lambda: _picture(result))
    return {
        MODEL: lambda path: write_atomically(path, lambda stream: np.save(stream, result.w[0])),
        "run.npz": result.save,
        "run.csv": lambda path: write_csv(path, result.table()),
        "run.png": lambda path: write_bytes(path, picture()["png"]),
        "run.svg": lambda path: write_bytes(path, picture()["svg"]),
    }


def _picture(result: Run) -> dict[str, bytes]:
    """The curve, drawn, in each format."""
    from siag.report import figure, styled
    from siag.simulation.plot import label

    drawn = {suffix: io.BytesIO() for suffix in PLAIN}
    with styled():
        picture, (ax,) = figure(width=7.0)
        several = f"mean of {result.repeats} runs, ± 2 standard errors"
        result.plot(ax, label=several if result.repeats > 1 else None)
        label(result, ax)
        if result.repeats > 1:
            ax.legend(loc="lower left")
        picture.draw_without_rendering()
        picture.set_layout_engine("none")  # what was laid out once stays so
        for suffix, image in drawn.items():
            picture.savefig(image, format=suffix, metadata=PLAIN[suffix])
    return {suffix: image.getvalue() for suffix, image in drawn.items()}


def _line(path: Path, error: Exception) -> str:
    """What is wrong with a file, with its name."""
    if isinstance(error, SiagError):  # it has the name
        return str(error)
    reason = reason_of(error)
    return f"{path}: cannot be written: {reason.lower()}"
