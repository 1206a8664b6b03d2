"""Claims of sIAG's own paper, in short; `siag reproduce` puts all of them to the test."""

from __future__ import annotations

from siag.activity import Nonuniform, Recorded
from siag.experiments.claims.fitted import slope
from siag.experiments.setting import NOISE, NONUNIFORM, STEP, D, P
from siag.methods import SGD, SIAG, Method
from siag.problems import LeastSquares
from siag.report import Basis, Claim
from siag.theory import Curve, exact_error

SIZES, ITERATIONS, LATE, WITHIN, APART = (20, 40, 80), 20_000, 4000, 0.1, 5.0


def siag(method: Method | None = None) -> list[Claim]:
    """Linear speedup, and no bias under unequal participation; errors are exact moments, so chance plays no part."""
    method = SIAG() if method is None else method
    curves = [_curve(n, method, NONUNIFORM) for n in SIZES]
    in_n = slope(SIZES, [curve.error[-1] for curve in curves])
    late = curves[0].t >= LATE
    in_t = slope(curves[0].t[late] + STEP.gamma, curves[0].error[late])
    pattern = Recorded.of(Nonuniform(2, 20), SIZES[0], ITERATIONS, seed=1)
    own, other = (float(_curve(SIZES[0], each, pattern).error[-1]) for each in (method, SGD()))
    return [
        Claim(
            "The error falls as 1/n: linear speedup, though workers report at unequal rates",
            "Wang et al. 2023, Theorem 1",
            f"E ∝ nᵃ at {ITERATIONS:,} iterations, n = {', '.join(map(str, SIZES))}: a = −1 ± {WITHIN:g}",
            f"a = {in_n:.3f}",
            abs(in_n + 1) <= WITHIN,
        ),
        Claim(
            "The error falls as 1/t",
            "Wang et al. 2023, Theorem 1",
            f"E ∝ (t + γ)ᵃ from {LATE:,} iterations on, n = {SIZES[0]}: a = −1 ± {WITHIN:g}",
            f"a = {in_t:.3f}",
            abs(in_t + 1) <= WITHIN,
        ),
        Claim(
            "Workers that report more often do not bias the model, those of SGD do",
            "Wang et al. 2023, Sec. IV",
            f"SGD's error is at least {APART:g} times as large where some report up to ten times as often as others",
            f"{other / own:.1f} times",
            other >= APART * own,
            Basis.OBSERVED,
        ),
    ]


def _curve(n: int, method: Method, activity: Nonuniform | Recorded) -> Curve:
    problem = LeastSquares.random(n=n, d=D, p=P, noise=NOISE, seed=n)
    return exact_error(problem, method, activity, STEP, iterations=ITERATIONS, seed=1, record=100)
