"""The sharp law: what the error really is for large t, constant included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.activity import Activity
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Floats, Integers
from siag.problems import Problem
from siag.steps import Harmonic, Step
from siag.theory.exact import least_squares


@dataclass(frozen=True)
class SharpLaw:
    """E_t ≈ constant / (t + γ); call it with t.

    Attributes:
        constant: β²/(2βμ − 1) · (1/n) Σ_i κ_i σ_i² / n.
        gamma: γ of the step.
        kappa: κ, the mean over the workers of κ_i.
    """

    constant: float
    gamma: float
    kappa: float

    def __call__(self, t: float | Floats | Integers) -> Floats:
        """E‖w^t − w*‖² to leading order."""
        return np.asarray(self.constant / (np.asarray(t, np.float64) + self.gamma))


def sharp_law(problem: Problem, activity: Activity, step: Step, *, average: int = 1) -> SharpLaw:
    r"""The error of sIAG for large t, with its constant.

    A sample is used for as many iterations as its worker's gap G lasts, so its noise enters G times as strong. For
    βμ > ½

        E_t ≈ β²/(2βμ − 1) · (1/n) Σ_i κ_i σ_i² / (n (t + γ)),    κ_i = E[G_i²]/E[G_i],

    with σ_i² the variance of ∇f_i at w*. If all workers have the same gaps this is κ σ*² β²/((2βμ − 1) n (t + γ)):
    a speedup of n/κ over one sample per iteration. κ = 1 if all are always active, n if cyclic, (2T + 1)/3 for gaps
    uniform on {1, …, T}.

    If rows are moving averages of m reports, a sample counts 1/m when it comes and (1 − 1/m)^l/m after l more reports
    of its worker. Over all iterations that adds up to U = (1/m) Σ_l (1 − 1/m)^l G^{(l)} in place of G, and

        κ_i = E[U_i²]/E[G_i],  which is E[G_i] (1 + CV²(G_i)/(2m − 1)) for independent gaps.

    So of the 1 + CV² that irregular gaps cost next to nothing remains, and regular gaps gain nothing. The law is that
    of t → ∞ with m fixed. Until all workers have reported many times m the error is larger: a row's gradients are m − 1
    reports older on average, and rows of fewer than m reports are means over all that came since the start.

    Args:
        problem: a `LeastSquares`.
        activity: its gap moments enter; a `Recorded` one gives the law of that very pattern.
        step: `Harmonic`, with β > 1/(2μ).
        average: m, as in `SIAG`.
    """
    problem = least_squares("the sharp law", problem)
    if not isinstance(step, Harmonic):
        raise Unsuitable(f"the sharp law needs a Harmonic step, not {step!r}")
    mu = problem.constants().mu
    if step.beta * mu <= 0.5:
        raise BadInput(
            "beta",
            step.beta,
            f"above 1/(2 mu) = {0.5 / mu:g}",
            "a smaller one makes the rate slower than 1/t",
        )
    reuse = activity.reuse(problem.n, average)
    noise = float((reuse * problem.noise_at(problem.optimum)).mean())
    constant = step.beta**2 / (2.0 * step.beta * mu - 1.0) * noise / problem.n
    return SharpLaw(constant, step.gamma, float(reuse.mean()))
