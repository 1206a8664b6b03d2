"""`siag compare`: methods and activities on one problem, on one footing."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siag.cli.app import AS_JSON, FAILED, FILE, NOTHING_HALF, on_interrupt, siag
from siag.cli.given import HERE
from siag.cli.options import PROBLEM
from siag.cli.printing import bar, print_json
from siag.foundations.errors import BadInput

if TYPE_CHECKING:
    from siag.activity import Activity
    from siag.experiments.comparison import Comparison
    from siag.problems import Problem

WORD = 14  # letters of the longest word in a method's name


@siag.command(epilog='Example: siag compare --methods "sIAG, PIAG, FedAvg(steps=3, size=1.0)" --out compared')
@click.option("--problem", help=f"{PROBLEM}; the paper's by default.")
@click.option(
    "--methods",
    "--method",
    multiple=True,
    help="By name, as Python writes them, or yours as module:name(key=1.0); between commas, or repeated.",
)
@click.option(
    "--activities",
    "--activity",
    multiple=True,
    help="uniform, non-uniform, clock, everyone, in turn, one at a time; or as methods are given.",
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
@click.option(
    "--objective/--no-objective", default=None, help="Measure F and ‖∇F‖², too.  [default: without an optimum]"
)
@click.option(
    "--messages",
    type=click.Choice(["float64", "float32", "bfloat16", "int8"]),
    default="float64",
    show_default=True,
    help="In which numbers messages travel, in the runs that are shown.",
)
@click.option("--weights", help="What workers count for: numbers between commas, one for each; or points.")
@click.option("--evaluate", multiple=True, help="NAME=module:function: a metric of w of your own; may be repeated.")
@click.option("--out", type=FILE, default="out", show_default=True, help="Folder for the result.")
@click.option("--details", is_flag=True, help="Print every method and activity with its parameters and steps, too.")
@AS_JSON
def compare(
    problem: str | None,
    methods: tuple[str, ...],
    activities: tuple[str, ...],
    n: int,
    seed: int,
    weights: str | None,
    evaluate: tuple[str, ...],
    out: Path,
    details: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Compare methods on one problem, each with the best step that one rule finds for it.

    Writes compare.html, compare.md, compare.csv, curves.csv and the figures. A method that cannot run somewhere is
    listed with the reason; so is one of yours that fails, and then the exit status is 1. All methods together take
    about a minute on two cores; the first time two or three, since machine code is made for every method.
    """
    from siag.experiments.comparison import compare as make
    from siag.experiments.config import problem_named
    from siag.experiments.references import metrics_named
    from siag.experiments.setting import NOISE, D, P
    from siag.foundations.files import writable_folder
    from siag.problems import LeastSquares

    on_interrupt(NOTHING_HALF)
    writable_folder("out", out)
    chosen = None if problem is None else problem_named(problem, HERE)[0]
    chosen = chosen or LeastSquares.random(n=n, d=D, p=P, noise=NOISE, seed=seed)
    places, metrics = _activities(activities, chosen), metrics_named(list(evaluate), HERE)
    given["weights"] = _weights(weights)
    names = [name for text in methods for name in _split(text)] if methods else None
    try:
        with bar(not as_json and sys.stderr.isatty()) as show:
            found = make(chosen, names, places, seed=seed, evaluate=metrics, **given, progress=show)
    except BadInput as error:
        if error.parameter != "axis":
            raise
        raise BadInput("by", error.value, error.allowed, error.remedy) from None
    page = found.write(out)
    if as_json:
        rows = [found.row(entry) for entry in found.entries]
        print_json({"report": str(page), "rows": rows, "compared": found.compared})
    else:
        _print(found)
        for each in found.compared.values() if details else ():
            print("\n".join(f"{name}: {text}" for name, text in each.items()), end="\n\n")
        print(f"Report: {page}")
    return FAILED if any(entry.failed for entry in found.entries) else 0


def _weights(text: str | None) -> list[float] | str | None:
    """Numbers between commas, or a word."""
    if text is None:
        return None
    try:
        return [float(each) for each in text.split(",")]
    except ValueError:
        if "," in text:
            raise BadInput("weights", text, "numbers between commas, one for each worker; or points") from None
        return text.strip()


def _activities(texts: tuple[str, ...], problem: Problem) -> dict[str, Activity] | None:
    """Those asked for: by the name that a comparison has for them, as Python writes them, or the user's own."""
    from siag.experiments.comparison.contenders import HOMES
    from siag.experiments.comparison.contest import activities_of
    from siag.experiments.config import KINDS, typed

    known = activities_of(problem) | HOMES
    found: dict[str, Activity] = {}
    for name in (name for text in texts for name in _split(text)):
        if name not in known and name not in KINDS["activity"] and not {"(", ":"} & set(name):
            remedy = "or as Python writes it, Uniform(15); or yours as module:name(key=1.0)"
            raise BadInput("activities", name, f"one of {', '.join(known)}", remedy)
        found[name] = known[name] if name in known else typed("activity", name, HERE)
    return found or None


def brief(verdict: str) -> str:
    """A verdict on claims without its counts: "reaches, consistent"."""
    return re.sub(r"( with)? \(.*?\)", "", verdict)


def by_verdict(claims: Mapping[str, str]) -> dict[str, list[str]]:
    """The methods of each verdict, without its counts; those without claims are left out."""
    found: dict[str, list[str]] = {}
    for name, verdict in claims.items():
        if verdict:
            found.setdefault(brief(verdict), []).append(name)
    return found


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
        shown = ["iterations", "samples", "bytes", *(["time"] if timed else []), "bias", *found.metrics]
        title = f"{activity}: errors at equal …, the least at equal {found.axis} first"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        table.add_column("method", overflow="fold", min_width=WORD)
        for name in shown:
            table.add_column(SHOWN.get(name, name).removeprefix("= "), justify="right", no_wrap=True)
        rows = [found.row(entry) for entry in found.entries if entry.activity == activity]
        for row in best_first(rows, found.axis):
            table.add_row(row["method"], *(cell(name, row) for name in shown))
        console.print(table)
        for note in found.unplaced(activity):
            console.print(note, style="dim", soft_wrap=True)
        for row in rows:
            if row["remark"]:
                console.print(f"{row['method']}: {row['remark']}", style="dim", soft_wrap=True)
        console.print()
    for verdict, names in by_verdict(found.claims).items():
        console.print(f"Claims of their papers, {verdict}: {', '.join(names)}")
    console.print(f"{found.legend} {found.rule}", style="dim")
