"""Train one model from many data streams on unequal, unreliable workers, without letting the fast ones bias it."""

from typing import TYPE_CHECKING, Any

from siag import activity, methods, problems, steps, theory
from siag.foundations import rng
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadFile, BadInput, DivergenceWarning, SiagError, Unsuitable
from siag.foundations.version import __version__
from siag.simulation import Run, Sweep, load, simulate, sweep

if TYPE_CHECKING:
    from siag import runtimes, server, streams
    from siag.experiments.comparison import compare
    from siag.experiments.replay import replay
    from siag.runtimes import Until, serve, train, work

LATER = {  # what a simulation does not need, and is imported only when it is first asked for
    "runtimes": "siag.runtimes",
    "server": "siag.server",
    "streams": "siag.streams",
    "Until": "siag.runtimes",
    "serve": "siag.runtimes",
    "train": "siag.runtimes",
    "work": "siag.runtimes",
    "replay": "siag.experiments.replay",
    "compare": "siag.experiments.comparison",
}

__all__ = [
    "BadFile",
    "BadInput",
    "DivergenceWarning",
    "Run",
    "SiagError",
    "Sweep",
    "Unsuitable",
    "Until",
    "__version__",
    "activity",
    "compare",
    "compiled",
    "load",
    "methods",
    "problems",
    "replay",
    "rng",
    "runtimes",
    "serve",
    "server",
    "simulate",
    "steps",
    "streams",
    "sweep",
    "theory",
    "train",
    "work",
]


def __getattr__(name: str) -> Any:
    """Import the live half of the package once it is needed."""
    from importlib import import_module

    if name not in LATER:
        raise AttributeError(f"module 'siag' has no attribute {name!r}")
    module = import_module(LATER[name])
    return module if LATER[name] == f"siag.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
