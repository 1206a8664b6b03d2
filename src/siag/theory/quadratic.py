"""Quadratic problems, F_i(w) = ½ wᵀH_i w − b_iᵀw and a constant: their parts, read off their gradients."""

from __future__ import annotations

import numpy as np

from siag.foundations.errors import Unsuitable
from siag.foundations.types import Floats
from siag.problems import Problem, exact, hessian

ALIKE = 1e-9  # how well a quadratic's gradient must agree with its Hessian, relative to their size


def quadratics(problem: Problem, what: str = "where local steps lead") -> tuple[Floats, Floats]:
    """(n, d, d) the H_i and (n, d) the b_i of a problem whose F_i(w) are ½ wᵀH_i w − b_iᵀw and a constant.

    Args:
        problem: the problem, of whose oracle `exact` must be known; without `hessian` the H_i are found by it.
        what: is known for quadratics alone: for the message that others get.
    """
    name, oracle = type(problem).__name__, problem.oracle()
    if not exact.knows(type(oracle)):
        remedy = f"use simulate, or give `exact` a meaning for {type(oracle).__name__}"
        raise Unsuitable(f"{what} is known for quadratics, and {name} does not tell its gradients ∇F_i; {remedy}")
    zero, eye, probe = np.zeros(problem.d), np.eye(problem.d), np.linspace(1.0, 2.0, problem.d)
    linear = -np.stack([problem.gradient(i, zero) for i in range(problem.n)])
    if hessian.knows(type(oracle)):
        hessians = np.stack([problem.hessian(i, zero) for i in range(problem.n)])
    else:
        hessians = np.stack([[problem.gradient(i, e) for e in eye] for i in range(problem.n)]) + linear[:, np.newaxis]
    for i in range(problem.n):
        gap = problem.gradient(i, probe) - (hessians[i] @ probe - linear[i])
        if np.abs(gap).max() > ALIKE * (np.abs(hessians[i]).sum() + np.abs(linear[i]).max()):
            raise Unsuitable(
                f"{what} is known for quadratics, and F_{i} of {name} is none; use simulate, or LeastSquares or Ridge"
            )
    return 0.5 * (hessians + hessians.transpose(0, 2, 1)), linear
