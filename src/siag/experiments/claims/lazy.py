"""What is claimed of LAG: as many rounds as gradient descent, far fewer uploads."""

from __future__ import annotations

import numpy as np

from siag.activity import Everyone
from siag.foundations.types import Floats
from siag.methods.iag import IAG
from siag.methods.lag import LAG
from siag.methods.method import Method
from siag.problems import Ridge
from siag.report import Claim
from siag.simulation import Run, simulate
from siag.steps import Constant

PAPER = "Chen et al. 2018"
N, D, GROWTH = 9, 20, 1.3
ROUNDS, ENOUGH = 300, 1e-10  # of the error at the start


def uneven() -> Ridge:
    """Quadratics as in the paper's experiments, each steeper than the last along a direction of its own."""
    draw = np.random.default_rng(0)
    axes, _ = np.linalg.qr(draw.standard_normal((D, D)))
    features = [GROWTH**i * np.outer(axes[:, i], axes[:, i]) + np.eye(D) for i in range(N)]
    return Ridge(np.array(features), draw.standard_normal((N, D)), regularization=0.0)


def lag(worker: Method | None = None, server: Method | None = None) -> list[Claim]:
    """Both triggers against gradient descent, to the same accuracy."""
    problem = uneven()
    worker = LAG(weight=0.1) if worker is None else worker
    server = LAG(trigger="server", weight=1.0, smoothness=_tuple(problem.smoothness)) if server is None else server
    runs = {name: _run(problem, method) for name, method in (("GD", IAG()), ("WK", worker), ("PS", server))}
    rounds, uploads = {}, {}
    for name, run in runs.items():
        rounds[name], uploads[name] = _reached(run)
    claims = [
        Claim(
            f"{title} needs about as many rounds as gradient descent and far fewer uploads",
            f"{PAPER}, {algorithm}",
            f"to {ENOUGH:g} of the error at the start: at most 1.5 times the rounds, {1 / share:.0%} of the uploads",
            f"{rounds[name]:g} rounds and {uploads[name]:g} uploads, gradient descent {rounds['GD']:g} and "
            f"{uploads['GD']:g}",
            rounds[name] <= 1.5 * rounds["GD"] and share * uploads[name] <= uploads["GD"],
        )
        for name, title, algorithm, share in (
            ("WK", "LAG-WK", "Algorithm 1", 4.0),
            ("PS", "LAG-PS", "Algorithm 2", 2.5),
        )
    ]
    samples = {name: float(run.samples[0, -1]) for name, run in runs.items()}
    ends = [float(run.error[0, -1] / run.error[0, 0]) for run in runs.values()]
    return [
        *claims,
        Claim(
            "Silence never lasts: the error goes on falling linearly",
            PAPER,
            f"after {ROUNDS} rounds below 1e-24 of the start with either trigger",
            f"{ends[1]:.1e} and {ends[2]:.1e}",
            max(ends[1:]) < 1e-24,
        ),
        Claim(
            "LAG-PS saves gradients as well as uploads, LAG-WK uploads only",
            PAPER,
            f"after {ROUNDS} rounds: LAG-WK has computed {N * ROUNDS} gradients, LAG-PS as many as it has uploaded",
            f"{samples['WK']:g}; {samples['PS']:g} gradients and {runs['PS'].uploads[0, -1]} uploads",
            samples["WK"] == N * ROUNDS and samples["PS"] == runs["PS"].uploads[0, -1] < N * ROUNDS / 2,
        ),
    ]


def _tuple(numbers: Floats) -> tuple[float, ...]:
    return tuple(map(float, numbers))


def _run(problem: Ridge, method: Method) -> Run:
    """Everybody active, with the step 1/L of gradient descent on F."""
    curvature = np.mean([problem.hessian(i, problem.optimum) for i in range(N)], axis=0)
    step = Constant(1.0 / float(np.linalg.eigvalsh(curvature)[-1]))
    return simulate(problem, method, Everyone(), step, iterations=ROUNDS, record=20 * ROUNDS)


def _reached(run: Run) -> tuple[float, float]:
    """Rounds and uploads until the error is small enough; infinite if it never is."""
    there = np.flatnonzero(run.error[0] < ENOUGH * run.error[0, 0])
    return (float(run.t[there[0]]), float(run.uploads[0, there[0]])) if len(there) else (np.inf, np.inf)
