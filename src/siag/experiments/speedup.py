"""Linear speedup, measured against sequential SGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Activity, Cyclic, Everyone
from siag.experiments.setting import NONUNIFORM, STEP, UNIFORM, Scale, Tick, draw, each
from siag.foundations.types import Floats
from siag.methods import SGD, SIAG, Method
from siag.report import BLUE, INK, ORANGE, Chapter, Claim, figure, logarithmic
from siag.theory import exact_error, selection_factor, sequential_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWS = 4  # problems per point; the ratio to sequential SGD on the same problems cancels most of their spread

LINES: tuple[tuple[str, Method, Activity, str], ...] = (
    ("sIAG, everyone", SIAG(), Everyone(), "o"),
    ("sIAG, uniform", SIAG(), UNIFORM, "s"),
    ("sIAG, non-uniform", SIAG(), NONUNIFORM, "^"),
    ("sIAG, cyclic", SIAG(), Cyclic(), "D"),
    ("SGD, non-uniform", SGD(), NONUNIFORM, "x"),
)


@dataclass(frozen=True, eq=False)
class Line:
    """Speedups of one method and activity, for every n."""

    name: str
    marker: str
    measured: Floats
    predicted: Floats | None  # not for SGD, which is biased


def speedup(scale: Scale, tick: Tick) -> Chapter:
    """How many times smaller the error is than that of one sample per iteration."""
    lines, factor = _lines(scale, tick)
    claims = _claims(lines, np.array(scale.sizes))
    text = [
        "The yardstick is sequential SGD: one sample of a worker drawn at random per iteration, the same step sizes. "
        "sIAG's error is smaller by n/κ, where κ = (1/n) Σ E[G<sub>i</sub>²]/E[G<sub>i</sub>] depends only on the gaps "
        "G between reports. If all report always, κ = 1 and n workers are worth n samples per iteration.",
        f"Everything is shifted up by a factor of {factor.mean():.2f}: sequential SGD draws its worker at random and "
        "pays for it with the variance between the workers' gradients, while the table holds them all. Under "
        "non-uniform selection SGD with all its workers is worse than sequential SGD until n outweighs its bias.",
    ]
    columns = {"n": np.array(scale.sizes), "selection factor": factor}
    for line in lines:
        columns[line.name] = line.measured
        if line.predicted is not None:
            columns[f"{line.name}, predicted"] = line.predicted
    caption = "Speedup over sequential SGD. Markers: exact errors, averaged over problems; thin lines: predicted."
    picture = _draw(lines, scale)
    title = "Linear speedup, with its constant"
    return Chapter("speedup", title, text, picture, caption, {"speedup": columns}, claims)


def _lines(scale: Scale, tick: Tick) -> tuple[list[Line], Floats]:
    """The lines of the figure, and the selection factor for every n."""
    draws = range(min(DRAWS, scale.draws))
    yardstick = np.array([[_sequential(n, k, scale) for k in draws] for n in scale.sizes]).mean(axis=1)
    factor: Floats = np.array([[selection_factor(draw(n, k)) for k in draws] for n in scale.sizes]).mean(axis=1)
    tick()
    lines = []
    for name, method, activity, marker in LINES:
        measured = yardstick / _errors(method, activity, scale)
        predicted = factor * np.array([n / activity.kappa(n) for n in scale.sizes])
        lines.append(Line(name, marker, measured, predicted if isinstance(method, SIAG) else None))
        tick()
    return lines, factor


def _claims(lines: list[Line], sizes: Floats) -> list[Claim]:
    worst = {
        line.name: float(np.abs(line.measured / line.predicted - 1).max())
        for line in lines
        if line.predicted is not None
    }
    (uniform,) = (line.measured for line in lines if line.name == "sIAG, uniform")
    slope = float(np.polyfit(np.log(sizes), np.log(uniform), 1)[0])
    return [
        Claim(
            "sIAG gains on sequential SGD in proportion to n, after as many iterations",
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


def _sequential(n: int, index: int, scale: Scale) -> float:
    return float(sequential_error(draw(n, index), STEP, iterations=scale.iterations, record=1).error[-1])


def _errors(method: Method, activity: Activity, scale: Scale) -> Floats:
    """(sizes,) exact errors at the end, averaged over a few problems."""
    draws = min(DRAWS, scale.draws)

    def final(index: int) -> float:
        n, k = scale.sizes[index // draws], index % draws
        T, seed = scale.iterations, scale.seed + k
        curve = exact_error(draw(n, k), method, activity, STEP, iterations=T, seed=seed, record=1, threads=1)
        return float(curve.error[-1])

    errors = each(final, len(scale.sizes) * draws)
    return np.asarray(np.array(errors).reshape(-1, draws).mean(axis=1))


def _draw(lines: list[Line], scale: Scale) -> Figure:
    picture, (ax,) = figure(width=7.5, height=4.8)
    for line in lines:
        color, size = BLUE if line.predicted is not None else ORANGE, 9 if line.marker == "^" else 6
        (marks,) = ax.plot(scale.sizes, line.measured, line.marker, color=color, label=line.name, fillstyle="none")
        marks.set(markersize=size, markeredgewidth=1.6)
        if line.predicted is not None:
            ax.plot(scale.sizes, line.predicted, color=INK, linewidth=0.8)
    logarithmic(ax, "number of workers n", f"speedup over sequential SGD at t = {scale.iterations:,}")
    ax.set_xticks(scale.sizes, [str(n) for n in scale.sizes])
    ax.minorticks_off()
    ax.plot([], [], color=INK, linewidth=0.8, label="predicted: (n/κ) · selection factor")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return picture
