"""What is claimed of FedNova, whose workers take unequal numbers of local steps; its function takes what makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from siag.activity import Everyone
from siag.foundations.types import Floats
from siag.methods.fedavg import FedAvg
from siag.methods.fednova import FedNova
from siag.methods.method import Method
from siag.problems import Ridge
from siag.report import Claim
from siag.simulation import Run, simulate
from siag.steps import Constant
from siag.theory import quadratics

Maker: TypeAlias = Callable[..., Method]

N, FALL = 10, 200.0
UNEQUAL = tuple(range(1, N + 1))  # K_i
PAPER = "Wang et al. 2020 (FedNova)"


def fednova(method: Maker = FedNova) -> list[Claim]:
    """It is FedAvg where all take as many steps; where they do not, it is consistent and FedAvg is not."""
    return [_equal(method), _consistent(method)]


def _equal(method: Maker) -> Claim:
    problem = _problem()
    size = 0.5 / float(problem.smoothness.max())
    own, other = (_run(problem, make, 50, steps=5, size=size).error[0] for make in (method, FedAvg))
    gap = float(np.abs(own / other - 1.0).max())
    return Claim(
        "Normalising keeps the pace: τ_eff is chosen such that with equal numbers of steps it is FedAvg",
        PAPER,
        "50 rounds with K = 5: the same errors as FedAvg, to 1e-9 of them",
        f"{gap:.1e} apart",
        gap < 1e-9,
    )


def _consistent(method: Maker) -> Claim:
    """FedAvg tends to the minimiser of Σ K_i F_i, which solves Σ K_i (A_i w − b_i) = 0."""
    problem = _problem()
    hessians, linear = quadratics(problem)
    k = np.array(UNEQUAL, float)
    surrogate = np.linalg.solve(np.tensordot(k, hessians, 1), k @ linear)
    size = 0.2 / float(problem.smoothness.max())
    runs = [_run(problem, make, 40_000, steps=UNEQUAL, size=size, fall=FALL) for make in (method, FedAvg)]
    t, error = runs[0].t[1:], runs[0].error[0, 1:]
    late = t >= 4000
    slope = float(np.polyfit(np.log(t[late]), np.log(error[late]), 1)[0])
    gap, bias = _square(runs[1].w[0] - surrogate), _square(surrogate - problem.optimum)
    return Claim(
        "However unequal the numbers of local steps, it minimises F; FedAvg minimises Σ K_i F_i",
        PAPER,
        f"K_i = 1 … {N}, local steps that fall as 1/t, on a convex problem: the slope of log ‖w − w*‖² over log t from "
        f"t = 4000 on is at most −1; FedAvg ends near the minimiser of Σ K_i F_i, which is {bias:.3f} from w*, to 1 %",
        f"slope {slope:.2f}, to {error[-1]:.1e}; FedAvg {gap:.1e} from there",
        slope <= -1.0 and gap < 0.01 * bias,
    )


def _run(problem: Ridge, make: Maker, iterations: int, **parameters: Any) -> Run:
    method = make(gradients="exact", **parameters)
    return simulate(problem, method, Everyone(), Constant(1.0), iterations=iterations, record=100)


def _problem() -> Ridge:
    """Workers that want different things, with curvatures of their own."""
    return Ridge.random(n=N, d=5, m=20, spread=1.0, tilt=0.5, regularization=0.1, seed=7)


def _square(vector: Floats) -> float:
    return float(vector @ vector)
