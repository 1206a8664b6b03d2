"""Steps: the sizes η_t of the server's moves, Sec. III."""

from siag.steps.constant import Constant
from siag.steps.delay_adaptive import DelayAdaptive
from siag.steps.harmonic import Harmonic
from siag.steps.printed import from_text
from siag.steps.step import Sizes, Step, heard, left, shifted, size
from siag.steps.switched import Switched
from siag.steps.theorem import check_beta, check_constants, lemma_constant, rho_bar, theorem

__all__ = [
    "Constant",
    "DelayAdaptive",
    "Harmonic",
    "Sizes",
    "Step",
    "Switched",
    "check_beta",
    "check_constants",
    "from_text",
    "heard",
    "left",
    "lemma_constant",
    "rho_bar",
    "shifted",
    "size",
    "theorem",
]
