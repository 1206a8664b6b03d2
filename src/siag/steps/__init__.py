"""Steps: the sizes η_t of the server's moves, Sec. III."""

from siag.steps.constant import Constant
from siag.steps.delay_adaptive import DelayAdaptive
from siag.steps.harmonic import Harmonic
from siag.steps.step import Step, heard, left, size
from siag.steps.theorem import check_beta, check_constants, lemma_constant, rho_bar, theorem

__all__ = [
    "Constant",
    "DelayAdaptive",
    "Harmonic",
    "Step",
    "check_beta",
    "check_constants",
    "heard",
    "left",
    "lemma_constant",
    "rho_bar",
    "size",
    "theorem",
]
