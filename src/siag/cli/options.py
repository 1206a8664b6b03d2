"""The options of live commands: made from the fields of `Spec` and `Network`, whose names and words they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click

FILE = click.Path(path_type=Path)
Words = tuple[str, type, str]  # an option, its type, its help
PROBLEM = "A TOML file with a table [problem], or module:attribute"
REPEATED = {"streams": "--stream", "names": "--name", "preload": "--preload"}  # one value each time
SIMPLE = (bool, int, float)
ABOVE: dict[str, list[Words]] = {  # options that say a part of a field, shown above the options of their fields
    "w0": [("--dimension", int, "How many parameters the model has; it starts from 0.")],
    "step": [
        ("--eta", float, "A constant step."),
        ("--beta", float, "β of the step β/(t+γ), instead of --eta."),
        ("--gamma", float, "γ of the step β/(t+γ)."),
    ],
}
INSTEAD: dict[str, list[Words]] = {  # and those that a field has instead of one of its own
    "server": [
        ("--every", int, "Step after every so many reports.  [default: 1]"),
        ("--tick", float, "Step every so many seconds, instead of --every."),
    ],
    "until": [
        ("--iterations", int, "End after so many steps."),
        ("--seconds", float, "End so many seconds after the first report; anew in each session."),
        ("--reports", int, "End after so many accepted reports."),
    ],
    "guard": [
        ("--max-age", int, "Refuse reports older than so many versions."),
        ("--max-norm", float, "Refuse reports of a larger norm."),
        ("--max-jump", float, "… or so many times a worker's largest; inf: any.  [default: 10000]"),
        ("--strikes", int, "Turn a worker away after so many in a row.  [default: 10]"),
    ],
    "limits": [
        ("--connections", int, "At most so many at a time.  [default: 2000, or twice the workers]"),
        ("--hello", float, "Seconds for a new connection to say who it is.  [default: 10]"),
        ("--frame", float, "Seconds for a message to arrive whole; long ones have more.  [default: 30]"),
    ],
}
RAY = (
    ("--address", str, "Ray: its cluster: auto, or HOST:PORT.  [default: RAY_ADDRESS, or its own]"),
    ("--workers", int, "Ray: how many.  [default: one for each stream]"),
    ("--resources", str, "Ray: what each worker needs.  [default: CPU=1]"),
    ("--server-resources", str, "Ray: what each server needs.  [default: CPU=1]"),
    ("--shards", int, "Ray: servers to split the model over.  [default: 1]"),
    ("--fewest", int, "Ray: start when so many workers fit.  [default: all]"),
    ("--tls", bool, "Ray: workers and servers talk over TLS."),
    ("--port", int, "Ray: the server listens on it, shards on the next.  [default: any]"),
    ("--wait", float, "Ray: seconds to wait for the cluster at the start.  [default: 60]"),
)
SHOWN = (
    click.Option(["--out"], type=FILE, help="Folder for w.npy, run.npz, run.csv, run.png and run.svg."),
    click.Option(["--metrics"], help="PORT or HOST:PORT for Prometheus metrics; only this machine, unless --insecure."),
    click.Option(["--quiet"], is_flag=True, help="Show nothing while it runs."),
    click.Option(["--json", "as_json"], is_flag=True, help="Print lines of JSON; the last is the result."),
)


class LiveCommand(click.Command):
    """A command whose options are made once they are needed, since their words take long to import.

    Args:
        more: makes them.
        given: as of `click.Command`.
    """

    def __init__(self, *args: Any, more: Callable[[], Sequence[click.Parameter]], **given: Any) -> None:
        super().__init__(*args, **given)
        self._more: Callable[[], Sequence[click.Parameter]] | None = more

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All of them."""
        if self._more is not None:
            self.params, self._more = [*self.params, *self._more()], None
        return super().get_params(ctx)


def train_options() -> list[click.Parameter]:
    """The options of `siag train`."""
    from siag.live.spec import Spec, fields_of

    where = _option("--runtime", str, "Where to run: local, ray, or yours as module:attribute.  [default: local]")
    insecure = click.Option(["--insecure"], is_flag=True, help="Let --metrics be read from beyond this machine.")
    return [*options_of(Spec, fields_of(serving=False)), *SHOWN, insecure, where, *(_option(*each) for each in RAY)]


def serve_options() -> list[click.Parameter]:
    """The options of `siag serve`."""
    from siag.live.network import NETWORK, Network
    from siag.live.spec import Spec, fields_of

    workers = click.Option(["--workers"], type=int, help="How many workers there are, instead of --name.")
    return [workers, *options_of(Spec, fields_of(serving=True)), *options_of(Network, NETWORK), *SHOWN]


def options_of(owner: type, names: Sequence[str]) -> list[click.Parameter]:
    """The options for these fields of a dataclass."""
    hints = get_type_hints(owner, include_extras=True)
    made: list[click.Parameter] = []
    for name in names:
        made += [_option(*each) for each in (*ABOVE.get(name, ()), *INSTEAD.get(name, ()))]
        if get_origin(hints[name]) is Annotated:  # a field without words has no option of its own
            made.append(_own(name, hints[name]))
    return made


def _own(name: str, hint: Any) -> click.Option:
    """The option of a field, from its type and its note."""
    kind, words = get_args(hint)
    kinds = [each for each in SIMPLE if each is kind or each in get_args(kind)]
    if name in REPEATED:
        return click.Option([REPEATED[name], name], multiple=True, help=words)
    return _option(f"--{name.replace('_', '-')}", kinds[0] if kinds else str, words)


def _option(flag: str, kind: type, words: str) -> click.Option:
    """An option that is None, or False, unless it is given."""
    return (
        click.Option([flag], is_flag=True, help=words) if kind is bool else click.Option([flag], type=kind, help=words)
    )
