"""The price of staleness: error against T, and the rate in t."""

from __future__ import annotations

import numpy as np

from siag.activity import Uniform
from siag.experiments.setting import STEP, Scale, Tick, draw
from siag.methods import SIAG
from siag.report import INK, Chapter, Claim, Columns, figure, logarithmic
from siag.report import SIAG as COLOR
from siag.theory import Curve, exact_error, sharp_law

LONGEST = (1, 2, 4, 8, 15, 30, 60)


def staleness(scale: Scale, tick: Tick) -> Chapter:
    """Uniform selection with longer and longer gaps."""
    n = scale.sizes[len(scale.sizes) // 2]
    draws = range(max(1, scale.draws // 4))
    T, kappa = np.array(LONGEST), np.array([Uniform(T).kappa(n) for T in LONGEST])
    errors, laws, slopes = [], [], []
    for longest in LONGEST:
        activity = Uniform(longest)
        curves = [
            exact_error(draw(n, k), SIAG(), activity, STEP, iterations=scale.iterations, seed=scale.seed + k)
            for k in draws
        ]
        errors.append(float(np.mean([curve.error[-1] for curve in curves])))
        laws.append(float(np.mean([sharp_law(draw(n, k), activity, STEP)(scale.iterations) for k in draws])))
        long = exact_error(draw(n, 0), SIAG(), activity, STEP, iterations=scale.horizon, seed=scale.seed)
        slopes.append(_slope(long, scale.horizon // 2))
        tick()
    power = float(np.polyfit(np.log(kappa), np.log(errors), 1)[0])
    steepest, flattest = min(slopes), max(slopes)
    picture, (ax,) = figure(width=6.5)
    ax.plot(T, laws, color=INK, linewidth=0.9, label="sharp law, ∝ κ = (2T+1)/3")
    ax.plot(T, errors, "o", color=COLOR, fillstyle="none", markeredgewidth=1.6, label="sIAG, exact")
    logarithmic(ax, "longest gap T", f"E‖wᵗ − w*‖² at t = {scale.iterations:,}")
    ax.set_xticks(T, [str(longest) for longest in LONGEST])
    ax.minorticks_off()
    ax.legend(loc="upper left")
    claims = [
        Claim(
            "The error grows linearly with the staleness",
            "Theorem 1, O((1+T)/(nt))",
            "error ∝ κ = (2T+1)/3: slope 1 in κ on logarithmic axes, within 0.05",
            f"slope {power:.3f} for T = {LONGEST[0]} … {LONGEST[-1]}",
            abs(power - 1) <= 0.05,
        ),
        Claim(
            "The error falls as 1/t",
            "Theorem 1, O((1+T)/(nt))",
            "slope −1 in t + γ on logarithmic axes, within 0.05, for every T",
            f"slopes from {steepest:.3f} to {flattest:.3f}, from t = {scale.horizon // 2:,} to {scale.horizon:,}",
            steepest >= -1.05 and flattest <= -0.95,
        ),
    ]
    text = [
        f"With n = {n} workers, the longest gap T grows from {LONGEST[0]} to {LONGEST[-1]} iterations. A gradient that "
        "is used G times in a row brings in its noise G times, so the error grows with κ = E[G²]/E[G], which for gaps "
        "uniform on 1 … T is (2T+1)/3. Per sample the loss is small: longer gaps also mean fewer samples.",
    ]
    caption = "Error of sIAG against the longest gap T, under uniform selection."
    table: Columns = {"T": T, "kappa": kappa, "exact": errors, "sharp law": laws, "slope in t": slopes}
    title = "The price of staleness is κ"
    return Chapter("staleness", title, text, picture, caption, {"staleness": table}, claims)


def _slope(curve: Curve, begin: int) -> float:
    """The exponent of t + γ, from iteration `begin` on."""
    late = curve.t >= begin
    return float(np.polyfit(np.log(curve.t[late] + STEP.gamma), np.log(curve.error[late]), 1)[0])
