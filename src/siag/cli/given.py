"""What `siag serve` was given on the command line, as the objects that Python takes; mistakes as they were typed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.foundations.errors import BadInput, Missing

if TYPE_CHECKING:
    from siag.methods import Method
    from siag.problems import Problem
    from siag.runtimes.tcp_server import Limits
    from siag.server import Departed
    from siag.steps import Step

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
    if given["tick"] is not None and given["every"] is not None:
        raise BadInput("tick", given["tick"], "given without --every")


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


def method(text: str) -> Method:
    """A method by its name, with or without arguments."""
    from siag.experiments.config import KINDS, written

    known = KINDS["method"]
    return known[text]() if text in known else written("method", text)  # type: ignore[no-any-return]  # Methods, both


def step(eta: float | None, beta: float | None, gamma: float | None) -> Step:
    """η, or β/(t+γ)."""
    from siag.steps import Constant, Harmonic

    if eta is not None and beta is None and gamma is None:
        return Constant(eta)
    if eta is None and beta is not None and gamma is not None:
        return Harmonic(beta, gamma)
    raise Missing("eta", "give --eta for a constant step, or --beta and --gamma for β/(t+γ)")


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
    from siag.runtimes.tcp_server import Limits

    told = {name: given[name] for name in ("connections", "hello", "frame") if given[name] is not None}
    if not told:
        return None
    workers = problem.n if problem is not None else len(given["names"]) or given["workers"]
    return Limits(**{"connections": max(Limits.connections, 2 * workers), **told})
