"""What is claimed of STORM: gradients with little noise and no bias, on streams."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from siag.activity import Everyone
from siag.experiments.claims.atoms import Atoms
from siag.experiments.claims.nonconvex import faster_than_root
from siag.foundations.types import Floats, Integers
from siag.methods import STORM, Method
from siag.report import Claim
from siag.simulation import simulate
from siag.steps import Constant, Step

Maker: TypeAlias = Callable[..., Method]

PAPER = "Cutkosky and Orabona 2019"
SHARES, ETA, ITERATIONS = (0.1, 0.03, 0.01), 0.5, 4000
LONG, FALL = 30_000, 30.0


def storm(method: Maker = STORM) -> list[Claim]:
    """The noise of the estimates falls with a, not with the step, and with falling a and η at the paper's rate.

    Args:
        method: makes what is put to the test from `a` and `fall`.
    """
    return [
        _share(method),
        _rate(method),
        faster_than_root(method(a=0.5, fall=FALL), f"{PAPER}, its theorem", CubeRoot(1.0, FALL)),
    ]


@dataclass(frozen=True)
class CubeRoot(Step):
    """η_t = η/(1 + t/fall)^{1/3}."""

    eta: float
    fall: float

    def sizes(self, t: Integers) -> Floats:
        """As above."""
        return np.asarray(self.eta * (1.0 + t / self.fall) ** (-1.0 / 3.0), np.float64)


def _problem() -> Atoms:
    vectors = np.random.default_rng(0).standard_normal((64, 4))
    vectors -= vectors.mean(axis=0)
    return Atoms(1, vectors / math.sqrt(float((vectors**2).sum(axis=1).mean())))


def _share(method: Maker) -> Claim:
    """One worker, a constant step far larger than a."""
    levels = []
    for a in SHARES:
        run = simulate(
            _problem(), method(a=a, fall=None), Everyone(), Constant(ETA), iterations=ITERATIONS, repeats=20, record=60
        )
        levels.append(float(run.mean[run.t >= ITERATIONS / 2].mean()))
    slope = float(np.polyfit(np.log(SHARES), np.log(levels), 1)[0])
    return Claim(
        "The error of the estimates, and with it what is left of ‖∇F‖² at a constant step, is proportional to a",
        f"{PAPER}, the lemma on its estimates, on non-convex problems; here on a quadratic with additive noise",
        f"with η = {ETA:g} and a = {', '.join(f'{a:g}' for a in SHARES)} it is aσ²/2, to 30 %, and falls as a^1, to "
        "0.15 in the exponent; 20 runs",
        f"{', '.join(f'{level:.2e}' for level in levels)} σ², as a^{slope:.2f}",
        abs(slope - 1.0) <= 0.15 and all(0.7 < 2.0 * have / a < 1.3 for have, a in zip(levels, SHARES, strict=True)),
    )


def _rate(method: Maker) -> Claim:
    """η_t and a_t as the paper's fall where gradients are of one size."""
    run = simulate(
        _problem(), method(a=0.5, fall=FALL), Everyone(), CubeRoot(0.5, FALL), iterations=LONG, repeats=40, record=60
    )
    late = run.t >= LONG / 100
    slope = float(np.polyfit(np.log(run.t[late]), np.log(run.mean[late]), 1)[0])
    return Claim(
        "E‖∇F‖ falls as T^(−1/3), where SGD's falls as T^(−1/4) on non-convex problems",
        f"{PAPER}, its theorem; here on a quadratic",
        f"with η_t of the order of t^(−1/3) and a_t of η_t², ‖∇F‖² falls as t^(−2/3) from t = {LONG // 100} on, to 0.1 "
        "in the exponent; 40 runs",
        f"as t^{slope:.2f}",
        abs(slope + 2.0 / 3.0) <= 0.1,
    )
