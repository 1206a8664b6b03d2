"""What is claimed of LAG: as many rounds as gradient descent, far fewer uploads, the fewer the smoother a worker is."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from siag.activity import Everyone
from siag.foundations.errors import DivergenceWarning
from siag.foundations.rng import blank
from siag.foundations.types import Integers
from siag.methods.iag import IAG
from siag.methods.lag import LAG
from siag.methods.method import Method, advance, compute, receive, shown
from siag.problems import Ridge
from siag.report import Basis, Claim
from siag.simulation import Run, simulate
from siag.steps import Constant

PAPER = "Chen et al. 2018"
N, D, GROWTH = 9, 20, 1.3
ROUNDS, ENOUGH = 300, 1e-10  # of the error at the start
DEPTH, WEIGHT = 10, 0.1  # D and ξ, of LAG-WK as the authors ran it

Maker = Callable[..., Method]


def uneven() -> Ridge:
    """Quadratics as in the paper's experiments, each steeper than the last along a direction of its own."""
    draw = np.random.default_rng(0)
    axes, _ = np.linalg.qr(draw.standard_normal((D, D)))
    features = [GROWTH**i * np.outer(axes[:, i], axes[:, i]) + np.eye(D) for i in range(N)]
    return Ridge(np.array(features), draw.standard_normal((N, D)), regularization=0.0)


def lag(worker: Maker = LAG, server: Maker = LAG) -> list[Claim]:
    """Both triggers against gradient descent, to the same accuracy, and how seldom a smooth worker uploads.

    Args:
        worker: makes LAG-WK from `weight` and `depth`.
        server: makes LAG-PS from `weight`, `depth`, `trigger` and `smoothness`.
    """
    problem = uneven()
    step = 1.0 / float(np.linalg.eigvalsh(np.mean([problem.hessian(i, problem.optimum) for i in range(N)], axis=0))[-1])
    lazy = {"WK": worker(weight=WEIGHT, depth=DEPTH), "PS": _by_server(server, problem, 10 * WEIGHT)}
    runs = {name: _run(problem, method, step) for name, method in ({"GD": IAG()} | lazy).items()}
    return [*_fewer_uploads(runs), _linear(runs), _seldom(worker, server), _gradients(runs)]


def _by_server(server: Maker, problem: Ridge, weight: float) -> Method:
    smoothness = tuple(map(float, problem.smoothness))
    return server(weight=weight, depth=DEPTH, trigger="server", smoothness=smoothness)


def _fewer_uploads(runs: dict[str, Run]) -> list[Claim]:
    rounds, uploads = {}, {}
    for name, run in runs.items():
        rounds[name], uploads[name] = _reached(run)
    return [
        Claim(
            f"{title} needs about as many rounds as gradient descent and far fewer uploads",
            f"{PAPER}, {algorithm} and experiments",
            f"to {ENOUGH:g} of the error at the start: at most 1.5 times the rounds, {1 / share:.0%} of the uploads",
            f"{rounds[name]:g} rounds and {uploads[name]:g} uploads, gradient descent {rounds['GD']:g} and "
            f"{uploads['GD']:g}",
            rounds[name] <= 1.5 * rounds["GD"] and share * uploads[name] <= uploads["GD"],
            Basis.OBSERVED,
        )
        for name, title, algorithm, share in (
            ("WK", "LAG-WK", "Algorithm 1", 4.0),
            ("PS", "LAG-PS", "Algorithm 2", 2.5),
        )
    ]


def _linear(runs: dict[str, Run]) -> Claim:
    """The slope of log error against rounds, until rounding shows."""
    rates = {}
    for name, run in runs.items():
        part = run.error[0] / run.error[0, 0]
        shown = (part > 1e-24) & (run.t > 0)
        rates[name] = -float(np.polyfit(run.t[shown], np.log10(part[shown]), 1)[0])
    ratios = [rates[name] / rates["GD"] for name in ("WK", "PS")]
    return Claim(
        "Its error falls linearly, at a rate of the order of gradient descent's",
        f"{PAPER}, the theorem on strong convexity",
        f"decades per round, fitted over {ROUNDS} rounds or to 1e-24: at least two thirds of gradient descent's",
        f"{rates['WK']:.3f} and {rates['PS']:.3f}, gradient descent {rates['GD']:.3f}",
        min(ratios) >= 2 / 3,
    )


def _seldom(worker: Maker, server: Maker) -> Claim:
    """By Cauchy and Schwarz: ‖w^t − ŵ‖² after j ≤ D rounds is at most j times the last j terms of the trigger's sum.

    Three steep workers let w move fast at first and then ever more slowly; the others are as steep as the lemma allows.
    """
    rounds, step = 66, 1.0 - 1e-9
    curvatures = np.array([1.3] * 3 + [float(np.sqrt(WEIGHT / DEPTH))] * (N - 3))
    features = np.sqrt(D * curvatures)[:, None, None] * np.eye(D)
    problem = Ridge(features, np.random.default_rng(1).random((N, D)), regularization=0.0)
    lazy = worker(weight=WEIGHT, depth=DEPTH), _by_server(server, problem, WEIGHT)
    most, uploads = rounds // (DEPTH + 1), [int(_uploads(problem, each, step, rounds)[3:].max()) for each in lazy]
    return Claim(
        "A worker with L_m² ≤ ξ/(Dη²) uploads in at most one of D + 1 rounds, however w moves",
        f"{PAPER}, the lemma on lazy communication",
        f"D = {DEPTH}, ξ = {WEIGHT:g}, six workers of {N} with an L_m as large as that: at most {most} uploads of "
        f"each in {rounds} rounds, by either trigger",
        f"{uploads[0]} and {uploads[1]} at most",
        max(uploads) <= most,
    )


def _uploads(problem: Ridge, method: Method, step: float, rounds: int) -> Integers:
    """(n,) how often each worker uploads, everybody being active."""
    zero, out, counts = np.zeros(problem.d), np.empty(problem.d), np.zeros(problem.n, np.int64)
    state, memory, oracle, none = (
        method.init(zero, problem.n),
        method.recruit(zero, problem.n),
        problem.oracle(),
        blank(),
    )
    for _ in range(rounds):
        w = shown(state).copy()
        for i in range(problem.n):
            if compute(memory, oracle, none, i, w, out):
                receive(state, i, out, 0)
                counts[i] += 1
        advance(state, step)
    return counts


def _gradients(runs: dict[str, Run]) -> Claim:
    samples = {name: float(run.samples[0, -1]) for name, run in runs.items()}
    return Claim(
        "LAG-PS saves gradients as well as uploads, LAG-WK uploads only",
        f"{PAPER}, Algorithms 1 and 2",
        f"after {ROUNDS} rounds: LAG-WK has computed {N * ROUNDS} gradients, LAG-PS as many as it has uploaded",
        f"{samples['WK']:g}; {samples['PS']:g} gradients and {runs['PS'].uploads[0, -1]} uploads",
        samples["WK"] == N * ROUNDS and samples["PS"] == runs["PS"].uploads[0, -1] < N * ROUNDS / 2,
    )


def _run(problem: Ridge, method: Method, step: float, rounds: int = ROUNDS) -> Run:
    """Everybody active; one that diverges has not kept its promise, and needs no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)
        return simulate(problem, method, Everyone(), Constant(step), iterations=rounds, record=20 * ROUNDS)


def _reached(run: Run) -> tuple[float, float]:
    """Rounds and uploads until the error is small enough; infinite if it never is."""
    there = np.flatnonzero(run.error[0] < ENOUGH * run.error[0, 0])
    return (float(run.t[there[0]]), float(run.uploads[0, there[0]])) if len(there) else (np.inf, np.inf)
