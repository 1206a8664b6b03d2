"""Sec. II: with exact gradients IAG and SAG converge linearly at a constant step, however the workers differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Activity, Sequential
from siag.experiments.setting import NONUNIFORM, Scale, Tick
from siag.foundations.types import Floats, Integers
from siag.methods import IAG, SAG, SIAG, Method
from siag.problems import LogisticRegression
from siag.report import BLUE, INK, ORANGE, Chapter, Claim, figure
from siag.simulation import Run, simulate
from siag.steps import Constant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N, D, POINTS = 20, 5, 30
DEEP = 1e-18  # relative to the start; a linear rate gets there, a sublinear one does not

LINES: tuple[tuple[str, Method, Activity, str, str], ...] = (
    ("IAG, non-uniform", IAG(), NONUNIFORM, BLUE, "-"),
    ("SAG, one sample at a time", SAG(), Sequential(), INK, "--"),
    ("sIAG, non-uniform", SIAG(), NONUNIFORM, ORANGE, "-."),
)


def relatives(scale: Scale, tick: Tick) -> Chapter:
    """A constant step on logistic regression."""
    problem = LogisticRegression.random(n=N, d=D, m=POINTS, heterogeneity=1.0, regularization=0.1, seed=0)
    step = Constant(1.0 / (2.0 * problem.constants().L * NONUNIFORM.high))
    runs = {}
    for name, method, activity, _, _ in LINES:
        runs[name] = simulate(
            problem, method, activity, step, iterations=scale.iterations, repeats=8, seed=scale.seed, record=400
        )
        tick()
    iag, sag, noisy = (run.mean[-1] / run.mean[0] for run in runs.values())
    fits = {name: _straightness(run.t, run.mean) for name, run in list(runs.items())[:2]}
    claims = [
        Claim(
            "IAG converges linearly with a constant step, however the workers differ",
            "Sec. II",
            f"error below {DEEP:g} of the start, on a straight line in t (r² ≥ 0.99)",
            f"{iag:.1e} of the start, r² = {fits['IAG, non-uniform']:.4f}",
            iag <= DEEP and fits["IAG, non-uniform"] >= 0.99,
        ),
        Claim(
            "With one distribution of finite support and one sample per iteration sIAG is SAG",
            "Sec. II",
            f"it converges linearly as SAG does: below {DEEP:g} of the start, r² ≥ 0.99",
            f"{sag:.1e} of the start, r² = {fits['SAG, one sample at a time']:.4f}",
            sag <= DEEP and fits["SAG, one sample at a time"] >= 0.99,
        ),
        Claim(
            "On streams a constant step is not enough; the step must diminish",
            "Sec. II, III",
            "sIAG's error stays above 1e-8 of the start",
            f"{noisy:.1e} of the start",
            noisy > 1e-8,
        ),
    ]
    text = [
        f"Logistic regression, n = {N} workers with {POINTS} labelled points each, drawn around centres and labelled "
        f"by weights of their own, d = {D}; constant step η = {step.eta:.2e} = 1/(2L·{NONUNIFORM.high}). With exact "
        "gradients the table's average tends to the exact gradient of F, and the error falls along a straight line "
        "until the precision of the numbers ends it. SAG is the same with one sample of a finite set per iteration. "
        "With stochastic gradients the noise in the table remains, and with it an error of the order of η.",
    ]
    caption = "Relative error with a constant step, mean of 8 runs; linear horizontal axis."
    tables = {f"relatives-{name.split(',')[0].lower()}": run.table() for name, run in runs.items()}
    title = "Exact gradients: linear convergence with a constant step"
    return Chapter("relatives", title, text, _draw(runs), caption, tables, claims)


def _straightness(t: Integers, error: Floats) -> float:
    """r² of log error against t, over the stretch above rounding and after the start."""
    shown = (error > 1e-22 * error[0]) & (t > t[-1] // 100)
    return float(np.corrcoef(t[shown], np.log(error[shown]))[0, 1] ** 2)


def _draw(runs: dict[str, Run]) -> Figure:
    picture, (ax,) = figure(width=7.0)
    for name, _, _, color, dashes in LINES:
        run = runs[name]
        ax.plot(run.t, run.mean / run.mean[0], color=color, linestyle=dashes, label=name)
    ax.set_yscale("log")
    ax.set_xlabel("iteration t")
    ax.set_ylabel("‖wᵗ − w*‖² / ‖w⁰ − w*‖²")
    ax.legend(loc="center right")
    return picture
