"""A live run as tables: those of a TOML file for `siag train` and `siag serve`, and those made from options.

    gradient = "job:gradient"
    streams = ["job:north", "job:south"]
    dimension = 3

    [step]
    kind = "Constant"
    eta = 0.05

The keys are the fields of `siag.runtimes.Spec`, which are the arguments of `siag.train`. What is an object in Python is
a table. Paths and modules are looked for in the folder of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from siag.activity import EveryArrivals, Tick
from siag.experiments.config import constants_of, part_of, piece, problem_named, read_tables, typed
from siag.experiments.from_files import KEYS, Named, is_ready_made, stream_named
from siag.experiments.making import check_names, make_part
from siag.experiments.references import Loss, look_in, metrics_named, reference
from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, Missing, reason_of
from siag.foundations.types import Floats
from siag.live.monitor.dashboard.place import Dashboard, Wanted, dashboard_of
from siag.live.serve import NETWORK
from siag.live.spec import fields_of
from siag.runtimes import Faults, Limits, Ray, Runtime, Simulated, Until
from siag.server import DROP, KEEP, Departed, Guard
from siag.storage.urls import is_url

HIDDEN = ("progress",)  # who watches a run is the shell's affair
RUNTIMES = ("ray", "simulated")  # tables that say where to run
TRAIN, SERVE = ("dimension", *RUNTIMES), ("dimension", "workers", "network")  # keys that are no fields
LIMITS = ("connections", "hello", "frame", "max_weight")
FILES = ("certificate", "key", "tokens")


@dataclass(frozen=True)
class LiveRun:
    """What tables say: fields of `Spec`, fields of `Network`, limits on connections, and where to run."""

    spec: dict[str, Any] = field(default_factory=dict)
    network: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    runtime: Runtime | None = None


def known_keys(serving: bool) -> tuple[str, ...]:
    """The keys and tables that `siag serve` takes, or `siag train`."""
    return (*(name for name in fields_of(serving) if name not in HIDDEN), *(SERVE if serving else (*TRAIN, *KEYS)))


def read_live(path: str | os.PathLike[str], serving: bool = False) -> dict[str, Any]:
    """The tables of a TOML file for `siag serve` or `siag train`; an unknown key is refused."""
    tables = read_tables(path)
    check_names("file", tables, known_keys(serving), needed=())
    return tables


def live_run(tables: Mapping[str, Any], folder: Path) -> LiveRun:
    """What the tables say, as objects; paths and modules are looked for in the folder."""
    look_in(folder)
    network, limits = _network(tables.get("network", {}), folder)
    return LiveRun(_fields(tables, folder), network, limits, _runtime(tables))


def _fields(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `Spec`."""
    found = {name: value for name, value in tables.items() if name not in (*TRAIN, *SERVE)}
    if "dimension" in tables:
        if "w0" in tables:
            raise BadInput("dimension", tables["dimension"], "given alone", "leave out dimension or w0")
        found["w0"] = np.zeros(check.integer("dimension", tables["dimension"]))
    if "problem" in tables:
        found["problem"], usual = _problem(tables["problem"], folder)
        found = {"seed": usual} | found
        if "dimension" in tables and found["w0"].size != found["problem"].d:
            allowed = f"{found['problem'].d}, as many as the problem has"
            raise BadInput("dimension", tables["dimension"], allowed, "or leave it out")
    for name, make in MAKERS.items():
        if name in tables:
            found[name] = make(tables[name], folder)
    if "step" in tables:
        found["step"] = _step(tables["step"], found.get("problem"), folder)
    if "workers" in tables:
        if "names" in tables:
            raise BadInput("workers", tables["workers"], "given alone", "leave out workers or names")
        found["names"] = tables["workers"]
    return found


def _problem(value: Any, folder: Path) -> tuple[Any, int]:
    """A table, or the name of another file or of a module's attribute; and the seed of that file."""
    return problem_named(value, folder) if isinstance(value, str) else (_part("problem", value, folder), 0)


def _step(value: Any, problem: Any, folder: Path) -> Any:
    """Theorem 1's step takes its constants from the problem."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind in ("Constant", "Harmonic") and "eta" in value and {"beta", "gamma"} & value.keys():
        raise BadInput("step.eta", value["eta"], "given alone", "leave out eta, or beta and gamma")
    if kind == "theorem" and problem is not None:
        value = {**constants_of(problem), **value}
    return _part("step", value, folder)


def _part(role: str, value: Any, folder: Path) -> Any:
    """A table; or a text: a name alone, as Python prints it, or the user's own as module:attribute."""
    return typed(role, value, folder) if isinstance(value, str) else part_of(role, _table(role, value), folder)


def _streams(value: Any, folder: Path) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput("streams", value, 'a list such as ["job:north", "job:south"]')
    return [stream_named(f"streams[{k}]", text, folder) for k, text in enumerate(value)]


def _loss(value: Any, folder: Path) -> Any:
    return Named(value) if is_ready_made(value) else Loss(str(value), reference("loss", value, folder))


def _server(value: Any, folder: Path) -> Any:
    table, kinds = dict(_table("server", value)), {"EveryArrivals": EveryArrivals, "Tick": Tick}
    kind = table.pop("kind", None)
    if kind is None:
        raise Missing("server.kind", 'write kind = "EveryArrivals" or kind = "Tick"')
    if kind not in kinds:
        raise BadInput("server.kind", kind, "EveryArrivals or Tick", "a live server waits for nobody")
    if {"k", "seconds"} <= table.keys():
        raise BadInput("server.seconds", table["seconds"], "given alone", "a server steps by the clock or by reports")
    return make_part("server", kind, kinds[kind], table)


def _until(value: Any, folder: Path) -> Any:
    return value if isinstance(value, int) else make_part("until", "Until", Until, _table("until", value))


def _departed(value: Any, folder: Path) -> Departed:
    """What becomes of the rows of workers that have left, in a word or a number."""
    words = {"keep": KEEP, "drop": DROP}
    if isinstance(value, str) and value in words:
        return words[value]
    try:
        return Departed(half_life=float(str(value)))
    except ValueError:
        raise BadInput("departed", value, "keep, drop, or a half-life in iterations") from None


def _weights(value: Any, folder: Path) -> Any:
    """A table or numbers, as in Python; or a text such as "north=2,south=1" or "2,1"."""
    if not isinstance(value, str):
        return value
    parts = [part.rpartition("=") for part in value.split(",")]
    try:
        numbers = [float(number) for *_, number in parts]
    except ValueError:
        return value  # "samples", or nothing
    names = [name.strip() for name, *_ in parts]
    if not any(names):
        return numbers
    if len({*names}) < len(names) or not all(names):
        raise BadInput("weights", value, "each worker's once, like north=2,south=1")
    return dict(zip(names, numbers, strict=True))


def _dashboard(value: Any, folder: Path) -> Wanted:
    """A port, an address, a table; or true, which the shell calls "on"."""
    if isinstance(value, dict):
        made: Dashboard = make_part("dashboard", "Dashboard", Dashboard, value)
        return made.within(folder)
    wanted: Wanted = True if value == "on" else value
    return dashboard_of(wanted)


def _start(value: Any, folder: Path) -> Floats:
    """The first parameters: numbers, or the path of a .npy file."""
    if not isinstance(value, str):
        return check.floats("w0", value, (None,))
    try:
        return check.floats("w0", np.load(folder / value, allow_pickle=False), (None,))
    except OSError as error:
        raise BadFile(f"{folder / value}: {reason_of(error)}; give the path of a .npy file") from None
    except (ValueError, EOFError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadFile(f"{folder / value}: not a .npy file of numbers; write it with numpy.save") from None


def _place(parameter: str, value: Any, folder: Path) -> Any:
    """A path of the file's folder, or a URL."""
    if not isinstance(value, str):
        raise BadInput(parameter, value, "a text in quotes")
    return value if is_url(value) else folder / value


def _network(value: Any, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table [network], its limits apart."""
    table = _table("network", value)
    known = tuple(name for name in NETWORK if name != "limits")
    check_names("network", table, (*known, *LIMITS), needed=())
    limits = {name: table[name] for name in LIMITS if name in table}
    if limits:
        make_part("network", "Limits", Limits, limits)
    told = {name: table[name] for name in known if name in table}
    return {name: _place(name, value, folder) if name in FILES else value for name, value in told.items()}, limits


def _runtime(tables: Mapping[str, Any]) -> Runtime | None:
    """Where to run, if the tables say so."""
    if "ray" in tables and "simulated" in tables:
        raise BadInput("ray", tables["ray"], "given alone", "leave out ray or simulated")
    if "ray" in tables:
        ray: Ray = make_part("ray", "Ray", Ray, _table("ray", tables["ray"]))
        return ray
    return _simulated(tables["simulated"]) if "simulated" in tables else None


def _simulated(value: Any) -> Simulated:
    """The table [simulated]; times, availability and faults are tables within it."""
    table = dict(_table("simulated", value))
    if "faults" in table:
        place = "simulated.faults"
        table["faults"] = make_part(place, "Faults", Faults, _pieces(place, _table(place, table["faults"])))
    simulated: Simulated = make_part("simulated", "Simulated", Simulated, _pieces("simulated", table))
    return simulated


def _pieces(place: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """A table whose tables have become objects."""
    return {
        name: piece(f"{place}.{name}", value) if isinstance(value, dict) else value for name, value in table.items()
    }


def _table(role: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(role, value, f"a table, written [{role}]")
    return value


MAKERS: dict[str, Callable[[Any, Path], Any]] = {
    "gradient": lambda value, folder: reference("gradient", value, folder),
    "streams": _streams,
    "w0": _start,
    "method": lambda value, folder: _part("method", value, folder),
    "until": _until,
    "server": _server,
    "guard": lambda value, folder: make_part("guard", "Guard", Guard, _table("guard", value)),
    "departed": _departed,
    "weights": _weights,
    "loss": _loss,
    "evaluate": metrics_named,
    "dashboard": _dashboard,
    "folder": lambda value, folder: _place("folder", value, folder),
    "trace": lambda value, folder: _place("trace", value, folder),
}
