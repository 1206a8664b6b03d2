"""The sharp law: what the error really is for large t, constant included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.activity import Activity
from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.encodings import FLOAT64
from siag.foundations.errors import BadInput, Unsuitable
from siag.foundations.types import Floats, Integers
from siag.problems import LeastSquares, Problem, reweighted, weights_of
from siag.problems.weights import Weights, mean_by
from siag.steps import Constant, Harmonic, Step
from siag.theory.blocks import Quadratic, quadratic
from siag.theory.noise import noise
from siag.theory.rounding import rounding_variance


@dataclass(frozen=True)
class SharpLaw:
    """E_t ≈ constant / (t + γ)^power; call it with t.

    Attributes:
        constant: tr P of `sharp_law`; for LeastSquares β²/(2βμ − 1) · Σ_i p_i² κ_i σ_i², p_i being 1/n or weights.
        gamma: γ of the step.
        kappa: κ, the mean over the workers of κ_i.
        power: 1, or 0 where the error stays what it is.
    """

    constant: float
    gamma: float
    kappa: float
    power: float = 1.0

    def __call__(self, t: float | Floats | Integers) -> Floats:
        """E‖w^t − w*‖² to leading order."""
        return np.asarray(self.constant / (np.asarray(t, np.float64) + self.gamma) ** self.power)


def sharp_law(
    problem: Problem,
    activity: Activity,
    step: Step,
    *,
    average: int = 1,
    averaged: bool = False,
    messages: str = FLOAT64.name,
    weights: Weights = None,
) -> SharpLaw:
    r"""The error of sIAG for large t, with its constant.

    A sample is used for as many iterations as its worker's gap G lasts, so its noise enters G times as strong. Let
    N_i be the covariance of ∇f_i at w*, H the Hessian of F with smallest eigenvalue μ, and

        S = Σ_i p_i² κ_i N_i,    κ_i = E[G_i²]/E[G_i],

    p_i being 1/n, or what worker i counts for: then w* and H = Σ p_i H_i are those of F = Σ p_i F_i.

    With η_t = β/(t + γ) and βμ > ½

        E_t ≈ tr P/(t + γ),    (βH − ½I) P + P (βH − ½I) = β² S.

    If all H_i are μI, as those of `LeastSquares`, tr P = β²/(2βμ − 1) · Σ_i p_i² κ_i σ_i² with σ_i² = tr N_i. If
    further all workers count the same and have the same gaps this is κ σ*² β²/((2βμ − 1) n (t + γ)): a speedup of n/κ
    over one sample per iteration. κ = 1 if all are always active, n if cyclic, (2T + 1)/3 for gaps uniform on
    {1, …, T}.

    If rows are moving averages of m reports, a sample counts 1/m when it comes and (1 − 1/m)^l/m after l more reports
    of its worker. Over all iterations that adds up to U = (1/m) Σ_l (1 − 1/m)^l G^{(l)} in place of G, and

        κ_i = E[U_i²]/E[G_i],  which is E[G_i] (1 + CV²(G_i)/(2m − 1)) for independent gaps.

    So of the 1 + CV² that irregular gaps cost next to nothing remains, and regular gaps gain nothing. The law is that
    of t → ∞ with m fixed. Until all workers have reported many times m the error is larger: a row's gradients are m − 1
    reports older on average, and rows of fewer than m reports are means over all that came since the start.

    A constant step η leaves an error that does not depend on t: tr P with HP + PH = ηS. The mean of the iterates
    (`Averaged`) has tr(H⁻¹SH⁻¹)/t there, the least that any step can reach; with η_t = β/(t + γ) it has
    Σ_a 2β s_a/(λ_a (2βλ_a − 1))/t, s_a being the variance of S along the eigenvector of H to λ_a. These two are for
    t ≫ γ and a start that is forgotten, and both laws of a constant step are for a small η.

    Args:
        problem: a `LeastSquares`, a `Ridge`, or a quadratic of your own, as in `exact_error`.
        activity: its gap moments enter; a `Recorded` one gives the law of that very pattern.
        step: `Harmonic`, with β > 1/(2μ), or `Constant`.
        average: m, as in `SIAG`.
        averaged: whether the law is that of the mean of the iterates.
        messages: as in `siag.train`; packed ones are rounded at random, which adds `rounding_variance` to N_i.
        weights: numbers, or `"points"`, as in `simulate`, in place of the problem's own.

    Example:
        >>> from siag.activity import Uniform
        >>> problem = LeastSquares.random(n=20, d=5, p=10, noise=0.1)
        >>> law = sharp_law(problem, Uniform(15), Harmonic(beta=0.2, gamma=200))
        >>> round(law.kappa, 2), bool(law(20_000) < law(10_000))
        (10.33, True)
    """
    problem = reweighted(problem, weights)
    curvatures, variances = at_optimum(problem, messages)
    reuse, response = activity.reuse(problem.n, average), response_of(curvatures, step, averaged)
    constant = float((squared(problem) * reuse) @ variances @ response) / problem.n**2
    harmonic = isinstance(step, Harmonic)
    gamma = step.gamma if isinstance(step, Harmonic) and not averaged else 0.0
    return SharpLaw(constant, gamma, float(reuse.mean()), 1.0 if harmonic or averaged else 0.0)


def squared(problem: Problem) -> Floats:
    """(n,) (n p_i)², by which the noise of a worker's messages grows."""
    weights = weights_of(problem)
    return np.ones(problem.n) if weights is None else weights**2


def response_of(curvatures: Floats, step: Step, averaged: bool) -> Floats:
    """What a unit of noise along each eigenvector of H adds to the law's constant."""
    check.truth("averaged", averaged)
    if isinstance(step, Constant):
        return 1.0 / curvatures**2 if averaged else 0.5 * step.eta / curvatures
    if not isinstance(step, Harmonic):
        raise Unsuitable(f"the sharp law needs a Harmonic or a Constant step, not {step!r}")
    beta, mu = step.beta, float(curvatures.min())
    if beta * mu <= 0.5:
        remedy = "a smaller one makes the rate slower than 1/t"
        raise BadInput("beta", beta, f"above 1/(2 mu) = {0.5 / mu:g}", remedy)
    rest = 2.0 * beta * curvatures - 1.0
    return np.asarray(2.0 * beta / (curvatures * rest) if averaged else beta**2 / rest)


def at_optimum(problem: Problem, messages: str = FLOAT64.name) -> tuple[Floats, Floats]:
    """The eigenvalues of H, and (n, as many) the variance of every worker's message at w* along the eigenvectors.

    Where H is a multiple of I there is one eigenvalue, and one variance, that of all directions together.
    """
    if isinstance(problem, LeastSquares):
        variances = problem.noise_at(problem.optimum) + rounding_variance(problem, messages).sum(axis=1)
        return np.array([float(problem.p)]), variances[:, np.newaxis]
    source = quadratic(problem, noisy=True)
    weights = weights_of(problem)
    return at_optimum_of(source, np.array(problem.optimum), rounding_variance(problem, messages), weights)


def at_optimum_of(
    source: Quadratic, optimum: Floats, rounding: Floats | None = None, weights: Floats | None = None
) -> tuple[Floats, Floats]:
    """The same for any quadratic; `rounding` is (n, d) the variance of the rounding of every number."""
    curvatures, vectors = np.linalg.eigh(mean_by(weights, source.hessians))
    if curvatures[0] <= 0.0:
        raise Unsuitable("the sharp law needs an F that is strongly convex; add a regularization")
    variances = []
    for i in range(len(source.linear)):
        noise_at(source, i, optimum)
        rounded = 0.0 if rounding is None else rounding[i] @ vectors**2
        variances.append(((source.N @ vectors) * vectors).sum(axis=0) + rounded)
    return curvatures, np.array(variances)


@compiled
def noise_at(source: Quadratic, i: int, w: Floats) -> None:
    """Write N_i(w) to the source's N."""
    source.V[:] = 0.0
    noise(source.oracle, i, w, source.V, source.N, source.scratch)
