"""Theorem 1's own choice of the step, and the constants it is made of."""

from __future__ import annotations

import math

from siag.foundations import check
from siag.steps.harmonic import Harmonic


def theorem(*, mu: float, L: float, sigma2: float, n: int, T: int, beta: float) -> Harmonic:
    """η_t = β/(t + γ) with the smallest γ that Theorem 1 allows.

    The theorem is stated for β > 2/μ, but its γ and its proof need β > 4/μ; that is what is required here.

    Args:
        mu: strong convexity μ.
        L: smoothness.
        sigma2: σ² of Assumption 2.
        n: workers.
        T: bound on the age, Assumption 3.
        beta: β > 4/μ.
    """
    check_constants(mu=mu, L=L, sigma2=sigma2, n=n, T=T)
    check_beta(beta, mu)
    return Harmonic(beta, smallest_gamma(mu, L, sigma2, n, T, beta))


def check_constants(*, mu: float, L: float, sigma2: float, n: int, T: int) -> None:
    """Refuse constants that no problem and activity can have."""
    mu = check.real("mu", mu, above=0)
    check.real("L", L, low=mu, remedy="no function is less smooth than it is strongly convex")
    check.real("sigma2", sigma2, low=0)
    check.integer("n", n)
    check.integer("T", T, low=0)


def check_beta(beta: float, mu: float) -> None:
    """Refuse a β for which Theorem 1 says nothing."""
    check.real("beta", beta, above=4 / mu, remedy="Theorem 1 needs beta > 4/mu")


def rho_bar(mu: float, L: float, T: int, beta: float) -> float:
    """ρ̄(T) = 1 + 2T + (μ/2 + 5L²/μ) β T."""
    return 1.0 + 2.0 * T + (mu / 2.0 + 5.0 * L * L / mu) * beta * T


def lemma_constant(L: float, sigma2: float, n: int) -> float:
    """C_L = 20 L² + 2σ²/n, the constant of Lemma 1."""
    return 20.0 * L * L + 2.0 * sigma2 / n


def smallest_gamma(mu: float, L: float, sigma2: float, n: int, T: int, beta: float) -> float:
    """γ = 2T + max{ 16W/(μβ − 2), √(8W/(μβ − 4)), 2.02 W/(μβ − 4) } with W = C_L β² ρ̄(T).

    The third term is not in the paper. Its proof loses a factor γ + t between (22) and (Eup); the induction needs
    W (γ+t)³/((γ+t−T)² (γ+t−2T)²) ≤ μβ/2 − 2, and since γ is thousands of times T here, 1 % on top of W/γ ≤ μβ/2 − 2
    covers the delays. It matters only for μβ < 4.3; above, γ is the paper's.
    """
    weight = lemma_constant(L, sigma2, n) * beta * beta * rho_bar(mu, L, T, beta)
    first, second = 16.0 * weight / (mu * beta - 2.0), math.sqrt(8.0 * weight / (mu * beta - 4.0))
    return 2.0 * T + max(first, second, 2.02 * weight / (mu * beta - 4.0))
