"""What is claimed of momentum at the server: the rate of the heavy ball, and FedAvgM against FedAvg."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from siag.activity import Activity, Bernoulli, Everyone
from siag.foundations.errors import DivergenceWarning
from siag.methods import IAG, FedAvg, Method, Momentum
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant

Maker: TypeAlias = Callable[..., Method]

GOAL = 1e-16  # the relative error up to which iterations are counted
CONDITIONS = (100.0, 1600.0)
ROUNDS, REPEATS, STEPS, BETA = 200, 10, 5, 0.9
SIZES = tuple(2.0**-k for k in range(6))  # of local steps, as a fraction of 1/L


def momentum(method: Maker = Momentum) -> list[Claim]:
    """The heavy ball needs √κ iterations where gradient descent needs κ; FedAvgM fewer rounds than FedAvg.

    Args:
        method: makes what is put to the test from a method and `beta`.
    """
    return [_root(method), _fewer_rounds(method)]


def _root(method: Maker) -> Claim:
    """Polyak's step and β on quadratics; per iteration the error, a square, falls by β."""
    counts, rates, kappas = [], [], []
    for condition in CONDITIONS:
        problem = Ridge.random(n=4, d=6, m=40, condition=condition, seed=0)
        curvature = np.mean([problem.hessian(i, problem.optimum) for i in range(problem.n)], axis=0)
        low, high = (math.sqrt(float(value)) for value in np.linalg.eigvalsh(curvature)[[0, -1]])
        eta, beta = 4.0 / (low + high) ** 2, ((high - low) / (high + low)) ** 2
        most = math.ceil(2.0 * math.log(GOAL) / math.log(beta))
        run = _run(problem, method(IAG(), beta=beta), Everyone(), eta, most)
        counts.append(_reached(run))
        rates.append(_slope(run) / math.log(beta))
        kappas.append((high / low) ** 2)
    growth, root = counts[1] / counts[0], math.sqrt(kappas[1] / kappas[0])
    return Claim(
        "On quadratics the number of iterations grows as √κ, that of gradient descent as κ",
        "Polyak 1964, the theorem on the heavy ball",
        f"with his step and β the error falls as β^t at κ = {kappas[0]:.0f} and {kappas[1]:.0f}, to 10 %; the "
        f"iterations to {GOAL:g} of the start are {root:.2f} times more, to 15 %",
        f"as β^({rates[0]:.3f} t) and β^({rates[1]:.3f} t); {counts[0]:g} and {counts[1]:g} iterations, "
        f"{growth:.2f} times more",
        all(abs(rate - 1.0) < 0.1 for rate in rates) and abs(growth / root - 1.0) < 0.15,
    )


def _fewer_rounds(method: Maker) -> Claim:
    """Each with its best local steps, on workers that differ; with momentum shorter ones do, which drift less."""
    problem = Ridge.random(n=20, d=6, m=20, condition=100.0, spread=1.0, tilt=0.6, seed=3)
    largest, some = float(problem.smoothness.max()), Bernoulli(0.5)
    plain, rolling = [], []
    for size in SIZES:
        local = FedAvg(steps=STEPS, size=size / largest, gradients="exact")
        plain.append(float(_run(problem, local, some, 1.0, ROUNDS, REPEATS).mean[-1]))
        rolling.append(float(_run(problem, method(local, beta=BETA), some, 1.0, ROUNDS, REPEATS).mean[-1]))
    ours, theirs = min(rolling), min(plain)
    return Claim(
        "Momentum at the server helps where workers differ and only some take part in a round",
        "consistent with Hsu et al. 2019, experiments on image classification",
        f"{ROUNDS} rounds of half of 20 workers, {STEPS} local steps of the best size for each: FedAvgM with β = "
        f"{BETA:g} ends with at most 2/3 of FedAvg's error; a mean of {REPEATS} runs",
        f"{ours:.3g} against {theirs:.3g}",
        3.0 * ours < 2.0 * theirs,
        Basis.OBSERVED,
    )


def _run(problem: Ridge, method: Method, activity: Activity, eta: float, iterations: int, repeats: int = 1) -> Run:
    """A run with a constant step; one that diverges has not kept its promise, and needs no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        step = Constant(eta)
        return simulate(problem, method, activity, step, iterations=iterations, repeats=repeats, record=10**4)


def _reached(run: Run) -> float:
    there = np.flatnonzero(run.error[0] <= GOAL * run.error[0, 0])
    return float(run.t[there[0]]) if len(there) else math.inf


def _slope(run: Run) -> float:
    """Of log error over t, from the middle until it is rounding; infinite if there is nothing to fit."""
    error = run.error[0] / run.error[0, 0]
    there = (run.t > 0.2 * run.t[-1]) & (error > 1e-24) & np.isfinite(error)
    return float(np.polyfit(run.t[there], np.log(error[there]), 1)[0]) if there.sum() > 1 else math.inf
