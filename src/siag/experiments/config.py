"""Experiments from a file: TOML tables become the objects of the library, and mistakes become one clear line.

    [problem]
    kind = "LeastSquares"
    n = 80
    …

`kind` names a class of this package, or one of yours as "module:name". The other keys are its arguments, under the
names they have in Python, so there is nothing else to learn.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

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
    Members,
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
from siag.experiments.making import check_names, make_part, maker
from siag.experiments.references import metrics_named, reference
from siag.experiments.written import Makers, made
from siag.foundations import check
from siag.foundations.encodings import ENCODINGS
from siag.foundations.errors import BadFile, BadInput, Missing, guess
from siag.methods import Method, check_fit, check_weights, step_of, weigh_parts
from siag.methods.weighted import SAMPLES
from siag.problems import LeastSquares, LogisticRegression, Network, NonconvexLogistic, Problem, Ridge
from siag.problems.weights import POINTS
from siag.simulation import MOST, Run, Sweep, Tuned, simulate, sweep
from siag.simulation.metrics import check_evaluate
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
        "Members": Members,
        "Recorded": Recorded,
        "Clock": Clock,
        "Trace": Trace.read,
    },
    "step": {
        "Constant": Constant,
        "Harmonic": Harmonic,
        "DelayAdaptive": DelayAdaptive,
        "Switched": Switched,
        "Tuned": Tuned,
        "theorem": theorem,
    },
}
PIECES: dict[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (Arrivals, Fixed, Exponential, LogNormal, Pareto, EveryArrivals, Tick, WaitForAll, OnOff)
}
BASES = {"problem": Problem, "method": Method, "activity": Activity, "step": Step}
DATES = ("arrive", "leave")  # of workers: arguments that are lists, or tables by worker, by themselves
LISTS = (
    "rates",
    "slowness",
    "trace",
    "smoothness",
    "graph",
    "weights",
    *DATES,
)  # arguments that are lists by themselves
RUN = ("iterations", "repeats", "seed", "record", "threads", "objective", "evaluate", "messages", "weights")


@dataclass(frozen=True)
class Experiment:
    """What a file asks for: one part of each kind, or a grid of them."""

    problem: Sequence[Problem]
    method: Sequence[Method]
    activity: Sequence[Activity]
    step: Sequence[Step | Tuned | None]  # `None`: the method's own
    options: Mapping[str, Any]

    @property
    def single(self) -> bool:
        """Whether there is just one combination, and nothing to search for."""
        count = len(self.problem) * len(self.method) * len(self.activity) * len(self.step)
        return count == 1 and not isinstance(self.step[0], Tuned)

    def run(self, progress: bool = False) -> Run:
        """Simulate the only combination there is."""
        (problem,), (method,), (activity,), (step,) = self.problem, self.method, self.activity, self.step
        return simulate(problem, method, activity, cast("Step | None", step), progress=progress, **self.options)

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


def problem_named(text: str, folder: Path) -> tuple[Problem, int]:
    """The problem of a TOML file, with its seed; or as Python writes it; or "module:attribute", or what makes it."""
    path = folder / text
    if os.path.exists(path) or not {":", "("} & set(text):
        return read_problem(path)
    if "(" in text:
        return typed("problem", text, folder), 0
    found = reference("problem", text, folder)
    if not isinstance(found, Problem) and callable(found):
        try:
            found = found()
        except Exception as error:  # whatever the user's code raises
            remedy = f"it raised {type(error).__name__}: {error}"
            raise BadInput("problem", text, "a Problem, or a function that makes it", remedy) from error
    if not isinstance(found, Problem):
        raise BadInput("problem", text, "a Problem, or a function that makes it")
    return found, 0


def written(role: str, text: str, kinds: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """A part from how it prints, such as "SIAG(wait=1.0)": known names, called with literals; nothing else is run.

    Methods around others are calls within calls: "Prox(SIAG(), l1=0.1)".
    """
    # A problem only if it was drawn at random: given numbers are not in how it prints.
    return made(role, text, _by_qualified_name(kinds or KINDS[role]))


def typed(role: str, text: str, folder: Path) -> Any:
    """A part as a user types it: as `written`, or the user's own as "module:name(key=1.0)", also within another.

    A name alone will do where nothing else is needed, and the names of a file's `kind`.
    """
    kinds = KINDS[role] | (PIECES if role == "activity" else {})
    makers = _by_qualified_name(kinds) | {kind: (kind, make) for kind, make in kinds.items()}
    return _checked(role, made(role, text, makers, folder), role, text)


def _by_qualified_name(kinds: Mapping[str, Callable[..., Any]]) -> Makers:
    return {_written(kind, make): (kind, make) for kind, make in kinds.items()}


def _written(kind: str, make: Any) -> str:
    """The name of a class or of a function of a class, which may have it from another."""
    owner = getattr(make, "__self__", None)
    return f"{owner.__name__}.{make.__name__}" if isinstance(owner, type) else getattr(make, "__qualname__", kind)


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
    options = _options(tables["run"], folder)
    problems = _parts("problem", tables["problem"], folder)
    steps = [_step(table, problems, folder) for table in _grid("step", tables["step"])] if "step" in tables else [None]
    methods, activities = (_parts(role, tables[role], folder) for role in ("method", "activity"))
    experiment = Experiment(problems, methods, activities, steps, options)
    if experiment.single:
        iterations = options["iterations"]
        fit = weigh_parts(problems[0], methods[0], activities[0], options.get("weights"), iterations)
        check_fit(*fit, activities[0], step_of(fit[1], cast("Step | None", steps[0])), iterations)
    return experiment


def _options(table: Any, folder: Path) -> dict[str, Any]:
    """The table [run], checked."""
    if not isinstance(table, dict):
        raise BadInput("run", table, "a table, written [run]")
    check_names("run", table, RUN, needed=("iterations",))
    options = dict(table)
    if "objective" in options:
        check.truth("run.objective", options["objective"])
    if "messages" in options:
        check.choice("run.messages", options["messages"], tuple(ENCODINGS))
    if "evaluate" in options:
        options["evaluate"] = check_evaluate(metrics_named(options["evaluate"], folder))
    if "weights" in options:
        check_written_weights("run.weights", options["weights"])
    for name in table.keys() - {"objective", "evaluate", "messages", "weights"}:
        low, high = (0, check.LARGEST_SEED) if name == "seed" else (1, check.LARGEST if name == "iterations" else MOST)
        check.integer(f"run.{name}", options[name], low=low, high=high)
    return options


def check_written_weights(place: str, weights: object) -> None:
    """Refuse what cannot be weights, whatever the problem; how many there must be, the problem knows."""
    if isinstance(weights, str):
        check.choice(place, weights, (POINTS, SAMPLES))
        return
    try:
        check_weights(weights)
    except BadInput as error:
        raise BadInput(place, error.value, error.allowed, error.remedy) from None


def _step(table: Mapping[str, Any] | str, problems: Sequence[Problem], folder: Path) -> Step | Tuned:
    """A step, or that it is to be found; Theorem 1's takes its constants from the problem, so there can be only one."""
    if isinstance(table, str) or table.get("kind") != "theorem":
        step: Step | Tuned = _part("step", table, folder)
        return step
    if len(problems) > 1 and not {"mu", "L", "sigma2", "n"} <= table.keys():
        raise BadInput("step.kind", "theorem", "another kind in a sweep over problems", "give mu, L, sigma2 and n")
    theorems: Step = part_of("step", {**constants_of(problems[0]), **table}, folder)
    return theorems


def _parts(role: str, tables: Any, folder: Path) -> list[Any]:
    return [_part(role, table, folder) for table in _grid(role, tables)]


def _part(role: str, table: Mapping[str, Any] | str, folder: Path) -> Any:
    return typed(role, table, folder) if isinstance(table, str) else part_of(role, table, folder)


def _grid(role: str, tables: Any) -> list[dict[str, Any] | str]:
    """The tables a role stands for: `[[role]]` may come several times, and a list where one value goes is an axis.

    A text in place of a table is a part as Python writes it.
    """
    grid: list[dict[str, Any] | str] = []
    for table in tables if isinstance(tables, list) else [tables]:
        if isinstance(table, str):
            grid.append(table)
            continue
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
    make = maker(f"{role}.kind", arguments.pop("kind"), KINDS[role], folder)
    for name, value in arguments.items():
        if (
            isinstance(value, dict) and name not in DATES
        ):  # a method around another has that as a table of its own, so have steps
            own_kind = role in (name, "step")
            arguments[name] = part_of(role, value, folder) if own_kind else piece(f"{role}.{name}", value)
    return _checked(role, make_part(role, table["kind"], make, arguments), f"{role}.kind", table["kind"])


def _checked(role: str, part: Any, parameter: str, given: object) -> Any:
    """The part, if it can play its role."""
    if not isinstance(part, BASES[role]) and not (role == "step" and isinstance(part, Tuned)):
        article = "an" if role == "activity" else "a"
        raise BadInput(parameter, given, f"the name of {article} {BASES[role].__name__}")
    return part


def piece(place: str, table: Mapping[str, Any]) -> Any:
    """A part of a part, such as a distribution of times: a table within the table."""
    kind = table.get("kind")
    if kind not in PIECES:
        raise BadInput(f"{place}.kind", kind, "one of " + ", ".join(PIECES), guess(kind, tuple(PIECES)))
    return make_part(place, kind, PIECES[kind], {name: value for name, value in table.items() if name != "kind"})
