"""Theorem 1 with its own step sizes: the bound, the recursion behind it, the exact error and the sharp law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from siag.experiments.setting import UNIFORM, Scale, Tick, draw
from siag.foundations.types import Floats
from siag.methods import SIAG
from siag.report import BLUE, INK, ORANGE, PURPLE, Chapter, Claim, figure, logarithmic, name_ends
from siag.theory import Curve, Theorem1, exact_error, sharp_law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETA = 0.5  # 5/μ; the theorem needs more than 4/μ


@dataclass(frozen=True, eq=False)
class Sides:
    """Four curves at the same points."""

    theorem: Theorem1
    exact: Curve
    bound: Floats
    recursion: Floats
    law: Floats


def bound(scale: Scale, tick: Tick) -> Chapter:
    """Follow the theorem for several γ."""
    sides = _sides(scale, tick)
    theorem, exact = sides.theorem, sides.exact
    slack, ratio = sides.bound[-1] / exact.error[-1], exact.error[-1] / sides.law[-1]
    text = [
        f"The problem has n = {theorem.n} workers, μ = L = {theorem.mu:g}, σ² = {theorem.sigma2:.0f}, T = {theorem.T}. "
        f"With β = {BETA:g} (= {BETA * theorem.mu:g}/μ) the theorem asks for γ = {theorem.gamma:,.0f}: the step starts "
        f"at {BETA / theorem.gamma:.1e} and nothing much happens before t ≈ γ. Here the exact error is followed for "
        f"{exact.t[-1]:,} iterations.",
        f"At the end the bound is {slack:,.0f} times the exact error: its constants serve the proof, not the "
        f"practitioner. The sharp law is the one to plan with; there the exact error is {ratio:.2f} times the law.",
    ]
    caption = "Theorem 1 with its own step sizes, against the exact error of sIAG and the sharp law."
    columns = {
        "t": exact.t,
        "theorem": sides.bound,
        "recursion": sides.recursion,
        "exact": exact.error,
        "sharp law": sides.law,
    }
    title = "Theorem 1 with its own steps, and how much it leaves to spare"
    return Chapter("bound", title, text, _draw(sides), caption, {"bound": columns}, _claims(sides, scale))


def _sides(scale: Scale, tick: Tick) -> Sides:
    problem = draw(scale.sizes[0], 0)
    theorem = Theorem1(**problem.constants()._asdict(), n=problem.n, T=UNIFORM.T, beta=BETA)
    iterations = int(scale.gammas * theorem.gamma)
    exact = exact_error(problem, SIAG(), UNIFORM, theorem.step, iterations=iterations, seed=scale.seed)
    tick()
    # Assumption 3 holds once every worker has reported, by iteration T; the recursion starts there.
    highest = float(exact.error[exact.t <= theorem.T].max())
    _, recursion = theorem.recursion(highest, iterations, first=theorem.T)
    tick()
    limit = theorem.bound(exact.t, float(exact.error[0]))
    return Sides(theorem, exact, limit, recursion, sharp_law(problem, UNIFORM, theorem.step)(exact.t))


def _claims(sides: Sides, scale: Scale) -> list[Claim]:
    error, settled = sides.exact.error, sides.exact.t >= sides.theorem.T
    between = (error <= sides.recursion) & (sides.recursion <= sides.bound)
    above = error <= sides.bound
    times = "" if scale.gammas == 1 else f"{scale.gammas:g} "
    return [
        Claim(
            "Theorem 1: E_t ≤ δ₁σ²/(n(γ+t)) + γ²E₀/(γ+t)²",
            "Theorem 1",
            f"bound above the exact error at every t up to {times}γ, with the theorem's own β and γ",
            f"above at {above.sum()} of {len(error)} points; {sides.bound[-1] / error[-1]:,.0f} times it at the end",
            bool(above.all()),
        ),
        Claim(
            "The recursion (ana-recur) bounds the error, and the theorem bounds the recursion",
            "Sec. III, proof of Theorem 1",
            "exact ≤ recursion ≤ Theorem 1 at every t ≥ T, when all have reported",
            f"at {between[settled].sum()} of {settled.sum()} points; at the end {error[-1]:.2e} ≤ "
            f"{sides.recursion[-1]:.2e} ≤ {sides.bound[-1]:.2e}",
            bool(between[settled].all()),
        ),
    ]


def _draw(sides: Sides) -> Figure:
    picture, (ax,) = figure(width=7.5, height=4.6)
    t = sides.exact.t[1:]
    lines = (
        ("Theorem 1", sides.bound[1:], ORANGE, "-"),
        ("eq. (ana-recur), iterated", sides.recursion[1:], ORANGE, (0, (5, 2))),
        ("sharp law", sides.law[1:], PURPLE, ":"),
        ("exact error", sides.exact.error[1:], BLUE, "-"),
    )
    for name, values, color, dashes in lines:
        ax.plot(t, values, color=color, linestyle=dashes, label=name)
    logarithmic(ax, "iteration t", "E‖wᵗ − w*‖²")
    ax.axvline(sides.theorem.gamma, color=INK, linewidth=0.7)
    ax.annotate("t = γ", (sides.theorem.gamma, 1e-4), xytext=(-4, 0), textcoords="offset points", ha="right")
    name_ends(ax, [(t, values, name, color) for name, values, color, _ in lines])
    return picture
