"""Claims of sIAG's own paper, in short; `siag reproduce` puts all of them to the test."""

from __future__ import annotations

from siag.activity import Nonuniform, Recorded, Uniform
from siag.experiments.setting import NOISE, STEP, D, P
from siag.methods import SGD, SIAG, Method
from siag.problems import LeastSquares
from siag.report import Claim
from siag.theory import exact_error

SIZES, ITERATIONS, FLAT, APART = (20, 80), 20_000, 1.10, 5.0


def siag(method: Method | None = None) -> list[Claim]:
    """Linear speedup, and no bias under unequal participation; errors are exact moments, so chance plays no part."""
    method = SIAG() if method is None else method
    scaled = [n * _error(n, method, Uniform(15)) for n in SIZES]
    spread = max(scaled) / min(scaled)
    pattern = Recorded.of(Nonuniform(2, 20), SIZES[0], ITERATIONS, seed=1)
    own, other = (_error(SIZES[0], each, pattern) for each in (method, SGD()))
    return [
        Claim(
            "The error falls as 1/n: linear speedup",
            "Theorem 1, Sec. IV",
            f"n·E at {ITERATIONS:,} iterations flat within {100 * (FLAT - 1):.0f} % for n = {SIZES[0]} and {SIZES[1]}",
            f"within {100 * (spread - 1):.1f} %",
            spread <= FLAT,
        ),
        Claim(
            "Workers that report more often do not bias the model",
            "Sec. I, IV",
            f"SGD's error is at least {APART:g} times as large where some report up to ten times as often as others",
            f"{other / own:.1f} times",
            other >= APART * own,
        ),
    ]


def _error(n: int, method: Method, activity: Uniform | Recorded) -> float:
    problem = LeastSquares.random(n=n, d=D, p=P, noise=NOISE, seed=n)
    return float(exact_error(problem, method, activity, STEP, iterations=ITERATIONS, seed=1, record=1).error[-1])
