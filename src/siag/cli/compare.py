"""`siag compare`: methods and activities on one problem, on one footing."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siag.cli.app import AS_JSON, FILE, NOTHING_HALF, on_interrupt, siag
from siag.cli.given import HERE
from siag.cli.printing import bar, print_json
from siag.foundations.errors import BadInput

if TYPE_CHECKING:
    from siag.experiments.comparison import Comparison


@siag.command(epilog='Example: siag compare --methods "sIAG, PIAG, FedAvg(steps=3, size=1.0)" --out compared')
@click.option("--problem", help="A TOML file with a table [problem], or module:attribute; the paper's by default.")
@click.option(
    "--methods", multiple=True, help="By name, or as Python prints them, separated by commas; may be repeated."
)
@click.option(
    "--activities", help="uniform, non-uniform, clock, everyone, in turn, one at a time; separated by commas."
)
@click.option("--n", type=int, default=40, show_default=True, help="Workers of the paper's problem, without --problem.")
@click.option("--iterations", type=int, default=10_000, show_default=True, help="Iterations of every run.")
@click.option("--repeats", type=int, default=8, show_default=True, help="Runs of every method and activity.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the runs, and of the paper's problem.")
@click.option("--claims/--no-claims", default=True, show_default=True, help="Test the claims of the methods' papers.")
@click.option("--eta", type=float, help="The search for steps begins at a 16th to a 256th of this.  [default: 1/L]")
@click.option(
    "--by",
    "axis",
    type=click.Choice(["iterations", "samples", "bytes", "time"]),
    default="iterations",
    show_default=True,
    help="Rank methods at equal …, with steps found for that.",
)
@click.option("--out", type=FILE, default="out", show_default=True, help="Folder for the result.")
@click.option("--details", is_flag=True, help="Print every method and activity with its parameters and steps, too.")
@AS_JSON
def compare(
    problem: str | None,
    methods: tuple[str, ...],
    activities: str | None,
    n: int,
    seed: int,
    out: Path,
    details: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare methods on one problem, each with the best step that one rule finds for it.

    Writes compare.html, compare.md, compare.csv, curves.csv and the figures. A method that cannot run somewhere is
    listed with the reason. The first time, machine code is made for every method, which takes about a minute.
    """
    from siag.experiments.comparison import compare as make
    from siag.experiments.comparison.contenders import HOMES
    from siag.experiments.comparison.contest import activities_of
    from siag.experiments.references import problem_named
    from siag.experiments.setting import NOISE, D, P
    from siag.foundations.files import writable_folder
    from siag.problems import LeastSquares

    on_interrupt(NOTHING_HALF)
    writable_folder("out", out)
    chosen = None if problem is None else problem_named(problem, HERE)[0]
    chosen = chosen or LeastSquares.random(n=n, d=D, p=P, noise=NOISE, seed=seed)
    known = activities_of(chosen) | HOMES
    names = [] if activities is None else _split(activities)
    for name in names:
        if name not in known:
            raise BadInput("activities", name, f"one of {', '.join(known)}")
    with bar(not as_json and sys.stderr.isatty()) as show:
        found = make(
            chosen,
            [name for text in methods for name in _split(text)] if methods else None,
            {name: known[name] for name in names} or None,
            seed=seed,
            **given,
            progress=show,
        )
    page = found.write(out)
    if as_json:
        rows = [found.row(entry) for entry in found.entries]
        print_json({"report": str(page), "rows": rows, "compared": found.compared})
    else:
        _print(found)
        for each in found.compared.values() if details else ():
            print("\n".join(f"{name}: {text}" for name, text in each.items()), end="\n\n")
        print(f"Report: {page}")


def brief(verdict: str) -> str:
    """A verdict on claims without its counts: "reaches, consistent"."""
    return re.sub(r"( with)? \(.*?\)", "", verdict)


def _split(text: str) -> list[str]:
    """Names between commas, those within brackets aside."""
    parts, depth = [""], 0
    for mark in text:
        depth += (mark in "([{") - (mark in ")]}")
        if mark == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += mark
    return [part.strip() for part in parts if part.strip()]


def _print(found: Comparison) -> None:
    import rich
    from rich.table import Table

    from siag.experiments.comparison.result import SHOWN, best_first, cell

    console = rich.get_console()
    for activity in found.activities:
        timed = any(entry.timed for entry in found.ran(activity))
        shown = ["iterations", "samples", "bytes", *(["time"] if timed else []), "bias"]
        table = Table(title=activity, title_justify="left", box=None, pad_edge=False)
        table.add_column("method", overflow="fold", min_width=7)
        for name in shown:
            table.add_column(SHOWN[name], justify="right", no_wrap=True)
        if found.claims:
            table.add_column("claims", min_width=10, max_width=10)  # two words stand one below the other
        rows = [found.row(entry) for entry in found.entries if entry.activity == activity]
        for row in best_first(rows, found.axis):
            verdict = [brief(row["claims"])] if found.claims else []
            table.add_row(row["method"], *(cell(name, row) for name in shown), *verdict)
        console.print(table)
        for row in rows:
            if row["remark"]:
                console.print(f"{row['method']}: {row['remark']}", style="dim", soft_wrap=True)
        console.print()
    console.print(f"{found.legend} {found.rule}", style="dim")
