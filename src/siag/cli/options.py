"""The options of live commands: made from the fields of `Spec` and `Network`, whose names and words they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click

from siag.cli.app import FILE

PROBLEM = "A TOML file with a table [problem], or as Python writes it, or module:attribute"
REPEATED = {
    "streams": "--stream",
    "names": "--name",
    "evaluate": "--evaluate",
    "preload": "--preload",
}  # one value each time
EACH = "repeat --stream before each file"
SIMPLE = (bool, int, float)
Part = tuple[str, str, type, str]  # an option, the key in the table that it stands for, its type, its help
PARTS: dict[str, list[Part]] = {  # options that are a part of a table; they are shown above the option of the whole
    "step": [
        ("--eta", "eta", float, "A constant step."),
        ("--beta", "beta", float, "β of the step β/(t+γ), instead of --eta."),
        ("--gamma", "gamma", float, "γ of the step β/(t+γ)."),
    ],
    "server": [
        ("--every", "k", int, "Step after this many reports.  [default: 1]"),
        ("--tick", "seconds", float, "Step at this interval in seconds, instead of --every."),
    ],
    "until": [
        ("--iterations", "iterations", int, "End after this many steps."),
        ("--seconds", "seconds", float, "End this many seconds after the first report of a session."),
        ("--reports", "reports", int, "End after this many accepted reports."),
        ("--epochs", "epochs", int, "End after this many passes over all data.  [default: 10, if nothing is said]"),
    ],
    "guard": [
        ("--max-age", "age", int, "Refuse reports older than this many versions."),
        ("--max-norm", "norm", float, "Refuse reports of a larger norm."),
        (
            "--max-jump",
            "jump",
            float,
            "Refuse a norm this many times the worker's largest; inf: never.  [default: 10000]",
        ),
        ("--strikes", "strikes", int, "Turn a worker away after this many refusals in a row.  [default: 10]"),
    ],
    "network": [
        (
            "--connections",
            "connections",
            int,
            "How many there may be at a time.  [default: 2000, or twice the workers]",
        ),
        ("--hello", "hello", float, "Seconds for a new connection to say who it is.  [default: 10]"),
        ("--max-weight", "max_weight", float, "What a worker may count for; above 1 it may be a relay.  [default: 1]"),
        ("--frame", "frame", float, "Seconds for a message to arrive whole; long ones have more.  [default: 30]"),
    ],
    "ray": [
        ("--address", "address", str, "Ray: its cluster: auto, or HOST:PORT.  [default: RAY_ADDRESS, or its own]"),
        ("--workers", "workers", int, "Ray: how many.  [default: one for each stream]"),
        ("--resources", "resources", str, "Ray: what each worker needs.  [default: CPU=1]"),
        ("--server-resources", "server_resources", str, "Ray: what each server needs.  [default: CPU=1]"),
        ("--shards", "shards", int, "Ray: servers to split the model over.  [default: 1]"),
        ("--fewest", "fewest", int, "Ray: start when this many workers fit.  [default: all]"),
        ("--tls", "tls", bool, "Ray: workers and servers talk over TLS."),
        ("--port", "port", int, "Ray: the server listens on it, shards on the next.  [default: any]"),
        ("--start-timeout", "start_timeout", float, "Ray: seconds for all to come up at the start.  [default: 60]"),
    ],
    "simulated": [("--simulated-seed", "seed", int, "Simulated: seed of its times and faults.  [default: 0]")],
}
OF_FILES = [  # what is said of files as streams
    ("--label", str, "Of files: the label's column, by name or number from 1.  [default: the last]"),
    ("--follow", bool, "Of files: wait for more lines at their end."),
]
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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As of any command; a shell may have made several files of the one pattern of an option."""
        streams = any(each.partition("=")[0] == "--stream" for each in args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if streams and type(error) is click.UsageError:  # others have types of their own
                raise click.UsageError(f"{error.message}; {EACH}", ctx) from None
            raise


def train_options() -> list[click.Parameter]:
    """The options of `siag train`."""
    from siag.live.spec import Spec, fields_of

    places = "local, ray, simulated, or yours as module:attribute"
    where = _option("--runtime", str, f"Where to run: {places}.  [default: local]")
    insecure = _option(
        "--insecure", bool, "Let --metrics and --dashboard be read from beyond this machine, in plain text."
    )
    return [*options_of(Spec, fields_of(serving=False)), *SHOWN, insecure, where, *_parts("ray"), *_parts("simulated")]


def serve_options() -> list[click.Parameter]:
    """The options of `siag serve`."""
    from siag.live.serve import NETWORK, Network
    from siag.live.spec import Spec, fields_of

    workers = _option("--workers", int, "How many workers there are, instead of --name.")
    listening = [*options_of(Network, NETWORK), *_parts("network")]
    return [workers, *options_of(Spec, fields_of(serving=True)), *listening, *SHOWN]


def relay_options() -> list[click.Parameter]:
    """The options of `siag relay`: as those of `siag serve`, as far as it has them."""
    from siag.live.serve import NETWORK, Network
    from siag.live.spec import Spec

    workers = [
        _option("--workers", int, "How many workers there are, instead of --member."),
        click.Option(["--member", "names"], multiple=True, help="A worker's name; repeat it.  [default: 0, 1, …]"),
        _option("--every", int, "Send the root the sum after this many reports, workers not waiting.  [default: 1]"),
        _option("--tick", float, "Send it at this interval in seconds, instead of --every."),
    ]
    kept = [*_parts("guard"), *options_of(Spec, ("folder", "dashboard", "patience", "forget"))]
    kept.append(_option("--linger", float, "Seconds to wait when no worker is there.  [default: for ever]"))
    departed = _option("--departed", str, "Rows of workers that left: keep or drop.  [default: drop]")
    shown = [option for option in SHOWN if option.name != "out"]
    return [*workers, *kept, departed, *options_of(Network, NETWORK), *_parts("network"), *shown]


def places(serving: bool) -> dict[str, tuple[str, str]]:
    """For each option that is a part of a table: the table and the key."""
    from siag.live.serve import NETWORK

    others = ("ray", "simulated") if serving else ("network",)
    parts = [(flag, table, key) for table, parts in PARTS.items() for flag, key, *_ in parts if table not in others]
    found = {flag.removeprefix("--").replace("-", "_"): (table, key) for flag, table, key in parts}
    return found | ({name: ("network", name) for name in NETWORK if name != "limits"} if serving else {})


def options_of(owner: type, names: Sequence[str]) -> list[click.Parameter]:
    """The options for these fields of a dataclass."""
    hints = get_type_hints(owner, include_extras=True)
    made: list[click.Parameter] = []
    for name in names:
        if name == "w0":
            made.append(_option("--dimension", int, "How many parameters the model has; it starts from 0."))
        made += _parts(name)
        if get_origin(hints[name]) is Annotated:  # a field without words has no option of its own
            made.append(_own(name, hints[name]))
        if name == "streams":
            made += [_option(*each) for each in OF_FILES]
    return made


def _parts(table: str) -> list[click.Option]:
    return [_option(flag, kind, words) for flag, _, kind, words in PARTS.get(table, ())]


def _own(name: str, hint: Any) -> click.Option:
    """The option of a field, from its type and its note."""
    kind, words = get_args(hint)
    kinds = [each for each in SIMPLE if each is kind or each in get_args(kind)]
    if name == "dashboard":  # its value may be left out
        return click.Option(["--dashboard"], is_flag=False, flag_value="on", metavar="[PORT]", help=words)
    if name in REPEATED:
        return click.Option([REPEATED[name], name], multiple=True, help=words)
    return _option(f"--{name.replace('_', '-')}", kinds[0] if kinds else str, words)


def _option(flag: str, kind: type, words: str) -> click.Option:
    """An option that is None, or False, unless it is given."""
    return click.Option([flag], help=words, **({"is_flag": True} if kind is bool else {"type": kind}))
