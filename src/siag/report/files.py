"""A report on disk: figures as PNG and SVG, tables as CSV, claims as CSV and JSON, and one page that holds it all."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.foundations.files import write_bytes, write_text
from siag.report.chapter import Chapter, Claim, Columns
from siag.report.page import render
from siag.report.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(
    folder: Path,
    title: str,
    facts: Mapping[str, str],
    chapters: Sequence[Chapter],
    *,
    name: str = "report.html",
    paper: bool = True,
    png: bool = True,
) -> Path:
    """Write everything; return the page. Each file is whole or not there, and the page comes last.

    Args:
        folder: where.
        title: of the page.
        facts: what is known of its making.
        chapters: what it says.
        name: of the page's file.
        paper: whether it is about the paper, so that its slips belong on it, and its claims into files.
        png: whether to write pictures as PNG, too, beside SVG; half of the time goes there.
    """
    pictures = {}
    for chapter in chapters:
        pictures[chapter.name] = write_figure(folder, chapter.name, chapter.figure, png=png)
        for table, columns in chapter.tables.items():
            write_csv(folder / f"{table}.csv", columns)
    if paper:
        write_claims(folder, [claim for chapter in chapters for claim in chapter.claims])
    page = folder / name
    write_text(page, render(title, facts, chapters, pictures, paper=paper))
    return page


def write_figure(folder: Path, name: str, figure: Figure, *, png: bool = True) -> str:
    """Write NAME.svg, and NAME.png if wanted; return the picture as a data URL, for a page that needs no other file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with styled():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # what was laid out once stays so
        dots = _printed(figure, FigureCanvasAgg, "print_png", {"Software": None}) if png else None
        svg = _printed(figure, FigureCanvasSVG, "print_svg", {"Date": None, "Creator": None})
    if dots is not None:
        write_bytes(folder / f"{name}.png", dots)
    write_bytes(folder / f"{name}.svg", svg)
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _printed(figure: Figure, canvas: Callable[[Figure], Any], method: str, metadata: dict[str, None]) -> bytes:
    """What `savefig` writes, which would draw the figure once more, to lay it out."""
    from matplotlib import rcParams

    image, before, dpi = io.BytesIO(), figure.canvas, figure.dpi
    figure.set_dpi(rcParams["savefig.dpi"])
    getattr(canvas(figure), method)(image, metadata=metadata)
    figure.set_dpi(dpi)
    figure.set_canvas(before)
    return image.getvalue()


def write_csv(path: Path, columns: Columns) -> None:
    """Write columns as a table with a header line; numbers in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_text(path, text.getvalue())


def write_claims(folder: Path, claims: Sequence[Claim]) -> None:
    """Write the claims for people who compute with them."""
    rows = [asdict(claim) for claim in claims]
    write_text(folder / "claims.json", json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    write_csv(folder / "claims.csv", {key: [row[key] for row in rows] for key in Claim.__dataclass_fields__})
