"""From constants to step sizes: what Theorem 1 prescribes, and what to use."""

from __future__ import annotations

from dataclasses import dataclass

from siag.foundations import check
from siag.steps import Harmonic, check_constants
from siag.theory.theorem import Theorem1


@dataclass(frozen=True)
class Plan:
    """A step to use with sIAG, and the error to expect from it.

    Theorem 1's γ is far larger than needed. This one keeps the first step below two limits. If all gradients were T
    iterations old, w ← w − ηL w^{t−T} would be unstable from η ≈ π/(L(2T+1)) on: η ≤ 1/(2L(T+1)) leaves a margin. And
    noise that grows with ‖w − w*‖² makes the variance grow from η ≈ 2μn/(κσ²) on: half of that is taken.

    Args:
        mu: strong convexity μ.
        L: smoothness.
        sigma2: σ² of Assumption 2.
        n: workers.
        T: bound on the age.
    """

    mu: float
    L: float
    sigma2: float
    n: int
    T: int

    def __post_init__(self) -> None:
        check_constants(mu=self.mu, L=self.L, sigma2=self.sigma2, n=self.n, T=self.T)

    @property
    def kappa(self) -> float:
        """κ of gaps uniform on {1, …, T + 1}, which leave ages up to T."""
        return (2.0 * self.T + 3.0) / 3.0

    @property
    def step(self) -> Harmonic:
        """β = 2/μ: a third more error than with the best β = 1/μ, but the rate 1/t survives a μ 4 times too large."""
        beta = 2.0 / self.mu
        delay = 2.0 * self.L * (self.T + 1)
        noise = self.kappa * self.sigma2 / (self.mu * self.n)
        return Harmonic(beta, beta * max(delay, noise))

    def error(self, t: float) -> float:
        """What the sharp law predicts at iteration t, if the noise at w* is as large as σ² allows."""
        beta = self.step.beta
        constant = beta**2 / (2.0 * beta * self.mu - 1.0) * self.kappa * self.sigma2 / self.n
        return constant / (t + self.step.gamma)


def describe(theorem: Theorem1, error0: float, horizon: int = 100_000) -> dict[str, dict[str, float]]:
    """The constants of Theorem 1 and of a plan, by name, for printing."""
    check.real("error0", error0, low=0)
    plan = Plan(theorem.mu, theorem.L, theorem.sigma2, theorem.n, theorem.T)
    bound = {f"bound at t = {k} gamma": float(theorem.bound(k * theorem.gamma, error0)) for k in (0, 1, 10, 100)}
    return {
        "Theorem 1": {
            "mu": theorem.mu,
            "L": theorem.L,
            "sigma2": theorem.sigma2,
            "n": theorem.n,
            "T": theorem.T,
            "beta": theorem.beta,
            "gamma": theorem.gamma,
            "rho": theorem.rho,
            "C_L": theorem.C_L,
            "delta1": theorem.delta1,
            "first step beta/gamma": theorem.beta / theorem.gamma,
            **bound,
        },
        "To use": {
            "beta": plan.step.beta,
            "gamma": plan.step.gamma,
            "first step beta/gamma": plan.step.beta / plan.step.gamma,
            "kappa": plan.kappa,
            f"error to expect at t = {horizon}": plan.error(horizon),
        },
    }
