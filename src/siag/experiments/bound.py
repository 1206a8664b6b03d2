"""Theorem 1 with its own step sizes: the bound, the recursion behind it, the exact error and the sharp law."""

from __future__ import annotations

from siag.experiments.setting import UNIFORM, Scale, Tick, draw
from siag.methods import SIAG
from siag.report import INK, LAW, Chapter, Claim, figure, logarithmic, name_at_end
from siag.report import SGD as ORANGE
from siag.report import SIAG as BLUE
from siag.theory import Theorem1, exact_error, sharp_law

BETA = 0.5  # 5/μ; the theorem needs more than 4/μ


def bound(scale: Scale, tick: Tick) -> Chapter:
    """Follow the theorem for several γ."""
    problem = draw(scale.sizes[0], 0)
    mu, L, sigma2 = problem.constants()
    theorem = Theorem1(mu=mu, L=L, sigma2=sigma2, n=problem.n, T=UNIFORM.T, beta=BETA)
    iterations = int(scale.gammas * theorem.gamma)
    exact = exact_error(problem, SIAG(), UNIFORM, theorem.step, iterations=iterations, seed=scale.seed)
    tick()
    start = float(exact.error[0])
    settled = exact.t >= theorem.T  # by then every worker has reported, and Assumption 3 holds
    highest = float(exact.error[exact.t <= theorem.T].max())
    _, recursion = theorem.recursion(highest, iterations, first=theorem.T)
    tick()
    limit, law = theorem.bound(exact.t, start), sharp_law(problem, UNIFORM, theorem.step)(exact.t)
    holds = bool((exact.error <= limit).all())
    between = bool((exact.error <= recursion)[settled].all() and (recursion <= limit)[settled].all())
    slack, ratio = float(limit[-1] / exact.error[-1]), float(exact.error[-1] / law[-1])
    picture, (ax,) = figure(width=7.5, height=4.6)
    shown = exact.t > 0
    lines = (
        ("Theorem 1", limit, ORANGE, "-"),
        ("eq. (ana-recur), iterated", recursion, ORANGE, (0, (5, 2))),
        ("sharp law", law, LAW, ":"),
        ("exact error", exact.error, BLUE, "-"),
    )
    for name, values, color, dashes in lines:
        ax.plot(exact.t[shown], values[shown], color=color, linestyle=dashes, label=name)
    for name, values, color, _ in (lines[0], lines[1], lines[3]):
        name_at_end(ax, exact.t, values, name, color)
    ax.annotate(
        "sharp law", (exact.t[shown][20], law[shown][20]), xytext=(0, -12), textcoords="offset points", color=LAW
    )
    ax.axvline(theorem.gamma, color=INK, linewidth=0.7)
    ax.annotate("t = γ", (theorem.gamma, 1e-4), xytext=(-4, 0), textcoords="offset points", ha="right")
    logarithmic(ax, "iteration t", "E‖wᵗ − w*‖²")
    claims = [
        Claim(
            "Theorem 1: E_t ≤ δ₁σ²/(n(γ+t)) + γ²E₀/(γ+t)²",
            "Theorem 1",
            f"bound above the exact error at every t up to {scale.gammas:g} γ, with the theorem's own β and γ",
            f"holds at all {len(exact.t)} points; {slack:,.0f} times the exact error at the end",
            holds,
        ),
        Claim(
            "The recursion (ana-recur) bounds the error, and the theorem bounds the recursion",
            "Sec. III, proof of Theorem 1",
            "exact ≤ recursion ≤ Theorem 1 at every t ≥ T, when all have reported",
            f"at the end {exact.error[-1]:.2e} ≤ {recursion[-1]:.2e} ≤ {limit[-1]:.2e}",
            between,
        ),
    ]
    text = [
        f"The problem has n = {problem.n} workers, μ = L = {mu:g}, σ² = {sigma2:.0f}, T = {UNIFORM.T}. With "
        f"β = {BETA:g} (= {BETA * mu:g}/μ) the theorem asks for γ = {theorem.gamma:,.0f}: the step starts at "
        f"{BETA / theorem.gamma:.1e} and nothing much happens before t ≈ γ. Here the exact error is followed "
        f"for {iterations:,} iterations.",
        f"At the end the bound is {slack:,.0f} times the exact error: its constants serve the proof, not the "
        f"practitioner. The sharp law is the one to plan with; there the exact error is {ratio:.2f} times the law.",
    ]
    caption = "Theorem 1 with its own step sizes, against the exact error of sIAG and the sharp law."
    table = {"t": exact.t, "theorem": limit, "recursion": recursion, "exact": exact.error, "sharp law": law}
    title = "Theorem 1 with its own steps, and how much it leaves to spare"
    return Chapter("bound", title, text, picture, caption, {"bound": table}, claims)
