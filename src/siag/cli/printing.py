"""What commands print: lines about mistakes, JSON, a run, a progress bar."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from siag.report import Chapter
    from siag.simulation import Run

LINE = 118  # letters
WORKERS = 20  # of a live run that are printed
LONGEST = 300  # letters of a method


def tell(*lines: str) -> None:
    """Say something about the command itself, on standard error."""
    for line in lines:
        print(f"siag: {' '.join(line.split())}", file=sys.stderr, flush=True)


def tell_chapter(name: str, chapter: Chapter) -> None:
    """A line about a chapter of a report: how many of its claims hold, and the first of them."""
    held, all_of_them = sum(claim.holds for claim in chapter.claims), len(chapter.claims)
    verdict = f"{held} of {all_of_them} claims hold; " if all_of_them > 1 else "holds: " if held else "FAILS: "
    first = chapter.claims[0].statement if chapter.claims else chapter.title
    line = shorten(f"{verdict if all_of_them else ''}{first}", LINE - 22, placeholder=" …")
    print(f"{name:<21} {line}", file=sys.stderr, flush=True)


def stop(line: str, status: int) -> NoReturn:
    """Say why the command ends, and end it."""
    tell(line)
    sys.exit(status)


def print_json(document: Any) -> None:
    """One JSON document on a line, with null for NaN and infinity, which JSON does not have."""
    print(json.dumps(_without_nan(document), ensure_ascii=False, allow_nan=False))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def bar(shown: bool) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on the terminal; yields a function to be called with the fraction done and what is being done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<22}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, disable=not shown, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda fraction, what: bar.update(task, completed=fraction, description=what)


def document(result: Run) -> dict[str, Any]:
    """A run, for JSON."""
    return {**result.about, **{name: values.tolist() for name, values in result.table().items()}}


def print_run(result: Run) -> None:
    """What there is to say of a run, its workers if it was live, and about ten points of its curve."""
    import rich
    from rich.table import Table

    for name, value in result.about.items():
        if name != "by_worker":
            text = str(value)  # a method's may have a number for each of many columns; run.npz has them all
            most = {"method": LONGEST, "weights": LINE - 12}.get(name, len(text))
            print(f"{name:<11} {text if len(text) <= most else text[: most - 1] + '…'}")
    if result.workers:
        _print_workers(result.workers)
    columns = _columns(result)
    grid = Table(*columns)
    last = len(result.t) - 1
    for k in sorted({*range(0, last, max(1, len(result.t) // 10)), last}):
        grid.add_row(*(show(k) for show in columns.values()))
    rich.print(grid)
    if not result.measure:
        print("No loss was recorded.")


def _print_workers(workers: list[dict[str, Any]]) -> None:
    """How often each of the first workers has reported, and how well its data are predicted."""
    import rich
    from rich.markup import escape
    from rich.table import Table

    grid = Table("worker", "state", "reports", "counts for", "mean age", "loss", "refused")
    for worker in workers[:WORKERS]:
        age, loss = ("–" if worker[name] is None else f"{worker[name]:.4g}" for name in ("mean_age", "loss"))
        name, state, share = escape(worker["name"]), worker["state"], worker.get("share")
        counts = "–" if share is None else f"{share:.1%}"
        grid.add_row(name, state, f"{worker['reports']:,}", counts, age, loss, f"{worker['refused']:,}")
    rich.print(grid)
    if len(workers) > WORKERS:
        print(f"… and {len(workers) - WORKERS:,} more workers; --json and run.npz of --out have all")


def _shown(curve: Any, k: int) -> str:
    return f"{curve[k]:.4g}"


def _columns(result: Run) -> dict[str, Callable[[int], str]]:
    """What there is to print of each recorded point."""
    from siag.simulation.metrics import WORDS

    table = result.table()
    columns: dict[str, Callable[[int], str]] = {"t": lambda k: f"{result.t[k]:,}"}
    if result.measure:
        what = result.about.get("measure", "error")
        columns[what if result.repeats == 1 else f"mean {what}"] = lambda k: f"{table['error'][k]:.4e}"
    if result.measure and result.repeats > 1:
        columns["± standard error"] = lambda k: f"{table['standard_error'][k]:.1e}"
    columns |= {WORDS.get(name, name): partial(_shown, table[name]) for name in result.beside_error}
    columns["gradients"] = lambda k: f"{table['samples'][k]:,.0f}"
    if (table["time"] != table["t"]).any():
        columns["seconds"] = lambda k: f"{table['time'][k]:,.4g}"
    return columns
