"""What a run leaves in a folder: each file by itself, so that one that cannot be written costs no other."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.cli.printing import document, print_json, print_run
from siag.foundations.errors import SiagError, reason_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from siag.simulation import Run, Sweep

FILES = ("run.npz", "run.csv", "run.png", "run.svg")
SWEEP_FILES = ("sweep.csv", "sweep.png", "sweep.svg")
MODEL = "w.npy"
MOST_NUMBERS = 1000  # of w, in a line of JSON
PLAIN: dict[str, dict[str, Any]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def folder_for(out: Path | None, *more: str) -> Path | None:
    """The folder for the files of a run, and `more`; tried by writing into it. None without one."""
    from siag.foundations.files import writable_folder

    return None if out is None else writable_folder("out", out, (*FILES, *more))


def deliver(result: Run, folder: Path | None, as_json: bool, live: bool = False) -> list[str]:
    """Write and print a run, with its model if it is a live one; a line for each file that could not be written."""
    names = (MODEL, *FILES) if live else FILES
    written, lost = ([], []) if folder is None else _keep(_writers(result), folder, names)
    if as_json:
        model = {"w": result.w[0].tolist() if result.w[0].size <= MOST_NUMBERS else None}
        print_json({"result": True, **document(result), **model} if live else document(result))
        return lost
    if live:
        import numpy as np

        print(f"w           {np.array2string(result.w[0], precision=6, threshold=10)}")
    print_run(result)
    if folder is not None and written:
        print(f"Written: {', '.join([str(folder / written[0]), *written[1:]])}")
    return lost


def deliver_sweep(result: Sweep, folder: Path) -> tuple[list[str], list[str]]:
    """Write a sweep; the names of its files, and a line for each that could not be written."""
    from siag.foundations.files import write_bytes
    from siag.report import styled, write_csv
    from siag.simulation.plot_sweep import figure_of

    @cache
    def picture() -> dict[str, bytes]:
        with styled():
            return _drawn(figure_of(result))

    writers: dict[str, Callable[[Path], None]] = {
        "sweep.csv": lambda path: write_csv(path, result.table()),
        "sweep.png": lambda path: write_bytes(path, picture()["png"]),
        "sweep.svg": lambda path: write_bytes(path, picture()["svg"]),
    }
    return _keep(writers, folder, SWEEP_FILES if result.runs else SWEEP_FILES[:1])


def _keep(
    writers: Mapping[str, Callable[[Path], None]], folder: Path, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Write files; their names, and a line for each that was not written."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)  # it may be gone since it was tried
    written, lost = [], []
    for name in names:
        try:
            writers[name](folder / name)
        except SiagError as error:  # it has the name
            lost.append(str(error))
        except Exception as error:  # the other files are worth a try, for any reason
            lost.append(f"{folder / name}: cannot be written: {reason_of(error)}")
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

    with styled():
        picture, (ax,) = figure(width=7.0)
        several = f"mean of {result.repeats} runs, ± 2 standard errors"
        result.plot(ax, label=several if result.repeats > 1 else None)
        label(result, ax)
        if result.repeats > 1:
            ax.legend(loc="lower left")
        return _drawn(picture)


def _drawn(picture: Figure) -> dict[str, bytes]:
    """A figure in each format."""
    drawn = {suffix: io.BytesIO() for suffix in PLAIN}
    picture.draw_without_rendering()
    picture.set_layout_engine("none")  # what was laid out once stays so
    for suffix, image in drawn.items():
        picture.savefig(image, format=suffix, metadata=PLAIN[suffix])
    return {suffix: image.getvalue() for suffix, image in drawn.items()}
