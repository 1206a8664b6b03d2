"""Steps: the sizes η_t of the server's moves, Sec. III."""

from siag.steps.constant import Constant
from siag.steps.harmonic import Harmonic
from siag.steps.step import Step
from siag.steps.theorem import check_beta, check_constants, lemma_constant, rho_bar, theorem

__all__ = ["Constant", "Harmonic", "Step", "check_beta", "check_constants", "lemma_constant", "rho_bar", "theorem"]
