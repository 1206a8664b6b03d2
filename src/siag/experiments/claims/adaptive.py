"""What is claimed of adaptive steps at the server: FedAdam, FedYogi and FedAdagrad."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from siag.activity import Everyone, Recorded
from siag.foundations.errors import DivergenceWarning
from siag.methods import SGD, Adagrad, Adam, FedAvg, Method, Yogi
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant

Maker: TypeAlias = Callable[..., Method]

PAPER = "Reddi et al. 2021"
STEPS, ROUNDS, TIMES = 5, 300, 10.0
SIZES = tuple(4.0**-k for k in range(6))  # of local steps, as a fraction of 1/L
MOVES = tuple(2.0**-k for k in range(1, 11))  # of the server


def adam(method: Maker = Adam) -> list[Claim]:
    """Coordinates of very different size are no obstacle to FedAdam, as they are to FedAvg.

    Args:
        method: makes what is put to the test from a method, `b1`, 0 as in the theorems, and `epsilon`.
    """
    return [_scales(method, "FedAdam")]


def yogi(method: Maker = Yogi) -> list[Claim]:
    """The same of FedYogi; and its steps grow back slowly."""
    return [_scales(method, "FedYogi"), _slowly(method)]


def adagrad(method: Maker = Adagrad) -> list[Claim]:
    """The same of FedAdagrad; and it needs no schedule of steps."""
    return [_scales(method, "FedAdagrad"), _by_itself(method)]


def _scales(method: Maker, name: str) -> Claim:
    """Each with the best of a grid of steps, after the same number of rounds."""
    problem = Ridge.random(n=6, d=6, m=30, condition=1e4, spread=0.0, noise=0.0, seed=1)
    largest = float(problem.smoothness.max())
    plain = [_end(problem, _local(size / largest), 1.0) for size in SIZES]
    adapted = [_end(problem, method(_local(1.0 / largest), b1=0.0, epsilon=1e-8), eta) for eta in MOVES]
    ours, theirs = min(adapted), min(plain)
    return Claim(
        f"{name} is much better than FedAvg where gradients of some coordinates are much smaller than those of others",
        f"consistent with {PAPER}, experiments on language models with rare words",
        f"curvatures from 1 to 1e-4, {ROUNDS} rounds of {STEPS} local steps, each with its best step of a grid: the "
        f"error ‖w − w*‖² is at most 1/{TIMES:g} of FedAvg's",
        f"{ours:.2e} against {theirs:.2e} of the start",
        TIMES * ours <= theirs,
        Basis.OBSERVED,
    )


def _slowly(method: Maker) -> Claim:
    """One worker, by hand: long moves, then short ones; w tells how long the last was."""
    b2, burst, long, calm = 0.99, 50, 100.0, 500
    pull = Ridge(np.ones((2, 1, 1)), np.array([[long], [1.0]]), regularization=0.0)  # ∇F_i(0) is −long, and −1
    trace = Recorded([[0]] * burst + [[1]] * calm)
    made = method(SGD(), b1=0.0, epsilon=1e-6, b2=b2)
    run = simulate(pull, made, trace, Constant(1e-9), iterations=burst + calm, record=10**4, compiled=False)
    moved = math.sqrt(run.error[0, -2]) - math.sqrt(run.error[0, -1])
    v = 0.0
    for move in [long] * burst + [1.0] * calm:
        v -= (1.0 - b2) * move**2 * np.sign(v - move**2)
    expected = 1e-9 / math.sqrt(v)
    return Claim(
        "v falls by (1 − β₂) Δ² a step, however large it is, so that steps grow back slowly",
        f"{PAPER}, Algorithm 2; Zaheer et al. 2018",
        f"{calm} steps after a burst of moves {long:g} times as long a step is η/√v = {expected / 1e-9:.4f} η, to 1 %",
        f"{moved / 1e-9:.4f} η",
        abs(moved / expected - 1.0) < 0.01,
    )


def _by_itself(method: Maker) -> Claim:
    """A constant η and stochastic gradients."""
    problem, most = Ridge.random(n=6, d=4, m=30, noise=1.0, spread=0.3, seed=1), 20_000
    local = FedAvg(steps=STEPS, size=0.02 / float(problem.smoothness.max()))
    run = _run(problem, method(local, b1=0.0, epsilon=1e-3), 0.1, most, repeats=20, record=60)
    late = run.t >= most / 100
    slope = float(np.polyfit(np.log(run.t[late]), np.log(run.mean[late]), 1)[0]) if late.any() else math.inf
    return Claim(
        "With a constant η and stochastic gradients FedAdagrad converges, ‖∇F‖² at a rate of T^(−1/2)",
        f"{PAPER}, the theorem on FedAdagrad, on non-convex problems; here on a quadratic, by ‖w − w*‖²",
        f"the slope of log error over log t from t = {most // 100} to {most:,} is at most −0.5, to 0.1; 20 runs",
        f"{slope:.2f}",
        slope <= -0.4,
    )


def _local(size: float) -> Method:
    return FedAvg(steps=STEPS, size=size, gradients="exact")


def _end(problem: Ridge, method: Method, eta: float) -> float:
    """The error at the end, of that at the start; infinite if it diverges."""
    run = _run(problem, method, eta, ROUNDS)
    last = float(run.error[0, -1] / run.error[0, 0])
    return last if math.isfinite(last) else math.inf


def _run(problem: Ridge, method: Method, eta: float, iterations: int, repeats: int = 1, record: int = 2) -> Run:
    """A run with a constant step; one that diverges has not kept its promise, and needs no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        step = Constant(eta)
        return simulate(problem, method, Everyone(), step, iterations=iterations, repeats=repeats, record=record)
