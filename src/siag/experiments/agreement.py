"""Why the other chapters can be trusted: simulation against exact moments, exact moments against the sharp law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siag.activity import Activity, Cyclic, Everyone, Recorded
from siag.experiments.deviation import deviation
from siag.experiments.setting import NONUNIFORM, STEP, UNIFORM, Scale, Tick, draw
from siag.methods import SGD, SIAG, Method
from siag.report import BLUE, INK, ORANGE, Chapter, Claim, Columns, figure
from siag.simulation import simulate
from siag.theory import exact_error, sharp_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N = 20
LIMIT = 4.0
RUNS: tuple[tuple[str, Method, str, str], ...] = (("sIAG", SIAG(), BLUE, "-"), ("SGD", SGD(), ORANGE, "--"))
LAWS: tuple[tuple[str, Activity, tuple[int, tuple[int, ...]]], ...] = (
    ("everyone", Everyone(), (0, ())),
    ("uniform", UNIFORM, (0, (5, 2))),
    ("non-uniform", NONUNIFORM, (0, (1, 1))),
    ("cyclic", Cyclic(), (0, (5, 1, 1, 1))),
)


def agreement(scale: Scale, tick: Tick) -> Chapter:
    """Compare three ways to the same number."""
    picture, (left, right) = figure(2, same_scale=False)
    runs, laws = _runs(scale, tick), _laws(scale, tick)
    _draw_runs(left, runs, scale)
    _draw_laws(right, laws)
    worst = {name: float(np.abs(np.asarray(columns["z"])).max()) for name, columns in runs.items()}
    off = {
        name: abs(float(columns["sharp law"][-1]) / float(columns["exact"][-1]) - 1) for name, columns in laws.items()
    }
    claims = [
        Claim(
            "Simulation and exact moments agree",
            "Algorithm 1",
            f"mean of {scale.checks} runs within {LIMIT:g} standard errors of the exact error at every recorded t",
            "; ".join(f"{name}: at most {value:.2f}" for name, value in worst.items()),
            max(worst.values()) <= LIMIT,
        ),
        Claim(
            "E_t ≈ β²/(2βμ−1) · σ*² κ/(n(t+γ))",
            "derived here, sharpens Theorem 1",
            f"within 2 % of the exact error at t = {scale.horizon:,}",
            "; ".join(f"{name}: {value:.2%} off" for name, value in off.items()),
            max(off.values()) <= 0.02,
        ),
    ]
    text = [
        f"Left: {scale.checks} runs along one recorded activity of n = {N} unequal workers, against the expectation "
        "computed from moments. The two share no code but the activity: one draws random gradients, the other never "
        "draws anything.",
        "Right: the exact error against the sharp law E<sub>t</sub> ≈ β²/(2βμ−1) · σ*²κ/(n(t+γ)). It forgets the "
        "start and is then right, constant included, for all activities.",
    ]
    caption = (
        "Left: distance of the simulated mean from the exact error, in standard errors. Right: sharp law over exact "
        "error; uniform and non-uniform selection have the same κ on average, and their lines lie on each other."
    )
    tables = {f"agreement-{name.lower()}": columns for name, columns in runs.items()}
    tables |= {f"sharp-law-{name}": columns for name, columns in laws.items()}
    return Chapter("agreement", "Three ways to the same numbers", text, picture, caption, tables, claims)


def _runs(scale: Scale, tick: Tick) -> dict[str, Columns]:
    """For each method the curve of many runs along one recorded activity, the exact one, and how far they are apart."""
    pattern = Recorded.of(NONUNIFORM, N, scale.iterations, scale.seed)
    curves: dict[str, Columns] = {}
    for name, method, _, _ in RUNS:
        T, R = scale.iterations, scale.checks
        run = simulate(draw(N, 0), method, pattern, STEP, iterations=T, repeats=R, seed=scale.seed)
        exact = exact_error(draw(N, 0), method, pattern, STEP, iterations=T)
        curves[name] = {**run.table(), "exact": exact.error, "z": deviation(run, exact)}
        tick()
    return curves


def _laws(scale: Scale, tick: Tick) -> dict[str, Columns]:
    """For each activity the exact error and the sharp law of one recorded pattern."""
    curves: dict[str, Columns] = {}
    for name, activity, _ in LAWS:
        trace = Recorded.of(activity, N, scale.horizon, scale.seed)
        exact = exact_error(draw(N, 0), SIAG(), trace, STEP, iterations=scale.horizon)
        law = sharp_law(draw(N, 0), trace, STEP)(exact.t)
        curves[name] = {"t": exact.t, "exact": exact.error, "sharp law": law}
        tick()
    return curves


def _draw_runs(ax: Axes, runs: dict[str, Columns], scale: Scale) -> None:
    for name, _, color, dashes in RUNS:
        ax.plot(runs[name]["t"][1:], runs[name]["z"][1:], color=color, linewidth=1.2, label=name, linestyle=dashes)
    for level in (-LIMIT, 0, LIMIT):
        ax.axhline(level, color=INK, linewidth=0.6)
    ax.set_xscale("log")
    ax.set_ylim(-1.6 * LIMIT, 1.6 * LIMIT)
    ax.set_xlabel("iteration t")
    ax.set_ylabel("(mean − exact) / standard error")
    ax.set_title(f"Mean of {scale.checks} runs")
    ax.legend(loc="upper left")


def _draw_laws(ax: Axes, laws: dict[str, Columns]) -> None:
    for name, _, dashes in LAWS:
        t, exact, law = (np.asarray(laws[name][key]) for key in ("t", "exact", "sharp law"))
        shown = t >= 10
        ax.plot(t[shown], (law / exact)[shown], color=INK, linestyle=dashes, linewidth=1.2, label=name)
    ax.set_xscale("log")
    ax.set_ylim(0, 1.25)
    ax.set_xlabel("iteration t")
    ax.set_ylabel("sharp law / exact error")
    ax.set_title("The sharp law")
    ax.legend(loc="lower right")
