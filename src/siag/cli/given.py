"""What live commands were given, in a file and on the command line, as the objects that Python takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siag.foundations.errors import BadInput, Missing

if TYPE_CHECKING:
    from siag.experiments.live_file import LiveRun
    from siag.live.network import Network
    from siag.live.spec import Spec
    from siag.problems import Problem
    from siag.steps import Step

HERE = Path()
ENDS = ("iterations", "seconds", "reports")
GUARD = {"max_age": "age", "max_norm": "norm", "max_jump": "jump", "strikes": "strikes"}
LIMITS = ("connections", "hello", "frame")
TYPED = {"k": "every", "age": "max-age", "norm": "max-norm", "jump": "max-jump", "give_up": "give-up"}
MISSING = {  # what to type, where something is missing
    "gradient": ("gradient", "give --gradient and --stream, or --problem"),
    "streams": ("stream", "give --stream for each worker, or --problem"),
    "w0": ("dimension", "give --dimension D, or --w0 FILE.npy, or --problem"),
    "names": ("workers", "give --workers N, or --name A --name B …, or --problem"),
    "step": ("eta", "give --eta for a constant step, --beta and --gamma for β/(t+γ), or --step"),
    "until": ("iterations", "say when to end, with --iterations, --seconds or --reports"),
}
IN_FILE = {  # what to write, where something is missing from a file
    "gradient": ("gradient", 'write gradient = "module:function", and streams; or a table [problem]'),
    "streams": ("streams", 'write streams = ["module:attribute", …], or a table [problem]'),
    "w0": ("dimension", 'write dimension = D, or w0 = "FILE.npy", or a table [problem]'),
    "names": ("workers", 'write workers = N, or names = ["A", "B", …], or a table [problem]'),
    "step": ("step", "add the table [step]"),
    "until": ("until", "add the table [until], with iterations, seconds or reports"),
}


def typed(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were typed."""
    return {name: value for name, value in given.items() if value is not None and value is not False and value != ()}


class Described:
    """A live run, from a file and from options, which override it.

    Args:
        given: all options of the command.
        file: of the run, if there is one.
        serving: whether it is for `siag serve`.
    """

    def __init__(self, given: dict[str, Any], file: Path | None, serving: bool = False) -> None:
        self._typed, self._file, self._serving = typed(given), file, serving
        for name in self._typed.get("names", ()):
            check_name(name)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Let mistakes in what was typed have the names that were typed."""
        names = dict(TYPED)
        names |= {field: name for field, name in (("names", "name"), ("streams", "stream")) if field in self._typed}
        names |= {"names": "workers"} if "workers" in self._typed and self._serving else {}
        names |= {"w0": "dimension"} if "dimension" in self._typed else {}
        from siag.live.spec import renamed

        with renamed(names, MISSING if self._file is None else IN_FILE):
            yield

    @cached_property
    def file(self) -> LiveRun:
        """What the file says; nothing without one."""
        from siag.experiments.live_file import LiveRun, read_live

        return LiveRun() if self._file is None else read_live(self._file, self._serving)

    @cached_property
    def spec(self) -> Spec:
        """What to run."""
        from siag.live.network import LINGER
        from siag.live.spec import Spec

        usual = {"linger": LINGER} if self._serving else {}
        return Spec(**{**usual, **self.file.spec, **self._fields()})

    def network(self, workers: int) -> Network:
        """Where to listen, and whom to trust."""
        from siag.live.network import NETWORK, Network
        from siag.runtimes import Limits

        told = {name: self._typed[name] for name in NETWORK if name in self._typed}
        limits = self.file.limits | {name: self._typed[name] for name in LIMITS if name in self._typed}
        if limits:
            told["limits"] = Limits(**{"connections": max(Limits.connections, 2 * workers)} | limits)
        return Network(**{**self.file.network, **told})

    def _fields(self) -> dict[str, Any]:
        """The fields of `Spec` of which something was typed."""
        from siag.experiments.live_file import departed, load_start, zeros
        from siag.experiments.references import Loss, reference
        from siag.live.spec import fields_of

        given, before = self._typed, self.file.spec
        made = {name: given[name] for name in fields_of(self._serving) if name in given}
        if "problem" in given:
            made["problem"], usual = read_problem(given["problem"])
            made = {"seed": usual} | made
        if "dimension" in given:
            made["w0"] = zeros(given["dimension"], "w0" in given)
        elif "w0" in given:
            made["w0"] = load_start(Path(given["w0"]))
        if "workers" in given and self._serving:
            if "names" in given:
                raise BadInput("workers", given["workers"], "given alone", "leave out workers or names")
            made["names"] = given["workers"]
        makers: dict[str, Callable[[Any], Any]] = {
            "gradient": lambda text: reference("gradient", text, HERE),
            "streams": lambda texts: [reference("stream", text, HERE) for text in texts],
            "names": list,
            "preload": tuple,
            "method": lambda text: part("method", text),
            "departed": departed,
            "loss": lambda text: Loss(text, reference("loss", text, HERE)),
        }
        made |= {name: make(given[name]) for name, make in makers.items() if name in given}
        if given.keys() & {"step", "eta", "beta", "gamma"}:
            made["step"] = step(*(given.get(name) for name in ("step", "eta", "beta", "gamma")))
        if given.keys() & {"every", "tick"}:
            made["server"] = server(given.get("every"), given.get("tick"))
        return made | self._over(before)

    def _over(self, before: dict[str, Any]) -> dict[str, Any]:
        """Ends and guard: parts of those of the file may be overridden."""
        from siag.live.until import Until, until_of
        from siag.server import Guard

        ends = {name: self._typed[name] for name in ENDS if name in self._typed}
        rules = {field: self._typed[name] for name, field in GUARD.items() if name in self._typed}
        found: dict[str, Any] = {}
        if ends:
            found["until"] = (
                replace(until_of(before.get("until"), True), **ends) if "until" in before else Until(**ends)
            )
        if rules:
            found["guard"] = replace(before.get("guard") or Guard(), **rules)
        return found


def check_name(name: str | None) -> None:
    """Refuse a worker's name that is empty."""
    if name == "":
        raise BadInput("name", name, "not empty")


def part(role: str, text: str) -> Any:
    """A method or a step: by its name alone, as Python prints it, or one of the user's own as module:attribute."""
    from siag.experiments.config import KINDS, own, written
    from siag.experiments.references import look_in
    from siag.live.spec import renamed

    if ":" in text.partition("(")[0]:
        look_in(HERE)
        with renamed({f"{role}.kind": role}):
            return own(role, text, HERE)
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
    raise Missing(*MISSING["step"])


def server(every: int | None, tick: float | None) -> Any:
    """When to step."""
    from siag.activity import EveryArrivals, Tick
    from siag.live.spec import renamed

    if tick is None:
        return EveryArrivals(1 if every is None else every)
    if every is not None:
        raise BadInput("tick", tick, "given without --every")
    with renamed({"seconds": "tick"}):
        return Tick(tick)


def read_problem(text: str) -> tuple[Problem, int]:
    """The problem of a TOML file, or "module:attribute", which may be a function that makes it; and the file's seed."""
    from siag.experiments.references import problem_named

    return problem_named(text, HERE)


def problem_of(text: str | None, seed: int | None) -> tuple[Problem | None, int]:
    """The problem of a worker, and the seed of its samples."""
    if text is None:
        if seed is not None:
            raise BadInput("seed", seed, "left out without a problem", "streams have samples of their own")
        return None, 0
    problem, usual = read_problem(text)
    return problem, usual if seed is None else seed


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
