"""Train one model from many data streams on unequal, unreliable workers, without letting the fast ones bias it."""

from siag import activity, methods, problems, steps, theory
from siag.foundations import rng
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadFile, BadInput, DivergenceWarning, SiagError, Unsuitable
from siag.foundations.version import __version__
from siag.simulation import Run, Sweep, load, simulate, sweep

__all__ = [
    "BadFile",
    "BadInput",
    "DivergenceWarning",
    "Run",
    "SiagError",
    "Sweep",
    "Unsuitable",
    "__version__",
    "activity",
    "compiled",
    "load",
    "methods",
    "problems",
    "rng",
    "simulate",
    "steps",
    "sweep",
    "theory",
]
