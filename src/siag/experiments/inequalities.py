"""Lemmas 1–3, both sides along one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siag.experiments.setting import STEP, UNIFORM, Scale, Tick, draw
from siag.methods import SIAG
from siag.report import BLUE, INK, ORANGE, Chapter, Claim, figure
from siag.theory import Inequality, Lemmas, lemmas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N = 20
STATEMENTS = (
    ("Lemma 1", "E‖g/n‖² ≤ 2σ²/n + C_L max E"),
    ("Lemma 2", "E⟨w − w*, g/n⟩ ≥ (μ/4)E − […]"),
    ("Lemma 3", "E‖w(t) − w(τᵢ)‖² ≤ T²η²(2σ²/n + C_L max E), all i"),
)


def inequalities(scale: Scale, tick: Tick) -> Chapter:
    """Evaluate both sides exactly."""
    problem = draw(N, 0)
    result = lemmas(problem, SIAG(), UNIFORM, STEP, iterations=scale.iterations, seed=scale.seed)
    tick()
    parts = (result.first, result.second, result.third)
    claims = [
        Claim(
            f"{name}: {statement}",
            name,
            "left and right as stated, at every t",
            f"at {(part.left <= part.right).sum()} of {len(result.t)} points",
            part.holds,
        )
        for (name, statement), part in zip(STATEMENTS, parts, strict=True)
    ]
    text = [
        "The moments that give the exact error give both sides of the lemmas as well, so they can be checked like any "
        f"other inequality between numbers. Here n = {N}, uniform selection, the step of the figures above. For Lemma "
        "2 both sides are divided by μE: with fresh gradients the left side would be 1, staleness lowers it, and the "
        "lemma's lower bound is far below, which is why the theorem needs such a large γ.",
    ]
    second = _scaled(result, problem.constants().mu)
    columns = {"t": result.t, "error": result.error}
    for part in (*parts, second):
        columns |= {f"{part.name} left": part.left, f"{part.name} right": part.right}
    caption = "Both sides of Lemmas 1, 2 and 3 along one run. Lemma 2 is a lower bound, the others are upper bounds."
    picture = _draw(result, second)
    return Chapter("lemmas", "The lemmas, both sides", text, picture, caption, {"lemmas": columns}, claims)


def _scaled(result: Lemmas, mu: float) -> Inequality:
    """Lemma 2 as the paper writes it, the inner product and its lower bound, both divided by μE."""
    scale = mu * result.error
    return Inequality("Lemma 2 over μE", result.inner / scale, 0.25 - result.second.right / scale)


def _draw(result: Lemmas, second: Inequality) -> Figure:
    picture, axes = figure(3, width=10.5, height=3.8, same_scale=False)
    labels = ("E‖g/n‖²", "E⟨w − w*, g/n⟩ / (μE)", "maxᵢ E‖w(t) − w(τᵢ)‖²")
    for ax, part, label in zip(axes, (result.first, second, result.third), labels, strict=True):
        ax.plot(result.t, part.left, color=BLUE, label="left side, exact")
        ax.plot(result.t, part.right, color=ORANGE, linestyle=(0, (5, 2)), label="right side")
        ax.set_xscale("log")
        ax.set_xlabel("iteration t")
        ax.set_ylabel(label)
        ax.set_title(part.name)
        if part is second:
            ax.axhline(0, color=INK, linewidth=0.6)
        else:
            ax.set_yscale("log")
    axes[2].legend(loc="upper right")
    return picture
