"""A report on disk: figures as PNG and SVG, tables as CSV, claims as CSV and JSON, and one page that holds it all."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

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
) -> Path:
    """Write everything; return the page. Each file is whole or not there, and the page comes last.

    Args:
        folder: where.
        title: of the page.
        facts: what is known of its making.
        chapters: what it says.
        name: of the page's file.
        paper: whether it is about the paper, so that its slips belong on it, and its claims into files.
    """
    pictures = {}
    for chapter in chapters:
        pictures[chapter.name] = write_figure(folder, chapter.name, chapter.figure)
        for table, columns in chapter.tables.items():
            write_csv(folder / f"{table}.csv", columns)
    if paper:
        write_claims(folder, [claim for chapter in chapters for claim in chapter.claims])
    page = folder / name
    write_text(page, render(title, facts, chapters, pictures, paper=paper))
    return page


def write_figure(folder: Path, name: str, figure: Figure) -> str:
    """Write NAME.png and NAME.svg; return the picture as a data URL, for a page that needs no other file."""
    with styled():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # what was laid out once stays so
        for suffix, options in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            image = io.BytesIO()
            figure.savefig(image, format=suffix, metadata=options)
            content = image.getvalue()
            write_bytes(folder / f"{name}.{suffix}", content)
    return "data:image/svg+xml;base64," + base64.b64encode(content).decode()


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
