"""Theorem 1 and the recursion it is proved from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.errors import BadInput
from siag.foundations.schedule import ITERATIONS, points
from siag.foundations.types import Floats, Integers
from siag.steps import Harmonic, Step, check_beta, check_constants, lemma_constant, rho_bar, theorem


@dataclass(frozen=True)
class Theorem1:
    r"""The bound of Theorem 1, with the theorem's own step η_t = β/(t + γ).

        E_t ≤ δ₁/(γ + t) · σ²/n + γ² E_0/(γ + t)².

    Args:
        mu: strong convexity μ.
        L: smoothness.
        sigma2: σ² of Assumption 2.
        n: workers.
        T: bound on the age.
        beta: β > 4/μ (the paper states 2/μ, its proof uses 4/μ; see docs/explanation/theory.md).

    Example:
        >>> round(Theorem1(mu=10, L=10, sigma2=825, n=10, T=15, beta=0.5).rho)
        444
    """

    mu: float
    L: float
    sigma2: float
    n: int
    T: int
    beta: float

    def __post_init__(self) -> None:
        check_constants(mu=self.mu, L=self.L, sigma2=self.sigma2, n=self.n, T=self.T)
        check_beta(self.beta, self.mu)
        for name, kind in {"mu": float, "L": float, "sigma2": float, "n": int, "T": int, "beta": float}.items():
            object.__setattr__(self, name, kind(getattr(self, name)))

    @property
    def step(self) -> Harmonic:
        """η_t = β/(t + γ) with the smallest γ allowed."""
        return theorem(mu=self.mu, L=self.L, sigma2=self.sigma2, n=self.n, T=self.T, beta=self.beta)

    @property
    def gamma(self) -> float:
        """γ."""
        return self.step.gamma

    @property
    def rho(self) -> float:
        """ρ̄(T)."""
        return rho_bar(self.mu, self.L, self.T, self.beta)

    @property
    def C_L(self) -> float:  # noqa: N802  # the paper's letter
        """C_L of Lemma 1."""
        return lemma_constant(self.L, self.sigma2, self.n)

    @property
    def delta1(self) -> float:
        """δ₁ = 32 β² ρ̄/(μβ − 2) + 1, as in the statement."""
        return 32.0 * self.beta**2 * self.rho / (self.mu * self.beta - 2.0) + 1.0

    def bound(self, t: float | Floats | Integers, error0: float) -> Floats:
        """The right-hand side at iteration t, given E_0."""
        error0 = check.real("error0", error0, low=0)
        later = self.gamma + np.asarray(t, np.float64)
        if not (later >= self.gamma).all():
            raise BadInput("t", t, "at least 0")
        return np.asarray(self.delta1 / later * self.sigma2 / self.n + (self.gamma / later) ** 2 * error0)

    def recursion(self, error0: float, iterations: int, record: int = 200, first: int = 0) -> tuple[Integers, Floats]:
        """(t, bound on E_t) by iterating eq. (ana-recur) with equality, with the theorem's own step."""
        return recursion(self, self.step, error0, iterations, record, first)


def recursion(
    theorem: Theorem1, step: Step, error0: float, iterations: int, record: int = 200, first: int = 0
) -> tuple[Integers, Floats]:
    """Iterate eq. (ana-recur) with equality: the bound on E_t before the theorem's induction loosens it.

    η_{t−T} is η_0 where t < T.

    Args:
        theorem: the constants.
        step: η_t.
        error0: what bounds E_s for all s ≤ first.
        iterations: up to which t.
        record: how many points to keep.
        first: from which iteration on Assumption 3 holds; until then the bound is `error0`.
    """
    error0 = check.real("error0", error0, low=0)
    t = points(check.integer("iterations", iterations), check.integer("record", record))
    T = theorem.T
    first = check.integer("first", first, low=0)
    window = np.full(2 * T + 1, error0)
    curve, cursor = np.full(len(t), error0), np.array([np.searchsorted(t, first, "right")])
    constants = np.array([theorem.mu, theorem.mu / 2 + 5 * theorem.L**2 / theorem.mu, theorem.C_L])
    for begin in range(first, iterations, ITERATIONS):
        when = np.arange(begin, min(begin + ITERATIONS, iterations))
        late = step.sizes(np.maximum(when - T, 0))
        iterate_recursion(
            begin, step.sizes(when), late, window, constants, 2 * theorem.sigma2 / theorem.n, t, curve, cursor
        )
    return t, curve


@compiled
def iterate_recursion(
    first: int,
    eta: Floats,
    late: Floats,
    window: Floats,
    constants: Floats,
    noise: float,
    t: Integers,
    curve: Floats,
    cursor: Integers,
) -> None:
    """E_{t+1} = (1 − μη_t/2) E_t + ρ_t η_{t−T}² (C_L E_t^max + 2σ²/n), ρ_t = 1 + 2T + (μ/2 + 5L²/μ) T² η_{t−T}."""
    T = window.size // 2
    for k in range(eta.size):
        now = first + k
        rho = 1.0 + 2.0 * T + constants[1] * T * T * late[k]
        highest = window[0]
        for j in range(1, window.size):
            highest = max(highest, window[j])
        error = (1.0 - 0.5 * constants[0] * eta[k]) * window[now % window.size]
        error += rho * late[k] * late[k] * (constants[2] * highest + noise)
        window[(now + 1) % window.size] = error
        if now + 1 == t[cursor[0]]:
            curve[cursor[0]] = error
            cursor[0] += 1
