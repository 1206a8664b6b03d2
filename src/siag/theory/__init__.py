"""Theory, executable: Assumptions, Lemmas 1–3, Theorem 1, exact moments and the sharp law. Sec. III."""

from siag.theory.advantage import Advantage, advantage
from siag.theory.bias import biased_optimum, shares
from siag.theory.drift import local_fixed_point
from siag.theory.exact import Curve, exact_error
from siag.theory.lemmas import Inequality, Lemmas, lemmas
from siag.theory.linear import linear
from siag.theory.noise import noise
from siag.theory.plan import Plan, describe
from siag.theory.quadratic import quadratics
from siag.theory.rounding import rounding_variance
from siag.theory.search import Best, best_average, best_step
from siag.theory.sequential import selection_factor, sequential_error
from siag.theory.sharp import SharpLaw, sharp_law
from siag.theory.staleness import Staleness, price_of_staleness
from siag.theory.theorem import Theorem1, recursion

__all__ = [
    "Advantage",
    "Best",
    "Curve",
    "Inequality",
    "Lemmas",
    "Plan",
    "SharpLaw",
    "Staleness",
    "Theorem1",
    "advantage",
    "best_average",
    "best_step",
    "biased_optimum",
    "describe",
    "exact_error",
    "lemmas",
    "linear",
    "local_fixed_point",
    "noise",
    "price_of_staleness",
    "quadratics",
    "recursion",
    "rounding_variance",
    "selection_factor",
    "sequential_error",
    "shares",
    "sharp_law",
]
