"""Options that several commands have: each is written here once, so that it means the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

FILE = click.Path(path_type=Path)
PROBLEM = "A TOML file with a table [problem], or module:attribute"


def takes(*groups: tuple[Option[Any], ...]) -> Option[Any]:
    """A decorator that gives a command all of them, in this order."""

    def give(command: Command) -> Command:
        for group in reversed(groups):
            for option in reversed(group):
                command = option(command)
        return command

    return give


START = (
    click.option("--dimension", type=int, help="How many parameters the model has; it starts from 0."),
    click.option("--w0", type=FILE, help="A .npy file with the first parameters, instead of --dimension."),
)
SEED = (click.option("--seed", type=int, help="Of the problem's samples.  [default: of the file's [run], or 0]"),)
METHOD = (
    click.option(
        "--method",
        default="SIAG",
        show_default=True,
        help="As in Python: SGD, SIAG(wait=1.0), Prox(SIAG(), l1=0.1), …; or yours, as module:attribute.",
    ),
    click.option("--eta", type=float, help="A constant step."),
    click.option("--beta", type=float, help="β of the step β/(t+γ), instead of --eta."),
    click.option("--gamma", type=float, help="γ of the step β/(t+γ)."),
    click.option("--step", help="Any other step, as in Python: DelayAdaptive(gamma=0.1), …; or module:attribute."),
    click.option("--every", type=int, help="Step after every so many reports.  [default: 1]"),
    click.option("--tick", type=float, help="Step every so many seconds, instead of --every."),
)
END = (
    click.option("--iterations", type=int, help="End after so many steps."),
    click.option("--seconds", type=float, help="End so many seconds after the first report; anew in each session."),
    click.option("--reports", type=int, help="End after so many accepted reports."),
)
ABSENCE = (
    click.option("--forget", type=float, help="A worker that is away for so many seconds has left."),
    click.option(
        "--patience",
        type=float,
        help="Show a worker that is here as stalled so many seconds after its last report.  [default: 10]",
    ),
)
GUARD = (
    click.option(
        "--departed", default="keep", show_default=True, help="Rows of those that left: keep, drop, or a half-life."
    ),
    click.option("--max-age", type=int, help="Refuse reports older than so many versions."),
    click.option("--max-norm", type=float, help="Refuse reports of a larger norm."),
    click.option(
        "--max-jump",
        type=float,
        default=1e4,
        show_default=True,
        help="… or so many times a worker's largest; inf: any.",
    ),
    click.option(
        "--strikes", type=int, default=10, show_default=True, help="Turn a worker away after so many in a row."
    ),
)
DURABLE = (click.option("--durable", is_flag=True, help="No acknowledged report is ever lost."),)
CURVE = (
    click.option("--loss", help="module:function, the loss of w to show and record."),
    click.option("--record", type=int, default=200, show_default=True, help="Points of the curve to keep, about."),
    click.option("--out", type=FILE, help="Folder for w.npy, run.npz, run.csv, run.png and run.svg."),
)
SHOWN = (
    click.option("--metrics", help="PORT or HOST:PORT for Prometheus metrics; only this machine, unless --insecure."),
    click.option("--quiet", is_flag=True, help="Show nothing while it runs."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print lines of JSON instead of text; the last is the result."
    ),
)
