"""Rates on a problem that is not convex: how the mean of ‖∇F(w^t)‖² over T iterations falls with T, M, K, B and n.

Steps of the order of T^(−1/2) leave of the way from the start, and of noise, as much: both fall as T^(−1/2). All runs
begin where F curves downwards in a direction. Each function takes the method, so that a test can put another in its
place and see the claim fail. The exponents have standard deviations of about 0.02 at most over seeds, and means within
0.04 of those predicted: less than one seed in 500 would fail.

The theorems are for T large enough. The factors of the steps are chosen so that these T are: with larger ones terms of
higher order, from old gradients and from local models that differ, bend the lines (AsyncSGD with 4 T^(−1/2): −0.63).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from siag.activity import Activity, Clock, EveryArrivals, Everyone, Exponential, Sequential, WaitForAll
from siag.experiments.claims.fitted import slope
from siag.foundations.types import Floats, Integers
from siag.methods.method import Method
from siag.problems import NonconvexLogistic
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant, Step

Server: TypeAlias = EveryArrivals | WaitForAll
Servers: TypeAlias = Callable[[int], Server]
Order: TypeAlias = Callable[[float], float]

N, D, M, PENALTY = 8, 5, 20, 0.4
START = np.eye(D)[-1]
SPEEDS = np.linspace(1.0, 10.0, N).tolist()
HORIZONS = (2000, 8000, 32_000)
ROUNDS = (500, 2000, 8000)  # of FedBuff, which has a buffer of local steps in each
BATCHES, LOCAL = (1, 2, 4, 8), (1, 2, 4, 8)
WITHIN = 0.1
OLD = 0.25  # what old gradients may cost, as a part: theirs is a term of higher order
WITHOUT_CONVEXITY = "logistic regression with a penalty that is not convex"


def root(iterations: float) -> float:
    """T^(−1/2), the order of the steps that the theorems ask for."""
    return float(iterations**-0.5)


def unlike(n: int = N, kinds: int = N, heterogeneity: float = 1.0) -> NonconvexLogistic:
    """Workers whose data differ; n/kinds of each kind."""
    drawn = NonconvexLogistic.random(n=kinds, d=D, m=M, heterogeneity=heterogeneity, regularization=PENALTY, seed=7)
    copies = n // kinds
    return NonconvexLogistic(np.tile(drawn.features, (copies, 1, 1)), np.tile(drawn.labels, (copies, 1)), PENALTY)


def whatever_the_data(method: Method, source: str) -> Claim:
    """DuDe and ACE: fast workers would leave a floor where data differ."""
    clock = Clock(Exponential(1.0), slowness=SPEEDS)
    means = [_mean(unlike(), method, clock, Constant(0.5 * root(T)), T) for T in HORIZONS]
    return _fitted(
        "Without convexity ‖∇F‖² falls as T^(−1/2), however the data differ and however fast workers are",
        source,
        f"{WITHOUT_CONVEXITY}, data that differ, slowness 1 … {SPEEDS[-1]:g}, η = 0.5 T^(−1/2)",
        ("T", HORIZONS, means),
    )


def from_shared_data(method: Method, source: str, server: Server, servers: Servers, order: Order) -> list[Claim]:
    """Asynchronous SGD: workers that share their data draw gradients at the rate of all of them together.

    Args:
        method: to be put to the test.
        source: of the claims.
        server: when it steps, in the first of them.
        servers: when it steps along M gradients at a time.
        order: of the steps, for T iterations.
    """
    middle, size = HORIZONS[0], 1.0
    problem, alone, rate = unlike(N, 1), unlike(1, 1), sum(1.0 / slow for slow in SPEEDS)
    clock, in_time, by_one = Clock(Exponential(1.0), slowness=SPEEDS, server=server), [], []
    for T in HORIZONS:
        run = _run(problem, method, clock, Constant(size * order(T)), T + T // 10, repeats=10)
        in_time.append(_mean_until(run, T / rate))
        by_one.append(_mean(alone, method, Everyone(), Constant(size * root(T)), T))
    in_batch = [
        _mean(
            problem,
            method,
            Clock(Exponential(1.0), slowness=SPEEDS, server=servers(batch)),
            Constant(size * root(middle / batch)),
            middle,
        )
        for batch in BATCHES
    ]
    setting = f"{WITHOUT_CONVEXITY}, data that all share, slowness 1 … {SPEEDS[-1]:g}"
    fall, ratios = slope(HORIZONS, in_time), [have / want for have, want in zip(in_time, by_one, strict=True)]
    return [
        Claim(
            "Without convexity ‖∇F‖² falls as T^(−1/2) with the number T of gradients that all workers draw in a given "
            "time, old ones notwithstanding",
            source,
            f"{setting}, a step at every arrival, η = {size:g} T^(−1/2): the mean of ‖∇F‖² over the iterations within "
            f"T/{rate:.2f} seconds ∝ Tᵃ for T = {', '.join(map(str, HORIZONS))}, a = −0.50 ± {WITHIN:g}, and at most "
            f"{1 + OLD:g} times that of one worker who draws all T",
            f"{', '.join(f'{mean:.2e}' for mean in in_time)}: a = {fall:.2f}; "
            f"{', '.join(f'{ratio:.2f}' for ratio in ratios)} times",
            abs(fall + 0.5) <= WITHIN and max(ratios) <= 1 + OLD,
        ),
        _fitted(
            "Steps along M gradients make it fall as (TM)^(−1/2): the speedup is linear",
            source,
            f"{setting}, T = {middle}, η = {size:g} (M/T)^(1/2)",
            ("M", BATCHES, in_batch),
        ),
    ]


def without_server(method: Method, source: str) -> list[Claim]:
    """AD-PSGD: the mean of the models moves by η/n per report, which is to be of the order of T^(−1/2)."""
    size, each, counts = 0.25, 2000, (4, 8, 16)

    def mean(n: int, T: int) -> float:
        return _mean(unlike(n, 2, 2.0), method, Sequential(), Constant(n * size * root(T)), T)

    setting = f"{WITHOUT_CONVEXITY}, data that differ, a ring, η = {size:g} n T^(−1/2)"
    return [
        _fitted(
            "Without convexity ‖∇F‖² at the mean of the models falls as T^(−1/2), T counting reports",
            source,
            f"{setting}, n = {N}",
            ("T", HORIZONS, [mean(N, T) for T in HORIZONS]),
        ),
        _fitted(
            "As many reports of each of n workers make it fall as n^(−1/2): the speedup is linear",
            source,
            f"{setting}, T = {each} n",
            ("n", counts, [mean(n, each * n) for n in counts]),
        ),
    ]


def from_buffers(method: Callable[..., Method], source: str, server: Servers, order: Order) -> list[Claim]:
    """FedBuff: T steps of the server along the mean of B updates of K local steps, workers being equally fast."""
    size, steps, middle, usual = 0.35, 3, ROUNDS[1], 4

    def mean(K: int, B: int, T: int, local: float) -> float:
        clock = Clock(Exponential(1.0), server=server(B), gradients=1)
        return _mean(unlike(), method(steps=K, size=local, damp=False), clock, Constant(1.0), T)

    in_time = [mean(steps, usual, T, size * order(steps * T)) for T in ROUNDS]
    in_steps = [mean(K, usual, middle, size * order(K * middle)) for K in LOCAL]
    falls = slope(ROUNDS, in_time), slope(LOCAL, in_steps)
    setting = f"{WITHOUT_CONVEXITY}, data that differ, equal speeds"
    return [
        Claim(
            "Without convexity ‖∇F‖² falls as (TK)^(−1/2), K the local steps of an update, though updates are old",
            source,
            f"{setting}, local steps of {size:g} (TK)^(−1/2), B = {usual}: the mean of ‖∇F‖² over the iterations ∝ Tᵃ "
            f"for T = {', '.join(map(str, ROUNDS))}, K = {steps}, and ∝ Kᵇ for K = {', '.join(map(str, LOCAL))}, T = "
            f"{middle}: a, b = −0.50 ± {WITHIN:g}",
            f"a = {falls[0]:.2f}, b = {falls[1]:.2f}, from {in_time[0]:.2e} to {in_time[-1]:.2e} and from "
            f"{in_steps[0]:.2e} to {in_steps[-1]:.2e}",
            all(abs(fall + 0.5) <= WITHIN for fall in falls),
        ),
        _fitted(
            "A buffer of B updates makes it fall as (TB)^(−1/2)",
            "the noise of a mean of B updates",
            f"{setting}, K = {steps} local steps of {size:g} (B/T)^(1/2), T = {middle}",
            ("B", BATCHES, [mean(steps, B, middle, size * root(middle / B)) for B in BATCHES]),
            basis=Basis.OURS,
        ),
    ]


def compressed(method: Callable[..., Method], source: str) -> Claim:
    """EF21 with momentum of the order of T^(−1/2), too."""
    size, keep = 2.0, 4.0
    means = [
        _mean(
            unlike(),
            method(k=1, momentum=keep * root(T), gradients="sample"),
            Everyone(),
            Constant(size * root(T)),
            T,
            repeats=4,
        )
        for T in ROUNDS
    ]
    return _fitted(
        f"Without convexity ‖∇F‖² falls as T^(−1/2) with 1 of {D} coordinates a report, however the data differ",
        source,
        f"{WITHOUT_CONVEXITY}, data that differ, γ = {size:g} T^(−1/2), η = {keep:g} T^(−1/2)",
        ("T", ROUNDS, means),
    )


def faster_than_root(method: Method, source: str, step: Step) -> Claim:
    """STORM, with steps and shares that fall with t, not T: one run has all T."""
    horizon = HORIZONS[-1]
    run = _run(unlike(1, 1), method, Everyone(), step, horizon, repeats=40)
    late = run.t >= horizon / 10
    return _fitted(
        "Without convexity ‖∇F‖² falls as T^(−2/3)",
        source,
        f"{WITHOUT_CONVEXITY}, one worker, η_t of the order of t^(−1/3) and a_t of t^(−2/3), T from {horizon // 10} on",
        ("T", run.t[late].tolist(), _means(run)[late].tolist()),
        wanted=-2.0 / 3.0,
    )


def _run(
    problem: NonconvexLogistic, method: Method, activity: Activity, step: Step, iterations: int, repeats: int
) -> Run:
    return simulate(problem, method, activity, step, iterations=iterations, repeats=repeats, record=100, w0=START)


def _mean(
    problem: NonconvexLogistic, method: Method, activity: Activity, step: Step, iterations: int, repeats: int = 10
) -> float:
    """The mean of ‖∇F(w^t)‖² over the iterations and over runs."""
    return float(_means(_run(problem, method, activity, step, iterations, repeats))[-1])


def _mean_until(run: Run, seconds: float) -> float:
    """The mean of ‖∇F(w^t)‖² over the iterations within a time and over runs."""
    last = (run.time <= seconds).sum(axis=1) - 1
    return float(np.mean([_trapezia(run.t, curve)[k] for curve, k in zip(run.error, last, strict=True)]))


def _means(run: Run) -> Floats:
    """(points,) the mean of ‖∇F(w^t)‖² over t ≤ T and over runs, for T each of the points."""
    return _trapezia(run.t, run.mean)


def _trapezia(t: Integers, curve: Floats) -> Floats:
    """(points,) the mean of a curve from its first point on, until each of the points."""
    between = (curve[1:] + curve[:-1]) / 2 * np.diff(t)
    return np.concatenate([curve[:1], np.cumsum(between) / t[1:]])


def _fitted(
    statement: str,
    source: str,
    setting: str,
    curve: tuple[str, Sequence[float], Sequence[float]],
    wanted: float = -0.5,
    basis: Basis = Basis.PROVED,
) -> Claim:
    letter, at, means = curve
    fall = slope(at, means)
    points = f" for {letter} = {', '.join(map(str, at))}" if len(at) < 10 else ""
    return Claim(
        statement,
        source,
        f"{setting}: the mean of ‖∇F‖² over the iterations ∝ {letter}ᵃ{points}, a = {wanted:.2f} ± {WITHIN:g}",
        f"{', '.join(f'{mean:.2e}' for mean in (means if points else (means[0], means[-1])))}: a = {fall:.2f}",
        abs(fall - wanted) <= WITHIN,
        basis,
    )
