"""`siag train`: the server and its workers in one command, on this machine or on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from siag.cli.app import FAILED, TERMINATED, _stop, siag
from siag.cli.early import NotBegun, Terminated
from siag.cli.files import FILES, MODEL
from siag.cli.given import ENDS, TYPED, check_clock, check_name, named, problem_of, reference, resources, training
from siag.cli.options import ABSENCE, CURVE, DURABLE, END, GUARD, METHOD, PROBLEM, SEED, SHOWN, START, takes
from siag.cli.running import finish, plainly, terminable, watcher_of
from siag.foundations.errors import BadInput, Missing, SiagError

PLACES = click.Choice(["local", "ray"])
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


@siag.command(epilog="Example: siag train --gradient job:gradient --stream job:ones --dimension 3 --eta 0.05")
@click.option("--gradient", help="module:function, called with w and a sample.")
@click.option("--stream", "streams", multiple=True, help="module:attribute: a worker's samples; repeat it for each.")
@click.option("--name", "names", multiple=True, help="A worker's name; repeat it.  [default: 0, 1, …]")
@takes(START)
@click.option("--problem", help=f"{PROBLEM}; instead of --gradient, --stream and --dimension.")
@takes(SEED, METHOD, END, ABSENCE)
@click.option("--folder", help="Where the state is saved; the same command goes on from there. With Ray also a URL.")
@takes(DURABLE)
@click.option("--trace", help="A file for who reported when, for siag replay. With Ray also a URL.")
@takes(GUARD, CURVE, SHOWN)
@click.option("--insecure", is_flag=True, help="Let --metrics be read from beyond this machine.")
@click.option("--runtime", type=PLACES, default="local", show_default=True, help="Where to run.")
@click.option("--address", help="Ray: its cluster: auto, or HOST:PORT.  [default: RAY_ADDRESS, or its own]")
@click.option("--workers", type=int, help="Ray: how many.  [default: one for each stream]")
@click.option("--resources", help="Ray: what each worker needs.  [default: CPU=1]")
@click.option("--server-resources", help="Ray: what each server needs.  [default: CPU=1]")
@click.option("--shards", type=int, help="Ray: servers to split the model over.  [default: 1]")
@click.option("--fewest", type=int, help="Ray: start when so many workers fit.  [default: all]")
@click.option("--tls", is_flag=True, help="Ray: workers and servers talk over TLS.")
@click.option("--port", type=int, help="Ray: the server listens on it, shards on the next.  [default: any]")
@click.option("--wait", type=float, help="Ray: seconds to wait for the cluster at the start.  [default: 60]")
def train(out: Path | None, as_json: bool, **given: Any) -> int:
    """Train from many streams, each read by a worker of its own.

    The workers are processes of this machine, or with --runtime ray of a cluster. What is shown and printed is as with
    siag serve.

    Exit status 0 at the end, and also if it is stopped with Ctrl-C or SIGTERM, which end it in order; 1 if it diverges
    or fails, if it ends because nobody is there and a worker has failed, or if a file cannot be written; 2 if there is
    a mistake.
    """
    from siag.foundations.files import writable_folder
    from siag.runtimes import Several
    from siag.runtimes import train as run_here

    folder = None if out is None else writable_folder("out", out, (*FILES, MODEL))
    problem, seed = problem_of(given["problem"], given["seed"])
    _check_data(given)
    check_clock(given)
    with named(TYPED | {"names": "name", "streams": "stream"}):
        runtime = _runtime(given)
        options = {
            **training(given, problem, seed),
            "gradient": None if given["gradient"] is None else reference("gradient", given["gradient"]),
            "streams": [reference("stream", text) for text in given["streams"]] or None,
            "names": list(given["names"]) or None,
        }
        if runtime is not None:
            options["runtime"] = runtime
        watcher = watcher_of(given["quiet"], as_json, given["metrics"], given["insecure"])
        try:
            with terminable() as begun:
                result = plainly(watcher, run_here, **options, progress=Several([watcher, begun]))
        except NotBegun:
            raise
        except Terminated:
            _stop("ended by SIGTERM", TERMINATED)
        except SiagError as error:
            if type(error) is SiagError:  # the run failed; what is wrong with the command is said by others
                _stop(str(error), FAILED)
            raise
    return finish(result, folder, as_json, given["folder"])


def _check_data(given: dict[str, Any]) -> None:
    """Refuse what says twice, or not at all, what to train on."""
    for name in given["names"]:
        check_name(name)
    if given["problem"] is not None:
        for name in ("gradient", "streams", "dimension"):
            if given[name] not in (None, ()):
                shown = given[name][0] if name == "streams" else given[name]
                raise BadInput(name.removesuffix("s"), shown, "left out with --problem, which knows it")
        if all(given[name] is None for name in ENDS):
            raise Missing("iterations", "say when to end, with --iterations, --seconds or --reports")
    elif given["gradient"] is None:
        raise Missing("gradient", "give --gradient and --stream, or --problem")
    elif not given["streams"]:
        raise Missing("stream", "give --stream for each worker")


def _runtime(given: dict[str, Any]) -> Any:
    """Where to run; None for this machine."""
    from siag.runtimes import Ray
    from siag.storage.mirror import is_url

    told = {option: given[option] for option in CLUSTER if given[option] is not None and given[option] is not False}
    if given["runtime"] == "local":
        for option, value in told.items():
            raise BadInput(option.replace("_", "-"), value, "given with --runtime ray")
        for place in ("folder", "trace"):
            if is_url(given[place]):
                raise BadInput(place, given[place], "a path, or given with --runtime ray")
        return None

    for option in ("resources", "server_resources"):
        if option in told:
            told[option] = resources(option.replace("_", "-"), told[option])
    with named({python: option.replace("_", "-") for option, python in CLUSTER.items()}):
        return Ray(**{CLUSTER[option]: value for option, value in told.items()})
