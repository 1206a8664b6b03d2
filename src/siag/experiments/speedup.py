"""Linear speedup, measured against sequential SGD."""

from __future__ import annotations

import numpy as np

from siag.activity import Activity, Cyclic, Everyone
from siag.experiments.setting import NONUNIFORM, STEP, UNIFORM, Scale, Tick, draw
from siag.foundations.types import Floats
from siag.methods import SGD, SIAG, Method
from siag.report import INK, Chapter, Claim, figure, logarithmic
from siag.report import SGD as ORANGE
from siag.report import SIAG as BLUE
from siag.theory import exact_error, selection_factor, sequential_error

DRAWS = 4  # problems per point; the ratio to sequential SGD on the same problems cancels most of their spread

LINES: tuple[tuple[str, Method, Activity, str], ...] = (
    ("sIAG, everyone", SIAG(), Everyone(), "o"),
    ("sIAG, uniform", SIAG(), UNIFORM, "s"),
    ("sIAG, non-uniform", SIAG(), NONUNIFORM, "^"),
    ("sIAG, cyclic", SIAG(), Cyclic(), "D"),
    ("SGD, non-uniform", SGD(), NONUNIFORM, "x"),
)


def speedup(scale: Scale, tick: Tick) -> Chapter:
    """How many times smaller the error is than that of one sample per iteration."""
    sizes = np.array(scale.sizes)
    draws = range(min(DRAWS, scale.draws))
    yardstick = np.array([[_sequential(n, k, scale) for k in draws] for n in scale.sizes]).mean(axis=1)
    factor = np.array([[selection_factor(draw(n, k)) for k in draws] for n in scale.sizes]).mean(axis=1)
    tick()
    picture, (ax,) = figure(width=7.5, height=4.8)
    table: dict[str, Floats] = {"n": sizes, "selection factor": factor}
    worst = {}
    for name, method, activity, marker in LINES:
        ratio = yardstick / _errors(method, activity, scale)
        tick()
        predicted = factor * np.array([n / activity.kappa(n) for n in scale.sizes])
        aggregated = isinstance(method, SIAG)
        color, size = BLUE if aggregated else ORANGE, 9 if marker == "^" else 6
        ax.plot(sizes, ratio, marker, color=color, markersize=size, fillstyle="none", markeredgewidth=1.6, label=name)
        table[name] = ratio
        if aggregated:
            ax.plot(sizes, predicted, color=INK, linewidth=0.8)
            worst[name] = float(np.abs(ratio / predicted - 1).max())
            table[f"{name}, predicted"] = predicted
    logarithmic(ax, "number of workers n", f"speedup over sequential SGD at t = {scale.iterations:,}")
    ax.set_xticks(sizes, [str(n) for n in sizes])
    ax.minorticks_off()
    ax.plot([], [], color=INK, linewidth=0.8, label="predicted: (n/κ) · selection factor")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    slope = float(np.polyfit(np.log(sizes), np.log(table["sIAG, uniform"]), 1)[0])
    claims = [
        Claim(
            "sIAG is proportionally to n more accurate than sequential SGD after as many iterations",
            "abstract, Sec. III (B)",
            "speedup (n/κ)(1 + mean‖∇Fᵢ(w*)‖²/σ*²) within 10 % for every n; κ = 1, (2T+1)/3 or n",
            "; ".join(f"{name}: within {value:.1%}" for name, value in worst.items()),
            max(worst.values()) <= 0.10,
        ),
        Claim(
            "The speedup is linear in n",
            "Theorem 1, O((1+T)/(nt))",
            "slope 1 on logarithmic axes, within 0.05",
            f"slope {slope:.3f} under uniform selection",
            abs(slope - 1) <= 0.05,
        ),
    ]
    text = [
        "The yardstick is sequential SGD: one sample of a worker drawn at random per iteration, the same step sizes. "
        "sIAG's error is smaller by n/κ, where κ = (1/n) Σ E[G<sub>i</sub>²]/E[G<sub>i</sub>] depends only on the gaps "
        "G between reports. If all report always, κ = 1 and n workers are worth n samples per iteration.",
        f"Everything is shifted up by a factor of {factor.mean():.2f}: sequential SGD draws its worker at random and "
        "pays for it with the variance between the workers' gradients, while the table holds them all. Under "
        "non-uniform selection SGD with all its workers is worse than sequential SGD until n outweighs its bias.",
    ]
    caption = "Speedup over sequential SGD. Markers: exact errors, averaged over problems; thin lines: predicted."
    title = "Linear speedup, with its constant"
    return Chapter("speedup", title, text, picture, caption, {"speedup": table}, claims)


def _sequential(n: int, index: int, scale: Scale) -> float:
    return float(sequential_error(draw(n, index), STEP, iterations=scale.iterations, record=1).error[-1])


def _errors(method: Method, activity: Activity, scale: Scale) -> Floats:
    """(sizes,) exact errors at the end, averaged over a few problems."""
    errors = []
    for n in scale.sizes:
        for k in range(min(DRAWS, scale.draws)):
            T, seed = scale.iterations, scale.seed + k
            curve = exact_error(draw(n, k), method, activity, STEP, iterations=T, seed=seed, record=1)
            errors.append(curve.error[-1])
    return np.asarray(np.array(errors).reshape(len(scale.sizes), -1).mean(axis=1))
