"""Where local steps lead: the fixed point of federated averaging on quadratics, and how far it is from w*."""

from __future__ import annotations

import numpy as np

from siag.foundations import check
from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats


def local_fixed_point(
    hessians: Floats, linear: Floats, weights: Floats | None = None, *, steps: int, size: float, pull: float = 0.0
) -> Floats:
    r"""(d,) where averaging the ends of K local steps leads, if F_i(w) = ½ wᵀA_i w − b_iᵀw and worker i weighs v_i.

    Let z = y − w be how far worker i has gone. A step y ← y − η_l (A_i y − b_i + ρ (y − w)) is

        z ← B_i z − η_l (A_i w − b_i),    B_i = I − η_l (A_i + ρI)

    and begins at z = 0, so after K of them

        w − y = −z = M_i (A_i w − b_i),    M_i = η_l Σ_{k<K} B_iᵏ

    The server moves by −η Σ v_i (w − y_i), where v_i is the mean weight of worker i in a step: its share of the reports
    times the mean weight a report is given for its age. It rests, on average, where

        Σ v_i M_i (A_i w − b_i) = 0

    exactly if all workers are active in every step, and otherwise up to what vanishes with the server's η. K = 1 makes
    all M_i = η_l I, so that with equal weights this is w*. As K → ∞ M_i → (A_i + ρI)⁻¹: with ρ = 0 the mean of the
    local optima. If all A_i are the same the M_i cancel, and this is w* for any K.

    Args:
        hessians: (n, d, d) the A_i.
        linear: (n, d) the b_i.
        weights: (n,) the v_i, up to a common factor; equal by default.
        steps: K.
        size: η_l.
        pull: ρ, as in FedProx.

    Example:
        >>> A, b = np.array([[[1.0]], [[3.0]]]), np.array([[0.0], [3.0]])
        >>> local_fixed_point(A, b, steps=1, size=0.1).round(3), local_fixed_point(A, b, steps=999, size=0.1).round(3)
        (array([0.75]), array([0.5]))

    Reference:
        Z. Charles, J. Konečný, "Convergence and accuracy trade-offs in federated learning and meta-learning",
        AISTATS 2021, on local steps as steps on another objective.
    """
    hessians = check.floats("hessians", hessians, (None, None, None))
    n, d = hessians.shape[:2]
    hessians, linear = check.floats("hessians", hessians, (n, d, d)), check.floats("linear", linear, (n, d))
    v = np.ones(n) if weights is None else check.floats("weights", weights, (n,))
    steps, size = check.integer("steps", steps, high=2**31), check.real("size", size, above=0)
    eye, pull = np.eye(d), check.real("pull", pull, low=0)
    shrink = eye - size * (hessians + pull * eye)
    ways = np.zeros((n, d, d))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            ways = eye + shrink @ ways  # Horner's rule for Σ Bᵏ
        matrix, right = np.einsum("i,ijk,ikl->jl", v, ways, hessians), np.einsum("i,ijk,ik->j", v, ways, linear)
    if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > 1.0 / np.finfo(float).eps:
        raise Unsuitable(
            f"{steps} local steps of size {size:g} have no one fixed point here; use a smaller size, and weights "
            "above 0 for workers that together determine w"
        )
    return np.asarray(np.linalg.solve(matrix, right))
