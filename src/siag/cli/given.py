"""What live commands were given, in a file and on the command line: options become the tables of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.cli.options import EACH, places
from siag.foundations.errors import BadFile, BadInput, Missing

if TYPE_CHECKING:
    from siag.experiments.live_file import LiveRun
    from siag.live.runtime import Runtime
    from siag.live.serve import Network
    from siag.live.spec import Spec

HERE = Path()
MERGED = ("until", "guard", "ray", "simulated")  # tables of a file of which options override single keys
MISSING = {  # what to type, where something is missing
    "gradient": ("gradient", "give --gradient and --stream, or --loss Logistic and --stream, or --problem"),
    "streams": ("stream", "give --stream for each worker, or --problem"),
    "w0": ("dimension", "give --dimension D, or --w0 FILE.npy, or --problem"),
    "names": ("workers", "give --workers N, or --name A --name B …, or --problem"),
    "step": ("eta", "this method needs one: --eta, --beta and --gamma for β/(t+γ), or --step; or leave out --method"),
    "until": ("iterations", "say when to end, with --iterations, --seconds, --reports or --epochs"),
}
IN_FILE = {  # what to write, where something is missing from a file
    "gradient": (
        "gradient",
        'write gradient = "module:function", and streams; or a loss by its name; or [problem]',
    ),
    "streams": ("streams", 'write streams = ["module:attribute", …], or a table [problem]'),
    "w0": ("dimension", 'write dimension = D, or w0 = "FILE.npy", or a table [problem]'),
    "names": ("workers", 'write workers = N, or names = ["A", "B", …], or a table [problem]'),
    "step": ("step", "this method needs one: add the table [step], or leave out [method]"),
    "until": ("until", "add the table [until], with iterations, seconds, reports or epochs"),
}


class Described:
    """A live run, from a file and from options, which override it.

    Args:
        given: all options of the command.
        file: of the run, if there is one.
        serving: whether it is for `siag serve`.
    """

    def __init__(self, given: dict[str, Any], file: Path | None, serving: bool = False) -> None:
        self._typed: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if value is not None and value is not False and value != ()
        }
        self._file, self._serving, self._places = file, serving, places(serving)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Let mistakes have the names that were typed, or that are in the file."""
        from siag.live.spec import renamed

        names = {"names": "name", "streams": "stream"}
        names = {field: option for field, option in names.items() if field in self._typed}
        for key, field in (("dimension", "w0"), *([("workers", "names")] if self._serving else [])):
            if key in self._typed or (key in self._before and field not in self._typed):
                names[field] = key
        with renamed(names, MISSING if self._file is None else IN_FILE):
            yield

    @cached_property
    def _before(self) -> dict[str, Any]:
        """The tables of the file."""
        from siag.experiments.live_file import read_live

        if self._file is None:
            return {}
        if ":" in self._file.name and not self._serving and not self._file.exists():
            raise BadFile(f"{self._file}: no such file; for a function of your own give --gradient {self._file}")
        try:
            return read_live(self._file, self._serving)
        except BadFile as error:
            if "streams" not in self._typed or self._file.suffix == ".toml":
                raise
            raise BadFile(f"{error}; {EACH}") from None

    @cached_property
    def _runs(self) -> tuple[LiveRun, LiveRun]:
        """What the file says, and what was typed."""
        from siag.experiments.live_file import RUNTIMES, LiveRun, live_run
        from siag.live.spec import renamed

        before, tables = self._before, self._tables()
        file = LiveRun() if self._file is None else live_run(before, self._file.parent)
        typed = {option: place for option, place in self._places.items() if option in self._typed}
        for option, (table, _) in typed.items():
            if table in RUNTIMES and self._typed.get("runtime", table if table in before else "local") != table:
                raise BadInput(option.replace("_", "-"), self._typed[option], f"given with --runtime {table}")
        for table in MERGED:
            if table in tables and table in before:
                whole = before[table] if isinstance(before[table], dict) else {"iterations": before[table]}
                tables[table] = whole | tables[table]
        with renamed({f"{table}.{key}": option.replace("_", "-") for option, (table, key) in typed.items()}):
            return file, live_run(tables, HERE)

    @property
    def spec(self) -> Spec:
        """What to run."""
        from siag.experiments.from_files import Named, with_files
        from siag.live.serve import LINGER
        from siag.live.spec import Spec

        file, typed = self._runs
        fields = ({"linger": LINGER} if self._serving else {}) | file.spec | typed.spec
        if self._serving and isinstance(fields.get("loss"), Named):
            remedy = "a loss by its name is for siag train, which has the data"
            raise BadInput("loss", fields["loss"].written, 'of the form "module:attribute"', remedy)
        return Spec(**with_files(fields))

    def network(self, workers: int) -> Network:
        """Where to listen, and whom to trust."""
        from siag.live.serve import Network
        from siag.runtimes import Limits

        file, typed = self._runs
        told, limits = file.network | typed.network, file.limits | typed.limits
        if limits:
            told["limits"] = Limits.for_workers(workers, **limits)
        return Network(**told)

    @property
    def runtime(self) -> Runtime | None:
        """Where to run; None for processes of this machine."""
        from siag.experiments.live_file import RUNTIMES
        from siag.experiments.references import reference

        (file, typed), where = self._runs, self._typed.get("runtime")
        if where in (None, "local", *RUNTIMES):
            return None if where == "local" else typed.runtime or file.runtime
        if ":" not in where:
            raise BadInput("runtime", where, f"local, {', '.join(RUNTIMES)}, or yours as module:attribute")
        found = reference("runtime", where, HERE)
        return found() if isinstance(found, type) else found  # type: ignore[no-any-return]  # what it is, `train` sees

    def _tables(self) -> dict[str, Any]:
        """What was typed, as a file would say it."""
        from siag.experiments.live_file import RUNTIMES, known_keys

        typed, known = self._typed, known_keys(self._serving)
        tables: dict[str, Any] = {name: {} for name in RUNTIMES if typed.get("runtime") == name}
        for option, (table, key) in self._places.items():
            if option in typed:
                tables.setdefault(table, {})[key] = typed[option]
        if "step" in tables:
            tables["step"]["kind"] = _kind_of_step(typed)
        if "server" in tables:
            tables["server"]["kind"] = "Tick" if "tick" in typed else "EveryArrivals"
        for name in {"resources", "server_resources"} & tables.get("ray", {}).keys():
            tables["ray"][name] = _resources(name.replace("_", "-"), typed[name])
        return tables | {name: value for name, value in typed.items() if name in known and name not in self._places}


def _kind_of_step(typed: dict[str, Any]) -> str:
    """The step that --eta, or --beta and --gamma, stand for."""
    if "step" in typed:
        raise BadInput("step", typed["step"], "given alone", "leave out step, or eta, beta and gamma")
    if "eta" in typed:
        return "Constant"
    for name in {"beta", "gamma"} - typed.keys():
        raise Missing(name, "give --beta and --gamma for the step β/(t+γ), or --eta for a constant one")
    return "Harmonic"


def _resources(parameter: str, text: str) -> dict[str, float]:
    """What Ray is to set aside for a process: "CPU=1,GPU=0.5"."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, amount = (each.strip() for each in part.partition("="))
        try:
            number = float(amount)
        except ValueError:
            equals = ""
        if not name or not equals or name in found:
            raise BadInput(parameter, text, "each once, like CPU=1,GPU=0.5")
        found[name] = number
    return found
