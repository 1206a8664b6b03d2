"""`siag train`: the server and its workers in one command, on this machine or on a Ray cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from siag.cli.app import FAILED, TERMINATED, _stop, siag
from siag.cli.early import NotBegun, Terminated
from siag.cli.files import FILES, MODEL
from siag.cli.given import HERE, Described, resources, typed
from siag.cli.options import FILE, LiveCommand, train_options
from siag.cli.running import finish, plainly, terminable, watcher_of
from siag.foundations.errors import BadInput, SiagError

CLUSTER = {  # options of Ray, and their names in Python
    "address": "address",
    "workers": "workers",
    "resources": "resources",
    "server_resources": "server_resources",
    "shards": "shards",
    "fewest": "fewest",
    "tls": "tls",
    "port": "port",
    "wait": "patience",
}


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
    or fails, if it ends because nobody is there and a worker has failed, or if a file cannot be written; 2 if there is
    a mistake.
    """
    from siag.foundations.files import writable_folder
    from siag.live.train import run_spec
    from siag.runtimes import Several

    folder = None if out is None else writable_folder("out", out, (*FILES, MODEL))
    run = Described(given, file)
    with run.checked():
        runtime = _runtime(given) or run.file.runtime
        spec = run.spec
        watcher = watcher_of(given["quiet"], as_json, given["metrics"], given["insecure"])
        try:
            with terminable() as begun:
                shown = replace(spec, progress=Several([watcher, begun]))
                result = plainly(watcher, lambda: run_spec(shown, runtime))
        except NotBegun:
            raise
        except Terminated:
            _stop("ended by SIGTERM", TERMINATED)
        except SiagError as error:
            if type(error) is SiagError:  # the run failed; what is wrong with the command is said by others
                _stop(str(error), FAILED)
            raise
    return finish(result, folder, as_json, spec.folder)


def _runtime(given: dict[str, Any]) -> Any:
    """Where to run, if that was said."""
    from siag.experiments.references import reference
    from siag.live.spec import renamed
    from siag.runtimes import Ray

    told = {option: value for option, value in typed(given).items() if option in CLUSTER}
    where = given["runtime"]
    if where != "ray":
        for option, value in told.items():
            raise BadInput(option.replace("_", "-"), value, "given with --runtime ray")
        if where in (None, "local"):
            return None
        if ":" not in where:
            raise BadInput("runtime", where, "local, ray, or yours as module:attribute")
        found = reference("runtime", where, HERE)
        return found() if isinstance(found, type) else found
    for option in ("resources", "server_resources"):
        if option in told:
            told[option] = resources(option.replace("_", "-"), told[option])
    with renamed({python: option.replace("_", "-") for option, python in CLUSTER.items()}):
        return Ray(**{CLUSTER[option]: value for option, value in told.items()})
