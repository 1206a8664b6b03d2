"""The price of staleness: error against T, and the rate in t."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Uniform
from siag.experiments.setting import STEP, Scale, Tick, draw
from siag.foundations.types import Floats
from siag.methods import SIAG
from siag.report import BLUE, INK, Chapter, Claim, Columns, figure, logarithmic
from siag.theory import Curve, exact_error, sharp_law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = (1, 2, 4, 8, 15, 30, 60)


def staleness(scale: Scale, tick: Tick) -> Chapter:
    """Uniform selection with longer and longer gaps."""
    n = scale.sizes[len(scale.sizes) // 2]
    kappa = np.array([Uniform(T).kappa(n) for T in LONGEST])
    measured = []
    for T in LONGEST:
        measured.append(_measure(n, T, scale))
        tick()
    errors, laws, slopes = np.array(measured).T
    power = float(np.polyfit(np.log(kappa), np.log(errors), 1)[0])
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
            f"slopes {slopes.min():.3f} to {slopes.max():.3f}, from t = {scale.horizon // 2:,} to {scale.horizon:,}",
            np.abs(slopes + 1).max() <= 0.05,
        ),
    ]
    text = [
        f"With n = {n} workers, the longest gap T grows from {LONGEST[0]} to {LONGEST[-1]} iterations. A gradient that "
        "is used G times in a row brings in its noise G times, so the error grows with κ = E[G²]/E[G], which for gaps "
        "uniform on 1 … T is (2T+1)/3. Per sample the loss is small: longer gaps also mean fewer samples.",
    ]
    columns: Columns = {"T": LONGEST, "kappa": kappa, "exact": errors, "sharp law": laws, "slope in t": slopes}
    caption = "Error of sIAG against the longest gap T, under uniform selection."
    picture = _draw(errors, laws, scale)
    title = "The price of staleness is κ"
    return Chapter("staleness", title, text, picture, caption, {"staleness": columns}, claims)


def _measure(n: int, T: int, scale: Scale) -> tuple[float, float, float]:
    """The error at the end and what the sharp law says, averaged over problems; and the slope in t."""
    activity, errors, laws = Uniform(T), [], []
    for k in range(max(1, scale.draws // 4)):
        problem, seed = draw(n, k), scale.seed + k
        curve = exact_error(problem, SIAG(), activity, STEP, iterations=scale.iterations, seed=seed, record=1)
        errors.append(curve.error[-1])
        laws.append(sharp_law(problem, activity, STEP)(scale.iterations))
    long = exact_error(draw(n, 0), SIAG(), activity, STEP, iterations=scale.horizon, seed=scale.seed)
    return float(np.mean(errors)), float(np.mean(laws)), _slope(long, scale.horizon // 2)


def _slope(curve: Curve, begin: int) -> float:
    """The exponent of t + γ, from iteration `begin` on."""
    late = curve.t >= begin
    return float(np.polyfit(np.log(curve.t[late] + STEP.gamma), np.log(curve.error[late]), 1)[0])


def _draw(errors: Floats, laws: Floats, scale: Scale) -> Figure:
    picture, (ax,) = figure(width=6.5)
    ax.plot(LONGEST, laws, color=INK, linewidth=0.9, label="sharp law, ∝ κ = (2T+1)/3")
    ax.plot(LONGEST, errors, "o", color=BLUE, fillstyle="none", markeredgewidth=1.6, label="sIAG, exact")
    logarithmic(ax, "longest gap T", f"E‖wᵗ − w*‖² at t = {scale.iterations:,}")
    ax.set_xticks(LONGEST, [str(T) for T in LONGEST])
    ax.minorticks_off()
    ax.legend(loc="upper left")
    return picture
