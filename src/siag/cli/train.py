"""`siag train`: the server and its workers in one command, on this machine or on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from siag.cli.app import FILE, siag
from siag.cli.given import Described
from siag.cli.options import LiveCommand, train_options
from siag.cli.running import conduct


@siag.command(
    cls=LiveCommand,
    more=train_options,
    epilog="Example: siag train --gradient job:gradient --stream job:ones --dimension 3 --eta 0.05",
)
@click.argument("file", type=FILE, required=False)
def train(file: Path | None, out: Path | None, as_json: bool, **given: Any) -> int:
    """Train from many streams, each read by a worker of its own.

    FILE is a TOML file that describes the run (see docs/experiments.md); options override what it says.

    The workers are processes of this machine, or with --runtime ray of a cluster. What is shown and printed is as with
    siag serve.

    Exit status 0 at the end, and also if it is stopped with Ctrl-C or SIGTERM, which end it in order; 1 if it diverges
    or fails, if it ends because no worker is there and one has failed, or if a file cannot be written; 2 if there is a
    mistake.
    """
    from siag.live.train import run_spec

    run = Described(given, file)
    with run.checked():
        spec, runtime = run.spec, run.runtime
        return conduct(spec, lambda shown, _: run_spec(shown, runtime), out, as_json, given)
