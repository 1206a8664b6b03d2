"""Lemmas 1–3, both sides along one run."""

from __future__ import annotations

import numpy as np

from siag.experiments.setting import STEP, UNIFORM, Scale, Tick, draw
from siag.methods import SIAG
from siag.report import INK, Chapter, Claim, figure
from siag.report import SGD as ORANGE
from siag.report import SIAG as BLUE
from siag.theory import Inequality, lemmas

STATEMENTS = (
    ("Lemma 1", "E‖g/n‖² ≤ 2σ²/n + C_L max E"),
    ("Lemma 2", "E⟨w − w*, g/n⟩ ≥ (μ/4)E − […]"),
    ("Lemma 3", "E‖wᵗ − w^τᵢ‖² ≤ T²η²(2σ²/n + C_L max E), all i"),
)


def inequalities(scale: Scale, tick: Tick) -> Chapter:
    """Evaluate both sides exactly."""
    problem = draw(20, 0)
    result = lemmas(problem, SIAG(), UNIFORM, STEP, iterations=scale.iterations, seed=scale.seed)
    tick()
    mu = problem.constants().mu
    parts = (result.first, result.second, result.third)
    picture, axes = figure(3, width=10.5, height=3.8, same_scale=False)
    scaled = mu * result.error
    second = Inequality("Lemma 2", result.inner / scaled, 0.25 - result.second.right / scaled)
    for ax, part in zip(axes, (result.first, second, result.third), strict=True):
        ax.set_xscale("log")
        shown = part.left > 0 if part is result.third else np.ones(len(part.left), bool)
        ax.plot(result.t[shown], part.left[shown], color=BLUE, label="left side, exact")
        ax.plot(result.t[shown], part.right[shown], color=ORANGE, linestyle=(0, (5, 2)), label="right side")
        ax.set_xlabel("iteration t")
        if part is second:
            ax.axhline(0, color=INK, linewidth=0.6)
            ax.set_title(f"{part.name}, divided by μE")
        else:
            ax.set_yscale("log")
            ax.set_title(part.name)
    axes[2].legend(loc="upper right")
    claims = [
        Claim(
            f"{name}: {statement}",
            name,
            "left and right as stated, at every t",
            f"holds at all {len(result.t)} points" if part.holds else "violated",
            part.holds,
        )
        for (name, statement), part in zip(STATEMENTS, parts, strict=True)
    ]
    text = [
        "The moments that give the exact error give both sides of the lemmas as well, so they can be checked like any "
        f"other inequality between numbers. Here n = {problem.n}, uniform selection, the step of the figures above. "
        "For Lemma 2 both sides are divided by μE: with fresh gradients the left side would be 1, staleness lowers it, "
        "and the lemma's lower bound is far below zero, which is why the theorem needs such a large γ.",
    ]
    caption = "Both sides of Lemmas 1, 2 and 3 along one run. Lemma 2 is a lower bound, the others are upper bounds."
    table = {"t": result.t, "error": result.error}
    for part in (*parts, second):
        suffix = " scaled" if part is second else ""
        table |= {f"{part.name} left{suffix}": part.left, f"{part.name} right{suffix}": part.right}
    return Chapter("lemmas", "The lemmas, both sides", text, picture, caption, {"lemmas": table}, claims)
