"""When sIAG is worth its price: old gradients against workers that differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from siag.activity import Recorded
from siag.foundations.errors import BadInput
from siag.foundations.types import Floats, Integers
from siag.problems import Problem, reweighted
from siag.problems.weights import Weights
from siag.steps import Harmonic
from siag.theory.bias import biased_optimum, shares
from siag.theory.exact import least_squares
from siag.theory.sharp import SharpLaw, sharp_law, squared


@dataclass(frozen=True)
class Advantage:
    """The errors of sIAG and of SGD for large t, where a single worker reports in each iteration.

    Attributes:
        siag: sIAG's law, constant/(t + γ).
        sgd: that of what chance does to SGD.
        bias: ‖w_r − w*‖², what is left of SGD's error for ever.
    """

    siag: SharpLaw
    sgd: SharpLaw
    bias: float

    def ratio(self, t: float | Floats | Integers) -> Floats:
        """SGD's error over sIAG's after t reports: above 1 where sIAG wins."""
        return np.asarray((self.bias + self.sgd(t)) / self.siag(t))

    @property
    def crossover(self) -> float:
        """The number of reports from which on sIAG wins: 0 if it always does, infinite if it never does."""
        lead = self.siag.constant - self.sgd.constant
        if lead <= 0.0:
            return 0.0
        return math.inf if self.bias == 0.0 else max(0.0, lead / self.bias - self.siag.gamma)


def advantage(problem: Problem, activity: Recorded, step: Harmonic, *, weights: Weights = None) -> Advantage:
    r"""What sIAG gains or loses against SGD at equal samples, if a single worker reports in each iteration.

    sIAG uses a gradient again until its worker's next report, and pays for that by κ_i = E[G_i²]/E[G_i], G_i being the
    gaps between worker i's reports. SGD uses it once. It pays for who happens to report, since workers differ, and ends
    at w_r, where Σ r_i ∇F_i = 0, r_i being the workers' shares of the reports. With c = β²/(2βμ − 1)

        sIAG:  c (1/n²) Σ κ_i σ_i² / (t + γ)
        SGD:   c Σ r_i (σ_i² + ‖∇F_i(w_r)‖²) / (t + γ) + ‖w_r − w*‖²

    If all report equally often and without memory, κ_i = 2n: sIAG wins if workers differ by more than their noise,
    mean ‖∇F_i(w*)‖² > mean σ_i², and loses by a factor of up to 2 if they do not. If they report unequally often, sIAG
    wins in the long run, but the seldom ones make the run long: see `crossover`.

    With weights sIAG has p_i² in place of 1/n². SGD's server multiplies a report by c_i = n p_i, so r_i c_i takes the
    place of r_i in w_r, its noise is Σ r_i c_i² (σ_i² + ‖∇F_i(w_r)‖²), and its steps contract by Σ r_i c_i μ.

    Args:
        problem: a `LeastSquares`.
        activity: who has reported when, one worker at a time; its order counts as independent draws. It should be much
            longer than the t one asks for: in a short one the shares r_i, and so w_r, are themselves left to chance.
        step: `Harmonic`, with β > 1/(2μ).
        weights: as in `sharp_law`.

    Example:
        >>> from siag.problems import LeastSquares
        >>> pattern = Recorded([[i] for i in np.random.default_rng(1).integers(8, size=20_000)])
        >>> alike, unlike = (LeastSquares(s * np.eye(8), p=200, noise=1.0) for s in (0.01, 3.0))
        >>> [round(float(advantage(each, pattern, Harmonic(0.01, 500)).ratio(20_000)), 1) for each in (alike, unlike)]
        [0.5, 18.0]
    """
    problem = reweighted(problem, weights)
    known, law = least_squares("the advantage over SGD", problem), sharp_law(problem, activity, step)
    r, point = shares(activity, known.n), biased_optimum(problem, activity)
    slopes = known.p**2 * np.square(point - known.centers).sum(axis=1)
    mu = known.constants().mu * (1.0 if known.weights is None else float(r @ known.weights))
    if step.beta * mu <= 0.5:
        remedy = "those who report count for little, so that SGD would fall more slowly than 1/t"
        raise BadInput("beta", step.beta, f"above {0.5 / mu:g}", remedy)
    noise = float((r * squared(known)) @ (known.noise_at(point) + slopes))
    constant = step.beta**2 / (2.0 * step.beta * mu - 1.0) * noise
    bias = float(np.square(point - known.optimum).sum())
    return Advantage(law, SharpLaw(constant, step.gamma, 1.0), bias)
