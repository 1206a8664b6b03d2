"""Theory, executable: Assumptions, Lemmas 1–3, Theorem 1, exact moments and the sharp law. Sec. III."""

from siag.theory.advantage import Advantage, advantage
from siag.theory.bias import biased_optimum, shares
from siag.theory.drift import local_fixed_point, quadratics
from siag.theory.exact import Curve, exact_error
from siag.theory.lemmas import Inequality, Lemmas, lemmas
from siag.theory.plan import Plan, describe
from siag.theory.sequential import selection_factor, sequential_error
from siag.theory.sharp import SharpLaw, sharp_law
from siag.theory.theorem import Theorem1, recursion

__all__ = [
    "Advantage",
    "Curve",
    "Inequality",
    "Lemmas",
    "Plan",
    "SharpLaw",
    "Theorem1",
    "advantage",
    "biased_optimum",
    "describe",
    "exact_error",
    "lemmas",
    "local_fixed_point",
    "quadratics",
    "recursion",
    "selection_factor",
    "sequential_error",
    "shares",
    "sharp_law",
]
