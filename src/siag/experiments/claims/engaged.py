"""What is claimed of ACED, which leaves old updates out; its function takes what makes the method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from siag.activity import Clock, Exponential, Recorded
from siag.foundations.types import Floats
from siag.methods.ace import ACE
from siag.methods.aced import ACED
from siag.methods.method import Method
from siag.problems import LeastSquares
from siag.report import Basis, Claim
from siag.simulation import simulate
from siag.steps import Constant

Maker: TypeAlias = Callable[..., Method]

N, D, P = 10, 5, 4
PAPER = "Chang et al. 2025 (ACED)"
ETA, DEEP = Constant(0.005), 1e-20
SLOWNESS = tuple(np.linspace(1.0, 10.0, N).tolist())
THRESHOLDS = (2, 10, 40, 160)


def aced(method: Maker = ACED) -> list[Claim]:
    """Where nothing is too old there is no bias; who is gone does not count; a smaller threshold biases it more."""
    return [_engaged(method), _gone(method), _balance(method)]


def _engaged(method: Maker) -> Claim:
    problem, clock = _problem(), Clock(Exponential(1.0), slowness=SLOWNESS)
    made = method(threshold=10_000, gradients="exact")
    error = float(simulate(problem, made, clock, ETA, iterations=10_000, record=2).error[0, -1])
    return Claim(
        "With a threshold that no delay exceeds all clients are engaged, and fast ones do not bias the model",
        PAPER,
        f"slowness 1 … {SLOWNESS[-1]:g}: error below {DEEP:g} with exact gradients",
        f"{error:.1e}",
        error < DEEP,
    )


def _gone(method: Maker) -> Claim:
    """The last client is heard of in the first iterations alone; after that the others report in turn."""
    problem, iterations, threshold = _problem(), 6000, 100
    first = [list(range(N))] * 5
    activity = Recorded(first + [[t % (N - 1)] for t in range(iterations - len(first))])
    rest = problem.centers[:-1].mean(axis=0)
    ends = []
    for made in (method(threshold=threshold, gradients="exact"), ACE(gradients="exact")):
        gap = simulate(problem, made, activity, ETA, iterations=iterations, record=2).w[0] - rest
        ends.append(float(gap @ gap))
    return Claim(
        "An update older than the threshold has no part in the model: a client that is gone does not hold it back",
        PAPER,
        f"one of {N} clients stops reporting: with a threshold of {threshold} w tends to the optimum of the others, to "
        f"{DEEP:g}; ACE, which keeps its last update, ends beyond 1e-4",
        f"{ends[0]:.1e}; ACE {ends[1]:.1e}",
        ends[0] < DEEP and ends[1] > 1e-4,
    )


def _balance(method: Maker) -> Claim:
    problem, clock = _problem(), Clock(Exponential(1.0), slowness=SLOWNESS)
    biases = []
    for threshold in THRESHOLDS:
        made = method(threshold=threshold, gradients="exact")
        gap = _mean(problem, made, clock) - problem.optimum
        biases.append(float(gap @ gap))
    shown = ", ".join(f"{bias:.1e}" for bias in biases)
    return Claim(
        "The threshold balances fresh updates against engaging all: the lower it is, the more fast clients count",
        PAPER,
        f"‖E w − w*‖² falls for thresholds {', '.join(map(str, THRESHOLDS))}, in all by a factor of 100 at least; "
        "consistent with the paper's experiments",
        shown,
        bool(np.all(np.diff(biases) < 0)) and biases[-1] < 0.01 * biases[0],
        Basis.OBSERVED,
    )


def _mean(problem: LeastSquares, method: Method, clock: Clock) -> Floats:
    """(d,) E w, over repeats."""
    w: Floats = simulate(problem, method, clock, ETA, iterations=1500, repeats=50, record=2).w
    return np.asarray(w.mean(axis=0))


def _problem() -> LeastSquares:
    """Clients that want different things."""
    return LeastSquares(np.random.default_rng(0).random((N, D)), P, 0.1)
