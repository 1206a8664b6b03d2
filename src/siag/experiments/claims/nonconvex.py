"""Rates on a problem that is not convex: how the mean of ‖∇F(w^t)‖² over T iterations falls with T, M, B and n.

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
from siag.foundations.types import Floats
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
BATCHES = (1, 2, 4, 8)
WITHIN = 0.1
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


def from_shared_data(method: Method, source: str, server: Servers, order: Order) -> list[Claim]:
    """Asynchronous SGD: T steps along M gradients each, of workers that share their data."""
    problem, middle, size = unlike(N, 1), HORIZONS[0], 1.0
    in_time = [
        _mean(problem, method, Clock(Exponential(1.0), slowness=SPEEDS), Constant(size * order(T)), T) for T in HORIZONS
    ]
    in_batch = [
        _mean(
            problem,
            method,
            Clock(Exponential(1.0), slowness=SPEEDS, server=server(batch)),
            Constant(size * root(middle / batch)),
            middle,
        )
        for batch in BATCHES
    ]
    setting = f"{WITHOUT_CONVEXITY}, data that all share, slowness 1 … {SPEEDS[-1]:g}"
    return [
        _fitted(
            "Without convexity ‖∇F‖² falls as T^(−1/2), old gradients notwithstanding",
            source,
            f"{setting}, η = {size:g} T^(−1/2)",
            ("T", HORIZONS, in_time),
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
    """FedBuff: T steps of the server along the mean of B updates, workers being equally fast."""
    size, steps, middle, usual = 0.35, 3, ROUNDS[1], 4

    def mean(B: int, T: int, local: float) -> float:
        clock = Clock(Exponential(1.0), server=server(B), gradients=1)
        return _mean(unlike(), method(steps=steps, size=local, damp=False), clock, Constant(1.0), T)

    setting = f"{WITHOUT_CONVEXITY}, data that differ, equal speeds, K = {steps} local steps"
    return [
        _fitted(
            "Without convexity ‖∇F‖² falls as T^(−1/2), though updates are old and of several local steps",
            source,
            f"{setting} of {size:g} T^(−1/2), B = {usual}",
            ("T", ROUNDS, [mean(usual, T, size * order(T)) for T in ROUNDS]),
        ),
        _fitted(
            "A buffer of B updates makes it fall as (TB)^(−1/2)",
            "the noise of a mean of B updates",
            f"{setting} of {size:g} (B/T)^(1/2), T = {middle}",
            ("B", BATCHES, [mean(B, middle, size * root(middle / B)) for B in BATCHES]),
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


def _means(run: Run) -> Floats:
    """(points,) the mean of ‖∇F(w^t)‖² over t ≤ T, for T each of the points: trapezia between them."""
    between = (run.mean[1:] + run.mean[:-1]) / 2 * np.diff(run.t)
    return np.concatenate([run.mean[:1], np.cumsum(between) / run.t[1:]])


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
