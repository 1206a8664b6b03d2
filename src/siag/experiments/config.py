"""Experiments from a file: TOML tables become the objects of the library, and mistakes become one clear line.

    [problem]
    kind = "LeastSquares"
    n = 80
    …

`kind` names a class of this package, or one of yours as "module:name". The other keys are its arguments, under the
names they have in Python, so there is nothing else to learn.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from siag import methods
from siag.activity import (
    Activity,
    Arrivals,
    Bernoulli,
    Clock,
    Cyclic,
    EveryArrivals,
    Everyone,
    Exponential,
    Fixed,
    LogNormal,
    Nonuniform,
    OnOff,
    Pareto,
    Recorded,
    Sequential,
    Tick,
    Trace,
    Uniform,
    WaitForAll,
)
from siag.foundations import check
from siag.foundations.errors import BadFile, BadInput, Missing, SiagError
from siag.methods import Method, check_fit, step_of
from siag.problems import LeastSquares, LogisticRegression, Network, NonconvexLogistic, Problem, Ridge
from siag.simulation import MOST, Run, Sweep, simulate, sweep
from siag.steps import Constant, DelayAdaptive, Harmonic, Step, Switched, theorem

METHODS: dict[str, type[Method]] = {
    name: kind for name, kind in vars(methods).items() if isinstance(kind, type) and Method in kind.__mro__[1:]
}
KINDS: dict[str, dict[str, Callable[..., Any]]] = {
    "problem": {
        "LeastSquares": LeastSquares.random,
        "LogisticRegression": LogisticRegression.random,
        "Network": Network.random,
        "NonconvexLogistic": NonconvexLogistic.random,
        "Ridge": Ridge.random,
    },
    "method": {**METHODS},
    "activity": {
        "Everyone": Everyone,
        "Cyclic": Cyclic,
        "Uniform": Uniform,
        "Nonuniform": Nonuniform,
        "Sequential": Sequential,
        "Bernoulli": Bernoulli,
        "Recorded": Recorded,
        "Clock": Clock,
        "Trace": Trace.read,
    },
    "step": {
        "Constant": Constant,
        "Harmonic": Harmonic,
        "DelayAdaptive": DelayAdaptive,
        "Switched": Switched,
        "theorem": theorem,
    },
}
PIECES: dict[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (Arrivals, Fixed, Exponential, LogNormal, Pareto, EveryArrivals, Tick, WaitForAll, OnOff)
}
BASES = {"problem": Problem, "method": Method, "activity": Activity, "step": Step}
LISTS = ("rates", "slowness", "trace", "smoothness", "graph")  # arguments that are lists by themselves
RUN = ("iterations", "repeats", "seed", "record", "threads")
WORDS = {int: "a whole number", float: "a number", str: "a text in quotes", bool: "true or false"}


@dataclass(frozen=True)
class Experiment:
    """What a file asks for: one part of each kind, or a grid of them."""

    problem: Sequence[Problem]
    method: Sequence[Method]
    activity: Sequence[Activity]
    step: Sequence[Step | None]  # `None`: the method's own
    options: Mapping[str, Any]

    @property
    def single(self) -> bool:
        """Whether there is just one combination."""
        return len(self.problem) * len(self.method) * len(self.activity) * len(self.step) == 1

    def run(self, progress: bool = False) -> Run:
        """Simulate the only combination there is."""
        (problem,), (method,), (activity,), (step,) = self.problem, self.method, self.activity, self.step
        return simulate(problem, method, activity, step, progress=progress, **self.options)

    def sweep(self, folder: Path | None, progress: bool = False) -> Sweep:
        """Simulate all combinations; what is finished is kept in the folder."""
        parts = (list(self.problem), list(self.method), list(self.activity), list(self.step))
        return sweep(*parts, folder=folder, progress=progress, **self.options)


def read(path: str | os.PathLike[str]) -> Experiment:
    """Read an experiment from a TOML file, checking everything before any work."""
    return build(read_tables(path), Path(path).parent)


def read_problem(path: str | os.PathLike[str]) -> tuple[Problem, int]:
    """Read the table [problem] of a TOML file, and the seed of its table [run], 0 without one.

    What else is in the file is left alone, so that of an experiment will do.
    """
    tables = read_tables(path)
    if "problem" not in tables:
        raise BadFile(f"{os.fspath(path)}: it has no table [problem]")
    found = _parts("problem", tables["problem"], Path(path).parent)
    if len(found) > 1:
        raise BadFile(f"{os.fspath(path)}: it has {len(found)} problems; leave one")
    run = tables.get("run", {})
    seed = run.get("seed", 0) if isinstance(run, dict) else 0
    return found[0], check.integer("run.seed", seed, low=0, high=check.LARGEST_SEED)


def written(role: str, text: str, kinds: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """A part from how it prints, such as "SIAG(wait=1.0)": known names, called with literals; nothing else is run.

    Methods around others are calls within calls: "Prox(SIAG(), l1=0.1)".
    """
    # A problem only if it was drawn at random: given numbers are not in how it prints.
    makers = {getattr(make, "__qualname__", kind): (kind, make) for kind, make in (kinds or KINDS[role]).items()}
    return _called(role, _parsed(role, text, text, makers, f"one of {', '.join(makers)}"))


def own(role: str, text: str, folder: Path) -> Any:
    """A part of the user's own, as `kind` names it in a file: "module:name", with or without arguments as in Python."""
    kind, bracket, rest = text.partition("(")
    makers = {"own": (kind, _maker(role, kind, folder))}
    part = _called(role, _parsed(role, text, f"own({rest}" if bracket else "own()", makers, '"module:name"'))
    if not isinstance(part, BASES[role]):
        raise BadInput(role, text, f"the name of a {BASES[role].__name__}")
    return part


class Call(NamedTuple):
    """A name and arguments, as written; the arguments are literals, and calls of their own."""

    kind: str
    make: Callable[..., Any]
    positional: list[Any]
    named: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.kind}(…)"


Makers = Mapping[str, tuple[str, Callable[..., Any]]]


def _parsed(role: str, text: str, code: str, makers: Makers, allowed: str) -> Call:
    """What is written, of which nothing has been called yet."""
    try:
        return _call(ast.parse(code, mode="eval").body, makers)
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError):
        remedy = guess(text.partition("(")[0].strip(), tuple(name for name in makers if name not in text))
        raise BadInput(role, text, f"{allowed}, with arguments as in Python", remedy) from None


def _call(node: ast.expr, makers: Makers) -> Call:
    """A call of a known name; whatever else it is, is refused."""
    if not isinstance(node, ast.Call):
        raise ValueError
    kind, make = makers[ast.unparse(node.func)]
    named = {each.arg: _argument(each.value, makers) for each in node.keywords if each.arg is not None}
    if len(named) < len(node.keywords):  # one of them twice, or **
        raise ValueError
    return Call(kind, make, [_argument(each, makers) for each in node.args], named)


def _argument(node: ast.expr, makers: Makers) -> Any:
    """A call of a known name, or a literal."""
    return _call(node, makers) if isinstance(node, ast.Call) else ast.literal_eval(node)


def _called(role: str, call: Call) -> Any:
    """What a call makes, its arguments first."""
    arguments = {
        name: _called(role, value) if isinstance(value, Call) else value for name, value in _by_name(role, call).items()
    }
    try:
        return make_part(role, call.kind, call.make, arguments)
    except Missing as error:
        parameters = _signature(role, call.kind, call.make).parameters.values()
        needed = [each.name for each in parameters if each.default is each.empty and each.name not in arguments]
        raise Missing(error.parameter, f"write {call.kind}({', '.join(f'{name}=…' for name in needed)})") from None


def _by_name(role: str, call: Call) -> dict[str, Any]:
    """The arguments of a call, those without a name under the names that Python gives them."""
    parameters = _signature(role, call.kind, call.make).parameters
    free = [name for name, each in parameters.items() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    for value in call.positional[len(free) :]:
        raise BadInput(role, value, f"an argument with its name, one of {', '.join(parameters) or 'none'}")
    for name in free[: len(call.positional)]:
        if name in call.named:
            raise BadInput(f"{role}.{name}", call.named[name], f"given once to {call.kind}")
    return {**dict(zip(free, call.positional, strict=False)), **call.named}


def read_tables(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a TOML file says."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise BadFile(f"{os.fspath(path)}: {reason.lower()}; give the path of a TOML file") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{os.fspath(path)}: not TOML: {error}") from None


def build(tables: Mapping[str, Any], folder: Path = Path()) -> Experiment:
    """Turn parsed tables into an experiment; `folder` is where modules of the user's are looked for first."""
    check_names("file", tables, (*KINDS, "run"), needed=("problem", "method", "activity", "run"))
    options = _options(tables["run"])
    problems = _parts("problem", tables["problem"], folder)
    steps = [_step(table, problems, folder) for table in _grid("step", tables["step"])] if "step" in tables else [None]
    methods, activities = (_parts(role, tables[role], folder) for role in ("method", "activity"))
    made = Experiment(problems, methods, activities, steps, options)
    if made.single:
        step = step_of(methods[0], steps[0])
        check_fit(problems[0], methods[0], activities[0], step, options["iterations"])
    return made


def _options(table: Any) -> dict[str, Any]:
    """The table [run], checked."""
    if not isinstance(table, dict):
        raise BadInput("run", table, "a table, written [run]")
    check_names("run", table, RUN, needed=("iterations",))
    for name, value in table.items():
        low, high = (0, check.LARGEST_SEED) if name == "seed" else (1, check.LARGEST if name == "iterations" else MOST)
        check.integer(f"run.{name}", value, low=low, high=high)
    return dict(table)


def _step(table: Mapping[str, Any], problems: Sequence[Problem], folder: Path) -> Step:
    """A step; Theorem 1's takes its constants from the problem, so there can be only one."""
    if table.get("kind") != "theorem":
        step: Step = part_of("step", table, folder)
        return step
    if len(problems) > 1 and not {"mu", "L", "sigma2", "n"} <= table.keys():
        raise BadInput("step.kind", "theorem", "another kind in a sweep over problems", "give mu, L, sigma2 and n")
    theorems: Step = part_of("step", {**constants_of(problems[0]), **table}, folder)
    return theorems


def _parts(role: str, tables: Any, folder: Path) -> list[Any]:
    return [part_of(role, table, folder) for table in _grid(role, tables)]


def _grid(role: str, tables: Any) -> list[dict[str, Any]]:
    """The tables a role stands for: `[[role]]` may come several times, and a list where one value goes is an axis."""
    grid: list[dict[str, Any]] = []
    for table in tables if isinstance(tables, list) else [tables]:
        if not isinstance(table, dict):
            raise BadInput(role, table, f"a table, written [{role}]")
        axes = [value if isinstance(value, list) and name not in LISTS else [value] for name, value in table.items()]
        for name, values in zip(table, axes, strict=True):
            if not values:
                raise BadInput(f"{role}.{name}", values, "at least one value", "leave no axis of a sweep empty")
        grid.extend(dict(zip(table, combination, strict=True)) for combination in product(*axes))
    if not grid:
        raise BadInput(role, tables, f"at least one table, written [{role}]")
    return grid


def constants_of(problem: Problem) -> dict[str, Any]:
    """What Theorem 1's step takes from the problem, unless the file says otherwise."""
    return {**problem.constants()._asdict(), "n": problem.n}


def part_of(role: str, table: Mapping[str, Any], folder: Path) -> Any:
    """One of problem, method, activity and step."""
    arguments = dict(table)
    if "kind" not in arguments:
        raise Missing(f"{role}.kind", f'write kind = "…", one of {", ".join(KINDS[role])}')
    make = _maker(role, arguments.pop("kind"), folder)
    for name, value in arguments.items():
        if isinstance(value, dict):  # a method around another has that as a table of its own, so have steps
            own_kind = role in (name, "step")
            arguments[name] = part_of(role, value, folder) if own_kind else piece(f"{role}.{name}", value)
    part = make_part(role, table["kind"], make, arguments)
    if not isinstance(part, BASES[role]):
        raise BadInput(f"{role}.kind", table["kind"], f"the name of a {BASES[role].__name__}")
    return part


def piece(place: str, table: Mapping[str, Any]) -> Any:
    """A part of a part, such as a distribution of times: a table within the table."""
    kind = table.get("kind")
    if kind not in PIECES:
        raise BadInput(f"{place}.kind", kind, "one of " + ", ".join(PIECES), guess(kind, tuple(PIECES)))
    return make_part(place, kind, PIECES[kind], {name: value for name, value in table.items() if name != "kind"})


def make_part(place: str, kind: object, make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a class or function with the keys of its table, once they are known to fit."""
    signature = _signature(place, kind, make)
    parameters = {name: each for name, each in signature.parameters.items() if name != "self"}
    needed = [name for name, each in parameters.items() if each.default is inspect.Parameter.empty]
    check_names(place, arguments, tuple(parameters), needed=tuple(needed))
    _types(place, arguments, {name: each.annotation for name, each in parameters.items()})
    try:
        return make(**arguments)
    except BadInput as error:
        raise error.inside(place) from None
    except SiagError:
        raise
    except Exception as error:
        raise BadInput(place, arguments, f"what {kind} takes", f"it raised {error!r}") from error


def _maker(role: str, kind: object, folder: Path) -> Callable[..., Any]:
    """The class, or function, that a kind names."""
    known = KINDS[role]
    if isinstance(kind, str) and kind in known:
        return known[kind]
    allowed = "one of " + ", ".join(known) + ', or one of yours as "module:name"'
    if not isinstance(kind, str) or ":" not in kind:
        raise BadInput(f"{role}.kind", kind, allowed, guess(kind, tuple(known)))
    module, _, name = kind.partition(":")
    sys.path.insert(0, str(folder.resolve()))
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # a module of the user's may do anything
        raise BadInput(f"{role}.kind", kind, allowed, f"importing it raised {error!r}") from error
    finally:
        sys.path.pop(0)
    if not callable(found):
        raise BadInput(f"{role}.kind", kind, allowed, f"{name} cannot be called")
    return found  # type: ignore[no-any-return]  # what the user's module holds is known only when it runs


def _signature(role: str, kind: object, make: Callable[..., Any]) -> inspect.Signature:
    """The arguments of a class or function, with their types where those can be found."""
    try:
        return inspect.signature(make, eval_str=True)
    except (NameError, TypeError, ValueError):
        pass
    try:
        return inspect.signature(make)
    except (ValueError, TypeError):
        raise BadInput(f"{role}.kind", kind, "a class or function whose arguments Python can tell") from None


def check_names(place: str, table: Mapping[str, Any], allowed: tuple[str, ...], needed: tuple[str, ...]) -> None:
    """Refuse unknown keys, with a guess at what was meant, and missing ones."""
    prefix = "" if place == "file" else f"{place}."
    for name, value in table.items():
        if name not in allowed:
            raise BadInput(prefix + name, value, "one of " + (", ".join(allowed) or "no keys"), guess(name, allowed))
    for name in needed:
        if name not in table:
            remedy = f"add the table [{name}]" if place == "file" else f"add {name} = … to [{place}]"
            raise Missing(prefix + name, remedy)


def guess(name: object, allowed: tuple[str, ...]) -> str:
    """What was meant, as a question; nothing if no name is near."""
    lower = {word.lower(): word for word in allowed}
    near = get_close_matches(str(name).lower(), lower, n=1)
    return f"did you mean {lower[near[0]]}?" if near else ""


def _types(place: str, table: Mapping[str, Any], annotations: Mapping[str, Any]) -> None:
    """Refuse values of a wrong TOML type early, in TOML's words; ranges are the constructors' own affair."""
    for name, value in table.items():
        wanted = annotations[name]
        if wanted not in WORDS:
            continue
        fits = isinstance(value, (int, float) if wanted is float else wanted)
        if not fits or (isinstance(value, bool) and wanted is not bool):
            raise BadInput(f"{place}.{name}", value, WORDS[wanted])
