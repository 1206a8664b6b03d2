"""What is claimed of EF21, with and without momentum."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from siag.activity import Everyone
from siag.experiments.claims.atoms import Atoms
from siag.experiments.claims.nonconvex import compressed
from siag.foundations.errors import DivergenceWarning
from siag.foundations.types import Floats
from siag.methods import EF21, Method
from siag.problems import Ridge
from siag.report import Claim
from siag.simulation import simulate
from siag.steps import Constant

Maker: TypeAlias = Callable[..., Method]

EF21_PAPER, MOMENTUM_PAPER = "Richtárik et al. 2021", "Fatkhullin et al. 2023"
DEEP = 1e-12  # an error relative to the start that a biased method does not get to
ETA, MOMENTUM, ITERATIONS = 0.01, 0.05, 4000
COUNTS = (1, 4, 16)


def _skewed() -> Floats:
    """Four vectors of mean 0 and mean square 1: one with large positive numbers, three with small negative ones."""
    vectors = np.outer([3.0, -1.0, -1.0, -1.0], np.linspace(1.0, 1.2, 5))
    return np.asarray(vectors / math.sqrt(float((vectors**2).sum(axis=1).mean())))


SKEWED = _skewed()


def ef21(method: Maker = EF21) -> list[Claim]:
    """Compression does not stop EF21 from converging linearly; noise does, and momentum mends that.

    Args:
        method: makes what is put to the test from `k`, `momentum` and `gradients`.
    """
    return [_linear(method), *_noise(method), compressed(method, f"{MOMENTUM_PAPER}, its theorem")]


def _linear(method: Maker) -> Claim:
    """Quadratics that differ, a tenth of the coordinates at a time, with the step of the theorem."""
    n, d, k = 10, 10, 1
    problem = Ridge.random(n=n, d=d, m=30, spread=1.0, tilt=0.2, seed=4)
    curvature = np.mean([problem.hessian(i, problem.optimum) for i in range(n)], axis=0)
    mu, largest = (float(value) for value in np.linalg.eigvalsh(curvature)[[0, -1]])
    root = math.sqrt(1.0 - k / d)
    theta, beta = 1.0 - root, (1.0 - k / d) / (1.0 - root)
    together = math.sqrt(float((problem.smoothness**2).mean()))
    gamma = min(1.0 / (largest + together * math.sqrt(2.0 * beta / theta)), theta / (2.0 * mu))
    most = math.ceil(1.2 * math.log(DEEP) / math.log1p(-gamma * mu))
    made = method(k=k, momentum=None, gradients="exact")
    run = simulate(problem, made, Everyone(), Constant(gamma), iterations=most, record=1000)
    error = run.error[0] / run.error[0, 0]
    late = (run.t > 0.2 * most) & (error > 1e-24)
    slope = float(np.polyfit(run.t[late], np.log(error[late]), 1)[0])
    return Claim(
        f"With {k} of {d} coordinates a report EF21 converges linearly to w*, whatever the workers' data",
        f"{EF21_PAPER}, the theorem under the PŁ condition: F − F* and the error of the g_i fall as (1 − γμ)^t",
        f"with its step γ the error is below {DEEP:g} of the start after {most:,} iterations, and falls at least as "
        f"fast as {1 - gamma * mu:.5f}^t",
        f"{error[-1]:.1e}, as {math.exp(slope):.5f}^t",
        error[-1] < DEEP and slope <= math.log1p(-gamma * mu),
    )


def _noise(method: Maker) -> list[Claim]:
    """Noise that is seldom large and then positive: of its largest coordinate alone the mean is not 0.

    The paper's own example is for an ideal EF21 that knows ∇F; EF21 itself has hardly any bias there.
    """
    plain = [_rest(n, method(k=1, momentum=None, gradients="sample")) for n in COUNTS]
    smooth = [_rest(n, method(k=1, momentum=MOMENTUM, gradients="sample")) for n in COUNTS]
    slope = float(np.polyfit(np.log(COUNTS), np.log(smooth), 1)[0])
    label = ", ".join(map(str, COUNTS))
    return [
        Claim(
            "With momentum EF21 bears stochastic gradients; without it does not converge, however many workers",
            f"{MOMENTUM_PAPER}, the theorems on both; that without momentum is for an ideal EF21 and another noise",
            f"E‖∇F‖² after {ITERATIONS:,} steps of {ETA:g} for n = {label}: at least σ²/60 without, and with η = "
            f"{MOMENTUM:g} at most that of SGD, γσ²/2n, to 50 %",
            f"{', '.join(f'{value:.4f}' for value in plain)} and {', '.join(f'{value:.5f}' for value in smooth)} σ²",
            min(plain) >= 1.0 / 60.0 and all(have <= 0.75 * ETA / n for have, n in zip(smooth, COUNTS, strict=True)),
        ),
        Claim(
            "With momentum the error that noise leaves falls as 1/n: linear speedup",
            f"{MOMENTUM_PAPER}, its theorem: σ²/(n ε⁴) samples, on non-convex problems; here on a quadratic",
            f"E‖∇F‖² for n = {label} falls as n^−1, to 0.2 in the exponent",
            f"as n^{slope:.2f}",
            abs(slope + 1.0) <= 0.2,
        ),
    ]


def _rest(n: int, method: Method) -> float:
    """E‖∇F‖² in the second half of the iterations, a mean over runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        run = simulate(
            Atoms(n, SKEWED),
            method,
            Everyone(),
            Constant(ETA),
            iterations=ITERATIONS,
            repeats=200 // n + 20,
            record=60,
        )
    return float(run.mean[run.t >= ITERATIONS / 2].mean())
