"""What live commands were given on the command line, as the objects that Python takes; mistakes as they were typed."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.foundations.errors import BadInput, Missing

if TYPE_CHECKING:
    from siag.live.connection import Limits
    from siag.problems import Problem
    from siag.server import Departed
    from siag.steps import Step

ENDS = ("iterations", "seconds", "reports")
TYPED = {  # what has another name in Python
    "k": "every",
    "age": "max-age",
    "norm": "max-norm",
    "jump": "max-jump",
    "certificate": "cert",
    "give_up": "give-up",
}


@contextmanager
def named(names: dict[str, str]) -> Iterator[None]:
    """Let a mistake have the name the user typed, where that is another in Python; nobody can type None."""
    try:
        yield
    except BadInput as error:
        if hasattr(error, "__notes__"):  # it is of the user's own code
            raise
        typed = names.get(error.parameter, error.parameter)
        remedy = "or leave it out" if error.remedy == "or None" else error.remedy
        if (typed, remedy) == (error.parameter, error.remedy):
            raise
        if isinstance(error, Missing):
            raise Missing(typed, remedy) from None
        raise BadInput(typed, error.value, error.allowed, remedy) from None


def check_name(name: str | None) -> None:
    """Refuse a worker's name that is empty."""
    if name == "":
        raise BadInput("name", name, "not empty")


def check_clock(given: dict[str, Any]) -> None:
    """Refuse what says twice when to step."""
    if given["tick"] is not None and given["every"] is not None:
        raise BadInput("tick", given["tick"], "given without --every")


def check_crowd(given: dict[str, Any], problem: Problem | None) -> None:
    """Refuse what says twice, or not at all, how many workers there are, and when to step."""
    for name in given["names"]:
        check_name(name)
    if given["names"] and given["workers"] is not None:
        raise BadInput("workers", given["workers"], "given alone", "leave out --workers or --name")
    if problem is not None:
        for name in ("workers", "dimension"):
            if given[name] is not None:
                raise BadInput(name, given[name], "left out with --problem, which knows it")
    elif not given["names"] and given["workers"] is None:
        raise Missing("workers", "give --workers N, or --name A --name B …, or --problem")
    check_clock(given)


def start(file: Path | None, dimension: int | None, problem: Problem | None) -> Any:
    """The first parameters; None if a problem has them."""
    import numpy as np

    from siag.foundations import check
    from siag.foundations.errors import BadFile

    if file is not None and dimension is not None:
        raise BadInput("dimension", dimension, "given alone", "leave out --dimension or --w0")
    if file is None and problem is not None:
        return None
    if file is None and dimension is None:
        raise Missing("dimension", "give --dimension D, or --w0 FILE.npy, or --problem")
    if file is None:
        return np.zeros(check.integer("dimension", dimension))
    try:
        return check.floats("w0", np.load(file, allow_pickle=False), (None,))
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadFile(f"{file}: not a .npy file of numbers; write it with numpy.save") from None


def part(role: str, text: str) -> Any:
    """A method or a step: by its name alone, as Python prints it, or one of the user's own as module:attribute."""
    from siag.experiments.config import KINDS, own, written

    if ":" in text.partition("(")[0]:
        look_here()
        with named({f"{role}.kind": role}):
            return own(role, text, Path())
    return written(role, f"{text}()" if text in KINDS[role] else text)


def step(text: str | None, eta: float | None, beta: float | None, gamma: float | None) -> Step:
    """η, β/(t+γ), or any other."""
    from siag.steps import Constant, Harmonic

    if text is not None:
        if (eta, beta, gamma) != (None, None, None):
            raise BadInput("step", text, "given without --eta, --beta and --gamma")
        return part("step", text)  # type: ignore[no-any-return]  # a Step
    if eta is not None and beta is None and gamma is None:
        return Constant(eta)
    if eta is None and beta is not None and gamma is not None:
        return Harmonic(beta, gamma)
    raise Missing("eta", "give --eta for a constant step, --beta and --gamma for β/(t+γ), or --step")


def server(every: int | None, tick: float | None) -> Any:
    """When to step."""
    from siag.activity import EveryArrivals, Tick

    if tick is None:
        return EveryArrivals(1 if every is None else every)
    with named({"seconds": "tick"}):
        return Tick(tick)


def departed(text: str) -> Departed:
    """What becomes of the rows of those that left."""
    from siag.server import DROP, KEEP, Departed

    words = {"keep": KEEP, "drop": DROP}
    if text in words:
        return words[text]
    try:
        return Departed(half_life=float(text))
    except ValueError:
        raise BadInput("departed", text, "keep, drop, or a half-life in iterations") from None


def limits(given: dict[str, Any], problem: Problem | None) -> Limits | None:
    """What connections may take; None if nothing is said of it."""
    from siag.live.connection import Limits

    told = {name: given[name] for name in ("connections", "hello", "frame") if given[name] is not None}
    if not told:
        return None
    workers = problem.n if problem is not None else len(given["names"]) or given["workers"]
    return Limits(**{"connections": max(Limits.connections, 2 * workers), **told})


def look_here() -> None:
    """Let modules be found in the current folder, for good: what they import later is found as well."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)


def reference(parameter: str, text: str) -> Any:
    """What "module:attribute" names; modules are looked for in the current folder too."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise BadInput(parameter, text, 'of the form "module:attribute"')
    look_here()
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a module of the user's may do anything
        raise BadInput(parameter, text, "something that can be imported", f"importing it raised {error!r}") from error
    return found


def read_problem(text: str) -> tuple[Problem, int]:
    """The problem of a TOML file, or "module:attribute", which may be a function that makes it; and the file's seed."""
    from siag.experiments import config
    from siag.problems import Problem

    if os.path.exists(text) or ":" not in text:
        return config.read_problem(text)
    found = reference("problem", text)
    if not isinstance(found, Problem) and callable(found):
        try:
            found = found()
        except Exception as error:  # whatever the user's code raises
            remedy = f"it raised {type(error).__name__}: {error}"
            raise BadInput("problem", text, "a Problem, or a function that makes it", remedy) from error
    if not isinstance(found, Problem):
        raise BadInput("problem", text, "a Problem, or a function that makes it")
    return found, 0


def problem_of(text: str | None, seed: int | None) -> tuple[Problem | None, int]:
    """The problem and the seed of its samples."""
    if text is None:
        if seed is not None:
            raise BadInput("seed", seed, "given with --problem")
        return None, 0
    problem, usual = read_problem(text)
    return problem, usual if seed is None else seed


@dataclass(frozen=True)
class Loss:
    """The user's loss, which can be sent to other processes; what it raises becomes one line.

    Args:
        text: how the user named it.
        function: what is called with w.
    """

    text: str
    function: Callable[[Any], Any]

    def __call__(self, w: Any) -> float:
        """The loss of w."""
        try:
            return float(self.function(w))
        except Exception as error:  # whatever the user's code raises
            remedy = f"it raised {type(error).__name__}: {error}"
            raise BadInput("loss", self.text, "a function of w", remedy) from error


def training(given: dict[str, Any], problem: Problem | None, seed: int) -> dict[str, Any]:
    """What a run takes wherever it runs."""
    from siag.runtimes import Until
    from siag.server import Guard

    return {
        "w0": start(given["w0"], given["dimension"], problem),
        "method": part("method", given["method"]),
        "step": step(given["step"], given["eta"], given["beta"], given["gamma"]),
        "until": Until(**{name: given[name] for name in ENDS}),
        "server": server(given["every"], given["tick"]),
        "guard": Guard(age=given["max_age"], norm=given["max_norm"], jump=given["max_jump"], strikes=given["strikes"]),
        "departed": departed(given["departed"]),
        "loss": None if given["loss"] is None else Loss(given["loss"], reference("loss", given["loss"])),
        "problem": problem,
        "seed": seed,
        **{name: given[name] for name in ("folder", "durable", "trace", "record", "forget", "patience")},
    }


def resources(parameter: str, text: str) -> dict[str, float]:
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
