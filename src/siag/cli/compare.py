"""`siag compare`: methods and activities on one problem, on one footing."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siag.cli.app import AS_JSON, NOTHING_HALF, bar, on_interrupt, siag
from siag.cli.given import read_problem
from siag.foundations.errors import BadInput

if TYPE_CHECKING:
    from siag.experiments.comparison import Comparison


@siag.command(epilog='Example: siag compare --methods "sIAG, SGD, FedAvg, SCAFFOLD" --out compared')
@click.option("--problem", help="A TOML file with a table [problem], or module:attribute; the paper's by default.")
@click.option("--methods", help="Names, separated by commas; all by default.")
@click.option("--activities", help="Of uniform, non-uniform, clock, everyone, in turn, one at a time; by commas.")
@click.option("--n", type=int, default=40, show_default=True, help="Workers of the paper's problem, without --problem.")
@click.option("--iterations", type=int, default=10_000, show_default=True, help="Of every run.")
@click.option("--repeats", type=int, default=8, show_default=True, help="Runs of every method and activity.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the runs that are shown.")
@click.option("--claims/--no-claims", default=True, show_default=True, help="Test the claims of the methods' papers.")
@click.option("--eta", type=float, help="The search for steps begins at a 16th to a 256th of it; 1/L by default.")
@click.option("--out", type=click.Path(path_type=Path), default="out", show_default=True, help="Folder for the result.")
@AS_JSON
def compare(
    problem: str | None,
    methods: str | None,
    activities: str | None,
    n: int,
    iterations: int,
    repeats: int,
    seed: int,
    claims: bool,
    eta: float | None,
    out: Path,
    as_json: bool,
) -> None:
    """Compare methods on one problem, each with the best step that one rule finds for it.

    Writes compare.html, compare.md, compare.csv, curves.csv and the figures. A method that cannot run somewhere is
    listed with the reason. The first time, machine code is made for every method, which takes about a minute.
    """
    from siag.experiments.comparison import compare as make
    from siag.experiments.comparison.compare import activities_of
    from siag.experiments.comparison.contenders import HOMES
    from siag.experiments.setting import NOISE, D, P
    from siag.foundations.files import writable_folder
    from siag.problems import LeastSquares

    on_interrupt(NOTHING_HALF)
    writable_folder("out", out)
    chosen = LeastSquares.random(n=n, d=D, p=P, noise=NOISE, seed=seed) if problem is None else read_problem(problem)[0]
    known = activities_of(chosen) | HOMES
    names = [] if activities is None else _split(activities)
    for name in names:
        if name not in known:
            raise BadInput("activities", name, f"one of {', '.join(known)}")
    with bar(not as_json and sys.stderr.isatty()) as show:
        found = make(
            chosen,
            None if methods is None else _split(methods),
            {name: known[name] for name in names} or None,
            iterations=iterations,
            repeats=repeats,
            seed=seed,
            claims=claims,
            eta=eta,
            progress=show,
        )
    page = found.write(out)
    if as_json:
        print(json.dumps({"report": str(page), "rows": _rows(found)}, ensure_ascii=False, allow_nan=False))
    else:
        _print(found)
        print(f"Report: {page}")


def _split(text: str) -> list[str]:
    """Names between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _rows(found: Comparison) -> list[dict[str, Any]]:
    """The table for scripts; what is no number is null."""
    rows = [found.row(entry) for entry in found.entries]
    return [
        {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()}
        for row in rows
    ]


def _print(found: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    from siag.experiments.comparison.result import TINY

    console = Console()
    shown = {"iterations": "error", "samples": "= samples", "bytes": "= bytes", "time": "= time", "bias": "offset²"}
    for activity in found.activities:
        table = Table(title=activity, title_justify="left", box=None, pad_edge=False)
        table.add_column("method", no_wrap=True)
        for heading in shown.values():
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("claims", no_wrap=True)
        rows = [found.row(entry) for entry in found.entries if entry.activity == activity]
        for row in sorted((row for row in rows if row["eta"] > 0), key=lambda row: row["iterations"]):
            row["bias"] = row["bias"] if row["bias"] > max(row["bias_error"], TINY) else math.nan
            numbers = ("–" if math.isnan(row[name]) else f"{row[name]:.1e}" for name in shown)
            table.add_row(row["method"], *numbers, row["claims"].partition(" ")[0])
        console.print(table)
        for row in rows:
            if row["remark"]:
                console.print(f"{row['method']}: {row['remark']}", style="dim", soft_wrap=True)
        console.print()
    words = (
        "Columns: error at the end, and at the samples, bytes and time that all had; bias² beyond two standard errors."
    )
    console.print(f"{words} {found.rule}", style="dim")
