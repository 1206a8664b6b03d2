"""How noisy the gradients of a quadratic problem are: the covariance of ∇f_i, which may depend on w."""

from __future__ import annotations

from typing import NamedTuple

from siag.foundations.dispatch import compiled, verb
from siag.foundations.types import Floats, Record
from siag.problems.least_squares import Literal, Projected
from siag.problems.points import Points, along, bend, slope


@verb
def noise(oracle: Record, i: int, m: Floats, V: Floats, out: Floats, scratch: Floats) -> None:
    """Write E[N_i(w)] to `out`, where N_i(w) = Cov(∇f_i(w; ξ) | w) is of degree two in w, or less.

    Give it a meaning for the oracle of a problem of your own, and its moments are known. Mean and covariance of w are
    enough, by

        E[(a·w + b)(c·w + e)] = (a·m + b)(c·m + e) + aᵀVc,

    so for noise that does not depend on w it is just that noise. At a given w, V is zero.

    Args:
        oracle: the problem's.
        i: the worker.
        m: (d,) E w.
        V: (d, d) the covariance of w.
        out: (d, d).
        scratch: (2, d, d) room to compute in.
    """


class Silent(NamedTuple):
    """Workers whose gradients are exact."""


@noise.when(Silent)
def no_noise(oracle: Silent, i: int, m: Floats, V: Floats, out: Floats, scratch: Floats) -> None:
    """0."""
    out[:] = 0.0


@noise.when(Points)
def noise_of_points(oracle: Points, i: int, m: Floats, V: Floats, out: Floats, scratch: Floats) -> None:
    """(1/batch) E[mean of z_k z_kᵀ − z̄ z̄ᵀ], z_k = x_k ℓ′(x_k·w, y_k), for a loss ℓ of degree two in x·w.

    So z̄ = S w − c with S the mean of ℓ″ x_k x_kᵀ, and E[z̄ z̄ᵀ] = E z̄ (E z̄)ᵀ + S V S.
    """
    d, count = m.size, oracle.counts[i]
    out[:] = 0.0
    if count == 1:
        return
    S, center = scratch[0], scratch[1, 0]
    S[:] = 0.0
    center[:] = 0.0
    for k in range(count):
        x = oracle.features[i, k]
        u = along(x, m)
        pull, curve = slope(oracle.loss, u, oracle.values[i, k]), bend(oracle.loss, u, oracle.values[i, k])
        wide = 0.0
        for a in range(d):
            for b in range(d):
                wide += x[a] * V[a, b] * x[b]
        square = pull * pull + curve * curve * wide
        for a in range(d):
            center[a] += pull * x[a] / count
            for b in range(d):
                out[a, b] += square * (x[a] * x[b]) / count
                S[a, b] += curve * (x[a] * x[b]) / count
    for a in range(d):
        for b in range(d):
            out[a, b] -= center[a] * center[b]
    less_sandwich(S, V, out, scratch[1])
    for a in range(d):
        for b in range(d):
            out[a, b] /= oracle.batch


@compiled
def less_sandwich(S: Floats, V: Floats, out: Floats, scratch: Floats) -> None:
    """Subtract S V S from out; S is symmetric."""
    d = S.shape[0]
    for a in range(d):
        for b in range(d):
            total = 0.0
            for k in range(d):
                total += S[a, k] * V[k, b]
            scratch[a, b] = total
    for a in range(d):
        for b in range(d):
            for k in range(d):
                out[a, b] -= scratch[a, k] * S[b, k]


@compiled
def noise_of_rows(center: Floats, p: int, sigma: float, m: Floats, V: Floats, out: Floats) -> None:
    """p ((E‖e‖² + σ²) I + E[e eᵀ]) with e = w − w_i*."""
    square = sigma * sigma
    for a in range(m.size):
        square += (m[a] - center[a]) ** 2 + V[a, a]
    for a in range(m.size):
        for b in range(m.size):
            out[a, b] = p * ((m[a] - center[a]) * (m[b] - center[b]) + V[a, b])
        out[a, a] += p * square


@noise.when(Projected)
def noise_projected(oracle: Projected, i: int, m: Floats, V: Floats, out: Floats, scratch: Floats) -> None:
    """That of ∇f = Aᵀ(Ae − σε)."""
    noise_of_rows(oracle.centers[i], oracle.p, oracle.noise, m, V, out)


@noise.when(Literal)
def noise_literal(oracle: Literal, i: int, m: Floats, V: Floats, out: Floats, scratch: Floats) -> None:
    """That of ∇f = Aᵀ(Ae − σε)."""
    noise_of_rows(oracle.centers[i], oracle.p, oracle.noise, m, V, out)
