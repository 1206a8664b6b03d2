"""`siag demo`: one command, no code, and it ends by itself."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from siag.cli.app import AS_JSON, on_interrupt, siag
from siag.cli.printing import print_json
from siag.foundations.extras import needed

if TYPE_CHECKING:
    from siag.experiments.demo import Demonstration


@siag.command(epilog="Example: siag demo --dashboard")
@click.option("--seconds", type=float, help="How long to train.  [default: 15, or 60 with --dashboard]")
@click.option(
    "--dashboard",
    is_flag=False,
    flag_value="on",
    metavar="[PORT]",
    help="Show it on a page in the browser, too, at http://127.0.0.1:7461/ or another port.",
)
@AS_JSON
def demo(seconds: float | None, dashboard: str | None, as_json: bool) -> None:
    """Train with eight local workers of unequal speed and different data; say what came of it.

    The first worker reports up to a hundred times as often as the last. The model should count all of them the same;
    asynchronous SGD, given the same reports afterwards, shows what becomes of it otherwise.
    """
    from siag.experiments.demo import demo as demonstrate

    on_interrupt("nothing was left behind")
    if dashboard is not None:
        needed("starlette", "dashboard")
        needed("uvicorn", "dashboard")
    if seconds is None:
        seconds = 15.0 if dashboard is None else 60.0  # time to open the page, and to look at it
    if not as_json:
        print(
            f"Eight workers of unequal speed, each with data of its own, train one model for {seconds:g} s …",
            flush=True,
        )
    page = True if dashboard == "on" else dashboard
    result = demonstrate(seconds, False if as_json else None, dashboard=page)
    if as_json:
        print_json(asdict(result) | {"reports": list(result.reports)})
        return
    _print(result)


def _print(result: Demonstration) -> None:
    """Who has reported how often, and how far from the fair optimum each method is."""
    import rich
    from rich.table import Table

    total, n = sum(result.reports), len(result.reports)
    grid = Table("worker", "reports", "share of reports", "share of the objective")
    for k, count in enumerate(result.reports):
        grid.add_row(str(k), f"{count:,}", f"{count / total:.1%}", f"{1 / n:.1%}")
    rich.print(grid)
    print(f"Distance to the fair optimum, in which all {n} count the same ({result.start:.2f} at the start):")
    print(f"  sIAG, its steps found by itself           {result.siag:.3f}")
    print(f"  asynchronous SGD with the same reports    {result.sgd:.3f}")
    print(f"SGD is at {result.sgd_to_its_own:.3f} from another optimum: the one in which workers count as they report.")
    print("Go on with your own data: siag train --help, or siag.train in Python (README.md).")
