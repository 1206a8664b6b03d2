"""A live run from a file: `siag train FILE.toml` and `siag serve FILE.toml`.

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
from siag.experiments.config import check_names, constants_of, make_part, part_of, read_tables
from siag.experiments.references import Loss, look_in, problem_named, reference
from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, Missing
from siag.foundations.types import Floats
from siag.live.network import NETWORK
from siag.live.spec import fields_of
from siag.runtimes import Limits, Ray, Runtime, Until
from siag.server import DROP, KEEP, Departed, Guard
from siag.storage.urls import is_url

HIDDEN = ("progress",)  # who watches a run is the shell's affair
TRAIN, SERVE = ("dimension", "ray"), ("dimension", "workers", "network")  # keys that are no fields
LIMITS = ("connections", "hello", "frame")
FILES = ("certificate", "key", "tokens")


@dataclass(frozen=True)
class LiveRun:
    """What a file says: fields of `Spec`, fields of `Network`, limits on connections, and where to run."""

    spec: dict[str, Any] = field(default_factory=dict)
    network: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    runtime: Runtime | None = None


def read_live(path: str | os.PathLike[str], serving: bool = False) -> LiveRun:
    """Read a live run from a TOML file, as `siag serve` or as `siag train` takes it."""
    tables, folder = read_tables(path), Path(path).parent
    look_in(folder)
    known = tuple(name for name in fields_of(serving) if name not in HIDDEN)
    check_names("file", tables, (*known, *(SERVE if serving else TRAIN)), needed=())
    network, limits = _network(tables.get("network", {}), folder)
    ray = make_part("ray", "Ray", Ray, _table("ray", tables["ray"])) if "ray" in tables else None
    return LiveRun(_fields(tables, folder), network, limits, ray)


def _fields(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The fields of `Spec`."""
    found = {name: value for name, value in tables.items() if name not in (*TRAIN, *SERVE)}
    if "dimension" in tables:
        found["w0"] = zeros(tables["dimension"], "w0" in tables)
    if "problem" in tables:
        found["problem"], usual = _problem(tables["problem"], folder)
        found = {"seed": usual} | found
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
    """A table, or the name of another file or of a module's attribute."""
    return (
        problem_named(value, folder)
        if isinstance(value, str)
        else (part_of("problem", _table("problem", value), folder), 0)
    )


def _step(value: Any, problem: Any, folder: Path) -> Any:
    """Theorem 1's step takes its constants from the problem."""
    table = _table("step", value)
    known = constants_of(problem) if table.get("kind") == "theorem" and problem is not None else {}
    return part_of("step", {**known, **table}, folder)


def _streams(value: Any, folder: Path) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput("streams", value, 'a list such as ["job:north", "job:south"]')
    return [reference(f"streams[{k}]", text, folder) for k, text in enumerate(value)]


def _server(value: Any, folder: Path) -> Any:
    table, kinds = dict(_table("server", value)), {"EveryArrivals": EveryArrivals, "Tick": Tick}
    kind = table.pop("kind", None)
    if kind is None:
        raise Missing("server.kind", 'write kind = "EveryArrivals" or kind = "Tick"')
    if kind not in kinds:
        raise BadInput("server.kind", kind, "EveryArrivals or Tick", "a live server waits for nobody")
    return make_part("server", kind, kinds[kind], table)


def _guard(value: Any, folder: Path) -> Guard:
    return make_part("guard", "Guard", Guard, _table("guard", value))  # type: ignore[no-any-return]  # what it makes is a Guard


def _until(value: Any, folder: Path) -> Any:
    return value if isinstance(value, int) else make_part("until", "Until", Until, _table("until", value))


def departed(value: object) -> Departed:
    """What becomes of the rows of those that left, in a word or a number."""
    words = {"keep": KEEP, "drop": DROP}
    if isinstance(value, str) and value in words:
        return words[value]
    try:
        return Departed(half_life=float(str(value)))
    except ValueError:
        raise BadInput("departed", value, "keep, drop, or a half-life in iterations") from None


def load_start(path: Path) -> Floats:
    """The first parameters, of a .npy file."""
    try:
        return check.floats("w0", np.load(path, allow_pickle=False), (None,))
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadFile(f"{path}: not a .npy file of numbers; write it with numpy.save") from None


def zeros(dimension: Any, beside: bool) -> Floats:
    """The first parameters, all 0; not `beside` others."""
    if beside:
        raise BadInput("dimension", dimension, "given alone", "leave out dimension or w0")
    return np.zeros(check.integer("dimension", dimension))


def _start(value: Any, folder: Path) -> Floats:
    return load_start(folder / value) if isinstance(value, str) else check.floats("w0", value, (None,))


def _loss(value: Any, folder: Path) -> Loss:
    return Loss(str(value), reference("loss", value, folder))


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


def _table(role: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(role, value, f"a table, written [{role}]")
    return value


MAKERS: dict[str, Callable[[Any, Path], Any]] = {
    "gradient": lambda value, folder: reference("gradient", value, folder),
    "streams": _streams,
    "w0": _start,
    "method": lambda value, folder: part_of("method", _table("method", value), folder),
    "until": _until,
    "server": _server,
    "guard": _guard,
    "departed": lambda value, folder: departed(value),
    "loss": _loss,
    "folder": lambda value, folder: _place("folder", value, folder),
    "trace": lambda value, folder: _place("trace", value, folder),
}
