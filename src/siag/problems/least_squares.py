"""The problem of Sec. IV: streaming least squares, a different regression vector at every worker."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from siag.foundations import check
from siag.foundations.dispatch import compiled
from siag.foundations.rng import chi_square, normals, whole_blocks
from siag.foundations.types import Floats, Integers, Record, Rng
from siag.problems.problem import Constants, Drawn, curvature, exact, hessian, sample
from siag.problems.weights import Weights, among, check_numbers, mean_by, unequal

SAMPLERS = ("exact", "literal")
U1, U2, U3 = (np.uint64(k) for k in (1, 2, 3))


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquares(Drawn):
    r"""Streaming least squares with heterogeneous workers.

    Worker i draws ξ = (A, y), A of shape p × d with independent N(0, 1) entries and y ~ N(A w_i*, σ² I), and

        f_i(w; A, y) = ½ ‖A w − y‖²,    ∇f_i = Aᵀ (A w − y),    ∇F_i(w) = p (w − w_i*).

    So w* is the mean of the w_i*, and μ = L = p; with weights w* = Σ p_i w_i*, and L is p times the largest n p_i.

    Args:
        centers: (n, d) the w_i*.
        p: rows per sample.
        noise: σ, the standard deviation of y.
        sampler: `"exact"` draws ∇f_i from its law without ever drawing A, with d + 1 normals at any p;
            `"literal"` draws A and y. Same law, different random numbers.
        weights: what workers count for, one number of 0 or more for each; by default all the same.

    Example:
        >>> problem = LeastSquares.random(n=80, d=20, p=10, noise=0.1, seed=0)
        >>> problem.centers.shape, problem.constants().mu
        ((80, 20), 10.0)
    """

    centers: Floats
    p: int
    noise: float
    sampler: str = "exact"
    weights: Any = None
    origin: str = field(default="", init=False)  # how it was drawn, for the record of a run

    def __post_init__(self) -> None:
        object.__setattr__(self, "centers", check.floats("centers", self.centers, (None, None)))
        object.__setattr__(self, "p", check.integer("p", self.p))
        object.__setattr__(self, "noise", check.real("noise", self.noise, low=0))
        check.choice("sampler", self.sampler, SAMPLERS)
        object.__setattr__(self, "weights", unequal(check_numbers(self.weights, "LeastSquares"), self.n))

    @classmethod
    def random(
        cls, *, n: int, d: int, p: int, noise: float, seed: int = 0, sampler: str = "exact", weights: Weights = None
    ) -> LeastSquares:
        """Draw the w_i* uniformly from [0, 1]^d, as Sec. IV does."""
        shape = check.integer("n", n), check.integer("d", d)
        centers = np.random.default_rng(check.seed(seed)).random(shape)
        made = cls(centers, p, noise, sampler, weights)
        drawn = f"LeastSquares.random(n={n}, d={d}, p={p}, noise={noise}, seed={seed}, sampler={sampler!r})"
        object.__setattr__(made, "origin", drawn)
        return made

    @property
    def n(self) -> int:
        """The number of workers."""
        return int(self.centers.shape[0])

    @property
    def d(self) -> int:
        """The dimension of w."""
        return int(self.centers.shape[1])

    @cached_property
    def optimum(self) -> Floats:
        """(d,) w*, the mean of the w_i*, or Σ p_i w_i*."""
        mean = mean_by(self.weights, self.centers)
        mean.setflags(write=False)
        return mean

    def among(self, workers: Integers) -> LeastSquares:
        """The problem of some of the workers."""
        return replace(self, centers=self.centers[workers], weights=among(self.weights, workers))

    def __repr__(self) -> str:
        """How it was drawn, or what it is."""
        own = f"LeastSquares(n={self.n}, d={self.d}, p={self.p}, noise={self.noise}, sampler={self.sampler!r})"
        return self._printed(own)

    def noise_at(self, w: Floats) -> Floats:
        """(n,) E‖∇f_i(w; ξ) − ∇F_i(w)‖² = p(d+1)‖w − w_i*‖² + σ²pd, exactly, for every worker."""
        spread = ((check.floats("w", w, (self.d,)) - self.centers) ** 2).sum(axis=1)
        return np.asarray(self.p * (self.d + 1) * spread + self.noise**2 * self.p * self.d)

    @cached_property
    def _spread(self) -> float:
        """The mean of ‖w* − w_i*‖², or Σ p_i ‖w* − w_i*‖²."""
        return float(mean_by(self.weights, ((self.optimum - self.centers) ** 2).sum(axis=1)))

    def objective(self, w: Floats) -> float:
        """F(w) = (p/2) (‖w − w*‖² + Σ p_i ‖w* − w_i*‖² + σ²)."""
        away = float(((check.floats("w", w, (self.d,)) - self.optimum) ** 2).sum())
        return 0.5 * self.p * (away + self._spread + self.noise**2)

    def full_gradient(self, w: Floats) -> Floats:
        """(d,) ∇F(w) = p (w − w*)."""
        return np.asarray(self.p * (check.floats("w", w, (self.d,)) - self.optimum))

    def constants(self) -> Constants:
        """μ = L = p, and the smallest σ² there is; with weights L = p max n p_i.

        The noise at w* + e is p(d+1) ‖e + c‖² + σ²pd with c = w* − w_i*, at most (r, 1) M (r, 1)ᵀ with r = ‖e‖, which
        is attained if e points as c does; so it is the largest eigenvalue of M for the largest ‖c‖. The noise of a
        worker with a weight is (n p_i)² times as large.
        """
        apart = np.sqrt(((self.optimum - self.centers) ** 2).sum(axis=1))
        weights = np.ones(1) if self.weights is None else self.weights
        if self.weights is None:
            apart = apart.max(keepdims=True)  # whose noise is the largest
        slope, floor = self.p * (self.d + 1.0), self.noise**2 * self.p * self.d
        forms = np.array([[np.ones_like(apart), apart], [apart, apart * apart]]).transpose(2, 0, 1)
        largest = np.linalg.eigvalsh(slope * forms + np.diag([0.0, floor]))[:, -1]
        return Constants(float(self.p), self.p * float(weights.max()), float((weights**2 * largest).max()))

    @property
    def smoothness(self) -> Floats:
        """(n,) L_i = p."""
        return np.full(self.n, float(self.p))

    def oracle(self) -> Record:
        """The arrays and scratch space the samplers work on."""
        centers = check.read_only(self.centers)
        if self.sampler == "literal":
            return Literal(centers, self.p, self.noise, np.empty(whole_blocks(self.p * (self.d + 1))))
        return Projected(centers, self.p, self.noise, np.empty(whole_blocks(self.d)))


class Projected(NamedTuple):
    """What the exact sampler needs."""

    centers: Floats  # (n, d)
    p: int
    noise: float
    zeta: Floats  # (d or a few more,) scratch


class Literal(NamedTuple):
    """What the literal sampler needs."""

    centers: Floats  # (n, d)
    p: int
    noise: float
    rows: Floats  # (p (d + 1) or a few more,) scratch: the rows of A, each with its ε


@compiled
def apart(w: Floats, center: Floats, e: Floats) -> float:
    """Write w − center to e and return ‖e‖².

    Four sums at a time, since an addition waits for the one before it, and indices without sign, since a signed one
    might count from the end and has to be looked at first. So in `inner`.
    """
    d = w.size
    s0 = s1 = s2 = s3 = 0.0
    for quarter in range(d // 4):
        j = np.uint64(4 * quarter)
        e0, e1 = w[j] - center[j], w[j + U1] - center[j + U1]
        e2, e3 = w[j + U2] - center[j + U2], w[j + U3] - center[j + U3]
        e[j], e[j + U1], e[j + U2], e[j + U3] = e0, e1, e2, e3
        s0 += e0 * e0
        s1 += e1 * e1
        s2 += e2 * e2
        s3 += e3 * e3
    for rest in range(d - d % 4, d):
        e0 = w[rest] - center[rest]
        e[rest] = e0
        s0 += e0 * e0
    return (s0 + s1) + (s2 + s3)


@compiled
def inner(e: Floats, zeta: Floats) -> float:
    """e·ζ, ζ being as long as e or longer."""
    d = e.size
    s0 = s1 = s2 = s3 = 0.0
    for quarter in range(d // 4):
        j = np.uint64(4 * quarter)
        s0 += e[j] * zeta[j]
        s1 += e[j + U1] * zeta[j + U1]
        s2 += e[j + U2] * zeta[j + U2]
        s3 += e[j + U3] * zeta[j + U3]
    for rest in range(d - d % 4, d):
        s0 += e[rest] * zeta[rest]
    return (s0 + s1) + (s2 + s3)


@sample.when(Projected)
def sample_projected(oracle: Projected, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """∇f has the law of c e + √c (s ζ − (ζ·e)/(s + σ) e) with e = w − w_i*, s² = ‖e‖² + σ², c ~ χ²_p and ζ ~ N(0, I_d).

    For ∇f = Aᵀ r with r = A e − σε, whose entries are N(0, s²), so that ‖r‖² has the law of s² c. Given r, a row of A
    is as before across e, and its product with e has the mean r_k ‖e‖²/s² and the variance σ²‖e‖²/s². So given c, ∇f is
    normal with the mean c e, the variance c s² across e and c σ² along it. There √c s ζ would be too wide; what is
    subtracted leaves s − ‖e‖²/(s + σ) = σ.
    """
    zeta, sigma = oracle.zeta, oracle.noise
    square = apart(w, oracle.centers[i], out)  # first, while the generator's hash is still on its way
    s = math.sqrt(square + sigma * sigma)
    normals(rng, zeta)
    c = chi_square(rng, oracle.p)
    root = math.sqrt(c)
    inverse = root / (s + sigma) if s > 0.0 else 0.0
    across, along = root * s, c - inner(out, zeta) * inverse
    for j in range(w.size):
        out[j] = across * zeta[j] + along * out[j]


@curvature.when(Projected)
def curvature_projected(
    oracle: Projected, rng: Rng, i: int, w: Floats, v: Floats, gradient: Floats, scratch: Floats
) -> float:
    """‖A(w − v)‖² has the law of ‖w − v‖² χ²_p. There is no A to keep, so it is independent of the gradient."""
    return apart(w, v, scratch) * chi_square(rng, oracle.p)


@sample.when(Literal)
def sample_literal(oracle: Literal, rng: Rng, i: int, w: Floats, out: Floats) -> None:
    """Draw A and ε, then Aᵀ(A(w − w_i*) − σε)."""
    center, d = oracle.centers[i], w.size
    normals(rng, oracle.rows)
    out[:] = 0.0
    for first in range(0, oracle.p * (d + 1), d + 1):
        row = oracle.rows[first : first + d + 1]
        residual = -oracle.noise * row[d]
        for j in range(d):
            residual += row[j] * (w[j] - center[j])
        for j in range(d):
            out[j] += residual * row[j]


@exact.when(Projected)
def exact_projected(oracle: Projected, i: int, w: Floats, out: Floats) -> None:
    """∇F_i(w) = p (w − w_i*)."""
    for j in range(w.size):
        out[j] = oracle.p * (w[j] - oracle.centers[i, j])


@exact.when(Literal)
def exact_literal(oracle: Literal, i: int, w: Floats, out: Floats) -> None:
    """∇F_i(w) = p (w − w_i*)."""
    for j in range(w.size):
        out[j] = oracle.p * (w[j] - oracle.centers[i, j])


@compiled
def multiple_of_identity(factor: float, out: Floats) -> None:
    """Write factor·I to out."""
    out[:] = 0.0
    for j in range(out.shape[0]):
        out[j, j] = factor


@hessian.when(Projected)
def hessian_projected(oracle: Projected, i: int, w: Floats, out: Floats) -> None:
    """∇²F_i = p I."""
    multiple_of_identity(oracle.p, out)


@hessian.when(Literal)
def hessian_literal(oracle: Literal, i: int, w: Floats, out: Floats) -> None:
    """∇²F_i = p I."""
    multiple_of_identity(oracle.p, out)
