"""What is claimed of asynchronous SGD that ignores what is old: Rennala, Ringmaster, and a threshold for delays.

Each function takes what makes the method from its parameters, so that a test can put another in its place and see the
claims fail. The papers speak of non-convex problems; here ‖∇F‖² = p² ‖w − w*‖², F being a quadratic that all share.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from siag.activity import Clock, Fixed
from siag.foundations.errors import DivergenceWarning
from siag.foundations.types import Floats
from siag.methods.async_sgd import AsyncSGD
from siag.methods.method import Method
from siag.methods.rennala import Rennala
from siag.methods.ringmaster import Ringmaster
from siag.problems import LeastSquares
from siag.report import Claim
from siag.simulation import Run, simulate
from siag.steps import Constant

Maker: TypeAlias = Callable[..., Method]

D, P = 5, 4  # p is L, too
RENNALA, RINGMASTER = "Tyurin and Richtárik 2023", "Maranjyan et al. 2025"
KOLOSKOVA = "Koloskova et al. 2022"

SIZES = (1, 4, 16, 64)  # of batches, and thresholds
SPEEDS: dict[str, Floats] = {
    "equal": np.ones(12),
    "linear": np.arange(1.0, 13.0),
    "quadratic": np.arange(1.0, 13.0) ** 2,
    "one fast": np.array([1.0] + [1000.0] * 11),
}
LONG, PART = 4000, 1e-3  # arrivals, and the part of the error that a step takes off

GOAL, NOISE, START = 1.0, 0.5, 10.0  # E‖∇F‖² ≤ ε; σ of the targets; where all coordinates begin, the optimum being 0
VARIANCE = NOISE**2 * P * D  # of a gradient at w*
FAST, SLOW = 2, 12.0  # workers of slowness 1; the slowness of all others
COUNTS = (4, 16, 64, 256)
FLAT, STEEP = 1.3, 3.0  # times as long for the largest n as for the smallest

WORKERS, STAYS = 10, 1e-6  # of which one is slow; the part of the first error to stay below


def rennala(method: Maker = Rennala) -> list[Claim]:
    """Each step is one of mini-batch SGD, is made in time, and stragglers cost nothing."""
    return [_descent(method), _in_time(method, "batch", RENNALA), _stragglers(method, "batch", RENNALA)]


def ringmaster(method: Maker = Ringmaster) -> list[Claim]:
    """Steps are made in time, and stragglers cost nothing."""
    return [_in_time(method, "threshold", RINGMASTER), _stragglers(method, "threshold", RINGMASTER)]


def delay_threshold(method: Maker = AsyncSGD) -> list[Claim]:
    """How long it takes depends on how many compute at a time, not on the oldest gradient."""
    return [_oldest(method, False), _oldest(method, True), _concurrency(method)]


def _oldest(method: Maker, drop: bool) -> Claim:
    """One worker is slow: its gradient at w⁰ comes when the others have long arrived."""
    slowness = np.array([30.0, 100.0, 300.0])
    own, plain = (
        [_last_above(made, [1.0] * (WORKERS - 1) + [slow]) for slow in slowness]
        for made in (method(adaptive=True, drop=drop, gradients="exact"), AsyncSGD(gradients="exact"))
    )
    power, other = _slope(slowness, own), _slope(slowness, plain)
    how = "dropped" if drop else "shortened in proportion to their age"
    return Claim(
        f"If gradients older than the concurrency are {how}, the rate does not depend on the largest delay",
        KOLOSKOVA,
        f"a shared quadratic, n = {WORKERS}, η = 1/(4nL), largest delays {_list(slowness * (WORKERS - 1))}: iterations "
        f"until the error stays below {STAYS:g} of the first grow as the power −0.1 … 0.1 of it; with constant steps "
        "of 0.7 at least",
        f"{_list(own)}: power {power:.2f}; with constant steps {_list(plain)}: power {other:.2f}",
        abs(power) <= 0.1 and other >= 0.7,
    )


def _concurrency(method: Maker) -> Claim:
    counts = np.array([5.0, 10.0, 20.0, 40.0])
    made = method(adaptive=True, drop=True, gradients="exact")
    iterations = [_last_above(made, [1.0] * int(n)) for n in counts]
    power = _slope(counts, iterations)
    return Claim(
        "Without noise as many iterations are needed as workers compute at a time, up to a factor",
        KOLOSKOVA,
        f"a shared quadratic, n = {_list(counts)} equal workers, η = 1/(4nL): iterations until the error stays below "
        f"{STAYS:g} of the first grow as the power 0.9 … 1.1 of n",
        f"{_list(iterations)}: power {power:.2f}",
        abs(power - 1.0) <= 0.1,
    )


def _last_above(method: Method, slowness: Sequence[float]) -> float:
    """The last iteration at which the error is above the goal; infinite if it still is in the end."""
    n = len(slowness)
    clock, step = Clock(Fixed(1.0), slowness=slowness), Constant(1.0 / (4 * n * P))
    iterations = int((n - 1) * max(slowness)) + 80 * n
    run = simulate(_shared(n, 0.0), method, clock, step, iterations=iterations, record=10 * iterations)
    above = run.error[0] > STAYS * run.error[0, 0]
    return math.inf if above[-1] else float(run.t[above].max())


def _slope(x: Floats, y: Sequence[float]) -> float:
    """The power of x that y grows as; infinite if y is."""
    return math.inf if math.inf in y else float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _descent(method: Maker) -> Claim:
    """With exact gradients of one F the error is (1 − ηp)^{2k} of the first after k steps."""
    part, furthest, most = 0.05, 0.0, 0
    for slowness in SPEEDS.values():
        run = _run(method(batch=4, gradients="exact"), slowness, part, 600)
        k = np.log(run.error[0] / run.error[0, 0]) / (2 * math.log1p(-part))
        furthest, most = max(furthest, float(np.abs(k - k.round()).max())), max(most, round(k[-1]))
    return Claim(
        "Every step is along gradients of the current point, however slow the workers that sent them are",
        RENNALA,
        "on shared data with exact gradients it is gradient descent: k steps leave (1 − ηL)^{2k} of the error, k "
        f"whole, at all times, for speeds {', '.join(SPEEDS)}",
        f"k up to {most}, at most {furthest:.0e} from a whole number",
        furthest < 1e-6 and most > 20,
    )


def _in_time(method: Maker, parameter: str, source: str) -> Claim:
    """A batch of B is full, and R steps are made, within t(B) and t(R), whenever one begins to count."""
    longest, bounds = [], []
    for slowness in SPEEDS.values():
        for size in SIZES:
            run = _run(method(**{parameter: size, "gradients": "exact"}), slowness, PART, LONG)
            times = np.append(0.0, run.time[0, 1:][np.diff(run.error[0]) != 0.0])
            steps = 1 if parameter == "batch" else size
            gaps = times[steps:] - times[:-steps]
            longest.append(float(max(gaps.max(initial=0.0), run.time[0, -1] - times[-steps:][0])))
            bounds.append(2.0 * time_for(size, slowness))
    ratios = np.array(longest) / np.array(bounds)
    slope = _slope(np.array(bounds), longest)
    what = "a batch of B is full within t(B)" if parameter == "batch" else "R steps in a row take no longer than t(R)"
    return Claim(
        f"However unequal the speeds, {what}, t(x) being 2 min_m (m + x)/Σ_{{i≤m}} 1/τ_i",
        source,
        f"never longer, for sizes {', '.join(map(str, SIZES))} and speeds {', '.join(SPEEDS)}; and no better law: the "
        "longest times grow as the power 0.85 … 1.15 of it",
        f"at most {ratios.max():.2f} of it, power {slope:.2f}",
        ratios.max() <= 1.0 + 1e-9 and abs(slope - 1.0) <= 0.15,
    )


def _stragglers(method: Maker, parameter: str, source: str) -> Claim:
    """Steps and sizes are those of the theorems: of this paper's, and of Mishchenko et al. for asynchronous SGD."""
    size = max(1, math.ceil(VARIANCE / GOAL))
    step = min(1.0 / P, GOAL * size / (2 * P * VARIANCE))
    if parameter == "threshold":
        step = min(1.0 / (2 * size * P), GOAL / (4 * P * VARIANCE))
    own = [_time_to_goal(method(**{parameter: size}), n, step) for n in COUNTS]
    plain = [_time_to_goal(AsyncSGD(), n, min(1.0 / (4 * n * P), GOAL / (4 * P * VARIANCE))) for n in COUNTS]
    return Claim(
        "The time to an accuracy is min over m of what the m fastest workers alone would take: slow ones cost nothing",
        source,
        f"{FAST} workers of slowness 1, the others of {SLOW:g}, on a shared quadratic: E‖∇F‖² ≤ ε = {GOAL:g} takes at "
        f"most {FLAT:g} times as long with {COUNTS[-1]} workers as with {COUNTS[0]}, {parameter} ⌈σ²/ε⌉ = {size} and η "
        f"of the theorem; asynchronous SGD with η of its own at least {STEEP:g} times",
        f"{_list(own)}; asynchronous SGD {_list(plain)}, for n = {', '.join(map(str, COUNTS))}",
        max(own) <= FLAT * own[0] < math.inf and plain[-1] >= STEEP * plain[0],
    )


def time_for(gradients: int, slowness: Floats) -> float:
    """min_m (m + gradients)/Σ_{i≤m} 1/τ_i over the m fastest: so long it takes them, each first ending another."""
    rates = np.cumsum(1.0 / np.sort(slowness))
    return float(np.min((np.arange(1, len(rates) + 1) + gradients) / rates))


def _run(method: Method, slowness: Floats, part: float, iterations: int) -> Run:
    """On shared data, every iteration recorded."""
    clock, problem = Clock(Fixed(1.0), slowness=slowness.tolist()), _shared(len(slowness), 0.0)
    return simulate(problem, method, clock, Constant(part / P), iterations=iterations, record=10 * iterations)


def _time_to_goal(method: Method, n: int, eta: float) -> float:
    """When E‖∇F‖² first is at the goal, in simulated seconds."""
    clock = Clock(Fixed(1.0), slowness=[1.0] * FAST + [SLOW] * (n - FAST))
    iterations, w0 = 400 * int(math.sqrt(n)), np.full(D, START)
    often: dict[str, Any] = {"iterations": iterations, "repeats": 50, "record": 10 * iterations}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        run = simulate(_shared(n, NOISE), method, clock, Constant(eta), w0=w0, **often)
    there = P**2 * run.mean <= GOAL
    return float(run.time[0, np.argmax(there)]) if there.any() else math.inf


def _shared(n: int, noise: float) -> LeastSquares:
    """All workers draw from the same distribution, with the optimum at 0, or at 1/2 where the start is 0."""
    return LeastSquares(np.full((n, D), 0.0 if noise else 0.5), P, noise)


def _list(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
