"""Train one model from many data streams on unequal, unreliable workers, without letting the fast ones bias it."""

import logging
from typing import TYPE_CHECKING, Any

from siag.foundations.errors import (
    BadFile,
    BadInput,
    DivergenceWarning,
    SiagError,
    TrainingWarning,
    Unsuitable,
)
from siag.foundations.version import __version__

if TYPE_CHECKING:
    from siag import activity, adapters, losses, methods, problems, runtimes, server, steps, storage, streams, theory
    from siag.experiments.comparison import compare
    from siag.experiments.replay import replay
    from siag.foundations import rng
    from siag.foundations.dispatch import compiled
    from siag.runtimes import Simulated, Until, relay, serve, train, work
    from siag.simulation import Run, Sweep, Tuned, load, simulate, sweep

# All but errors is imported when it is first asked for, so that the command line answers signals from the start.
PARTS = (
    "activity",
    "adapters",
    "losses",
    "methods",
    "problems",
    "runtimes",
    "server",
    "simulation",
    "steps",
    "storage",
    "streams",
    "theory",
)
MODULES = {name: f"siag.{name}" for name in PARTS} | {"rng": "siag.foundations.rng"}
NAMES = {
    **dict.fromkeys(("Run", "Sweep", "Tuned", "load", "simulate", "sweep"), "siag.simulation"),
    **dict.fromkeys(("Simulated", "Until", "relay", "serve", "train", "work"), "siag.runtimes"),
    "compare": "siag.experiments.comparison",
    "compiled": "siag.foundations.dispatch",
    "replay": "siag.experiments.replay",
}

logging.getLogger("siag").addHandler(logging.NullHandler())  # who wants to hear what it says, adds another

__all__ = [
    "BadFile",
    "BadInput",
    "DivergenceWarning",
    "Run",
    "SiagError",
    "Simulated",
    "Sweep",
    "TrainingWarning",
    "Tuned",
    "Unsuitable",
    "Until",
    "__version__",
    "activity",
    "adapters",
    "compare",
    "compiled",
    "load",
    "losses",
    "methods",
    "problems",
    "relay",
    "replay",
    "rng",
    "runtimes",
    "serve",
    "server",
    "simulate",
    "steps",
    "storage",
    "streams",
    "sweep",
    "theory",
    "train",
    "work",
]


def __getattr__(name: str) -> Any:
    """Import a part of the package once it is needed."""
    from importlib import import_module

    if name in MODULES:
        return import_module(MODULES[name])
    if name in NAMES:
        return getattr(import_module(NAMES[name]), name)
    raise AttributeError(f"module 'siag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
