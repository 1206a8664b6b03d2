"""The first selection scheme of Sec. IV: one worker after the other, and no speedup."""

from __future__ import annotations

import numpy as np

from siag.activity import Cyclic
from siag.experiments.setting import FLAT, STEP, Scale, Tick, draw
from siag.methods import SIAG
from siag.report import INK, Chapter, Claim, figure, logarithmic, shades
from siag.simulation import simulate
from siag.theory import exact_error


def cyclic(scale: Scale, tick: Tick) -> Chapter:
    """Worker t mod n at iteration t."""
    picture, (ax,) = figure(width=7.0)
    T, seed = scale.iterations, scale.seed
    tables, finals = {}, []
    for n, color in zip(scale.sizes, shades(len(scale.sizes)), strict=True):
        run = simulate(draw(n, 0), SIAG(), Cyclic(), STEP, iterations=T, repeats=scale.repeats, seed=seed)
        curves = [
            exact_error(draw(n, index), SIAG(), Cyclic(), STEP, iterations=T, seed=seed) for index in range(scale.draws)
        ]
        run.plot(ax, color=color, label=f"n = {n}")
        t, error = curves[0].t[1:], curves[0].error[1:]
        ax.plot(t, error, color=INK, linestyle=(0, (4, 3)), linewidth=0.8)
        tables[f"cyclic-n{n}"] = {**run.table(), "exact": curves[0].error}
        finals.append(np.mean([curve.error[-1] for curve in curves]))
        tick()
    ax.plot([], [], color=INK, linestyle=(0, (4, 3)), linewidth=0.8, label="exact expectation")
    ax.legend(loc="lower left")
    logarithmic(ax, "iteration t", "E‖wᵗ − w*‖²")
    judged = np.array([final for n, final in zip(scale.sizes, finals, strict=True) if n >= 20])
    flat = float(judged.max() / judged.min())
    claim = Claim(
        "With cyclic selection there is no linear speedup",
        "Sec. IV",
        f"E the same for n = 20 … {scale.sizes[-1]}, within {FLAT - 1:.0%}",
        "E = " + ", ".join(f"{final:.3e}" for final in judged) + f"; largest/smallest {flat:.3f}",
        flat <= FLAT,
    )
    text = [
        "If the workers take turns, one sample arrives per iteration, however many workers there are, and a gradient "
        "in the table is used n times before it is renewed. Then κ = n, and n/κ = 1: all curves end on one line. With "
        "many workers the start is worse, since the table is old before it is full.",
    ]
    caption = (
        "sIAG with cyclic selection. Solid with band: mean of the runs ± 2 standard errors; dashed: exact expectation."
    )
    title = "Taking turns: more workers do not help"
    return Chapter("cyclic", title, text, picture, caption, tables, [claim])
